"""Writes tables and figures as files: Markdown, LaTeX, CSV, HTML, and the page.

This package may import `tables` and the modules of `paper_tables` itself. `aiayn.wings` loads what
a wing (an optional package) adds.
"""
