"""Reads sheets. A sheet is the list of the trainings of a scale, in workflow/config/trainings/ or
next to the results.

A sheet is a TSV file. A row of a sheet has a corpus, a system, the seeds to train, the evaluations
of each training, and the tables or decisions that require these trainings:

    corpus      system  seeds  evaluations           asked_by
    demo_en_de  base    1,2    last1/dev last5/test  table2 table3

An evaluation consists of an average of checkpoints and a test set, such as last5/test. The test set
of an evaluation is dev or test, which the corpus file defines, or the name of a further test set.
The evaluation last1/dev-alpha1.4 translates the dev set with the length penalty alpha 1.4. A
training that only decisions (workflow/decisions/) and no tables require was added after the results
of the tables' seeds were known. A training added by a decision is not used in the rows of the
paper's tables, in conclusions or in verdicts.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from aiayn.errors import ConfigError, did_you_mean

SHEET_NAME = "trainings.tsv"  # of the copy next to results
COLUMNS = ("corpus", "system", "seeds", "evaluations", "asked_by")
REPLICATIONS = "replications"
TABLES = ("table2", "table3", REPLICATIONS, "variants", "architectures")
# Examples: `decision0012`, and with a group of the comparisons in it `decision0013-heads`.
_DECISION = re.compile(r"decision\d{4}(-[a-z_]+)?")
_SEEDS = re.compile(r"\d{1,9}(,\d{1,9})*")
# Seeds from here on are for probes: trial runs that choose a setting, such as the learning rate.
# They never enter tables.
FIRST_PROBE_SEED = 101
PROBE_DECISIONS = "0009, 0012 and 0013"  # in workflow/decisions/: they used seed 101 as a probe


class TrainingKey(NamedTuple):
    """Identifies a training by corpus, system and seed. The record, state and folder of a training
    have the same key.
    """

    corpus: str
    system: str
    seed: int

    def __str__(self) -> str:
        return f"{self.corpus} {self.system} seed {self.seed}"


class SheetRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a sheet (a list of trainings). The location of the row (`location`) is its file and
    line number, for error messages.
    """

    corpus: str
    system: str
    seeds: tuple[int, ...]
    evaluations: tuple[str, ...]
    asked_by: tuple[str, ...]
    location: str = ""

    @property
    def is_later(self) -> bool:
        """Whether only decisions, and no tables, require the trainings of this row. The rows of the
        paper's tables do not use trainings that only decisions require.
        """
        return not set(self.asked_by).intersection(TABLES)


def list_trainings(rows: Iterable[SheetRow]) -> list[TrainingKey]:
    """Return the keys of the trainings in rows of a sheet, in the order of the rows."""
    trainings = []
    for row in rows:
        for seed in row.seeds:
            trainings.append(TrainingKey(row.corpus, row.system, seed))
    return trainings


def systems_asked_by(table: str, rows: Iterable[SheetRow]) -> list[str]:
    """Return the systems that a table of results requires, each once, in the order of the sheet's
    rows.
    """
    return list(dict.fromkeys(row.system for row in rows if table in row.asked_by))


def read_sheet(path: Path) -> list[SheetRow]:
    """Read a sheet, the list of the trainings of a scale.

    Raises:
        ConfigError: if a column, a seed or a word in the column `asked_by` is wrong, or if a
            training is listed twice. The message contains file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        sheets = sorted(other.stem for other in path.parent.glob("[!.]*.tsv"))
        hint = did_you_mean(path.stem, sheets, f"sheets there: {', '.join(sheets) or 'none'}")
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: cannot be read as a sheet ({reason}); {hint}") from error
    # A wrong column is reported first: the check below would only say that the line differs.
    for name in lines[0].split("\t") if lines else []:
        if name not in COLUMNS:
            hint = did_you_mean(name, COLUMNS, f"known columns: {', '.join(COLUMNS)}")
            raise ConfigError(f"{path}:1: unknown column {name!r}; {hint}")
    if lines[:1] != ["\t".join(COLUMNS)] or len(lines) == 1:
        raise ConfigError(
            f"{path}:1: expected the columns {', '.join(COLUMNS)}, with tabs between them, and a"
            " row for a training"
        )
    rows = []
    listed: set[TrainingKey] = set()
    for number, line in enumerate(lines[1:], start=2):
        # Line numbers count from the heading, as editors show them.
        row = _parse_row(line.split("\t"), f"{path}:{number}")
        for training in list_trainings([row]):
            # A repeated seed would count as two runs in a mean and its interval.
            if training in listed:
                raise ConfigError(
                    f"{row.location}: seeds has {training.seed} of {row.system} on {row.corpus} a"
                    " second time; expected each training once"
                )
            listed.add(training)
        rows.append(row)
    return rows


def _parse_row(values: Sequence[str], location: str) -> SheetRow:
    """Return the row of a sheet with the values in a line.

    Raises:
        ConfigError: if a value in the line is missing or wrong.
    """
    if len(values) != len(COLUMNS) or not all(map(str.split, values)):
        raise ConfigError(
            f"{location}: {list(values)}; expected {', '.join(COLUMNS)}, with tabs between them"
        )
    corpus, system, seeds_text, evaluations_text, asked_by_text = values
    for word in asked_by_text.split():
        if word not in TABLES and _DECISION.fullmatch(word) is None:
            expected = f"expected {', '.join(TABLES)}, or a decision such as decision0012"
            hint = did_you_mean(word, TABLES, expected)
            raise ConfigError(f"{location}: asked_by has {word!r}; {hint}")
    return SheetRow(
        corpus=corpus,
        system=system,
        seeds=_parse_seeds(seeds_text, location),
        evaluations=tuple(evaluations_text.split()),
        asked_by=tuple(asked_by_text.split()),
        location=location,
    )


def _parse_seeds(text: str, location: str) -> tuple[int, ...]:
    if _SEEDS.fullmatch(text) is None:
        raise ConfigError(f"{location}: seeds is {text!r}; expected whole numbers, as 1,2,3")
    seeds = tuple(map(int, text.split(",")))
    # The results of a probe are known before the trainings are planned, so a probe must not be one
    # of these trainings.
    if min(seeds) < 1 or max(seeds) >= FIRST_PROBE_SEED:
        raise ConfigError(
            f"{location}: seeds is {text}; expected seeds from 1 to {FIRST_PROBE_SEED - 1}, because"
            f" seeds from {FIRST_PROBE_SEED} on are probes (decisions {PROBE_DECISIONS}) and enter"
            " no table"
        )
    return seeds


def select_rows(rows: Sequence[SheetRow], only: str) -> list[SheetRow]:
    """Return the rows of a sheet that the config key `only` selects, each row with the selected
    seeds. The value of `only` has words of the form `system`, `system:1,2` or `corpus/system:1,2`,
    separated by blanks.

    Raises:
        ConfigError: if the sheet does not contain a row or seed that `only` selects.
    """
    # A selection that matches nothing is a mistake, and not an empty experiment.
    selected: set[TrainingKey] = set()
    for word in only.split():
        name, _, seeds_text = word.partition(":")
        matching = [row for row in rows if name in (row.system, f"{row.corpus}/{row.system}")]
        trainings = set(list_trainings(matching))
        seeds = {training.seed for training in trainings}
        # Without seeds a word selects all seeds of its rows.
        wanted_seeds = set(_parse_seeds(seeds_text, f"only: {word!r}")) if seeds_text else seeds
        if not matching or not wanted_seeds <= seeds:
            names = [f"{row.corpus}/{row.system}" if "/" in name else row.system for row in rows]
            hint = did_you_mean(name, names, f"rows: {', '.join(dict.fromkeys(names))}")
            if "," in name:
                hint = "write blanks between systems, as in only='base:1,2 big'"
            if matching:
                hint = f"its seeds: {', '.join(map(str, sorted(seeds)))}"
            raise ConfigError(f"only: {word!r}: the sheet does not list it; {hint}")
        selected |= {training for training in trainings if training.seed in wanted_seeds}
    return _with_trainings(rows, selected)


def join_sheets(first: Sequence[SheetRow], second: Sequence[SheetRow]) -> list[SheetRow]:
    """Return the rows of the first sheet, then rows with the trainings that are only in the second
    sheet.
    """
    new_trainings = set(list_trainings(second)).difference(list_trainings(first))
    return [*first, *_with_trainings(second, new_trainings)]


def _with_trainings(rows: Iterable[SheetRow], trainings: set[TrainingKey]) -> list[SheetRow]:
    """Return rows of a sheet with only those seeds whose trainings are in the set `trainings`. Rows
    without any training in the set `trainings` are left out.
    """
    kept_rows = []
    # The other columns do not depend on the seeds, so they are kept.
    for row in rows:
        listed = [training.seed for training in list_trainings([row]) if training in trainings]
        if listed:
            kept_rows.append(msgspec.structs.replace(row, seeds=tuple(listed)))
    return kept_rows


def sheet_text(rows: Iterable[SheetRow]) -> str:
    """Return the content of a sheet's file with the given rows."""
    lines = ["\t".join(COLUMNS)]
    for row in rows:
        seeds = ",".join(map(str, row.seeds))
        values = (row.corpus, row.system, seeds, " ".join(row.evaluations), " ".join(row.asked_by))
        lines.append("\t".join(values))
    return "\n".join([*lines, ""])
