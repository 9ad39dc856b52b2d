"""From translations to scores, seeds and verdicts.

Needs neither torch nor fairseq (pyproject.toml, contract `core`).
"""
