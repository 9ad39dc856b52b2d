"""Reads the training lines of a log into parts, one a start of the trainer, and joins parts into trainings.

A new arguments line begins a new part. Its content decides what it is: another rank of the same start (before any
statistics, at most one a rank), a resumed or repeated start of the same training, or another training in the same
file. A part has one number for each (subset, update): lines that repeat it are counted; a line that contradicts it
makes the training untrusted, and the line is named.
"""

import datetime
import re

from analysis.logs.arguments import ParsedArguments
from analysis.logs.statistics import UPDATE, Statistics, parse_statistics, time_of
from analysis.logs.types import EpochEnd, LogNote, Start, Validation

_CHECKPOINT = re.compile(rb"[Ll]oaded checkpoint (.+?) \(epoch (\d+) @ (\d+) updates\)")
_NO_CHECKPOINT = re.compile(rb"[Nn]o existing checkpoint found")
_DONE = re.compile(rb"done training in ([\d.]+) seconds")
_PARAMETERS = re.compile(rb"num\.(?: shared)? model params: ([\d,]+)(?: \(num\. trained: ([\d,]+)\))?")
_DEVICES = re.compile(rb"training on (\d+) (?:GPUs|devices)")
_DICTIONARY = re.compile(rb"\[([\w-]+)\] dictionary: (\d+) types")
_EXAMPLES = re.compile(rb"loaded ([\d,]+) examples from: (\S+)")
_GPU = re.compile(rb"rank +\d+: capabilities = .*; name = (.+?) *$")
_INNER_EPOCH = re.compile(rb'epoch"?:? (\d+)')
_EARLY = re.compile(rb"early stop since valid performance")
MAX_DAMAGED_LINES = 20  # named; more add nothing


def has_event(line: bytes) -> bool:
    """Return whether a line may be one that `Part.read_event` reads; a search for plain words, fast on other lines."""
    return (
        b"checkpoint" in line
        or b"done training" in line
        or b"model params" in line
        or b"training on" in line
        or b"dictionary:" in line
        or b"examples from" in line
        or b"name = " in line
        or b"early stop" in line
    )


class Part:
    """The lines from one start of the trainer to the next; filled line by line."""

    def __init__(self, line: int, arguments: ParsedArguments | None, form: str, first_line: bytes) -> None:
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
        self.num_parameters: tuple[int, int | None] | None = None
        self.num_devices: int | None = None
        self.gpu = ""
        self.vocabulary_size_by_language: dict[str, int] = {}
        self.num_pairs_by_split: dict[str, int] = {}
        self.done_seconds: float | None = None
        self.is_stopped_early = False
        self.num_repeated_lines = 0
        self.damaged_lines: list[int] = []
        self.conflict: LogNote | None = None
        self._first_text, self._last_text = first_line, first_line

    @property
    def has_statistics(self) -> bool:
        """Whether any update was seen."""
        return self.first_update is not None

    @property
    def begin_update(self) -> int | None:
        """The update that it began at, None without any; from nothing if its first statistics are of epoch 1.

        fairseq before 0.9 prints nothing about an absent checkpoint, and its first statistics may be an epoch's.
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
            self.log_format = self.log_format or ("json" if b'"update"' in line else "simple")
        self.last_update = max(self.last_update, found)

    def read_statistics(self, number: int, line: bytes) -> None:
        """Take in a line that holds the statistics of a validation or of a whole epoch."""
        self.last_line, self._last_text = number, line
        statistics = parse_statistics(line)
        if statistics is None:
            if b"num_updates" in line and (b'{"epoch"' in line or b"epoch " in line):
                self._damaged(number)
        elif statistics.kind == "valid":
            self._validation(number, statistics)
        elif statistics.kind == "epoch":
            self._epoch_end(number, statistics)

    def _damaged(self, number: int) -> None:
        if len(self.damaged_lines) < MAX_DAMAGED_LINES:
            self.damaged_lines.append(number)

    def _note_update(self, update: int, epoch: int) -> None:
        if self.first_update is None:
            self.first_update, self.first_epoch = update, epoch
        self.last_update = max(self.last_update, update)

    def _validation(self, number: int, statistics: Statistics) -> None:
        values = statistics.value_by_name
        update = self.last_update if statistics.update is None else statistics.update
        self._note_update(update, statistics.epoch)
        self.log_format = self.log_format or statistics.log_format
        found = Validation(
            line=number,
            epoch=statistics.epoch,
            update=update,
            subset=statistics.subset,
            loss_bits=values.get("loss"),
            nll_bits=values.get("nll_loss"),
            bleu=values.get("bleu"),
        )
        known = self.validation_by_key.setdefault((found.subset, update), found)
        if known is not found:
            what = f"validation on {found.subset!r} at update {update:,}"
            values_then, values_now = (known.loss_bits, known.nll_bits), (found.loss_bits, found.nll_bits)
            self._repeated(number, known.line, what, values_then, values_now)

    def _epoch_end(self, number: int, statistics: Statistics) -> None:
        values = statistics.value_by_name
        update = self.last_update if statistics.update is None else statistics.update
        self._note_update(update, statistics.epoch)
        self.log_format = self.log_format or statistics.log_format
        found = EpochEnd(
            line=number,
            epoch=statistics.epoch,
            update=update,
            loss_bits=values.get("loss"),
            nll_bits=values.get("nll_loss"),
            target_tokens_per_update=values.get("wpb"),
            target_tokens_per_second=values.get("wps"),
            updates_per_second=values.get("ups"),
            wall_seconds=values.get("wall"),
        )
        known = self.epoch_by_number.setdefault(found.epoch, found)
        if known is not found:
            what = f"end of epoch {found.epoch}"
            self._repeated(number, known.line, what, (known.update, known.loss_bits), (update, found.loss_bits))

    def _repeated(self, number: int, known_line: int, what: str, known: object, found: object) -> None:
        if known == found:
            self.num_repeated_lines += 1
        elif self.conflict is None:
            text = f"{what} reads {found}, line {known_line} has {known}: two trainings in one file, interleaved"
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
            trained = None if found[2] is None else _whole_number(found[2])
            self.num_parameters = self.num_parameters or (_whole_number(found[1]), trained)
        elif found := _DEVICES.search(line):
            self.num_devices = int(found[1])
        elif found := _DICTIONARY.search(line):
            self.vocabulary_size_by_language.setdefault(found[1].decode(), int(found[2]))
        elif found := _EXAMPLES.search(line):
            split = found[2].decode(errors="replace").rpartition("/")[2].partition(".")[0]
            num_pairs = _whole_number(found[1])
            self.num_pairs_by_split[split] = max(num_pairs, self.num_pairs_by_split.get(split, 0))
        elif found := _GPU.search(line):
            self.gpu = self.gpu or found[1].decode(errors="replace")
        elif _EARLY.search(line):
            self.is_stopped_early = True

    def as_start(self) -> Start:
        """Return the start as a typed value."""
        return Start(
            line=self.line,
            last_line=self.last_line,
            resumed_update=self.resumed_update,
            num_ranks_printed=self.num_ranks_printed,
            seconds=_seconds_between(time_of(self._first_text), time_of(self._last_text)),
            done_seconds=self.done_seconds,
        )


def _whole_number(text: bytes) -> int:
    return int(text.replace(b",", b""))


def _seconds_between(begin: str, end: str) -> float | None:
    if not begin or not end:
        return None
    return (datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(begin)).total_seconds()
