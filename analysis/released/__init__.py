"""Translates with models of other people and of fairseq, and scores the translations."""
