"""Finds why BLEU is missing: compares log, data-bin and hypotheses of a run with the spec of its
system.
"""
