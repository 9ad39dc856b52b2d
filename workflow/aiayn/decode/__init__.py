"""Turns a checkpoint into translations, perplexity, attention weights and exports.

May import `aiayn.train`, `aiayn.model` and below, and fairseq; `aiayn.claims` and `aiayn.decode` are independent.
"""
