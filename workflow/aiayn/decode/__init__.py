"""Turns a checkpoint into translations, perplexity, attention weights and exports.

May import `aiayn.train`, `aiayn.model` and below, and fairseq.
"""

import aiayn.train  # noqa: F401  # first: it limits what an import of fairseq loads
