"""The verbs of the wing `figures`."""
