"""Exports trained models to the formats of other software; times the layers of Table 1.

Wing `tools`.
"""
