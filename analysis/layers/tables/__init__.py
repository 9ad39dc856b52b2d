"""The tables of the wing `layers`."""
