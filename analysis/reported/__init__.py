"""Explains what a reported BLEU means next to the paper's."""
