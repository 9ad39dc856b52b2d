"""Holds the results of a search over beam sizes and length penalties; reads the references of a test set.

Wing `tools`.
"""
