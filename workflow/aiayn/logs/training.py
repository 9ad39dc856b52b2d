"""Reads the training lines of a log into parts, one for each start, and joins parts into trainings.

A new line of arguments begins a new part. The part is another rank of the same start (before any
statistics, at most one part a rank), a resumed or repeated start of the same training, or another
training in the same file. A part has a single number for each subset and update. Lines that repeat
the number are counted. A line that contradicts the number makes the training untrusted, and the
finding names the line.

A resumed start continues the training before it. Where both have statistics of an update, the
resumed start counts, because the earlier weights after its first update were thrown away.
"""

import datetime
import itertools
import re
from collections.abc import Sequence
from typing import Any

from aiayn.logs.arguments import ParsedArguments
from aiayn.logs.statistics import RATE, UPDATE, Statistics, parse_statistics, time_of
from aiayn.logs.types import (
    Argument,
    EpochEnd,
    LoggedRate,
    LogNote,
    Start,
    TrainingLog,
    Validation,
)

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
_EARLY = re.compile(rb"early stop since valid performance")
MAX_DAMAGED_LINES = 20  # named; more add nothing
MAX_RATES = 2000  # of a longer log every second, every fourth and so on is kept


def has_event(line: bytes) -> bool:
    """Return whether a line may be one that `Part.read_event` reads; a search for plain words, fast
    on other lines.
    """
    return (
        b"checkpoint" in line
        or b"done training" in line
        or b"model params" in line
        or b"training on" in line
        or b"dictionary:" in line
        or b" examples" in line
        or b"name = " in line
        or b"early stop" in line
    )


class Part:
    """The lines from one start of the trainer to the next; filled line by line."""

    def __init__(
        self, line: int, arguments: ParsedArguments | None, form: str, first_line: bytes
    ) -> None:
        self.line = self.last_line = line
        self.arguments = arguments
        self.form = form
        self.log_format = ""
        self.num_ranks_printed = 1 if arguments is not None else 0
        self.resumed_update: int | None = None
        self.loaded_path = ""
        self.validation_by_key: dict[tuple[str, int], Validation] = {}
        self.epoch_by_number: dict[int, EpochEnd] = {}
        self.first_update: int | None = None
        self.first_epoch: int | None = None
        self.last_update = 0
        self.printed: dict[
            str, Any
        ] = {}  # what a start prints of model, data and devices, by the name in TrainingLog
        self.done_seconds: float | None = None
        self.is_stopped_early = False
        self.num_repeated_lines = 0
        self.damaged_lines: list[int] = []
        self.conflict: LogNote | None = None
        self.rates: list[LoggedRate] = []
        self._rate_step, self._num_rates = 1, 0
        self._first_text, self._last_text = first_line, first_line

    @property
    def has_statistics(self) -> bool:
        """Whether any update was seen."""
        return self.first_update is not None

    @property
    def begin_update(self) -> int | None:
        """The update that it began at, None without any; from nothing if its first statistics are
        of epoch 1.

        fairseq before 0.9 prints nothing about an absent checkpoint, and its first statistics may
        be an epoch's.
        """
        if self.resumed_update is not None:
            return self.resumed_update
        return 0 if self.first_epoch == 1 else self.first_update

    def read_inner(self, number: int, line: bytes) -> None:
        """Take in a line of statistics within an epoch: of these, only the number of updates."""
        self.last_line, self._last_text = number, line
        update = UPDATE.search(line)
        if update is None:
            self._damaged(number)
            return
        found = int(update[1])
        if self.first_update is None:
            self.first_update = found
            epoch = _INNER_EPOCH.search(line)
            self.first_epoch = None if epoch is None else int(epoch[1])
            self._note_format(line)
        self.last_update = max(self.last_update, found)
        self._num_rates += 1
        if self._num_rates % self._rate_step == 0 and found and (rate := RATE.search(line)):
            self._keep_rate(number, found, rate[1])

    def _keep_rate(self, number: int, update: int, text: bytes) -> None:
        """Keep a printed learning rate; once there are MAX_RATES, every second is dropped."""
        try:
            self.rates.append(LoggedRate(line=number, update=update, rate=float(text)))
        except ValueError:
            return
        if len(self.rates) >= MAX_RATES:
            self.rates = self.rates[1::2]
            self._rate_step *= 2

    def read_statistics(self, number: int, line: bytes) -> None:
        """Take in a line that holds the statistics of a validation or of a whole epoch."""
        self.last_line, self._last_text = number, line
        statistics = parse_statistics(line)
        if statistics is None:
            if b"num_updates" in line and (b'{"epoch"' in line or b"epoch " in line):
                self._damaged(number)
        elif statistics.kind != "inner":
            self._note_format(line)
            self._measured(number, statistics)

    def _note_format(self, line: bytes) -> None:
        """Keep the format of the first line with statistics."""
        if not self.log_format:
            self.log_format = "json" if b'{"epoch"' in line else "simple"

    def _damaged(self, number: int) -> None:
        if len(self.damaged_lines) < MAX_DAMAGED_LINES:
            self.damaged_lines.append(number)

    def _measured(self, number: int, statistics: Statistics) -> None:
        """Keep a validation or the end of an epoch, unless an earlier line has it."""
        values = statistics.value_by_name
        update = self.last_update if statistics.update is None else statistics.update
        if self.first_update is None:
            self.first_update, self.first_epoch = update, statistics.epoch
        self.last_update = max(self.last_update, update)
        common: dict[str, Any] = {"line": number, "epoch": statistics.epoch, "update": update}
        common |= {"loss_bits": values.get("loss"), "nll_bits": values.get("nll_loss")}
        if statistics.kind == "valid":
            found = Validation(**common, subset=statistics.subset, bleu=values.get("bleu"))
            known = self.validation_by_key.setdefault((found.subset, update), found)
            what = f"validation on {found.subset!r} at update {update:,}"
            if known is not found:
                now, then = ((one.loss_bits, one.nll_bits) for one in (found, known))
                self._note_repeated(number, known.line, what, now, then)
            return
        end = EpochEnd(
            **common,
            target_tokens_per_update=values.get("wpb"),
            wall_seconds=values.get("wall"),
        )
        first = self.epoch_by_number.setdefault(end.epoch, end)
        if first is not end:
            now, then = ((one.update, one.loss_bits) for one in (end, first))
            self._note_repeated(number, first.line, f"end of epoch {end.epoch}", now, then)

    def _note_repeated(
        self, number: int, known_line: int, what: str, found: object, known: object
    ) -> None:
        if known == found:
            self.num_repeated_lines += 1
        elif self.conflict is None:
            text = (
                f"{what} reads {found}, line {known_line} has {known}: two trainings in one file,"
                " interleaved"
            )
            self.conflict = LogNote(line=number, text=text)

    def read_event(self, number: int, line: bytes) -> None:
        """Take in a line that holds no statistics."""
        self.last_line, self._last_text = number, line
        if found := _CHECKPOINT.search(line):
            self.resumed_update, self.loaded_path = int(found[3]), found[1].decode(errors="replace")
        elif _NO_CHECKPOINT.search(line):
            self.resumed_update = 0
        elif found := _DONE.search(line):
            self.done_seconds = float(found[1])
        elif found := _PARAMETERS.search(line):
            self.printed.setdefault("num_parameters", _whole_number(found[1]))
        elif found := _DEVICES.search(line):
            self.printed["num_gpus"] = int(found[1])
        elif found := DICTIONARY.search(line):
            self.printed.setdefault("vocabularies", {}).setdefault(found[1].decode(), int(found[2]))
        elif found := _EXAMPLES.search(line):
            self._loaded(
                found[2].decode(errors="replace").rpartition("/")[2].partition(".")[0], found[1]
            )
        elif found := _OLD_EXAMPLES.search(line):
            self._loaded(found[2].decode(errors="replace"), found[3])
        elif found := _GPU.search(line):
            self.printed.setdefault("gpu", found[1].decode(errors="replace"))
        elif _EARLY.search(line):
            self.is_stopped_early = True

    def _loaded(self, split: str, number: bytes) -> None:
        num_pairs_by_split = self.printed.setdefault("num_pairs_by_split", {})
        num_pairs_by_split[split] = max(_whole_number(number), num_pairs_by_split.get(split, 0))

    def as_start(self) -> Start:
        """Return the start as a typed value."""
        return Start(
            line=self.line,
            resumed_update=self.resumed_update,
            loaded_path=self.loaded_path,
            last_update=self.last_update,
            seconds=_seconds_between(time_of(self._first_text), time_of(self._last_text)),
            done_seconds=self.done_seconds,
            arguments=dict(self.arguments or {}),
            num_gpus=self.printed.get("num_gpus"),
            num_pairs_by_split=dict(self.printed.get("num_pairs_by_split", {})),
        )


def _whole_number(text: bytes) -> int:
    return int(text.replace(b",", b"") or b"0")


def _seconds_between(begin: str, end: str) -> float | None:
    if not begin or not end:
        return None
    return (
        datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(begin)
    ).total_seconds()


def join_parts(parts: Sequence[Part], truncated_line: int | None) -> list[TrainingLog]:
    """Return the trainings of a file, in its order; `truncated_line` is the last line if it has no
    end.
    """
    trainings: list[list[Part]] = []
    for part in parts:
        if trainings and _continues(part, trainings[-1]):
            trainings[-1].append(part)
        else:
            trainings.append([part])
    return [
        _joined(members, truncated_line if members is trainings[-1] else None)
        for members in trainings
    ]


def _continues(part: Part, earlier: Sequence[Part]) -> bool:
    """Return whether a part is a further start of the same training."""
    before = earlier[-1]
    if part.arguments is None or before.arguments is None:
        return part.arguments is None
    is_same = part.arguments.digest == before.arguments.digest
    save_folder = str(before.arguments.get("save_dir", ""))
    if part.resumed_update:
        return is_same or part.loaded_path.startswith(f"{save_folder}/")
    if part.resumed_update is None and not part.has_statistics:
        return is_same  # it ended before it printed what it loaded
    has_same_place = part.arguments.get("save_dir") == before.arguments.get("save_dir")
    return is_same and has_same_place and before.done_seconds is None


def _joined(parts: Sequence[Part], truncated_line: int | None) -> TrainingLog:
    last = parts[-1]
    validations: dict[tuple[str, int], Validation] = {}
    epochs: dict[int, EpochEnd] = {}
    conflict: LogNote | None = None
    last_update = 0
    arguments: dict[str, Argument] = {}
    digest = log_format = ""
    is_cpu = False
    printed: dict[str, Any] = {}  # by the last start that printed it
    for part in parts:
        resumed = part.resumed_update
        if resumed is not None:
            validations = {key: kept for key, kept in validations.items() if key[1] <= resumed}
            epochs = {number: kept for number, kept in epochs.items() if kept.update <= resumed}
            last_update = min(last_update, resumed) if last_update else resumed
        if part.arguments is not None:
            arguments, digest = dict(part.arguments), part.arguments.digest
            is_cpu = is_cpu or part.arguments.get("cpu") is True
        log_format = part.log_format or log_format
        printed |= part.printed
        validations |= part.validation_by_key
        epochs |= part.epoch_by_number
        last_update = max(last_update, part.last_update)
        conflict = conflict or part.conflict
    if is_cpu:
        printed["num_gpus"] = 0
    begins = [part.begin_update for part in parts if part.begin_update is not None]
    has_begun_anew = any(part.resumed_update == 0 for part in parts)
    return TrainingLog(
        first_line=parts[0].line,
        last_line=last.last_line,
        form=last.form,
        log_format=log_format,
        arguments=arguments,
        arguments_digest=digest,
        starts=tuple(part.as_start() for part in parts),
        validations=tuple(
            sorted(
                validations.values(), key=lambda validation: (validation.update, validation.line)
            )
        ),
        epochs=tuple(sorted(epochs.values(), key=lambda epoch: epoch.epoch)),
        last_update=last_update,
        first_update=begins[0] if begins and not has_begun_anew else 0,
        is_done=last.done_seconds is not None,
        is_stopped_early=last.is_stopped_early,
        num_repeated_lines=sum(part.num_repeated_lines for part in parts),
        damaged_lines=tuple(line for part in parts for line in part.damaged_lines),
        truncated_line=truncated_line,
        conflict=conflict,
        notes=tuple(_notes(parts)),
        num_parameters=printed.get("num_parameters"),
        num_gpus=printed.get("num_gpus"),
        gpu=printed.get("gpu", ""),
        languages=tuple(printed.get("vocabularies", ())),
        vocabulary_sizes=tuple(printed.get("vocabularies", {}).values()),
        num_pairs_by_split=printed.get("num_pairs_by_split", {}),
        rates=tuple(rate for part in parts for rate in part.rates),
    )


def _notes(parts: Sequence[Part]) -> list[LogNote]:
    """Return what happened at the starts, in words."""
    notes = []
    for before, part in itertools.pairwise(parts):
        where = (
            "from nothing" if not part.resumed_update else f"from update {part.resumed_update:,}"
        )
        text = f"started again {where}; the log before it reached update {before.last_update:,}"
        digests = {one.arguments.digest for one in (before, part) if one.arguments is not None}
        text += ", with other arguments" if len(digests) > 1 else ""
        notes.append(LogNote(line=part.line, text=text))
    for part in parts:
        if part.num_ranks_printed > 1:
            text = f"{part.num_ranks_printed} ranks wrote into this file; equal lines count once"
            notes.append(LogNote(line=part.line, text=text))
    return notes
