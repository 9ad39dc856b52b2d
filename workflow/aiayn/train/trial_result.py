"""Defines the result of a trial, which trains on the GPUs of a node to test them. The login node
reads the result, so this module does not import torch.
"""

import msgspec

# The file is in the run folder of the trial's request.
RESULT_NAME = "trial.json"


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a trial. `stopped_at` is the update at which the signal TERM stopped a
    training. The two differences are relative differences between the parameters of trainings,
    which should not exceed rounding.
    """

    device: str
    num_ranks: int
    seconds_per_update: float
    stopped_at: int
    resumed_difference: float
    one_rank_difference: float
