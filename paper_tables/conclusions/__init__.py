"""Which of the paper's conclusions hold for our systems, a wing: table, forest, and the first lines of the page.

May import `analysis.conclusions`, and of `paper_tables` `figures` and what is below the page.
"""
