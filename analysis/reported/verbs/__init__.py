"""The verbs of the wing `reported`."""
