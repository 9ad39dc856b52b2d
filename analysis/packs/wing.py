"""Registers the wing (optional package) `packs`, which packs finished runs into folders that can be
shipped.
"""

from aiayn.wings import Wing

WING = Wing(
    summary="finished runs, small enough to ship",
    verbs={"pack": "pack the files of finished runs, small enough to ship, with their tables"},
)
