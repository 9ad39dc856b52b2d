"""Reads any logs of fairseq, of training and generation: joined into runs, checked by rules.

Needs neither torch nor fairseq (pyproject.toml, contract `core`).
"""
