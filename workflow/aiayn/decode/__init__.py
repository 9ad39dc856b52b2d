"""Turns a checkpoint into translations, perplexity, attention weights and exports.

May import `aiayn.train`, `aiayn.model` and below, and fairseq; `aiayn.measure` and `aiayn.decode` are independent.
"""
