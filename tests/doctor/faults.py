"""The faults that were planted under base's name, one at a time, and the cause that the doctor must
find for each.

A fault of training was an edit of a config file: exactly what a user would have changed. One of
decoding took the clean training and changed what comes after it.
"""

from typing import NamedTuple

MULTI30K = "clean_multi30k"  # the log of a run without a fault on real text


class Fault(NamedTuple):
    """What was planted: `cause` is the cause that the doctor names ('' for the clean run), and
    `beside` are further causes that it names, rightly.
    """

    name: str
    words: str
    cause: str
    beside: tuple[str, ...] = ()


CLEAN = Fault("clean", "none", "")
FAULTS = (
    Fault("batch_eighth", "batch an eighth", "tokens_per_update"),
    Fault("warmup_tenfold", "warm-up ten times", "schedule"),
    Fault("peak_threefold", "three times the peak of the rate", "start", beside=("schedule",)),
    Fault("pre_norm", "pre-norm", "norm_order"),
    Fault("dropout_zero", "dropout 0", "p_drop"),
    Fault("smoothing_zero", "smoothing 0", "eps_ls"),
    Fault("half_updates", "half the updates", "updates"),
    Fault("separate_vocabularies", "separate vocabularies", "vocabulary"),
    Fault("no_averaging", "no averaging", "average"),
    Fault("beam_1", "beam 1", "beam_size"),
    Fault("max_length_10", "maximum length 10", "max_len_b"),
)
