"""The faults that are planted under base's name, one at a time, and where the doctor must find
each.

A fault of training is an edit of a config file in a copy of the checkout: exactly what a user would
have changed. One of decoding takes the clean training and changes what comes after it.
"""

from typing import Literal, NamedTuple

BASE = "workflow/config/systems/demo/base.yaml"
CORPUS = "workflow/config/corpora/demo_en_de.yaml"
MULTI30K = "clean_multi30k"  # the log of a run without a fault on real text


class Edit(NamedTuple):
    """Text that stands once in a file of the checkout, and what is put in its place."""

    path: str
    old: str
    new: str


class Fault(NamedTuple):
    """What is planted: `stage` is where, `cause` the cause that the doctor names ('' for the
    clean run).

    `beside` are further causes that it names, rightly.
    """

    name: str
    words: str
    stage: Literal["train", "data", "decode", "average"]
    cause: str
    edits: tuple[Edit, ...] = ()
    beside: tuple[str, ...] = ()


CLEAN = Fault("clean", "none", "train", "")
FAULTS = (
    Fault("batch_eighth", "batch an eighth", "train", "tokens_per_update",
          (Edit(BASE, "max_tokens_per_batch: 500", "max_tokens_per_batch: 62"),)),
    Fault("warmup_tenfold", "warm-up ten times", "train", "schedule",
          (Edit(BASE, "warmup_steps: 400 ", "warmup_steps: 4000 "),)),
    Fault("peak_threefold", "three times the peak of the rate", "train", "start",
          (Edit(BASE, "warmup_steps: 400 ", "warmup_steps: 44 "),), beside=("schedule",)),
    Fault("pre_norm", "pre-norm", "train", "norm_order", (Edit(BASE, "norm_order: post", "norm_order: pre"),)),
    Fault("dropout_zero", "dropout 0", "train", "p_drop", (Edit(BASE, "p_drop: 0.1 ", "p_drop: 0.0 "),)),
    Fault("smoothing_zero", "smoothing 0", "train", "eps_ls", (Edit(BASE, "eps_ls: 0.1", "eps_ls: 0.0"),)),
    Fault("half_updates", "half the updates", "train", "updates", (Edit(BASE, "updates: 700", "updates: 350"),)),
    Fault("separate_vocabularies", "separate vocabularies", "data", "vocabulary",
          (Edit(CORPUS, "joint: true ", "joint: false "),)),
    Fault("no_averaging", "no averaging", "average", "average"),
    Fault("beam_1", "beam 1", "decode", "beam_size", (Edit(BASE, "beam_size: 4", "beam_size: 1"),)),
    Fault("max_length_10", "maximum length 10", "decode", "max_len_b",
          (Edit(BASE, "max_length_per_source_token: 1.0", "max_length_per_source_token: 0.0"),
           Edit(BASE, "max_extra_tokens: 50", "max_extra_tokens: 10"))),
)  # fmt: skip
