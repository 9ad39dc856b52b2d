"""A copy of the checkout and a fake `aiayn` first on PATH, so that Snakemake's own behaviour is
tested in seconds, in forks of this process, which has imported Snakemake.

The fake notes its arguments and writes what the rule declares. What the copy's Snakefile imports is
the copy's own package, by PYTHONPATH, so that its configs and stage versions can be edited.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import smart_open  # snakemake imports it when it reads its first file
import snakemake.cli

from tests.forks import fork

__all__ = ["smart_open"]

CHECKOUT = Path(__file__).resolve().parents[1]
COPIED = (
    "Snakefile",
    "workflow",
    "analysis",
    "paper_tables",
    "profiles",
    "environment.yml",
    "pyproject.toml",
)
FAKE_AIAYN = Path(__file__).parent / "workflow" / "fake_aiayn.py"
DEMO = ("--configfile", "workflow/config/demo.yaml")
QUICK = (
    "--cores",
    "8",
    "--scheduler",
    "greedy",
)  # the fake needs no core of its own, and no job is worth weighing
NOTHING_TO_DO = "Nothing to be done"
OUR_PACKAGES = ("aiayn", "analysis", "paper_tables")
LONGEST_RUN_SECONDS = 300

# Imports Snakemake's plugins and the libraries of its report: each fork would, for half of its time.
snakemake.cli.get_argument_parser()


@dataclass(frozen=True)
class Pipeline:
    """A checkout, the folder in which snakemake works (the checkout itself by default), and the
    fake's.
    """

    checkout: Path
    fake_folder: Path
    directory: Path | None = None
    arguments: tuple[str, ...] = DEMO
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def working_folder(self) -> Path:
        """Return where results, logs and Snakemake's own notes lie."""
        return self.directory or self.checkout

    def command(self, *arguments: str) -> list[str]:
        """Return a snakemake command as a user types it in the checkout."""
        directory = [] if self.directory is None else ["--directory", str(self.directory)]
        return [sys.executable, "-m", "snakemake", *QUICK, *self.arguments, *directory, *arguments]

    def variables(self, **more: str) -> dict[str, str]:
        """Return the environment: the fake first on PATH, the copy's packages on PYTHONPATH, no
        user's profile.
        """
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AIAYN_", "SNAKEMAKE_"))
        }
        return kept | {
            "PATH": os.pathsep.join(
                [
                    str(self.fake_folder / "bin"),
                    str(Path(sys.executable).parent),
                    os.environ["PATH"],
                ]
            ),
            "PYTHONPATH": os.pathsep.join([str(self.checkout / "workflow"), str(self.checkout)]),
            # an edit within one second of the last would meet the old byte code
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_CONFIG_HOME": str(self.fake_folder),
            "XDG_CACHE_HOME": str(self.fake_folder / "cache"),
            "FAKE_AIAYN_FOLDER": str(self.fake_folder),
            **self.environment,
            **more,
        }

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run snakemake to its end. Standard error and output together are in `stdout`."""
        command, environment = self.command(*arguments), self.variables(**variables)
        with tempfile.TemporaryFile("w+") as output:
            child = fork(lambda: self._become_snakemake(command, environment, output))
            returncode = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            output.seek(0)
            return subprocess.CompletedProcess(command, returncode, output.read())

    def _become_snakemake(
        self, command: list[str], environment: dict[str, str], output: IO[str]
    ) -> int:
        """Do in a fork what the command does in a process of its own. Return its exit code."""
        signal.alarm(LONGEST_RUN_SECONDS)  # ends this process
        os.chdir(self.checkout)
        os.environ.clear()
        os.environ.update(environment)
        # An edit within a second that keeps a file's size would leave byte code that looks current.
        sys.dont_write_bytecode = True
        # The copy's own packages are imported again, whatever this process has imported.
        sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
        for name in [name for name in sys.modules if name.partition(".")[0] in OUR_PACKAGES]:
            del sys.modules[name]
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
        sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.modules["snakemake.shell"].STDOUT = None  # not the output at the time of its import
        sys.argv = command[2:]
        try:
            snakemake.cli.main(command[3:])
        except SystemExit as ended:
            return int(ended.code or 0)
        finally:
            sys.stdout.flush()
        return 0

    def made(self) -> list[str]:
        """Return what the fake was called for so far, in order, as `planned` names it."""
        path = self.fake_folder / "calls.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [name_of(json.loads(line)) for line in lines]

    def forget_calls(self) -> None:
        """Begin the list of `made` anew."""
        (self.fake_folder / "calls.jsonl").unlink(missing_ok=True)

    def planned(self, *arguments: str) -> set[str]:
        """Return what a dry run would make: each record's path below results/<scale>, and `tables`."""
        return planned_in(self.dry_run(*arguments))

    def dry_run(self, *arguments: str) -> str:
        """Return what a dry run prints, with the command of each job."""
        finished = self.run("--dry-run", "--printshellcmds", *arguments)
        assert finished.returncode == 0, finished.stdout
        return finished.stdout


def planned_in(printed: str) -> set[str]:
    """Return what a dry run that printed this would make."""
    commands = re.findall(r"^ *(aiayn .*?) (?:2>|>)", printed, flags=re.MULTILINE)
    names = [name_of(shlex.split(command)[1:]) for command in commands]
    assert len(set(names)) == len(names), "a record is made twice"
    assert bool(names) != (NOTHING_TO_DO in printed), printed
    return set(names)


def name_of(arguments: list[str]) -> str:
    """Return the record that a call of `aiayn` writes, below results/<scale>, without its suffix;
    or `tables`.
    """
    if arguments[0] == "tables":
        return "tables"
    path = Path(arguments[arguments.index("--record") + 1])
    return "/".join(path.with_suffix("").parts[path.parts.index("results") + 2 :])


@contextlib.contextmanager
def edited(path: Path, old: str, new: str) -> Iterator[None]:
    """Replace text of a file that is there exactly once, for the length of the block."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path}: {old!r} stands there {text.count(old)} times"
    path.write_text(text.replace(old, new), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def copy_checkout(folder: Path) -> Path:
    """Copy what a clone holds of the pipeline into a new folder."""
    folder.mkdir(parents=True)
    for name in COPIED:
        path = CHECKOUT / name
        if path.is_dir():
            shutil.copytree(
                path, folder / name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True
            )
        else:
            shutil.copy2(path, folder / name)
    return folder


def make_pipeline(
    folder: Path, checkout: str = "checkout", directory: str | None = None
) -> Pipeline:
    """Set up a copy of the checkout and a fake below an empty folder."""
    fake_folder = folder / "fake"
    (fake_folder / "bin").mkdir(parents=True)
    command_path = fake_folder / "bin" / "aiayn"
    command_path.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -IS {shlex.quote(str(FAKE_AIAYN))} "$@"\n'
    )
    command_path.chmod(0o755)
    return Pipeline(
        checkout=copy_checkout(folder / checkout),
        fake_folder=fake_folder,
        directory=None if directory is None else folder / directory,
    )
