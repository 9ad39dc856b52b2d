"""Tables and figures as files: Markdown, LaTeX, CSV, HTML, and the page.

May import `paper_tables.render.tables` and `paper_tables.figures`.
"""
