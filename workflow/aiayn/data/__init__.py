"""Turns public archives into fairseq's data: `sources` fetches, `text` cleans, segments and
binarizes.

May import `aiayn.records`, `aiayn.paths`, `aiayn.spec` and below. The stages never import each
other.
"""
