"""Reads translations and references that are not ours: in which form they are, and whether they belong together.

Wing `outputs`. May import `aiayn.scoring`, and of `aiayn` what needs neither torch nor fairseq.
"""
