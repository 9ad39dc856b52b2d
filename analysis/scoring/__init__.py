"""From scores to seeds, significance and verdicts.

May import records, specs and costs.
"""
