"""Translates with models that other people or fairseq's authors trained, and scores the
translations.
"""
