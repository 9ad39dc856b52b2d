"""Turns public archives into fairseq's data: the package `sources` fetches the text, and the
package `text` cleans, segments (into subwords) and binarizes the text.

This package may import `aiayn.records`, `aiayn.paths`, `aiayn.spec` and packages below these. The
stages of data preparation (fetch, clean, segment, binarize) never import each other.
"""
