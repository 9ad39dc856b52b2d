"""The tables of the wing `tools`."""
