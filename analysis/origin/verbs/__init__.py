"""The verbs of the wing `origin`."""
