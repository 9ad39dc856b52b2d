"""Lays out the tables of the core: which numbers are in which row and column.

This package may import the modules directly in `paper_tables`, but not `paper_tables.render`.
"""
