"""What it costs that the ranks vote after each update on whether to stop: python -m tests.benchmarks.bench_vote

Eight processes of this machine, joined by gloo, vote a thousand times; printed are the milliseconds of a vote. An
update of the paper's base took 400 (section 5.2).
"""

import os
import time
from functools import partial

from aiayn.train.ranks import Rank, StopVote, joined_ranks
from aiayn.train.request import StopFlag
from tests.benchmarks.table import tell
from tests.forks import fork, free_port

NUM_RANKS = 8
NUM_VOTES = 1000


def vote(index: int) -> None:
    """Vote, and print the time on rank 0."""
    rank = Rank(rank=index, world_size=NUM_RANKS, job="7", local_rank=index)
    with joined_ranks(rank, "cpu"):
        votes = StopVote(StopFlag(), rank)
        votes.any_rank_stopped()
        begin = time.perf_counter()
        for _ in range(NUM_VOTES):
            votes.any_rank_stopped()
        if index == 0:
            seconds = time.perf_counter() - begin
            tell(f"a vote of {NUM_RANKS} ranks on {os.cpu_count()} cores", f"{1000 * seconds / NUM_VOTES:.3f} ms", "")


def main() -> None:
    """Fork the ranks and wait for them."""
    os.environ["MASTER_PORT"] = str(free_port())
    for child in [fork(partial(vote, index)) for index in range(NUM_RANKS)]:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
