"""The verbs of the wing `packs`."""
