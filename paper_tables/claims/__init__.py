"""Verdicts on what others claim about the paper, and a tutorial's six sentence pairs. Optional.

A scale has the claims by `has_claims`, the pairs by a row of `replications`; only then `paper_tables.render.tables`
imports this package. May import `tables`, `figures` and the modules of `paper_tables` itself.
"""
