"""Turns the files of workflow/config/ into specs: systems, corpora, scales, clusters and hardware.

May import only `aiayn.packed` and `aiayn.errors`.
"""
