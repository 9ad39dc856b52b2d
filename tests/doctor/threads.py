"""The public threads that give settings and numbers enough to test a diagnosis: setting in, causes
and costs out.

The cases are in threads.toml. Settings are facts of the threads, in our words.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from aiayn.facts.symbols import Symbols, symbols_of_spec
from aiayn.facts.types import Fact, Value
from aiayn.spec.system import read_system

EPOCH_TOKENS = 138e6  # target tokens of an epoch of WMT14 En-De: fairseq #512, #1331


class Expected(NamedTuple):
    """A cause that must be found: its name, and the bounds of its published cost in BLEU (None:
    unknown).
    """

    cause: str
    low: float | None = None
    high: float | None = None


class Settings(NamedTuple):
    """A training and its translation of the test set, as a thread states them: their facts, and
    the definition of the BLEU; `system` is the nearest.
    """

    system: str
    training: tuple[Fact, ...]
    generation: tuple[Fact, ...]
    metric: str


class ThreadCase(NamedTuple):
    """One case: the settings of a thread, and the causes that it names with their published costs.

    With `has_first_cause` a cause that the thread names ranks first.
    """

    name: str
    thread: str
    expected: tuple[Expected, ...]
    settings: Settings
    corpus: str
    has_first_cause: bool = False


def of_system(system: str, **changes: object) -> Symbols:
    """Return a system's symbols with some changed."""
    return symbols_of_spec(read_system(system, "paper").training) | changes  # type: ignore[return-value]


def settings(
    system: str,
    tokens: float | None = None,
    changes: Symbols | None = None,
    *,
    num_epochs: float | None = None,
    average: int | None = None,
    metric: str = "bleu_tok_compound_split",
    wmt_year: int | None = None,
    **search: Value,
) -> Settings:
    """Return a run of a system, and its translation of the test set.

    `tokens` are the real target tokens of an update, None where the thread does not state them.
    """
    symbols = of_system(system, **(changes or {}))
    if num_epochs is not None and tokens is not None:
        symbols["updates"] = round(num_epochs * EPOCH_TOKENS / tokens)
    if not symbols["updates"]:
        del symbols["updates"]  # the thread does not state them
    others = {"target_tokens": tokens, "wmt_year": wmt_year}
    stated: dict[str, Value] = {**symbols, **others}
    decoded: dict[str, Value] = dict(search)
    if average is not None:
        decoded["average"] = f"last{average}"
    return Settings(system, facts_of(stated), facts_of(decoded), metric)


def facts_of(stated: Mapping[str, Value]) -> tuple[Fact, ...]:
    """Return facts of values that a thread states."""
    return tuple(
        Fact(name, value, "thread", 1) for name, value in stated.items() if value is not None
    )


_CONTENT = tomllib.loads(Path(__file__).with_name("threads.toml").read_text(encoding="utf-8"))


def _read_cases() -> Iterator[ThreadCase]:
    for row in _CONTENT["case"]:
        expected = tuple(Expected(**cause) for cause in row.pop("expected"))
        stated = settings(changes=row.pop("changes", {}), **row.pop("settings"))
        yield ThreadCase(expected=expected, settings=stated, **row)


CASES = tuple(_read_cases())
