"""Turns a fairseq log, or a record of this project, into facts. A fact is a quantity with its
value, and the file and line that state it.
"""
