"""Decides which numbers of a training log are comparable with the paper's numbers: one table of
allowed settings, and one function that applies the table.
"""
