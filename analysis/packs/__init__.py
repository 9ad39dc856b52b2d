"""Packs finished runs with their tables into a folder that is small enough to be shipped."""
