"""Parses the names of runs, and finds a run by a unique prefix of its name, or by its training."""

import re
from collections.abc import Iterable
from pathlib import Path

from aiayn.errors import RecordError
from aiayn.spec.sheet import TrainingKey

# As `aiayn.spec.system.run_name` makes them: `demo_en_de-base-seed1-0a1b2c3d`. The last part is
# from the digest of everything that decides the tensors.
_RUN_NAME = re.compile(r"(?P<corpus>[^-]+)-(?P<system>.+)-seed(?P<seed>\d+)-[0-9a-f]{8}")
_ENDS_IN_SEED = re.compile(r"-seed\d+$")


def training_of(run: str) -> TrainingKey | None:
    """Return the training (corpus, system and seed) in the name of a run. Return None if the name
    does not have the form of a run's name.
    """
    match = _RUN_NAME.fullmatch(run)
    if match is None:
        return None
    return TrainingKey(match["corpus"], match["system"], int(match["seed"]))


def folders_of_training(runs_folder: Path, key: TrainingKey) -> list[Path]:
    """Return the folders of the runs of a training. A training may have several runs: each change
    of its spec gives the run a new name.
    """
    corpus, system, seed = key
    # Next to the folders a user may keep archives of runs.
    paths = runs_folder.glob(f"{corpus}-{system}-seed{seed}-*")
    return [path for path in paths if path.is_dir()]


def meant_runs(run: str, names: Iterable[str]) -> list[str]:
    """Return the names of runs that are equal to `run`, or begin with `run`. If `run` ends in a
    seed, the seed must be equal: `-seed1` does not match a run with seed 10. If `run` is empty, no
    name matches.
    """
    # `aiayn cancel "$RUN"` with an unset variable must not cancel the only run.
    if not run:
        return []
    sorted_names = sorted(names)
    # A name that ends in its seed is complete except for the digest, which follows a `-`.
    beginning = f"{run}-" if _ENDS_IN_SEED.search(run) else run
    # A whole name counts, even if longer names begin with it.
    return [name for name in sorted_names if name == run] or [
        name for name in sorted_names if name.startswith(beginning)
    ]


def match_run(run: str, names: Iterable[str], *, location: str, unknown: str) -> str:
    """Return the only name in `names` that is equal to `run` or begins with `run` (see
    `meant_runs`).

    Error messages contain `location`, the folder of the runs. `unknown` is the message if no run
    has the name `run`.

    Raises:
        RecordError: if no run or several runs match `run`, or if two runs have the same name. The
            message lists the candidates.
    """
    sorted_names = sorted(names)
    meant = meant_runs(run, sorted_names)
    if len(meant) == 1:
        return meant[0]
    # The candidates are listed in both cases, so that the user can copy a name.
    problem = "is the beginning of more than one run" if meant else unknown
    listed = "\n  ".join(meant or sorted_names) or "none"
    raise RecordError(f"{location}: {run or 'an empty name'} {problem}; candidates:\n  {listed}")
