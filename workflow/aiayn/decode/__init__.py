"""Turns a checkpoint into translations, perplexity, attention weights and exports.

May import `aiayn.train`, `aiayn.model` and below, and fairseq.
"""

import aiayn.train  # noqa: F401  # before fairseq, of which it leaves out half
