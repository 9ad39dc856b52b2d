"""A verb's flags follow from the names, types and defaults of its class of fields."""

import argparse
from pathlib import Path
from typing import Literal

import pytest

from aiayn.cli.flags import add_flags, flag, positive


class Flags:
    run: str | None = flag("a run", is_positional=True)
    record: Path = flag("where to write")
    num_ranks: int = flag("processes", default=1, type=positive)
    device: Literal["cpu", "cuda"] = flag("where", default="cpu")
    seeds: list[int] = flag("seeds")
    head: list[int] = flag("heads", action="append", nargs=None)
    wait: float = flag("seconds", default=1.0)
    long: bool = flag("long runs", default=False, action=argparse.BooleanOptionalAction)
    log: Path | None = flag("a log", excludes="source")
    config: str | None = flag("a config", excludes="source")


def parsed(*flags: str) -> dict[str, object]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_flags(parser, Flags)
    return vars(parser.parse_args(flags))


def test_types_and_defaults_say_how_flags_are_read() -> None:
    assert parsed("--record", "a/b", "--log", "c") == {
        "run": None,
        "record": Path("a/b"),
        "num_ranks": 1,
        "device": "cpu",
        "seeds": [],
        "head": [],
        "wait": 1.0,
        "long": False,
        "log": Path("c"),
        "config": None,
    }
    lists = parsed(
        "r",
        "--record",
        "a",
        "--seeds",
        "1",
        "2",
        "--head",
        "3",
        "--head",
        "4",
        "--long",
        "--config",
        "d",
    )
    assert (lists["run"], lists["seeds"], lists["head"], lists["long"]) == (
        "r",
        [1, 2],
        [3, 4],
        True,
    )
    assert parsed("--record", "a", "--log", "c", "--long", "--no-long")["long"] is False


@pytest.mark.parametrize(
    "flags",
    [
        ["--log", "c"], ["--record", "a"], ["--record", "a", "--log", "c", "--config", "d"],
        ["--record", "a", "--log", "c", "--num-ranks", "0"], ["--record", "a", "--log", "c", "--device", "tpu"],
        ["--record", "a", "--log", "c", "--wait", "nan"], ["--record", "a", "--log", "c", "--wait", "inf"],
    ],
)  # fmt: skip
def test_what_is_missing_excluded_or_out_of_range_is_refused(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((SystemExit, argparse.ArgumentError)):
        parsed(*flags)
