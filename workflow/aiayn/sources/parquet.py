"""The columns of a parquet file as line-aligned text, batch by batch; Hugging Face keeps WMT14 so."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from aiayn.errors import ConfigError, CorpusError
from aiayn.sources.archives import SizeLimit
from aiayn.sources.joining import check_published

ROWS_PER_BATCH = 8192


def append_columns(
    path: Path,
    column_by_language: Mapping[str, str],
    into: Mapping[str, BinaryIO],
    *,
    max_lines: int | None = None,
    limit: SizeLimit | None = None,
) -> dict[str, int]:
    """Write each language's column after what its file holds, and return the number of lines of each column.

    A column within a column is named with a dot: `translation.de`.

    Raises:
        ConfigError: if pyarrow is not installed.
        CorpusError: before anything is read, if by the file's footer there are more rows than `max_lines`; naming file,
            column and row, if a column is missing, or a row is null or holds a line feed; if the text is over `limit`.
    """
    try:
        pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(f"{path}: needs pyarrow to be read; `pip install pyarrow`, or name other archives") from error
    num_lines_by_column = dict.fromkeys(column_by_language.values(), 0)
    try:
        with parquet.ParquetFile(path) as rows:
            columns = {column.path for column in rows.schema}
            for column in column_by_language.values():
                if column not in columns:
                    raise CorpusError(f"{path}: no column {column!r}; it has {', '.join(sorted(columns))}")
            check_published(rows.metadata.num_rows, max_lines, str(path))
            for batch in rows.iter_batches(ROWS_PER_BATCH, columns=list(column_by_language.values())):
                for language, column in column_by_language.items():
                    place = f"{path}: {column}"
                    lines = _column_values(batch, column)
                    text = _joined(lines, place, num_lines_by_column[column])
                    if limit is not None:
                        limit.count(len(text))
                    into[language].write(text)
                    num_lines_by_column[column] += len(lines)
    except (pyarrow.ArrowException, OSError) as error:
        raise CorpusError(f"{path}: torn, or no parquet file: {error}; delete it and fetch it again") from error
    return num_lines_by_column


def _column_values(batch: Any, column: str) -> list[str | None]:
    first, *others = column.split(".")
    values = batch.column(first)
    for name in others:
        values = values.field(name)
    found: list[str | None] = values.to_pylist()
    return found


def _joined(lines: list[str | None], place: str, num_rows_before: int) -> bytes:
    for row_index, line in enumerate(lines):
        if line is None or "\n" in line:
            fault = "null" if line is None else f"a line feed inside it: {line!r}"
            raise CorpusError(f"{place}: row {num_rows_before + row_index + 1} is {fault}; expected one line of text")
    return "".join(f"{line}\n" for line in lines).encode()
