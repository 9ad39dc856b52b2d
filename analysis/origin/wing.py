"""Registers the wing (optional package) `origin`, which shows the runs that a number of a table
comes from.
"""

from aiayn.wings import Wing

WING = Wing(
    summary="where a number of a table comes from",
    verbs={"where": "show where a cell of a table comes from: runs, digests, commit, commands"},
)
