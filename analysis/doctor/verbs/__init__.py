"""The verbs of the wing `doctor`."""
