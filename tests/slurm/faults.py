"""Every fault once, on a test cluster of its own, and the table of what came of it.

    python -m tests.slurm.faults [--table FILE] [NAME ...]

Each fault happens to the same tiny training of two ranks, and each must end with the same tensors
as the undisturbed one, bit for bit, and the same state of the optimiser. Exit code 1 if any does
not. tests/slurm/faults.md is the table of all of them: `python -m tests.slurm.faults --table
tests/slurm/faults.md`.
"""

import argparse
import contextlib
import inspect
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from aiayn.records import BinarizedCorpus
from tests.engine.tiny_data import make_tiny_data
from tests.slurm import (
    faults_of_crowds,
    faults_of_daemons,
    faults_of_drivers,
    faults_of_environments,
    faults_of_file_systems,
    faults_of_images,
    faults_of_jobs,
    faults_of_nodes,
    faults_of_snakemake,
)
from tests.slurm.cluster import Cluster, own_cluster
from tests.slurm.fault_scene import NUM_RANKS, UPDATES, Comparison, Scene

Fault = Callable[[Scene], None]
MODULES = (
    faults_of_jobs, faults_of_daemons, faults_of_drivers, faults_of_file_systems, faults_of_snakemake, faults_of_crowds,
    faults_of_environments, faults_of_nodes, faults_of_images,
)  # fmt: skip
HEADER = (
    "fault",
    "what was done",
    "attempts",
    "s to recovery",
    "updates lost",
    "tensors",
    "s in all",
    "verdict",
)
SHOWN_DIGEST = 12  # hexadecimal digits
WELL, NOT_WELL = "as it must be", "NOT"
Digests = tuple[str, str]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one fault. `error` is None if all held that must, `compared_with` as in `Scene`."""

    name: str
    what: str
    num_attempts: int
    recovered_after: float | None
    num_updates_lost: int
    digests: Digests | None
    seconds: float
    error: str | None
    compared_with: Comparison = "undisturbed"

    def cells(self, expected: Digests | None) -> tuple[str, ...]:
        """Return this outcome's line of the table."""
        digest = self.digests[0][:SHOWN_DIGEST] if self.digests else "none"
        recovery = (
            "not interrupted" if self.recovered_after is None else f"{self.recovered_after:.0f}"
        )
        return (
            self.name.replace("_", " "),
            self.what,
            str(self.num_attempts),
            recovery,
            str(self.num_updates_lost),
            digest,
            f"{self.seconds:.0f}",
            WELL if self.is_well(expected) else NOT_WELL,
        )

    def is_well(self, expected: Digests | None) -> bool:
        """Return whether all held, and the training ended with the same tensors and state as the
        undisturbed one.

        A scene of other tensors has compared them itself. One that must not begin has none.
        """
        if self.error is not None or (self.digests is None) != (self.compared_with == "none"):
            return False
        return self.compared_with != "undisturbed" or self.digests == expected


def all_faults() -> dict[str, Fault]:
    """Return each fault by its name, in the order of the modules' text. `undisturbed` is the first."""
    return {
        name: function
        for module in MODULES
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
    }


@contextlib.contextmanager
def scene_of(name: str, cluster: Cluster, folder: Path, data: BinarizedCorpus) -> Iterator[Scene]:
    """Return a scene that is cleared away at its end: no job of it lives on, and no disk of its
    own.
    """
    scene = Scene(name=name, cluster=cluster, folder=folder, data=data)
    try:
        yield scene
    finally:
        scene.end()
        cluster.up()  # whatever the fault has taken away


def try_fault(
    name: str, fault: Fault, cluster: Cluster, folder: Path, data: BinarizedCorpus
) -> Outcome:
    """Let one fault happen and return what came of it."""
    begin = time.monotonic()
    error: str | None = None
    digests: Digests | None = None
    with scene_of(name, cluster, folder, data) as scene:
        try:
            fault(scene)
            scene.require_no_job()
            digests = None if scene.compared_with == "none" else scene.digests()
        except Exception:
            error = traceback.format_exc()
        outcome = Outcome(
            name=name,
            what=scene.what,
            num_attempts=len(scene.starts),
            recovered_after=scene.recovered_after,
            num_updates_lost=scene.num_updates_lost,
            digests=digests,
            seconds=time.monotonic() - begin,
            error=error,
            compared_with=scene.compared_with,
        )
    return outcome


def table_of(outcomes: Sequence[Outcome], expected: Digests | None) -> str:
    """Return the table as Markdown."""
    rows = [HEADER, ("---",) * len(HEADER), *(outcome.cells(expected) for outcome in outcomes)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def try_faults(names: Sequence[str], cluster: Cluster) -> list[Outcome]:
    """Let faults happen, one after the other, and print each.

    The first is `undisturbed`: if that fails there is nothing to compare with, and it stays alone.
    """
    faults = all_faults()
    scenes_folder = cluster.folder / "scenes"  # what is mounted there goes with the cluster
    data = make_tiny_data(scenes_folder / "corpus")
    outcomes: list[Outcome] = []
    for name in names:
        outcome = try_fault(name, faults[name], cluster, scenes_folder / name, data)
        outcomes.append(outcome)
        line = " | ".join(outcome.cells(outcomes[0].digests))
        print(f"{line}\n{outcome.error or ''}", file=sys.stderr, flush=True)
        if not outcomes[0].digests:
            break
    return outcomes


def report_of(outcomes: Sequence[Outcome], slurm: str, start_seconds: float) -> str:
    """Return the page: what it was tried on, and the table."""
    return (
        "# What a training does when something happens to it\n\nWritten by `make faults`, on"
        f" {slurm} of Debian's packages: two nodes that this machine pretends to\nhave;"
        f" starting that cluster took {start_seconds:.0f} s. A training has {NUM_RANKS} ranks (gloo)"
        f" and {UPDATES} updates, with a full\ncheckpoint every 20, unless its line says otherwise."
        " Its tensors and its optimiser's state end equal to the undisturbed\ntraining's, bit for"
        " bit. Seconds to recovery count from the fault, or from the restart by a person, to the"
        f" next update.\n\n{table_of(outcomes, outcomes[0].digests)}"
    )


def main(arguments: Sequence[str]) -> int:
    """Let all faults, or those named, happen. Print and write the table."""
    faults = all_faults()
    parser = argparse.ArgumentParser(
        prog="python -m tests.slurm.faults", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(faults)}; default: all"
    )
    parser.add_argument("--table", type=Path, help="a file for the table, too")
    args = parser.parse_args(arguments)
    unknown = sorted(set(args.names) - set(faults))
    if unknown:
        parser.error(f"no such fault: {', '.join(unknown)}")
    names = ["undisturbed", *(name for name in args.names or faults if name != "undisturbed")]
    begin = time.monotonic()
    with own_cluster() as cluster:
        os.environ.update(cluster.layout.environment())
        start_seconds = time.monotonic() - begin
        print(f"the cluster is up after {start_seconds:.1f} s", file=sys.stderr, flush=True)
        slurm = cluster.daemons.output("sinfo", "--version").strip()
        outcomes = try_faults(names, cluster)
    report = report_of(outcomes, slurm, start_seconds)
    print(report)
    if args.table:
        args.table.parent.mkdir(parents=True, exist_ok=True)
        args.table.write_text(report, encoding="utf-8")
    return 0 if all(outcome.is_well(outcomes[0].digests) for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
