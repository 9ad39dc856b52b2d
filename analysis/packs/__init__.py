"""Packs finished runs with their tables, small enough to be shipped."""
