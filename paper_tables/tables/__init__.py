"""Lays out the tables: what each has in its rows and columns.

This package may import the modules of `paper_tables` itself, but not `render`.
"""
