"""Any logs of fairseq, of training and generation: read, joined into runs, checked by rules.

May import `aiayn.scoring`, `aiayn.logs.findings`, and of `aiayn` what needs neither torch nor fairseq.
"""
