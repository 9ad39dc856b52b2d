"""Turns a checkpoint into translations, perplexity, attention weights and exports.

This package may import `aiayn.train`, `aiayn.model`, the packages below them, and fairseq.
"""

import aiayn.train  # noqa: F401  # first: it limits what an import of fairseq loads
