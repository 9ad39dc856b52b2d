"""The public threads that give settings and numbers enough to test a diagnosis: setting in, causes
and costs out.

The cases are in threads.toml. Settings are facts of the threads, in our words.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from aiayn.facts.symbols import Symbols, symbols_of_spec
from aiayn.logs.evidence import LoggedTraining
from aiayn.logs.types import Argument, GenerationLog, Measured, Start, TrainingLog
from aiayn.spec.system import read_system
from analysis.doctor.types import Translation

EPOCH_TOKENS = 138e6  # target tokens of an epoch of WMT14 En-De: fairseq #512, #1331


class Expected(NamedTuple):
    """A cause that must be found: its quantity, and the bounds of its published cost in BLEU (None:
    unknown).
    """

    quantity: str
    low: float | None = None
    high: float | None = None


class Settings(NamedTuple):
    """A training and its translation of the test set, as a thread states them; `system` is the
    nearest.
    """

    system: str
    training: LoggedTraining | None
    translation: Translation
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
    length_ratio: float | None = None,
    data: str = "",
    **search: Argument,
) -> Settings:
    """Return a run of a system, and its translation of the test set; a BLEU line has penalty 1.

    `tokens` are the real target tokens of an update, None where the thread does not state them.
    """
    symbols = of_system(system, **(changes or {}))
    updates = int(symbols["updates"])
    if not updates:
        del symbols["updates"]  # the thread does not state them
    if num_epochs is not None and tokens is not None:
        updates = round(num_epochs * EPOCH_TOKENS / tokens)
    training = LoggedTraining(
        path="thread", log=log_of(updates, tokens, data), events=None, symbols=symbols
    )
    translation = Translation(
        path="thread",
        testset="newstest2014",
        role="test",
        generation=generation_of(length_ratio, f"last{average}" if average else "", search),
    )
    return Settings(system, training, translation, metric)


def log_of(updates: int, tokens: float | None, data: str = "") -> TrainingLog:
    """Return the log of a training in one epoch, with its updates, their target tokens and 8 GPUs
    only.
    """
    end = Measured(
        line=1,
        epoch=1,
        update=updates,
        target_tokens_per_update=tokens,
    )
    return TrainingLog(
        starts=(Start(line=1, done_seconds=0.0),),
        arguments={"data": data} if data else {},
        epochs=(end,),
        last_update=updates,
        num_gpus=8,
    )


def generation_of(
    length_ratio: float | None, average: str, search: Mapping[str, Argument]
) -> GenerationLog:
    """Return the log of fairseq-generate with its search, its checkpoint, and if a ratio is stated
    its BLEU line.
    """
    has_score = length_ratio is not None
    return GenerationLog(
        first_line=1,
        last_line=1,
        arguments=dict(search),
        model_path=average,
        subset="test",
        bleu_line=1 if has_score else 0,
        bleu=0.0 if has_score else None,
        bleu_name="BLEU" if has_score else "",
        beam_size=4 if has_score else None,
        hypothesis_length=round(65_000 * (length_ratio or 0.0)),
        reference_length=65_000,
        path="thread",
        average=average,
    )


_CONTENT = tomllib.loads(Path(__file__).with_name("threads.toml").read_text(encoding="utf-8"))


def _read_cases() -> Iterator[ThreadCase]:
    for row in _CONTENT["case"]:
        expected = tuple(Expected(**cause) for cause in row.pop("expected"))
        stated = settings(changes=row.pop("changes", {}), **row.pop("settings"))
        yield ThreadCase(expected=expected, settings=stated, **row)


CASES = tuple(_read_cases())
