"""Turns a fairseq log, or a record of ours, into facts: quantities with their value, file and
line.
"""
