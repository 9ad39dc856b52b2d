"""What trainings cost, counted and metered, of the wing `price`: a table.

May import of `paper_tables` `tables` and what is below them.
"""
