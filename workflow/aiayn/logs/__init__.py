"""Reads fairseq's logs, ours and others', into evidence: the quantities that each states, with file
and line.
"""
