r"""Parses a line of fairseq's statistics, for all versions and all values of `--log-format`.

| what | `simple`, `tqdm` | `json` |
|---|---|---|
| within an epoch | `epoch 001:  100 / 487 loss=4.6, ..., num_updates=100` | `{"epoch": 1, "update": 0.2, ...}` |
| its end | `epoch 001 \| loss 3.6 \| ... \| num_updates 487 \| ...` | `{"epoch": 1, "train_loss": ...}` |
| validation | `epoch 001 \| valid on 'valid' subset \| loss 2.0 \| ...` | `{"epoch": 1, "valid_loss": ...}` |

Up to fairseq 0.9, a line of statistics begins with a bar `|`. Later versions print a time, a level
and a tag at the beginning of the line. Before fairseq 0.7, validations in the format `simple`
printed `valid_loss`, and JSON lines at the end of an epoch did not have the prefix `train_`. The
format `tqdm` has a progress bar in place of `100 / 487`.
"""  # noqa: E501

import json
import math
import re
from typing import Literal

import msgspec

Kind = Literal["inner", "epoch", "valid"]
MAX_UPDATES = 1e15
_EPOCH = re.compile(rb"epoch (\d{3,9})(:?)")
# Example: ` 100 / 487 `, or `| 100/487 ` behind tqdm's bar.
_POSITION = re.compile(rb"[ |](\d{1,9}) ?/ ?(\d{1,9}) ")  # of an update in its epoch
_SUBSET = re.compile(rb"\| valid on '([^']*)' subset \|")
# Examples: `| loss 3.6 |` for the first pattern, `loss=4.6,` for the second.
_PIPED = re.compile(rb"\| ([\w.@/-]+) (-?[\d.][\d.e+-]*|nan|inf)%?(?= +\||\s*$)")
_COMMAED = re.compile(rb"([\w.@/-]+)=(-?[\d.][\d.e+-]*|nan|inf)%?(?=,|\]|\s*$)")
# Examples: `num_updates=100`, `num_updates 487 |`, `"num_updates": "487"`.
UPDATE = re.compile(rb"num_updates(?:=|\"?:? ?\"?)(\d{1,15})(?=[,\"} |\]]|$)")
_TIME = re.compile(rb"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)")


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one line of statistics in a log, by fairseq's names without the prefix of the
    data set: fairseq's `valid_loss` is called `loss` here.

    fairseq prints losses in bits (base 2) for each target subword. Its `wpb` is the number of
    target tokens in an update without padding, `bsz` the number of sentence pairs in an update, and
    `wps` the tokens a second. The field `update` is the number of optimiser steps so far, 0 if the
    line of the log does not state it. The field `progress` is the number of epochs done so far,
    such as 1.25, for a line within an epoch.
    """

    kind: Kind
    epoch: int
    subset: str = ""
    update: int = 0
    progress: float | None = None
    value_by_name: dict[str, float] = {}
    line: int = 0

    @property
    def loss_bits(self) -> float | None:
        """The training loss, with label smoothing, in bits per token."""
        return self.value_by_name.get("loss")

    @property
    def nll_bits(self) -> float | None:
        """The negative log-likelihood in bits per token. The perplexity is 2 to the power of the
        negative log-likelihood.
        """
        return self.value_by_name.get("nll_loss")

    @property
    def target_tokens(self) -> float:
        """The number of target tokens in an update, 0 if the line of a log does not state it."""
        return self.value_by_name.get("wpb", 0.0)

    @property
    def losses(self) -> tuple[str, str, str]:
        """The numbers by which two copies of a line of statistics are recognised: update, loss and
        nll_loss.
        """
        # As text, because a nan of a training that diverged is not equal to itself.
        return str(self.update), str(self.loss_bits), str(self.nll_bits)


def parse_statistics(line: bytes) -> Statistics | None:
    """Return the statistics in a line of a log, or None if the line is incomplete or does not
    contain statistics.
    """
    brace = line.find(b'{"epoch"')
    if brace >= 0:
        return _parse_json(line[brace:])
    match = _EPOCH.search(line)
    if match is None or len(_TIME.findall(line)) > 1 or line.count(b"epoch ", match.end()) > 0:
        return None  # two processes wrote into one line at once
    # A colon follows the epoch only in lines within it.
    epoch = int(match[1])
    if match[2]:
        values = _numbers(_COMMAED.findall(line, match.end()))
        position = _POSITION.search(line, match.end())
        progress = None
        if position and int(position[2]):
            # fairseq counts epochs from 1, so in epoch 2 one epoch is done.
            progress = epoch - 1 + int(position[1]) / int(position[2])
        return _statistics("inner", epoch, "", values, progress)
    subset = _SUBSET.search(line)
    values = _numbers(_PIPED.findall(line, match.end()))
    if subset is None:
        return _statistics("epoch", epoch, "", values)
    # Before 0.7 each name repeats the subset: valid_loss, valid_nll_loss.
    name = subset[1].decode("utf-8", errors="replace")
    values = {
        key.removeprefix(f"{name}_").removeprefix("valid_"): value for key, value in values.items()
    }
    return _statistics("valid", epoch, name, values)


def _statistics(
    kind: Kind,
    epoch: int,
    subset: str,
    values: dict[str, float],
    progress: float | None = None,
) -> Statistics | None:
    if "loss" not in values:
        return None
    # A larger number is torn. `int` cannot convert inf or nan.
    update = values.get("num_updates", 0.0)
    return Statistics(
        kind=kind,
        epoch=epoch,
        subset=subset,
        update=int(update) if 0 <= update < MAX_UPDATES else 0,
        progress=progress,
        value_by_name=values,
    )


def _numbers(pairs: list[tuple[bytes, bytes]]) -> dict[str, float]:
    values: dict[str, float] = {}
    # The patterns also match a torn number such as `1.2.3`.
    for name, text in pairs:
        try:
            values[name.decode()] = float(text)
        except ValueError:
            continue
    return values


def _parse_json(text: bytes) -> Statistics | None:
    try:
        printed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    epoch = printed.pop("epoch", None)
    # fairseq formats most numbers as text before it prints them. If all numbers are bare, a
    # different trainer printed the line.
    if not isinstance(epoch, int) or not any(isinstance(value, str) for value in printed.values()):
        return None
    # `update` is the position in epochs, which only lines within an epoch have.
    is_inner = "update" in printed
    # The subset is not stated. It is the prefix of the losses: valid_loss, test1_loss.
    subset = next(
        (
            key.removesuffix("_loss")
            for key in printed
            if key.endswith("_loss") and key != "nll_loss"
        ),
        "",
    )
    # The first such key may be `valid_nll_loss`.
    subset = subset.removesuffix("_nll")
    prefix = f"{subset}_" if f"{subset}_loss" in printed else ""
    values: dict[str, float] = {}
    for key, value in printed.items():
        if isinstance(value, str | int | float):
            try:
                values[key.removeprefix(prefix)] = float(str(value).rstrip("%"))
            except ValueError:
                continue
    position = values.pop("update", math.nan)
    progress = position if math.isfinite(position) else None
    if is_inner or not prefix or subset == "train":
        return _statistics("inner" if is_inner else "epoch", epoch, "", values, progress)
    return _statistics("valid", epoch, subset, values)


# The whole line must match, so a line in which a second process wrote is not accepted. `++` never
# backtracks: a long torn line is refused in linear time.
_VALUE = rb"(?:-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|-?inf)%?"
_WHOLE = re.compile(
    rb"^(?:.{0,60}(?:\|\s|\] - )|)epoch \d{3,9}"
    rb"(?:: +(?:\d+ / \d+ |\d+%\|[^|]*\| *\d+/\d+ \[[^,\]]*,[^,\]]*(?:, )?)"
    rb"(?:[\w.@/-]+=" + _VALUE + rb"(?:, ?)?)++\]?"
    rb"|(?: \| valid on '[^']*' subset)?(?: \| [\w.@/-]+ " + _VALUE + rb")++)\s*$"
)
_JSON_HEAD = re.compile(rb"^(?:.{0,60}(?:\|\s|\] - )|)\{\"epoch\"")


def is_whole(line: bytes) -> bool:
    """Return whether a line consists of a single entry of statistics and nothing else, except the
    head of the line (time, level and logger).
    """
    if b'{"epoch"' in line:
        return _JSON_HEAD.match(line) is not None
    return _WHOLE.match(line) is not None
