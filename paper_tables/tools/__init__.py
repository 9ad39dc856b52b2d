"""Packs what finished runs left, small enough to ship.

Wing `tools`.
"""
