"""Reads translations and references made by others: detects their form, and whether they fit
together.
"""
