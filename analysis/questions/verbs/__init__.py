"""The verbs of the wing `questions`."""
