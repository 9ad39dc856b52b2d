"""RUN on a command line: a run's name, or any unique beginning of one."""

import re
from collections.abc import Iterable

import msgspec

from aiayn.errors import RecordError

# As `aiayn.spec.system.run_name` makes them: corpus, system, seed, 8 digits of the digest of what decides the tensors.
_RUN_NAME = re.compile(r"(?P<corpus>[^-]+)-(?P<system>.+)-seed(?P<seed>\d+)-(?P<digest8>[0-9a-f]{8})")


class RunNameParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a run's name is made of."""

    corpus: str
    system: str
    seed: int
    digest8: str


def split_run_name(run: str) -> RunNameParts | None:
    """Return the parts of a run's name; None for a name that is not made of them."""
    match = _RUN_NAME.fullmatch(run)
    return msgspec.convert(match.groupdict(), RunNameParts, strict=False) if match else None


def match_run(run: str, names: Iterable[str], *, place: str, unknown: str) -> str:
    """Return the one name that `run` is or begins.

    `place` says where was looked; `unknown` is what a message says of a name that no run has.

    Raises:
        RecordError: if there is none, or more than one (a name that is there twice too); it lists the candidates.
    """
    known = sorted(names)
    meant = [name for name in known if name == run] or [name for name in known if name.startswith(run)]
    if len(meant) == 1:
        return meant[0]
    problem = "is the beginning of more than one run" if meant else unknown
    listed = "\n  ".join(meant or known) or "none"
    raise RecordError(f"{place}: {run} {problem}; candidates:\n  {listed}")
