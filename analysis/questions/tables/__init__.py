"""The tables of the wing `questions`."""
