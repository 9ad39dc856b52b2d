"""Every fault once, on a test cluster of its own, and the table of what came of it.

    python -m tests.slurm.faults [--table FILE] [NAME ...]

Each fault happens to the same tiny training of two ranks, and each must end with the same tensors as the undisturbed
one, bit for bit, and the same state of the optimiser. Exit code 1 if any does not.
"""

import argparse
import contextlib
import inspect
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiayn.records import BinarizedCorpus
from tests.slurm import faults_of_daemons, faults_of_drivers, faults_of_jobs, faults_of_snakemake
from tests.slurm.cluster import Cluster
from tests.slurm.fault_scene import NUM_RANKS, UPDATES, Scene
from tests.slurm.own_cluster import own_cluster
from tests.slurm.tiny_data import make_tiny_data

Fault = Callable[[Scene], None]
MODULES = (faults_of_jobs, faults_of_daemons, faults_of_drivers, faults_of_snakemake)
HEADER = ("fault", "what was done", "attempts", "s to recovery", "updates lost", "tensors", "s in all", "verdict")
SHOWN_DIGEST = 12  # hexadecimal digits


@dataclass(frozen=True)
class Outcome:
    """What came of one fault; `error` is None if all held that must."""

    name: str
    what: str
    num_attempts: int
    recovered_after: float | None
    num_updates_lost: int
    digests: tuple[str, str] | None
    seconds: float
    error: str | None

    def cells(self, expected: tuple[str, str] | None) -> tuple[str, ...]:
        """Return this outcome's line of the table."""
        digest = self.digests[0][:SHOWN_DIGEST] if self.digests else "none"
        recovery = "not interrupted" if self.recovered_after is None else f"{self.recovered_after:.0f}"
        return (
            self.name.replace("_", " "), self.what, str(self.num_attempts), recovery, str(self.num_updates_lost),
            digest, f"{self.seconds:.0f}", "as it must be" if self.is_well(expected) else "NOT",
        )  # fmt: skip

    def is_well(self, expected: tuple[str, str] | None) -> bool:
        """Return whether all held, and the training ended with the same tensors and state as the undisturbed one."""
        return self.error is None and self.digests is not None and self.digests == expected


def all_faults() -> dict[str, Fault]:
    """Return each fault by its name, in the order of the modules' text; `undisturbed` is the first."""
    return {
        name: function
        for module in MODULES
        for name, function in inspect.getmembers_static(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


@contextlib.contextmanager
def scene_of(name: str, cluster: Cluster, folder: Path, data: BinarizedCorpus) -> Iterator[Scene]:
    """Return a scene that is cleared away at its end: no job of it lives on, and no disk of its own."""
    scene = Scene(name=name, cluster=cluster, folder=folder, data=data)
    try:
        yield scene
    finally:
        scene.end()
        cluster.up()  # whatever the fault has taken away


def try_fault(name: str, fault: Fault, cluster: Cluster, folder: Path, data: BinarizedCorpus) -> Outcome:
    """Let one fault happen and return what came of it."""
    begin = time.monotonic()
    error: str | None = None
    digests: tuple[str, str] | None = None
    with scene_of(name, cluster, folder, data) as scene:
        try:
            fault(scene)
            scene.require_no_job()
            digests = scene.digests()
        except Exception:
            error = traceback.format_exc()
        outcome = Outcome(
            name, scene.what, len(scene.starts), scene.recovered_after, scene.num_updates_lost, digests,
            time.monotonic() - begin, error,
        )  # fmt: skip
    return outcome


def table_of(outcomes: Sequence[Outcome], expected: tuple[str, str] | None) -> str:
    """Return the table as Markdown."""
    rows = [HEADER, ("---",) * len(HEADER), *(outcome.cells(expected) for outcome in outcomes)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main(arguments: Sequence[str]) -> int:
    """Let all faults, or those named, happen; print and write the table."""
    faults = all_faults()
    parser = argparse.ArgumentParser(prog="python -m tests.slurm.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(faults)}; default: all")
    parser.add_argument("--table", type=Path, help="a file for the table, too")
    args = parser.parse_args(arguments)
    unknown = sorted(set(args.names) - set(faults))
    if unknown:
        parser.error(f"no such fault: {', '.join(unknown)}")
    names = ["undisturbed", *(name for name in args.names or faults if name != "undisturbed")]
    outcomes: list[Outcome] = []
    with own_cluster() as cluster:
        os.environ.update(cluster.layout.environment())
        folder = cluster.folder / "scenes"  # what is mounted there goes with the cluster
        data = make_tiny_data(folder / "corpus")
        for name in names:
            outcome = try_fault(name, faults[name], cluster, folder / name, data)
            outcomes.append(outcome)
            line = " | ".join(outcome.cells(outcomes[0].digests))
            print(f"{line}\n{outcome.error or ''}", file=sys.stderr, flush=True)
            if outcomes[0].error:
                break  # nothing to compare with
    expected = outcomes[0].digests
    table = f"{NUM_RANKS} ranks, {UPDATES} updates, a full checkpoint every 20.\n\n{table_of(outcomes, expected)}"
    print(table)
    if args.table:
        args.table.parent.mkdir(parents=True, exist_ok=True)
        args.table.write_text(table, encoding="utf-8")
    return 0 if all(outcome.is_well(expected) for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
