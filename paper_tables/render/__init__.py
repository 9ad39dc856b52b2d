"""Writes tables and figures as files (Markdown, LaTeX, CSV, HTML), and writes the results page.

This package may import `paper_tables.tables` and the modules directly in `paper_tables`.
`aiayn.wings` loads the tables and figures that a wing (an optional package) adds.
"""
