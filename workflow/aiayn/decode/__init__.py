"""From a checkpoint to translations, perplexity, attention weights and exports.

May import `aiayn.train`, `aiayn.model` and below.
"""
