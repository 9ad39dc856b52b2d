"""Reads the training lines of a log into starts of the trainer, and joins starts to trainings.

A new line of arguments begins a new start. It is another rank of the same start (before any
statistics, at most one line a rank), a resumed or repeated start of the same training, or another
training in the same file. A start has a single number for each subset and update. Lines that repeat
the number are counted. A line that contradicts the number makes the training untrusted, and the
finding names the line.

A resumed start continues the training before it. Where both have statistics of an update, the
resumed start counts, because the earlier weights after its first update were thrown away.
"""

import re
from collections.abc import Sequence
from typing import Any

from aiayn.facts.statistics import RATE, UPDATE, Statistics, parse_statistics
from aiayn.facts.types import Refusal
from aiayn.logs.types import LoggedRate, Measured, Printed, Start, TrainingLog

_CHECKPOINT = re.compile(rb"[Ll]oaded checkpoint (.+?) \(epoch (\d{1,9}) @ (\d{1,15}) updates\)")
_NO_CHECKPOINT = re.compile(rb"[Nn]o existing checkpoint found")
_DONE = re.compile(rb"done training in ([\d.]+) seconds")
_PARAMETERS = re.compile(rb"num\.(?: shared)? model params: ([\d,]{1,20})")
_DEVICES = re.compile(rb"training on (\d{1,9}) (?:GPUs|devices)")
DICTIONARY = re.compile(rb"\[([\w-]+)\] dictionary: (\d{1,15}) types")
# `| data-bin/wmt14 train en-de 4500966 examples` up to 0.9, `loaded 4500966 examples from: <path>`
# from 0.8.
_EXAMPLES = re.compile(rb"loaded ([\d,]{1,20}) examples from: (.+?)\s*$")
_OLD_EXAMPLES = re.compile(rb"^\| (\S+) (\w+)(?: [\w.]+-[\w.]+)? (\d{1,15}) examples$")
_GPU = re.compile(rb"rank +\d+: capabilities = .*; name = (.+?) *$")
_INNER_EPOCH = re.compile(rb'epoch"?:? (\d+)')
_EARLY = b"early stop since valid performance"
# Words of the lines that `read_event` reads; a quick look at all others.
EVENT_WORDS = re.compile(
    rb"checkpoint|done training|model params|training on|dictionary:| examples|name = |early stop"
)
MAX_DAMAGED_LINES = 20  # named; more add nothing
MAX_RATES = 2000  # of a longer log every second, every fourth and so on is kept


def read_inner(start: Start, number: int, line: bytes) -> None:
    """Take in a line of statistics within an epoch: the number of updates, and some rates."""
    start.last_line, start.last_text = number, line
    found = UPDATE.search(line)
    if found is None:
        _note_damaged(start, number)
        return
    update = int(found[1])
    if start.first_update is None:
        start.first_update = update
        epoch = _INNER_EPOCH.search(line)
        start.first_epoch = None if epoch is None else int(epoch[1])
        _note_format(start, line)
    start.last_update = max(start.last_update, update)
    start.num_rates += 1
    if start.num_rates % start.rate_step == 0 and update and (rate := RATE.search(line)):
        _keep_rate(start, number, update, rate[1])


def _keep_rate(start: Start, number: int, update: int, text: bytes) -> None:
    """Keep a printed learning rate; once there are MAX_RATES, every second is dropped."""
    try:
        start.rates.append(LoggedRate(line=number, update=update, rate=float(text)))
    except ValueError:
        return
    if len(start.rates) >= MAX_RATES:
        start.rates = start.rates[1::2]
        start.rate_step *= 2


def read_statistics(start: Start, number: int, line: bytes) -> None:
    """Take in a line that holds the statistics of a validation or of a whole epoch."""
    start.last_line, start.last_text = number, line
    statistics = parse_statistics(line)
    if statistics is None:
        if b"num_updates" in line and (b'{"epoch"' in line or b"epoch " in line):
            _note_damaged(start, number)
    elif statistics.kind != "inner":
        _note_format(start, line)
        _keep_statistics(start, number, statistics)


def _note_format(start: Start, line: bytes) -> None:
    """Keep the format of the first line with statistics."""
    if not start.log_format:
        start.log_format = "json" if b'{"epoch"' in line else "simple"


def _note_damaged(start: Start, number: int) -> None:
    if len(start.damaged_lines) < MAX_DAMAGED_LINES:
        start.damaged_lines.append(number)


def _keep_statistics(start: Start, number: int, statistics: Statistics) -> None:
    """Keep a validation or the end of an epoch, unless an earlier line has it."""
    values = statistics.value_by_name
    update = start.last_update if statistics.update is None else statistics.update
    if start.first_update is None:
        start.first_update, start.first_epoch = update, statistics.epoch
    start.last_update = max(start.last_update, update)
    new = Measured(
        line=number,
        epoch=statistics.epoch,
        update=update,
        subset=statistics.subset,
        loss_bits=values.get("loss"),
        nll_bits=values.get("nll_loss"),
        bleu=values.get("bleu"),
        target_tokens_per_update=values.get("wpb"),
        wall_seconds=values.get("wall"),
    )
    number_of_key = update if statistics.kind == "valid" else statistics.epoch
    known = start.measured_by_key.setdefault((new.subset, number_of_key), new)
    if known is new:
        return
    if statistics.kind == "valid":
        what = f"validation on {new.subset!r} at update {update:,}"
        read, earlier = (new.loss_bits, new.nll_bits), (known.loss_bits, known.nll_bits)
    else:
        what = f"end of epoch {new.epoch}"
        read, earlier = (new.update, new.loss_bits), (known.update, known.loss_bits)
    if read == earlier:
        start.num_repeated_lines += 1
    elif start.conflict is None:
        text = (
            f"{what} reads {read}, line {known.line} has {earlier}: two trainings in one"
            " file, interleaved"
        )
        start.conflict = Refusal(line=number, text=text)


def read_event(start: Start, number: int, line: bytes) -> None:
    """Take in a line that holds no statistics."""
    start.last_line, start.last_text = number, line
    if found := _CHECKPOINT.search(line):
        start.resumed_update, start.loaded_path = int(found[3]), found[1].decode(errors="replace")
    elif _NO_CHECKPOINT.search(line):
        start.resumed_update = 0
    elif found := _DONE.search(line):
        start.done_seconds = float(found[1])
    elif found := _PARAMETERS.search(line):
        start.num_parameters = start.num_parameters or whole_number(found[1])
    elif found := _DEVICES.search(line):
        start.num_gpus = int(found[1])
    elif found := DICTIONARY.search(line):
        start.size_by_language.setdefault(found[1].decode(), int(found[2]))
    elif found := _EXAMPLES.search(line):
        name = found[2].decode(errors="replace").rpartition("/")[2]
        _keep_pairs(start, name.partition(".")[0], found[1])
    elif found := _OLD_EXAMPLES.search(line):
        _keep_pairs(start, found[2].decode(errors="replace"), found[3])
    elif found := _GPU.search(line):
        start.gpu = start.gpu or found[1].decode(errors="replace")
    elif _EARLY in line:
        start.is_stopped_early = True


def _keep_pairs(start: Start, split: str, number: bytes) -> None:
    known = start.num_pairs_by_split.get(split, 0)
    start.num_pairs_by_split[split] = max(whole_number(number), known)


def whole_number(text: bytes) -> int:
    """Return a printed number of any number of digits and commas."""
    return int(text.replace(b",", b"") or b"0")


def join_starts(starts: Sequence[Start], truncated_line: int | None) -> list[TrainingLog]:
    """Return the trainings of a file, in its order; `truncated_line` is the last line if it has no
    end.
    """
    groups: list[list[Start]] = []
    for start in starts:
        if groups and _continues(start, groups[-1][-1]):
            groups[-1].append(start)
        else:
            groups.append([start])
    trainings = []
    for group in groups:
        is_last = group is groups[-1]
        trainings.append(_join(group, truncated_line if is_last else None))
    return trainings


def _continues(start: Start, before: Start) -> bool:
    """Return whether a start is a further start of the same training."""
    if not start.arguments or not before.arguments:
        return not start.arguments
    is_same = start.arguments_digest == before.arguments_digest
    if start.resumed_update:
        save_folder = str(before.arguments.get("save_dir", ""))
        return is_same or start.loaded_path.startswith(f"{save_folder}/")
    if start.resumed_update is None and start.first_update is None:
        return is_same  # it ended before it printed what it loaded
    has_same_place = start.arguments.get("save_dir") == before.arguments.get("save_dir")
    return is_same and has_same_place and before.done_seconds is None


def _join(starts: Sequence[Start], truncated_line: int | None) -> TrainingLog:
    measured: dict[tuple[str, int], Measured] = {}
    printed: dict[str, Any] = {}
    last_update = num_repeated_lines = 0
    damaged_lines: list[int] = []
    rates: list[LoggedRate] = []
    for start in starts:
        resumed = start.resumed_update
        if resumed is not None:
            measured = {key: kept for key, kept in measured.items() if kept.update <= resumed}
            last_update = min(last_update, resumed) if last_update else resumed
        for name in Printed.__struct_fields__:
            if value := getattr(start, name):
                printed[name] = value
        measured |= start.measured_by_key
        last_update = max(last_update, start.last_update)
        num_repeated_lines += start.num_repeated_lines
        damaged_lines += start.damaged_lines
        rates += start.rates
    if any(start.arguments.get("cpu") is True for start in starts):
        printed["num_gpus"] = 0
    begins = [start.begin_update for start in starts if start.begin_update is not None]
    has_begun_anew = any(start.resumed_update == 0 for start in starts)
    in_order = sorted(measured.values(), key=lambda one: (one.update, one.line))
    return TrainingLog(
        **printed,
        starts=tuple(starts),
        validations=tuple(one for one in in_order if one.subset),
        epochs=tuple(one for one in in_order if not one.subset),
        last_update=last_update,
        first_update=begins[0] if begins and not has_begun_anew else 0,
        is_stopped_early=starts[-1].is_stopped_early,
        num_repeated_lines=num_repeated_lines,
        damaged_lines=tuple(damaged_lines),
        truncated_line=truncated_line,
        conflict=next((start.conflict for start in starts if start.conflict), None),
        rates=tuple(rates),
    )
