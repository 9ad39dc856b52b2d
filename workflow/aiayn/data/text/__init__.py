"""Turns raw text into token ids: cleans and tokenises the text, splits words into subwords, and
binarizes.

This package may import `aiayn.records`, `aiayn.spec` and packages below these.
"""
