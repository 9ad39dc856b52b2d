"""Registers the wing `questions`: what a BLEU means, and which runs a number comes from."""

from aiayn.wings import Wing, WingTable

WING = Wing(
    summary="one question about a number",
    verbs={
        "explain": "explain what a BLEU means next to the paper's, without any run",
        "where": "show where a cell of a table comes from: runs, digests, commit, commands",
    },
    tables=(
        WingTable(
            "reference_replications",
            "analysis.questions.tables.reference:lay_out_reference",
            chapter="claims_of_others",
            place=20,
        ),
    ),
)
