"""Reads translations and references from other people's files. Detects the form of the text, such
as subwords, and whether translations and references fit together.
"""
