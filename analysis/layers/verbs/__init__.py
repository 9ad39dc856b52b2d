"""The verbs of the wing `layers`."""
