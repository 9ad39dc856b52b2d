"""Plants mutants in the product, and requires that a named test fails for each.

    python -m tests.mutants [--only NAME ...]

Each TOML file of this folder lists the mutants of some rooms: `name`, `file`, the text `old` in it,
the text `new` that replaces it, and the `tests` that must fail then. The tests first run on an
unchanged copy of the tree, where all must pass. Then each mutant is made in its own copy. The exit
code is 1 if a mutant survives, if `old` does not occur in the file exactly once, or if a test does
not exist or fails without a mutant.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
LIMIT_SECONDS = 900  # a mutant may never end, which is noticed, too
PASSED, FAILED = 0, 1  # exit codes of pytest; others mean that it could not run the tests


class Mutant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change to a file, and tests, of which at least one must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: Annotated[list[str], msgspec.Meta(min_length=1)]  # pytest without a name would run all


class MutantError(Exception):
    """A list of mutants does not fit the code."""


def read_mutants() -> list[Mutant]:
    """Return the mutants of all lists of this folder.

    Raises:
        MutantError: if two mutants have the same name.
    """
    mutants: list[Mutant] = []
    for path in sorted(FOLDER.glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        mutants += msgspec.convert(content["mutant"], list[Mutant])
    names = [mutant.name for mutant in mutants]
    if doubles := {name for name in names if names.count(name) > 1}:
        raise MutantError(f"{FOLDER}: two mutants are named {sorted(doubles)[0]!r}; rename one")
    return mutants


def mutate(mutant: Mutant, tree: Path) -> None:
    """Replace the mutant's text in a copy of the tree.

    Raises:
        MutantError: unless the old text occurs in the file exactly once.
    """
    path = tree / mutant.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text.count(mutant.old) != 1:
        raise MutantError(
            f"{mutant.name}: {mutant.file} has {text.count(mutant.old)} times {mutant.old!r},"
            " expected 1; adapt the mutant to the present code"
        )
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def copy_tree(into: Path) -> None:
    """Copy the files that git tracks, or would."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (CHECKOUT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, into / name)


def run_tests(tests: Sequence[str], tree: Path) -> tuple[int, str]:
    """Return pytest's exit code for some tests of a copy of the tree, and what it printed. FAILED
    at the time limit.
    """
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tree / "workflow"), str(tree)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return FAILED, f"no end within {LIMIT_SECONDS} s"
    return done.returncode, done.stdout + done.stderr


def judge(mutant: Mutant | None, tests: Sequence[str]) -> tuple[int, str]:
    """Return what the tests say of a copy of the tree, with a mutant or without."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        if mutant is not None:
            mutate(mutant, tree)
        return run_tests(tests, tree)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line a mutant, killed or survived."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutants alone")
    args = parser.parse_args(arguments)
    mutants = read_mutants()
    names = [mutant.name for mutant in mutants]
    if unknown := [name for name in args.only or () if name not in names]:
        parser.error(f"--only {unknown[0]}: no such mutant; there are: {', '.join(names)}")
    mutants = [mutant for mutant in mutants if mutant.name in (args.only or names)]
    code, printed = judge(None, sorted({test for mutant in mutants for test in mutant.tests}))
    if code != PASSED:
        print(
            f"{printed}\nthe tests must pass without a mutant (pytest's exit code is {code}); mend"
            " them first"
        )
        return 1
    num_wrong = 0
    for mutant in mutants:
        begin = time.monotonic()
        try:
            code, printed = judge(mutant, mutant.tests)
        except MutantError as error:
            outcome = f"not made: {error}"
        else:
            outcome = {PASSED: "SURVIVED", FAILED: "killed"}.get(
                code, f"not judged, pytest's exit code is {code}"
            )
        num_wrong += outcome != "killed"
        print(f"{mutant.name:40} {outcome} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(mutants) - num_wrong} of {len(mutants)} mutants killed")
    return int(num_wrong > 0)
