"""Reads one log into `LogFile`, line by line: of fairseq 0.9 to 0.12, of its fork, or of ours.

The lines decide the kind of the file, never its name. A start line prints fairseq's arguments. A
start line of fairseq-train begins a part of a training. A start line of fairseq-generate, whose
arguments name a `path`, begins a generation.
"""

import re
from pathlib import Path

import msgspec

from aiayn.data.text.detokenise import PIECE_PATTERN
from aiayn.facts.statistics import parse_statistics
from aiayn.facts.text import LogText
from aiayn.facts.types import Refusal
from aiayn.logs.arguments import ParsedArguments, is_open, parse_arguments
from aiayn.logs.training import (
    DICTIONARY,
    EVENT_WORDS,
    join_starts,
    read_event,
    read_inner,
    read_statistics,
    whole_number,
)
from aiayn.logs.types import (
    Argument,
    AveragingLog,
    GenerationLog,
    LogEntry,
    LogFile,
    Start,
)

_ARGUMENTS = re.compile(rb"Namespace\(|\{'_name': None, 'common'")
_LATER_TAG = re.compile(rb"\| INFO \||\[INFO\]|^INFO:")
_SENTENCE = re.compile(rb"[STHDPAIE]-\d+(?:_\d+)?\t")
# Lines that show by their last characters that nothing is missing.
_ENDS_WHOLE = re.compile(
    rb"done training in [\d.]+ seconds$|with beam=.*\)$|\{\"epoch\".*\}$|^P-\d+\t.*\d\.\d{4}$"
)
# The two lines of average_checkpoints.py.
_AVERAGING = re.compile(r"averaging checkpoints: +(\[.*\])")
_QUOTED = re.compile(r"""(['"])(.+?)\1""")
_AVERAGED = re.compile(r"Finished writing averaged checkpoint to (\S+?)\.?\s*$")
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
# Words of the lines that `_read_generation_event` reads; a quick look at all others.
_GENERATION_WORDS = re.compile(rb"Translated |with beam=|loading model\(s\)|\] dictionary: ")
_PIECE = re.compile(PIECE_PATTERN.encode())
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
    refusal = text.fault or reader.mlperf or (None if reader.entries else reader.other_trainer)
    if refusal is not None:
        return LogFile(num_lines=text.num_lines, refusal=refusal)
    return LogFile(
        num_lines=text.num_lines,
        entries=tuple(sorted(reader.entries, key=lambda entry: entry.first_line)),
        refusal=reader.refusal,
        other_programs=tuple(reader.other_programs),
    )


def _read_generation_event(log: GenerationLog, number: int, line: bytes) -> None:
    """Take in a line of fairseq-generate that is not a sentence's."""
    log.last_line = number
    if found := _TRANSLATED.search(line):
        log.num_sentences = whole_number(found[1])
    elif found := DICTIONARY.search(line):
        log.size_by_language.setdefault(found[1].decode(errors="replace"), int(found[2]))
    elif found := _LOADING.search(line):
        log.model_path = found[1].decode(errors="replace")
    elif found := _GENERATE.search(line):
        log.bleu_line, log.subset = number, found[1].decode(errors="replace")
        log.beam_size, log.bleu_name = int(found[2]), (found[3] or found[6]).decode()
        log.bleu, log.brevity_penalty = float(found[4] or found[7]), float(found[5] or 1.0)
        if lengths := _LENGTHS.search(line):
            log.hypothesis_length, log.reference_length = int(lengths[1]), int(lengths[2])


def _has_another_score(log: GenerationLog, line: bytes) -> bool:
    """Return whether a line has a score that differs from the score which the log has already."""
    found = _GENERATE.search(line)
    return found is not None and log.bleu not in (None, float(found[4] or found[7]))


class _Reader:
    """Passes each line to the entry that it belongs to."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.refusal: Refusal | None = None
        # NVIDIA's submissions to MLPerf also print fairseq's lines, for another task: their files
        # are refused whatever else they hold, files of other trainers if they hold nothing else.
        self.mlperf: Refusal | None = None
        self.other_trainer: Refusal | None = None
        self._starts: list[Start] = []
        self._generation: GenerationLog | None = None  # the generation that lines belong to
        self._last_sentence = b""
        self._before_score = b""  # the beginning of a score that a terminal has broken
        self._averaging: AveragingLog | None = None  # which has not ended
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
                read_inner(self._start(number, line), number, line)
        elif self._pending:
            self._read_pending(number, line)
        elif b"num_updates" in line or b'{"epoch"' in line or b" valid on '" in line:
            if self._is_fairseq(number, line):
                read_statistics(self._start(number, line), number, line)
        elif line[1:2] == b"-" and _SENTENCE.match(line):
            self._read_sentence(number, line)
        elif (
            line[:2] != b"  " or b"INFO" in line or b"with beam=" in line
        ):  # else a line of the printed model
            self._read_event(number, line)

    def _read_sentence(self, number: int, line: bytes) -> None:
        """Take in a line of S-, T-, H-, D- or P-; only the best of several hypotheses counts."""
        log = self._generation
        if log is None or log.bleu is not None:
            log = self._begin_generation(number, {})
        log.last_line = number
        if line[:2] == b"H-":
            sentence = line[: line.find(b"\t")]
            if sentence != self._last_sentence:
                self._last_sentence = sentence
                log.num_hypotheses += 1
                log.num_marked += _PIECE.search(line) is not None

    def _is_fairseq(self, number: int, line: bytes) -> bool:
        """Return whether statistics are fairseq's: below a start line, or in fairseq's form.

        The first JSON line of another trainer is noted.
        """
        if self._starts or parse_statistics(line) is not None:
            return True
        self._note_json(number, line)
        return False

    def _note_json(self, number: int, line: bytes) -> None:
        if not self.other_trainer and not self._starts and _JSON_METRIC.search(line):
            self.other_trainer = Refusal(
                line=number,
                text="JSON lines of another trainer, not a log of fairseq",
                next_step="give its translations to `aiayn score`, and its BLEU to `aiayn explain`",
            )

    def _start(self, number: int, line: bytes) -> Start:
        """Return the start that statistics belong to; a new one without arguments if none has
        begun.
        """
        if not self._starts:
            self._starts.append(Start(line=number, last_line=number, first_text=line))
        self._generation = None
        return self._starts[-1]

    def _read_event(self, number: int, line: bytes) -> None:
        generation = self._generation
        is_generated = generation is not None and generation.bleu is None
        if line.startswith(_MLPERF):
            self.mlperf = self.mlperf or Refusal(
                line=number,
                text="a result file of MLPerf, which is not read",
                next_step=(
                    "published BLEU of its runs is in paper_tables/published/public_seeds.csv"
                ),
            )
        elif line.startswith(b"{"):
            self._note_json(number, line)
        if b"Namespace(" in line or b"{'_name': None, 'common'" in line:
            self._pending, self._pending_line = [line], number
            self._close_pending(is_forced=False)
        elif self._starts and (
            b"done training" in line or b"early stop" in line
        ):  # also after it has translated
            read_event(self._starts[-1], number, line)
        elif b"averaging checkpoints:" in line or b"Finished writing averaged checkpoint" in line:
            self._read_averaging(number, line)
        elif b"] dictionary: " in line and not is_generated:
            if self._starts and generation is None:
                read_event(self._starts[-1], number, line)
        elif _GENERATION_WORDS.search(line) or (generation is not None and self._before_score):
            if generation is None or (generation.bleu is not None and b"loading" in line):
                generation = self._begin_generation(number, {})
            elif _has_another_score(generation, line):
                # A second score below one start line: of another subset, or of another run.
                path = generation.model_path
                generation = self._begin_generation(number, generation.arguments)
                generation.model_path = path
            line, self._before_score = self._before_score + line.lstrip(), b""
            if _BEFORE_SCORE.search(line):
                self._before_score = line.rstrip() + b" "
            _read_generation_event(generation, number, line)
        elif self._starts and generation is None and EVENT_WORDS.search(line):
            read_event(self._starts[-1], number, line)

    def _read_averaging(self, number: int, line: bytes) -> None:
        text = line.decode(errors="replace")
        if found := _AVERAGING.search(text):
            paths = tuple(path for _, path in _QUOTED.findall(found[1]))
            self._averaging = AveragingLog(first_line=number, input_paths=paths)
        elif (found := _AVERAGED.search(text)) and self._averaging is not None:
            ended = msgspec.structs.replace(self._averaging, output_path=found[1])
            self.entries.append(ended)
            self._averaging = None

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
        self._begin(number, first_line, parse_arguments(text))

    def _begin(self, number: int, line: bytes, arguments: ParsedArguments) -> None:
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
        last = self._starts[-1] if self._starts else None
        if (
            last is not None
            and last.first_update is None
            and last.arguments_digest == arguments.digest
            and last.num_ranks < int(arguments.get("distributed_world_size") or 1)
        ):
            last.num_ranks += 1
            return
        form = "namespace" if _LATER_TAG.search(line) else "print"
        start = Start(
            line=number,
            last_line=number,
            first_text=line,
            last_text=line,
            form="config" if arguments.is_config else form,
            arguments=arguments,
            arguments_digest=arguments.digest,
            num_ranks=1,
        )
        self._starts.append(start)

    def _begin_generation(self, number: int, arguments: dict[str, Argument]) -> GenerationLog:
        self._generation = GenerationLog(
            first_line=number,
            last_line=number,
            arguments=arguments,
            model_path=str(arguments.get("path") or ""),
            subset=str(arguments.get("gen_subset") or ""),
        )
        self._last_sentence = self._before_score = b""
        self.entries.append(self._generation)
        return self._generation

    def finish(self, num_lines: int, cut_piece: bytes) -> None:
        """Turn what was read into entries; `cut_piece` is the last line if it has no end."""
        cut_line = num_lines if cut_piece else None
        if _ENDS_WHOLE.search(cut_piece):
            self.read(num_lines, cut_piece)
            cut_line = None
        if self._pending:
            self._close_pending(is_forced=True)
        if self._generation is None:
            self.entries += join_starts(self._starts, cut_line)
        else:
            self.entries += join_starts(self._starts, None)
            if self._generation.bleu is None:
                self._generation.truncated_line = cut_line
