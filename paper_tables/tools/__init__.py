"""Packs what finished runs left, small enough to ship; lays out Table 1 and a tutorial's six sentence pairs.

Wing `tools`.
"""
