"""Holds the results of a search over beam sizes and length penalties.

Wing `tools`.
"""
