"""The tables: what each has in its rows and columns.

May import `paper_tables.layout`, findings and published values.
"""
