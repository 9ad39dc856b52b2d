"""Reads what is asked for, strictly, from workflow/config/: systems, corpora, scales, clusters and
hardware.

May import `aiayn.errors` alone.
"""
