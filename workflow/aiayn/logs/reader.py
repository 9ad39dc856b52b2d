"""Reads one log into `LogFile`, line by line: of fairseq 0.9 to 0.12, of its fork, or of ours.

The lines decide the kind of the file, never its name. A start line prints fairseq's arguments. A
start line of fairseq-train begins a part of a training. A start line of fairseq-generate, whose
arguments name a `path`, begins a generation.
"""

import ast
import contextlib
import re
from pathlib import Path

from aiayn.data.text.detokenise import PIECE_PATTERN
from aiayn.logs.arguments import ParsedArguments, is_open, parse_arguments
from aiayn.logs.lines import LogText
from aiayn.logs.statistics import parse_statistics
from aiayn.logs.training import DICTIONARY, Part, has_event, join_parts
from aiayn.logs.types import AveragingLog, BleuLine, GenerationLog, LogEntry, LogFile, Refusal

_ARGUMENTS = re.compile(rb"Namespace\(|\{'_name': None, 'common'")
_LATER_TAG = re.compile(rb"\| INFO \||\[INFO\]|^INFO:")
_SENTENCE = re.compile(rb"[STHDPAIE]-\d+(?:_\d+)?\t")
# Lines that show by their last characters that nothing is missing.
_ENDS_WHOLE = re.compile(
    rb"done training in [\d.]+ seconds$|with beam=.*\)$|\{\"epoch\".*\}$|^P-\d+\t.*\d\.\d{4}$"
)
# The two lines of average_checkpoints.py.
_AVERAGING = re.compile(rb"averaging checkpoints: +(\[.*\])")
_AVERAGED = re.compile(rb"Finished writing averaged checkpoint to (\S+?)\.?\s*$")
# fairseq-generate: 0.9 prints these to the end of its lines of hypotheses; later versions log the
# first, with commas of thousands, and print the second bare. A score by sacreBLEU reads `BLEU =
# 27.3 58.3/32.1/... (BP = 1.000 ratio = ...)`.
_TRANSLATED = re.compile(rb"Translated ([\d,]{1,20}) sentences \(")
_GENERATE = re.compile(
    rb"Generate (\S+) with beam=(\d{1,9}): "
    rb"(?:(BLEU4?)(?:\|[^=]*)? = (\d+(?:\.\d+)?),? .*\(BP ?= ?(\d+(?:\.\d+)?),?"
    rb" .*\)|(bleu_score)=(\d+(?:\.\d+)?))"
)  # the second form is printed by MLPerf's submissions
_BEFORE_SCORE = re.compile(
    rb"Generate \S+ with beam=\d+:\s*$"
)  # a terminal, or a paste, has broken the line before it
_LENGTHS = re.compile(rb"(?:syslen|hyp_len) ?= ?(\d{1,15}),? (?:reflen|ref_len) ?= ?(\d{1,15})")
_LOADING = re.compile(rb"loading model\(s\) from (\S+)")
_PIECE = re.compile(PIECE_PATTERN.encode())
MIN_PIECE_SHARE = 0.05  # of the hypotheses
_MLPERF = b":::ML"  # begins each line of MLPerf's logging, in all of its versions
_JSON_METRIC = re.compile(rb'^\s*\{.*"(?:epoch|step|iter|iteration|global_step)": ?\d.*\}\s*$')
OTHER_TOOLKIT = "another toolkit"  # whose start line is a Namespace as well
MAX_ARGUMENT_LINES = 200  # over which a terminal may have wrapped them
MAX_ARGUMENT_BYTES = 1 << 18


def read_log(path: Path) -> LogFile:
    """Return the content of a file.

    The content of a file that is not a log of fairseq has no entries and no refusal. It has a
    refusal if the file cannot be read to its end.
    """
    text = LogText(path)
    reader = _Reader()
    for block in text.blocks():
        for number, line in block:
            reader.read(number, line)
    reader.finish(text.num_lines, text.cut_piece)
    if text.fault is not None:
        return LogFile(num_lines=text.num_lines, entries=(), refusal=text.fault)
    if (refusal := _refuse_other_program(reader)) is not None:
        return LogFile(num_lines=text.num_lines, entries=(), refusal=refusal)
    return LogFile(
        num_lines=text.num_lines,
        entries=tuple(sorted(reader.entries, key=lambda entry: entry.first_line)),
        refusal=reader.refusal,
        not_utf8_line=text.not_utf8_line,
        other_programs=tuple(reader.other_programs),
    )


def _refuse_other_program(reader: "_Reader") -> Refusal | None:
    """Return the refusal of a file that MLPerf's programs or another trainer wrote, else None.

    NVIDIA's submissions to MLPerf also print fairseq's lines, for another task, so such a file is
    refused whatever else it holds.
    """
    if reader.mlperf_line:
        return Refusal(
            line=reader.mlperf_line,
            text="a result file of MLPerf, which is not read",
            next_step="published BLEU of its runs is in paper_tables/published/public_seeds.csv",
        )
    if reader.json_line and not reader.entries:
        return Refusal(
            line=reader.json_line,
            text="JSON lines of another trainer, not a log of fairseq",
            next_step="give its translations to `aiayn score`, and its BLEU to `aiayn explain`",
        )
    return None


def has_generation_event(line: bytes) -> bool:
    """Return whether `Generation.read_event` may read a line; a quick test of the bytes."""
    is_event = b"Translated " in line or b"with beam=" in line or b"loading model(s)" in line
    return is_event or b"] dictionary: " in line


class Generation:
    """One run of fairseq-generate, filled line by line."""

    def __init__(self, line: int, arguments: ParsedArguments | None) -> None:
        self.first_line = self.last_line = line
        self.arguments = arguments
        self.model_path = "" if arguments is None else str(arguments.get("path") or "")
        self.num_sentences: int | None = None
        self.num_hypotheses = 0
        self.num_marked = 0
        self.bleu: BleuLine | None = None
        self.before_score = b""
        self.size_by_language: dict[str, int] = {}
        self._last_sentence = b""

    def read_sentence(self, number: int, line: bytes) -> None:
        """Take in a line of S-, T-, H-, D- or P-; only the best of several hypotheses counts."""
        self.last_line = number
        if line[:2] == b"H-":
            sentence = line[: line.find(b"\t")]
            if sentence != self._last_sentence:
                self._last_sentence = sentence
                self.num_hypotheses += 1
                self.num_marked += _PIECE.search(line) is not None

    def read_event(self, number: int, line: bytes) -> None:
        """Take in any other line."""
        self.last_line = number
        if self.before_score:
            line, self.before_score = self.before_score + line.lstrip(), b""
        if _BEFORE_SCORE.search(line):
            self.before_score = line.rstrip() + b" "
        elif found := _TRANSLATED.search(line):
            self.num_sentences = int(found[1].replace(b",", b""))
        elif found := DICTIONARY.search(line):
            self.size_by_language.setdefault(found[1].decode(errors="replace"), int(found[2]))
        elif found := _LOADING.search(line):
            self.model_path = found[1].decode(errors="replace")
        elif found := _GENERATE.search(line):
            hypothesis_length = reference_length = 0
            if lengths := _LENGTHS.search(line):
                hypothesis_length, reference_length = int(lengths[1]), int(lengths[2])
            self.bleu = BleuLine(
                line=number,
                subset=found[1].decode(errors="replace"),
                beam_size=int(found[2]),
                name=(found[3] or found[6]).decode(),
                value=float(found[4] or found[7]),
                brevity_penalty=float(found[5] or 1.0),
                hypothesis_length=hypothesis_length,
                reference_length=reference_length,
            )

    @property
    def has_piece_marks(self) -> bool:
        """Whether hypotheses still hold marks of subwords: more of them than a text about such
        marks has.
        """
        return self.num_marked > MIN_PIECE_SHARE * self.num_hypotheses

    @property
    def is_ended(self) -> bool:
        """Whether the BLEU line was seen, the last that fairseq-generate prints."""
        return self.bleu is not None

    def as_log(self, truncated_line: int | None) -> GenerationLog:
        """Return what was read."""
        others = {"arguments", "truncated_line", "languages", "vocabulary_sizes"}
        values = {
            name: getattr(self, name) for name in set(GenerationLog.__struct_fields__) - others
        }
        return GenerationLog(
            **values,
            arguments=dict(self.arguments or {}),
            truncated_line=truncated_line,
            languages=tuple(self.size_by_language),
            vocabulary_sizes=tuple(self.size_by_language.values()),
        )


class _Reader:
    """Passes each line to the entry that it belongs to."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.refusal: Refusal | None = None
        self.mlperf_line = 0  # the first line of MLPerf's logging, 0 without any
        self.json_line = 0  # the first JSON line of another trainer, 0 without any
        self._parts: list[Part] = []
        self._generation: Generation | None = None
        self._generations: list[Generation] = []
        self._averaged: tuple[int, tuple[str, ...]] | None = (
            None  # the line of an averaging, and its files
        )
        self._pending: list[bytes] = []  # the lines of arguments that are not yet closed
        self._pending_line = 0
        self.other_programs: dict[str, None] = {}

    def read(self, number: int, line: bytes) -> None:
        """Take in one line."""
        if (
            b"num_updates=" in line or b'"update": ' in line
        ):  # most lines: statistics within an epoch
            if self._pending:
                self._close_pending(is_forced=True)
            if self._is_fairseq(number, line):
                self._part(number, line).read_inner(number, line)
        elif self._pending:
            self._read_pending(number, line)
        elif b"num_updates" in line or b'{"epoch"' in line or b" valid on '" in line:
            if self._is_fairseq(number, line):
                self._part(number, line).read_statistics(number, line)
        elif line[1:2] == b"-" and _SENTENCE.match(line):
            generation = self._generation
            if generation is None or generation.is_ended:
                generation = self._begin_generation(number, None)
            generation.read_sentence(number, line)
        elif (
            line[:2] != b"  " or b"INFO" in line or b"with beam=" in line
        ):  # else a line of the printed model
            self._read_event(number, line)

    def _is_fairseq(self, number: int, line: bytes) -> bool:
        """Return whether statistics are fairseq's: below a start line, or in fairseq's form.

        The first JSON line of another trainer is noted.
        """
        if self._parts or parse_statistics(line) is not None:
            return True
        self._note_json(number, line)
        return False

    def _note_json(self, number: int, line: bytes) -> None:
        if not self.json_line and not self._parts and _JSON_METRIC.search(line):
            self.json_line = number

    def _part(self, number: int, line: bytes) -> Part:
        """Return the part that statistics belong to; a new one without arguments if none has
        begun.
        """
        if not self._parts:
            self._parts.append(Part(number, None, "", line))
        self._generation = None
        return self._parts[-1]

    def _read_event(self, number: int, line: bytes) -> None:
        if line.startswith(_MLPERF):
            self.mlperf_line = self.mlperf_line or number
        elif line.startswith(b"{"):
            self._note_json(number, line)
        if b"Namespace(" in line or b"{'_name': None, 'common'" in line:
            self._pending, self._pending_line = [line], number
            self._close_pending(is_forced=False)
        elif self._parts and (
            b"done training" in line or b"early stop" in line
        ):  # also after it has translated
            self._parts[-1].read_event(number, line)
        elif b"averaging checkpoints:" in line or b"Finished writing averaged checkpoint" in line:
            self._read_averaging(number, line)
        elif b"] dictionary: " in line and (self._generation is None or self._generation.is_ended):
            if self._parts and self._generation is None:
                self._parts[-1].read_event(number, line)
        elif has_generation_event(line) or (
            self._generation is not None and self._generation.before_score
        ):
            generation = self._generation
            if generation is None or (generation.is_ended and b"loading" in line):
                generation = self._begin_generation(number, None)
            generation.read_event(number, line)
        elif self._parts and self._generation is None and has_event(line):
            self._parts[-1].read_event(number, line)

    def _read_averaging(self, number: int, line: bytes) -> None:
        if found := _AVERAGING.search(line):
            with contextlib.suppress(ValueError, SyntaxError):
                self._averaged = (
                    number,
                    tuple(map(str, ast.literal_eval(found[1].decode(errors="replace")))),
                )
        elif (found := _AVERAGED.search(line)) and self._averaged is not None:
            (first_line, paths), output_path = self._averaged, found[1].decode(errors="replace")
            log = AveragingLog(
                first_line=first_line, last_line=number, input_paths=paths, output_path=output_path
            )
            self.entries.append(log)
            self._averaged = None

    def _read_pending(self, number: int, line: bytes) -> None:
        """Go on with arguments that a terminal wrapped, unless a line of the log begins."""
        is_next = (
            b"num_updates" in line or b'{"epoch"' in line or _LATER_TAG.search(line) is not None
        )
        is_next = is_next or line[:2] in (b"| ", b"  ") or line[-1:] == b"("
        if is_next:
            self._close_pending(is_forced=True)
            self.read(number, line)
            return
        self._pending.append(line)
        num_bytes = sum(map(len, self._pending))
        self._close_pending(
            is_forced=len(self._pending) > MAX_ARGUMENT_LINES or num_bytes > MAX_ARGUMENT_BYTES
        )

    def _close_pending(self, *, is_forced: bool) -> None:
        text = b"".join(self._pending).decode("utf-8", errors="replace")
        found = _ARGUMENTS.search(text.encode())
        text = text[found.start() if found else 0 :]
        if is_open(text) and not is_forced:
            return
        first_line, number = self._pending[0], self._pending_line
        self._pending = []
        if is_open(text):
            self.refusal = self.refusal or Refusal(
                line=number, text="the arguments are cut: their brackets do not close"
            )
            return
        self._begin(number, first_line, parse_arguments(text), is_config="'common'" in text[:40])

    def _begin(
        self, number: int, line: bytes, arguments: ParsedArguments, *, is_config: bool
    ) -> None:
        """Begin a training or a generation, or count another rank of the training that has
        begun.
        """
        if arguments.program == "generate":
            self._begin_generation(number, arguments)
            return
        if arguments.program != "train":
            self.other_programs[arguments.program or OTHER_TOOLKIT] = None
            return
        self._generation = None
        last = self._parts[-1] if self._parts else None
        is_rank = (
            last is not None
            and last.arguments is not None
            and not last.has_statistics
            and last.arguments.digest == arguments.digest
            and last.num_ranks_printed < int(arguments.get("distributed_world_size") or 1)
        )
        if last is not None and is_rank:
            last.num_ranks_printed += 1
            return
        form = "namespace" if _LATER_TAG.search(line) else "print"
        if is_config:
            form = "config"
        self._parts.append(Part(number, arguments, form, line))

    def _begin_generation(self, number: int, arguments: ParsedArguments | None) -> Generation:
        self._generation = Generation(number, arguments)
        self._generations.append(self._generation)
        return self._generation

    def finish(self, num_lines: int, cut_piece: bytes) -> None:
        """Turn what was read into entries; `cut_piece` is the last line if it has no end."""
        if _ENDS_WHOLE.search(cut_piece):
            self.read(num_lines, cut_piece)
        cut_line = num_lines if cut_piece and not _ENDS_WHOLE.search(cut_piece) else None
        if self._pending:
            self._close_pending(is_forced=True)
        is_training_cut = self._generation is None
        self.entries += join_parts(self._parts, cut_line if is_training_cut else None)
        for generation in self._generations:
            is_last = generation is self._generation
            self.entries.append(
                generation.as_log(cut_line if is_last and not generation.is_ended else None)
            )
