"""Turns translations into scores, scores into summaries over seeds, and summaries into verdicts:
whether a number of the paper is reproduced.

This package does not need torch or fairseq (pyproject.toml, contract `core`).
"""
