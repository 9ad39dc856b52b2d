"""The verbs of the wing `price`."""
