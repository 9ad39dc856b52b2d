"""Tables and figures as files: Markdown, LaTeX, CSV, HTML, and the page.

May import `tables`, `figures`, `claims` (in `tables.py` alone) and the modules of `paper_tables` itself.
"""
