"""MLPerf's public trainings at the paper's scale as a table and a figure, a wing: beside the paper, never judged.

May import `analysis.public_runs`, and of `paper_tables` `layout` and `figures`.
"""
