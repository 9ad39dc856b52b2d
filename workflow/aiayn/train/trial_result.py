"""Defines the result of a trial, which trains on the GPUs of a node to test them. The login node
reads the result, so this module does not import torch.
"""

import msgspec

# The file is in the run folder of the trial's request.
RESULT_NAME = "trial.json"
# Two equal trainings may differ by this part of the distance that a training moves the parameters.
# Sums in a different order gave 0.0007 with 4 ranks in fp32 on a CPU. Other sentences in half of
# the updates gave 0.17.
SAME_UPDATES = 0.02


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a trial. `stopped_at` is the update at which the signal TERM stopped a
    training. `resumed_difference` and `one_rank_difference` are distances between the parameters of
    two trainings, divided by the distance that the first training has moved them. The two
    differences should not exceed SAME_UPDATES.
    """

    device: str
    num_ranks: int
    seconds_per_update: float
    stopped_at: int
    resumed_difference: float
    one_rank_difference: float
