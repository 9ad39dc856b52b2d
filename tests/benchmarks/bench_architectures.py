"""Times an update of the Transformer, of the LSTM and of ConvS2S, all of base's size: CPU seconds, one thread.

    python -m tests.benchmarks.bench_architectures --binarized RECORD --csv paper_tables/measured/attention/seconds.csv

`RECORD` is the record of binarize of Multi30k, in the results folder of a workflow. Each system trains 200 updates (after
20 that are not counted) in a process of its own. The systems take turns for 5 rounds, so that other work of the machine
affects all of them. All use the same batches in the same order (seed 101, which enters no table).

One thread shows how much arithmetic an update needs, and what many small steps cost. It does not show parallelism: an
LSTM's steps wait for each other, and only hardware that could do them at once loses time by this.
"""

import argparse
import csv
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import msgspec

from aiayn.paths import corpus_record
from aiayn.records import BinarizedCorpus, read_record
from aiayn.spec.system import read_system
from tests.engine.tiny_training import make_request, train
from tests.forks import fork

SYSTEMS = ("base", "lstm", "fconv")
SCALE = "multi30k"
SEED = 101  # of probes


@contextmanager
def updates_timed(seconds_by_update: list[float]) -> Iterator[None]:
    """Append to the list the CPU seconds of this process within each update: forward, backward,
    and Adam's step, without validations, checkpoints and the reading of batches.
    """
    from fairseq.trainer import Trainer

    original = Trainer.train_step

    def train_step(trainer: Any, *arguments: Any, **named: Any) -> Any:
        begin = time.process_time()
        logged = original(trainer, *arguments, **named)
        seconds_by_update.append(time.process_time() - begin)
        return logged

    with mock.patch.object(Trainer, "train_step", train_step):
        yield


def time_system(system: str, data: BinarizedCorpus, *, num_updates: int, num_warming: int) -> float:
    """Return the CPU seconds of `num_updates` updates of a system, measured in a fork."""
    with tempfile.TemporaryDirectory() as folder:
        result_path = Path(folder) / "seconds.json"

        def work() -> int:
            training = msgspec.structs.replace(
                read_system(system, SCALE).training,
                updates=num_warming + num_updates,
                save_interval_updates=num_warming + num_updates,  # one checkpoint, after the last
                device="cpu",
            )
            request = make_request(Path(folder) / "run", data, seed=SEED, system=system)
            request = msgspec.structs.replace(request, training=training, num_models=1)
            seconds: list[float] = []
            # fairseq's log of each training would hide the lines of the rounds
            os.dup2(os.open(Path(folder) / "training.log", os.O_WRONLY | os.O_CREAT), 2)
            os.dup2(2, 1)
            with updates_timed(seconds):
                train(request)
            result_path.write_text(json.dumps(sum(seconds[num_warming:])))
            return 0

        _, status = os.waitpid(fork(work), 0)
        if status != 0 or not result_path.exists():
            raise SystemExit(f"{system}: the training ended with status {status}, without a time")
        return float(json.loads(result_path.read_text()))


def write_rounds(seconds_by_system: dict[str, list[float]], num_updates: int, path: Path) -> None:
    """Write the file that the table of decision 0013 reads, a line for each round and system."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["system", "round", "updates", "cpu_seconds"])
        for system, seconds_of_rounds in seconds_by_system.items():
            for round_number, seconds in enumerate(seconds_of_rounds, 1):
                writer.writerow([system, round_number, num_updates, f"{seconds:.2f}"])


def main() -> None:
    """Print a line for each round, then the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--binarized",
        type=Path,
        default=corpus_record(Path("results"), SCALE, "binarize", "multi30k_en_de"),
    )
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--warming", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--csv", type=Path, help="also write the rounds into this file")
    arguments = parser.parse_args()
    data = read_record(arguments.binarized, BinarizedCorpus)
    seconds_by_system: dict[str, list[float]] = {system: [] for system in SYSTEMS}
    for round_index in range(arguments.rounds):
        for system in SYSTEMS:
            begin = time.monotonic()
            seconds = time_system(
                system, data, num_updates=arguments.updates, num_warming=arguments.warming
            )
            seconds_by_system[system].append(seconds)
            print(
                f"round {round_index + 1}, {system}: {seconds:.2f} CPU seconds for"
                f" {arguments.updates} updates ({time.monotonic() - begin:.0f} s on the clock)",
                flush=True,
            )
    if arguments.csv:
        write_rounds(seconds_by_system, arguments.updates, arguments.csv)
    print(
        "| system | CPU seconds an update: median (least to most) | ratio to base in its round: median (least to most) |"
    )
    print("|---|---|---|")
    for system, seconds_of_rounds in seconds_by_system.items():
        ratios = [
            own / base
            for own, base in zip(seconds_of_rounds, seconds_by_system["base"], strict=True)
        ]
        each = [seconds / arguments.updates for seconds in seconds_of_rounds]
        print(
            f"| {system} | {median(each):.4f} ({min(each):.4f} to {max(each):.4f})"
            f" | {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |"
        )


if __name__ == "__main__":
    main()
