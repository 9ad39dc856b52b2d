"""Turns raw text into ids: cleans, tokenises, splits in pieces and binarizes, in shards and bounded
memory.

May import `aiayn.records`, `aiayn.spec` and below.
"""
