"""Explains what a BLEU that somebody reports means, compared with the paper's BLEU."""
