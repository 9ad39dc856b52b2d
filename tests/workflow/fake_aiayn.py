"""Stands in for the command `aiayn`: notes its arguments and writes what the rule declares, in
milliseconds.

FAKE_AIAYN_FOLDER: where `calls.jsonl` is appended to. Records that lie ready below `ready/` are
written as they are.
FAKE_AIAYN_FAILS: a part of a record's path. The call that writes it fails as a run does, with exit
code 3.
FAKE_AIAYN_WAITS: the same for calls that wait until `go` is in the folder.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

LONGEST_WAIT_SECONDS = 120
EXIT_RUN_FAILED = 3


def value_of(flag: str, arguments: list[str]) -> str:
    """Return the argument after a flag."""
    return arguments[arguments.index(flag) + 1]


def output_paths(arguments: list[str]) -> list[Path]:
    """Return the files that the rule of a verb declares."""
    if arguments[0] == "tables":
        folder = (
            Path(value_of("--results", arguments))
            / json.loads(value_of("--config-json", arguments))["scale"]
        )
        names = (
            "report.html",
            "scores.tsv",
            "summary.tsv",
            "verdicts.tsv",
            "tables/table2.md",
            "figures/curves_by_update.svg",
        )
        return [folder / name for name in names]
    return [Path(value_of("--record", arguments))]


def is_named_by(variable: str, paths: list[Path]) -> bool:
    """Tell whether an environment variable names one of the paths."""
    part = os.environ.get(variable, "")
    return bool(part) and any(part in str(path) for path in paths)


def main(arguments: list[str]) -> int:
    """Note the call, then wait, fail or write."""
    folder = Path(os.environ["FAKE_AIAYN_FOLDER"])
    with (folder / "calls.jsonl").open("a", encoding="utf-8") as calls:
        calls.write(json.dumps(arguments) + "\n")
    paths = output_paths(arguments)
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS
    while is_named_by("FAKE_AIAYN_WAITS", paths) and not (folder / "go").exists():
        if time.monotonic() > deadline:
            print("the file `go` did not appear", file=sys.stderr)
            return 1
        time.sleep(0.05)
    if is_named_by("FAKE_AIAYN_FAILS", paths):
        print("aiayn train: the run failed: out of memory", file=sys.stderr)
        return EXIT_RUN_FAILED
    if arguments[0] in ("fetch", "clean", "segment", "binarize", "train", "tables"):
        print(f"{arguments[0]}: {paths[0]} is made")
    else:  # the rule keeps this off the terminal
        print(f"{arguments[0]}: unseen")
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        ready_path = folder / "ready" / path
        if ready_path.exists():
            shutil.copyfile(ready_path, path)
        else:
            path.write_text("{}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
