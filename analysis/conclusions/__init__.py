"""Decides which conclusions of the paper hold for our systems, and compares variants of the model
with base.
"""
