"""Registers the wing (optional package) `doctor`, which finds why a BLEU is too low."""

from aiayn.wings import Wing

WING = Wing(
    summary="why is BLEU too low",
    verbs={"doctor": "find out why a run's BLEU is too low, from its logs and records"},
)
