"""The tables: what each has in its rows and columns.

May import the modules of `paper_tables` itself (layout, results, verdicts), not `figures`,
`render`.
"""
