"""Measures the model's parts alone: seconds of Table 1's layers, and the properties that claims are about.

May import `aiayn.train`, `aiayn.model` and below, and fairseq.
"""
