"""MLPerf's public trainings of the Transformer on WMT En-De (v0.5 to v0.7), a wing: read, seeds compared.

Their BLEU is uncased and of MLPerf's own definition, and a run stops at 25.0: none of it enters a verdict. May import
`aiayn.scoring`, `aiayn.printed`, `aiayn.packed` and `aiayn.errors`; nothing of the core imports it.
"""
