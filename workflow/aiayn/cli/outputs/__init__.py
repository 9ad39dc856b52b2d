"""The verbs of the wing `outputs`."""
