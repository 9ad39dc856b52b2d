"""Reads translations and references that are not ours: in which form they are, and whether they
belong together.
"""
