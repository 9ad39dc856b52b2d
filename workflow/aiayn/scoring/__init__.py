"""From scores to seeds, significance and verdicts.

May import `aiayn.logs.findings`, and of `aiayn` what needs neither torch nor fairseq.
"""
