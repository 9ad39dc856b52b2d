"""Decides which numbers of a log are comparable with the paper's: one table of allowed values, and
one function that applies it.
"""
