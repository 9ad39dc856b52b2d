"""Registers the wing `questions`: what a BLEU means, and which runs a number comes from."""

from aiayn.wings import Wing

WING = Wing(
    summary="one question about a number",
    verbs={
        "explain": "explain what a BLEU means next to the paper's, without any run",
        "where": "show where a cell of a table comes from: runs, digests, commit, commands",
    },
)
