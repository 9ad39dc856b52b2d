"""Lays out the tables of the wing (optional package) `conclusions`."""
