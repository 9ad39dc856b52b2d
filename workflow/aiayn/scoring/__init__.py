"""Turns translations into scores, summaries over seeds and verdicts.

Does not need torch or fairseq (pyproject.toml, contract `core`).
"""
