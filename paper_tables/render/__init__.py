"""Tables and figures as files: Markdown, LaTeX, CSV, HTML, and the page.

May import `tables` and the modules of `paper_tables` itself. `aiayn.wings` loads what a wing adds.
"""
