"""Turns raw text into token ids: cleans, tokenises, splits into pieces and binarizes.

May import `aiayn.records`, `aiayn.spec` and below.
"""
