"""Registers the wing (optional package) `reported`, which explains what a reported BLEU means next
to the paper's.
"""

from aiayn.wings import Wing

WING = Wing(
    summary="a reported BLEU next to the paper's",
    verbs={"explain": "explain what a BLEU means next to the paper's, without any run"},
)
