"""The verbs of the wing `claims`."""
