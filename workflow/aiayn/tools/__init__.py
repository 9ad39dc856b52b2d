"""Exports trained models to the formats of other software.

Wing `tools`.
"""
