"""The tables of the wing `price`."""
