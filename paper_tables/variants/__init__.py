"""Other readings of the paper's model, recurrence and convolution beside base, a wing: two tables.

May import of `paper_tables` `tables` and what is below them.
"""
