"""Answers one question about a number: what it means, and which runs it comes from."""
