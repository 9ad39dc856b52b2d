"""The tables of the wing `conclusions`."""
