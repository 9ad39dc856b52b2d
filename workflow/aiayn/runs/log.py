"""Reads fairseq's log of a training: the total number of updates from the settings at the beginning
of the log, the progress from its end, and the losses of all validations.
"""

import contextlib
import datetime
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import msgspec

from aiayn.packed import UNPACK_ERRORS, find_packed, open_unpacked

HEAD_BYTES = 64 * 1024
NUM_TAIL_LINES = 400
_BLOCK_BYTES = 1 << 16
# In fairseq's settings: `'optimization': {'_name': None, 'max_epoch': 0, 'max_update': 8000, ...`
_MAX_UPDATE = re.compile(rb"'max_update': (\d+)")
# fairseq prints all its settings, as a Python dict, at the beginning of each attempt.
_ATTEMPT_BEGINS = "| INFO | fairseq_cli.train | {'_name': None"


class LogTail(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a run's newest attempt, from the end of its log.

    `update`, `loss_bits` (the loss that fairseq logs: label-smoothed, base 2) and the speeds are
    from the newest line of statistics in the log. `update`, `loss_bits` and the speeds are None
    before the first line of statistics of the attempt. A speed is a mean since the previous line of
    statistics, and includes the time of a validation between these lines. `modified` is the time
    when the log last grew (UTC).
    """

    modified: str
    update: int | None = None
    loss_bits: float | None = None
    target_tokens_per_second: float | None = None
    updates_per_second: float | None = None

    def seconds_left(self, updates: int) -> float | None:
        """Return the expected seconds until the training reaches `updates` at its newest speed, or
        None if the speed is unknown.
        """
        if self.update is None or not self.updates_per_second:
            return None
        return max(0, updates - self.update) / self.updates_per_second


def read_max_update(path: Path) -> int | None:
    """Return the total number of updates from the settings that fairseq logs, or None if the log
    does not contain the settings yet.
    """
    try:
        with path.open("rb") as log:
            # The settings are at the beginning of the file. A long log is not read as a whole.
            match = _MAX_UPDATE.search(log.read(HEAD_BYTES))
    except FileNotFoundError:
        return None
    return int(match[1]) if match else None


def last_lines(path: Path, num_lines: int) -> list[str]:
    """Return the last non-empty lines of a file, including an incomplete last line. The result is
    empty if the file is absent.

    Only the end of the file is read, because logs are large.
    """
    blocks: list[bytes] = []
    try:
        with path.open("rb") as file:
            position = file.seek(0, os.SEEK_END)
            # Backwards in blocks: `status` reads the ends of many logs, which may be long.
            while position > 0 and sum(block.count(b"\n") for block in blocks) <= num_lines:
                step = min(_BLOCK_BYTES, position)
                position -= step
                file.seek(position)
                blocks.insert(0, file.read(step))
    except FileNotFoundError:
        return []
    lines = b"".join(blocks).decode("utf-8", errors="replace").split("\n")
    # The first line may lack its beginning, because a block may begin inside it. One more line than
    # requested is taken, because the text after the last LF is usually empty.
    newest = lines[-num_lines - 1 :]
    return [line for line in newest if line][-num_lines:]


def read_log_tail(path: Path) -> LogTail | None:
    """Return the progress that the end of a log shows, or None if there is no log."""
    try:
        modified = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
    except FileNotFoundError:
        return None
    statistics = _newest_statistics(last_lines(path, NUM_TAIL_LINES))
    return LogTail(modified=modified.isoformat(timespec="seconds"), **statistics)


def _newest_statistics(lines: list[str]) -> dict[str, Any]:
    # A line of statistics: `2026-01-01 12:00:00 | INFO | train_inner | {"epoch": 1, "loss": "5.1",
    # "num_updates": "100", ...}`. fairseq writes most numbers as text. Statistics above the newest
    # settings are from an earlier attempt.
    for text in reversed(lines):
        if _ATTEMPT_BEGINS in text:
            break
        _, is_marked, statistics = text.partition("| train_inner | ")
        # The last line may be incomplete, because fairseq is still writing it.
        with contextlib.suppress(ValueError, KeyError, TypeError):
            values = json.loads(statistics) if is_marked else {}
            return {
                "update": int(values["num_updates"]),
                "loss_bits": float(values["loss"]),
                "target_tokens_per_second": float(values.get("wps", 0)),
                "updates_per_second": float(values.get("ups", 0)),
            }
    return {}


def read_validations(log_path: Path) -> dict[int, float]:
    """Return the losses on the dev set, in bits per subword, by update in rising order. The log may
    be compressed. If the log does not exist, the result is empty.

    fairseq measures the loss on the dev set some twenty times in a training, without dropout or
    label smoothing. If a resumed training repeated updates, the later measurement counts.
    Incomplete lines and values that are not finite (a diverged training) are skipped. If the end of
    a compressed log is missing, the lines before it are read.
    """
    return _read_bits(log_path, b"| valid | ", "valid_num_updates", "valid_nll_loss")


def read_training_bits(log_path: Path) -> dict[int, float]:
    """Return the losses on training batches, in bits per subword, by update in rising order.

    Each loss is the mean over the updates since the loss before it, with dropout and without label
    smoothing.
    """
    return _read_bits(log_path, b"| train_inner | ", "num_updates", "nll_loss")


def _read_bits(log_path: Path, marker: bytes, update_key: str, bits_key: str) -> dict[int, float]:
    bits_by_update: dict[int, float] = {}
    found_path = find_packed(log_path)
    if found_path is None:
        return {}
    # A copied log may be cut. What comes before the cut is still true.
    with open_unpacked(found_path) as lines, contextlib.suppress(*UNPACK_ERRORS):
        for line in lines:
            _, is_marked, statistics = line.partition(marker)
            if is_marked:
                try:
                    values = json.loads(statistics)
                    bits_by_update[int(values[update_key])] = float(values[bits_key])
                except (ValueError, KeyError, TypeError):
                    continue
    return {update: bits for update, bits in sorted(bits_by_update.items()) if math.isfinite(bits)}
