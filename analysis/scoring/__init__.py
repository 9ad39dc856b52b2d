"""From scores to seeds, significance and verdicts.

May import `analysis.findings`, and of `aiayn` what needs neither torch nor fairseq.
"""
