"""Finds the row of the paper's tables that a log is of, by its hyper-parameters; else the nearest, and what differs."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from analysis.logs.symbols import ROW_SYMBOLS, Symbol, Symbols, are_equal

LANGUAGE_PAIRS = ("en-de", "en-fr")  # of Table 2; Table 3 is en-de alone


class PaperRow(msgspec.Struct, frozen=True):
    """A system at a scale: the symbols that a log of its training must have, and the search of its translations."""

    scale: str
    system: str
    language_pairs: tuple[str, ...]
    symbols: Symbols
    decoding: Symbols


class Difference(msgspec.Struct, frozen=True):
    """A symbol in which a log differs from a row: the log's value (None: absent), and the row's."""

    symbol: str
    found: Symbol | None
    expected: Symbol


class Match(msgspec.Struct, frozen=True):
    """The row that a log is of; or None, the nearest row, and the symbols that differ from it."""

    row: PaperRow | None
    nearest: PaperRow | None
    differences: tuple[Difference, ...]


def find_row(symbols: Symbols, language_pair: str, rows: Sequence[PaperRow]) -> Match:
    """Return the row whose ROW_SYMBOLS are all the log's; rows that come first win over later ones.

    A symbol that the log lacks cannot match. Without a row that is trained in this language pair, the nearest
    is sought among all.
    """
    candidates = [row for row in rows if language_pair in row.language_pairs]
    values = [symbols.get(name) for name in ROW_SYMBOLS]
    for row in candidates:
        if [row.symbols[name] for name in ROW_SYMBOLS] == values:
            return Match(row, row, ())
    for row in candidates:  # a number may differ in its last digit
        if not _differences(symbols, row):
            return Match(row, row, ())
    if not rows:
        return Match(None, None, ())
    nearest = min(candidates or rows, key=lambda row: _distance(_differences(symbols, row)))
    return Match(None, nearest, tuple(_differences(symbols, nearest)))


def _differences(symbols: Symbols, row: PaperRow) -> list[Difference]:
    return [
        Difference(name, symbols.get(name), row.symbols[name])
        for name in ROW_SYMBOLS
        if name not in symbols or not are_equal(symbols[name], row.symbols[name])
    ]


def _distance(differences: Sequence[Difference]) -> tuple[int, float]:
    """Return how many symbols differ, and by how much the sizes do (sum of the logarithms of their ratios)."""
    reach = 0.0
    for difference in differences:
        found, expected = difference.found, difference.expected
        if isinstance(found, int | float) and isinstance(expected, int | float) and found > 0 and expected > 0:
            reach += abs(math.log(found / expected))
        else:
            reach += 1.0
    return len(differences), reach


def describe_differences(
    differences: Sequence[Difference], reason_by_symbol: Mapping[str, str] | None = None, limit: int = 6
) -> str:
    """Return `d_model 256, not 512`, and so on; at most `limit` of them in full.

    `reason_by_symbol` explains why the log does not determine a symbol (`symbols.reasons_unknown`).
    """
    texts = []
    for difference in differences[:limit]:
        reason = (reason_by_symbol or {}).get(difference.symbol)
        found = "not in the log" if difference.found is None else difference.found
        if difference.found is None and reason:
            texts.append(f"{difference.symbol} unknown ({reason}), the row has {difference.expected}")
        else:
            texts.append(f"{difference.symbol} {found}, not {difference.expected}")
    if len(differences) > limit:
        texts.append(f"and {len(differences) - limit} more")
    return "; ".join(texts)
