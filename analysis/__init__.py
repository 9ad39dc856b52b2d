"""The wings: questions about finished runs and about other people's files, one folder each.

`aiayn.wings` finds them. A wing imports `aiayn` and `paper_tables`, never another wing.
"""
