"""The verbs of the wing `released`."""
