"""Turns the YAML and TSV files of workflow/config/ into typed structs (specs): systems, corpora,
scales, clusters and hardware.

From this project, this package may import only `aiayn.packed` and `aiayn.errors`.
"""
