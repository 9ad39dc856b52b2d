"""The verbs of the wing `tools`."""
