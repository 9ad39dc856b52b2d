"""Reads from a trained model what figures draw: the weights of attention.

Wing `figures`.
"""
