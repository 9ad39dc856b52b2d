"""Finds why a BLEU is lower than in the paper: compares the log, data-bin and translations of a run
with the spec of its system.
"""
