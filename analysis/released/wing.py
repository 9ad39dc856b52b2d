"""Registers the wing (optional package) `released`, which scores models that others trained or
released.
"""

from aiayn.wings import Wing

WING = Wing(
    summary="the BLEU of models that others trained or released",
    verbs={"evaluate": "translate a test set with any fairseq model, and score it"},
)
