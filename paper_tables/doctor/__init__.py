"""Puts into words and numbers what the doctor found, with the BLEU that each finding is known to cost.

Wing `doctor`.
"""
