"""Defines the result of a trial of a node. The login node reads it, so this module does not import
torch.
"""

import msgspec

# The file is in the run folder of the trial's request.
RESULT_NAME = "trial.json"


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a trial. `stopped_at` is the update at which TERM stopped a training. The two
    differences are relative differences of parameters, which should be rounding at most.
    """

    device: str
    num_ranks: int
    seconds_per_update: float
    stopped_at: int
    resumed_difference: float
    one_rank_difference: float
