"""Reads the log of a training, an averaging or a generation into sections, line by line. The log
may be from fairseq 0.6 to 0.12, from the fork of fairseq, or from this project.

Whether a file is a log is decided by its lines, never by its name. A start line, in which a program
prints its arguments, begins a section. Every other line of a log is a line of statistics, a
sentence of a generation (output of fairseq-generate), a part of the printed model, or a message.
Messages are compared with the templates in templates.csv. Lines of statistics are checked while
they are read, and only a summary is kept, so that memory does not grow with the file.
"""

import ast
import re
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from aiayn.data.text.detokenise import PIECE_PATTERN
from aiayn.facts.arguments import Arguments, is_open, parse_arguments
from aiayn.facts.foreign import find_foreign_form
from aiayn.facts.statistics import MAX_UPDATES, UPDATE, Statistics, is_whole, parse_statistics
from aiayn.facts.symbols import symbols_of_start
from aiayn.facts.templates import match_template, read_templates
from aiayn.facts.text import LogText
from aiayn.facts.types import (
    LogFile,
    Program,
    Refusal,
    Section,
    Value,
    normal_path,
)

MAX_ARGUMENT_LINES = 200  # over which a terminal may have wrapped them
MAX_ARGUMENT_BYTES = 1 << 18
MAX_SAMPLES = 128  # of a longer log every second line is kept, then every fourth, and so on
MAX_LINES_LOOKED_AT = 5000  # for the form of a log that is not fairseq's
# The head of a line: time, level and logger, as fairseq, hydra and Python's default print them.
#   `2026-01-31 10:00:00 | INFO | fairseq.trainer | `
#   `[2026-01-31 10:00:00,123][fairseq.trainer][INFO] - `
#   `INFO:fairseq.trainer:`
# Up to fairseq 0.9 the head is only `| `.
_HEAD = re.compile(
    rb"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[,.]\d+)? \| (\w+) \| ([\w.]+) \| "
    rb"|\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[,.]\d+\]\[([\w.]+)\]\[(\w+)\] - "
    rb"|(DEBUG|INFO|WARNING|ERROR|CRITICAL):([\w.]+):"
)
_LIKE_STATISTICS = re.compile(rb"epoch \d{3}|\{\"epoch\"|\| loss |loss=|nll_loss")
_START = re.compile(rb"Namespace\(|\{'_name': None, 'common'")
# `H-12<tab>-0.53<tab>Ein Hund`. `E-12_3` is a step of an iterative decoder (--retain-iter-history).
_SENTENCE = re.compile(rb"([STHDPAIE])-(\d+)(?:_\d+)?\t")
_PIECE = re.compile(PIECE_PATTERN.encode())
_LIKE_A_SCORE = re.compile(rb"Generate \S+ with beam=")
# A last line without line feed is whole if it ends like one of these lines.
_ENDS_WHOLE = re.compile(
    rb"done training in [\d.]+ seconds$|averaged checkpoint to .*\.pt\.?$|with beam=.*\)$"
    rb"|\{\"epoch\".*\}$|^P-\d+\t.*\d\.\d{4}$"
)
_MODEL_BEGIN = re.compile(rb"\w+\($")
# `    (fc1): Linear(in_features=512, out_features=2048, bias=True)`
# `    (0-5): 6 x TransformerEncoderLayer(`
_MODULE = re.compile(rb"\s+\((\S+)\): (?:(\d+) x )?(\w+)\((.*?)\)?$")
_SIZES = re.compile(rb"(?:in_features=)?(\d+), (?:out_features=)?(\d+)")
_MLPERF = b":::ML"  # begins each line of MLPerf's logging, in all of its versions
# An unknown line with one of these words may affect a number, so it is not ignored.
_SERIOUS = re.compile(
    rb"checkpoint|epoch|optim|encoder|decoder|attention|loss|nll|ppl|bleu|dictionar|examples|samples|model|task|criterion|optimizer"
    rb"|param|train|valid|data|load|frozen|freez|skip|resum|restor|reset|init|weight|update|averag"
    rb"|beam|distill|ensembl|\blr\b|layer|embed|batch|token|sentence|vocab|dropout|prun|quanti|noise",
    re.IGNORECASE,
)
# The same for a line without a logger, which a shell, a module system or a user's script may print.
_SERIOUS_BARE = re.compile(
    rb"num_updates|nll_loss|BLEU4? ?=|with beam=|\bencoder\b|\bdecoder\b|\bBERT\b|teacher|distill"
    rb"|back.?translat|(?:loaded|loading|saved|restor\w+|resum\w+|averag\w+)[^|]*"
    rb"checkpoint|froze|freez|pretrained|warm.?start|model params|dictionary:|examples from"
    rb"|(?:model|task|criterion|optimizer): |skipping|\| epoch ",
    re.IGNORECASE,
)
_LOUD = (b"WARNING", b"WARN", b"ERROR", b"CRITICAL", b"FATAL")
TEMPLATES = read_templates()


def read_log(path: Path, name: str = "") -> LogFile:
    """Read a log file. The facts from the file have the argument `name` as their path.

    If the file is not a fairseq log, the result has no sections, and its field `refusal` states
    which program's log the file is, if this is known.
    """
    text = LogText(path)
    reader = _Reader(name or path.name)
    for number, line in text.lines():
        if line.startswith(_MLPERF):
            # MLPerf's fork of fairseq has a different task, and prints fairseq's lines as well.
            refusal = find_foreign_form(number, line)
            return LogFile(path=reader.path, num_lines=number, refusal=refusal)
        reader.read(number, line)
    reader.finish(text.num_lines, text.cut_piece)
    # A fairseq log may also contain lines of other programs, so these lines are an explanation only
    # for a file without any section.
    refusal = text.fault or reader.refusal
    if refusal is None and not reader.sections:
        refusal = reader.foreign
    return LogFile(
        path=reader.path,
        num_lines=text.num_lines,
        sections=() if text.fault else tuple(reader.sections),
        refusal=refusal,
    )


class _Reader:
    """Assigns each line of a log to a section (the lines that one start of a program printed)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.sections: list[Section] = []
        self.refusal: Refusal | None = None
        self.foreign: Refusal | None = None
        self._section: Section | None = None
        self._inner_forms: set[bytes] = set()  # whole lines within epochs, without their digits
        self._pending: list[bytes] = []  # the lines of arguments that are not yet closed
        self._pending_line = 0
        self._is_in_model = False
        self._is_other_program = False
        self._last_sentence = b""
        self._num_looked_at = 0

    def read(self, number: int, line: bytes) -> None:
        """Read the next line."""
        if self._pending:
            self._read_pending(number, line)
        # Cheap tests come first, because most lines of a log are statistics or sentences.
        elif b"num_updates" in line or b'{"epoch"' in line:
            self._read_statistics(number, line)
        elif _SENTENCE.match(line):
            self._read_sentence(number, line)
        else:
            self._read_message(number, line)

    # Statistics

    def _read_statistics(self, number: int, line: bytes) -> None:
        if self._is_other_program:
            return
        # Lines within epochs are most of a log. If a line differs from an earlier line in digits
        # only, it is whole as well, and only the lines that are kept as samples are parsed.
        form_of_line = line.translate(None, b"0123456789")
        if form_of_line in self._inner_forms:
            section = self._of_program("train", number)
            if section.first_update is not None and (section.num_inner + 1) % section.sample_step:
                section.last_line = number
                _keep_time(section, number, line)
                update = UPDATE.search(line)
                _count_inner(section, number, int(update[1]) if update else 0)
                return
        statistics = parse_statistics(line)
        # A user's own print may contain `num_updates`. It is a torn line only if it looks like
        # fairseq's.
        is_like = self._section is not None and _LIKE_STATISTICS.search(line) is not None
        if statistics is None and not is_like:
            self._read_message(number, line)
            return
        section = self._of_program("train", number)
        section.last_line = number
        _keep_time(section, number, line)
        if statistics is None or not is_whole(line):
            section.mention("broken_lines", "a torn line of statistics", number, 1)
            return
        # A start has one --log-format, so lines of a second form were pasted.
        form = "json" if b'{"epoch"' in line else "simple"
        section.log_format = section.log_format or form
        if section.log_format != form:
            text = f"a line of {form} in a log of {section.log_format}"
            section.mention("conflict", text, number)
        statistics = replace(statistics, line=number)
        _check_perplexity(section, statistics)
        if statistics.kind == "inner":
            self._inner_forms.add(form_of_line)
            _keep_inner(section, statistics)
        else:
            _keep_statistics(section, statistics)

    # Translations

    def _read_sentence(self, number: int, line: bytes) -> None:
        if self._is_other_program:
            return
        section = self._of_program("generate", number)
        section.last_line = number
        match = _SENTENCE.match(line)
        if match is None or match[1] != b"H" or match[2] == self._last_sentence:
            return  # other hypotheses of a sentence follow the best
        # --nbest prints several hypotheses of a sentence. The first is the best.
        self._last_sentence = match[2]
        section.num_hypotheses += 1
        section.num_marked += _PIECE.search(line, match.end()) is not None

    def _section_of_score(self, section: Section, number: int, score: dict[str, Value]) -> Section:
        """Return the section that a line with a BLEU score is part of. If the current section
        already has a different score, return a new section without arguments.
        """
        # sacreBLEU may print its signature behind the name.
        score["bleu_name"] = str(score["bleu_name"]).partition("|")[0]
        earlier = section.value("bleu"), section.value("precisions")
        # A copy of the line is harmless. For a second, different score the arguments are not known.
        if earlier[0] is not None and earlier != (score["bleu"], score["precisions"]):
            section.mention("conflict", "a second score below one start", number)
            section = self._begin("generate", number, None, b"")
        return section

    # Messages

    def _read_message(self, number: int, line: bytes) -> None:
        # The printed model is the only text with indentation, and ends with a bracket.
        if self._is_in_model:
            if line.startswith((b" ", b"\t", b")")):
                self._read_module(number, line)
                return
            self._is_in_model = False
        if _START.search(line):
            self._pending, self._pending_line = [line], number
            self._close_pending(is_forced=False)
            return
        if _LIKE_A_SCORE.search(line) and not self._is_other_program:
            # A score may be pasted without the lines above it.
            self._of_program("generate", number)
        # The text after the head is the message, which templates.csv describes.
        head = _HEAD.match(line)
        message = line[head.end() :] if head else line.removeprefix(b"| ")
        # Each form of the head has its own groups.
        level = (head[2] or head[6] or head[7]) if head else b""
        # This line begins an averaging, also if the arguments before it are missing.
        if b"averaging checkpoints:" in message:
            self._begin("average", number, None, b"")
        section = self._section
        # Before any start the lines show which program wrote them.
        if section is None:
            self._look_at_form(number, line)
            return
        section.last_line = number
        if head:
            _keep_time(section, number, line)
        if _MODEL_BEGIN.fullmatch(message) and section.program == "train":
            self._is_in_model = True
            section.state("printed_model", message[:-1].decode(), number)
            return
        self._read_known(section, number, line, message, level, bool(head) or line[:2] == b"| ")

    def _read_known(
        self,
        section: Section,
        number: int,
        line: bytes,
        message: bytes,
        level: bytes,
        is_tagged: bool,
    ) -> None:
        """Add the facts in a message of a log to its section if a template of templates.csv matches
        the message. If no template matches, add the message as an unknown line.
        """
        text = message.decode("utf-8", errors="replace").strip()
        match = match_template(text, TEMPLATES)
        if match is None:
            if text:
                # A line with a head comes from fairseq or a plug-in, so more words are serious
                # there.
                pattern = _SERIOUS if is_tagged else _SERIOUS_BARE
                is_serious = level in _LOUD or pattern.search(message) is not None
                _unknown(section, number, line, is_serious=is_serious)
            return
        kind, named = match
        if kind == "harmless":
            return
        # `No` or `no`, depending on the version. The training begins at update 0.
        if "o existing checkpoint found" in text:
            named = {"resumed_updates": 0}
        if "bleu" in named:
            section = self._section_of_score(section, number, named)
        # Old versions state the split only in the name of the file, such as train.en-de.en.
        if "num_examples" in named:
            path = str(named["data_path"])
            in_path = path.replace("\\", "/").rpartition("/")[2].partition(".")[0]
            split = named.get("split") or in_path
            named = {f"pairs_{split}": named["num_examples"], "data_path": path}
        for quantity, value in named.items():
            section.state(quantity, value, number)
        # The last line of an averaging. Lines after it come from the shell.
        if "output" in named:
            self._section = None

    def _read_module(self, number: int, line: bytes) -> None:
        """Add facts from a line of the printed model: about the class of a module, or the size of a
        matrix.
        """
        section = self._section
        if line.startswith(b")"):
            self._is_in_model = False
        match = _MODULE.match(line)
        if section is None or match is None:
            if section is not None and line.strip() not in (b")", b"("):
                _unknown(section, number, line, is_serious=True)
            return
        names = match[3].decode()
        # A model has few classes and hundreds of modules.
        if names not in section.values("module"):
            section.state("module", names, number)
        # Sizes are printed as `512, 2048` by embeddings, and with their names by linear layers.
        sizes = _SIZES.match(match[4])
        if names in ("Linear", "Embedding", "QuantLinear") and sizes:
            text = f"{names} {int(sizes[1])} x {int(sizes[2])}"
            if text not in section.values("matrix"):
                section.state("matrix", text, number)
        # PyTorch 2 prints equal layers as one line with their number, older versions print one line
        # for each layer.
        if names.startswith(("TransformerEncoderLayer", "TransformerDecoderLayer")):
            section.state("layer_" + names[11:18].lower(), int(match[2] or 1), number)

    def _look_at_form(self, number: int, line: bytes) -> None:
        self._num_looked_at += 1
        if self.foreign is None and self._num_looked_at <= MAX_LINES_LOOKED_AT:
            self.foreign = find_foreign_form(number, line)

    # Starts

    def _read_pending(self, number: int, line: bytes) -> None:
        """Append a line to unfinished arguments, which a terminal wrapped over several lines,
        unless the line begins a new entry of the log.
        """
        # A line of the log ends arguments that were never closed.
        is_next = b"num_updates" in line or _HEAD.match(line) is not None
        is_next = is_next or line[:2] in (b"| ", b"  ") or line[-1:] == b"("
        if is_next:
            self._close_pending(is_forced=True)
            self.read(number, line)
            return
        self._pending.append(line)
        # Limits, because brackets that never close would swallow the rest of the log.
        num_bytes = sum(map(len, self._pending))
        is_long = len(self._pending) > MAX_ARGUMENT_LINES or num_bytes > MAX_ARGUMENT_BYTES
        self._close_pending(is_forced=is_long)

    def _close_pending(self, *, is_forced: bool) -> None:
        first_line, number = self._pending[0], self._pending_line
        content = b"".join(self._pending)
        match = _START.search(content)
        # The head of the line is not part of the arguments.
        text = content[match.start() if match else 0 :].decode("utf-8", errors="replace")
        if is_open(text) and not is_forced:
            return
        self._pending = []
        try:
            arguments = parse_arguments(text)
        except ValueError as error:
            self.refusal = self.refusal or Refusal(line=number, text=str(error))
            self._begin("train", number, None, first_line)  # lines below have no arguments
            return
        self._begin_program(number, arguments, first_line)

    def _begin_program(self, number: int, arguments: Arguments, line: bytes) -> None:
        # fairseq-validate, -preprocess and others: the lines below are not read as a training's.
        if not arguments.program:
            self._section, self._is_other_program = None, True
            return
        last = self._section
        if (
            last is not None
            and last.program == arguments.program == "train"
            and last.arguments == arguments.by_key()
            and last.first_update is None
            and last.value("num_parameters") is None
        ):
            return  # another rank of the same start
        program: Program = "train" if arguments.program == "train" else "generate"
        self._begin(program, number, arguments, line)

    def _begin(
        self, program: Program, number: int, arguments: Arguments | None, line: bytes
    ) -> Section:
        section = Section(path=self.path, program=program, line=number, last_line=number)
        self._section, self._is_in_model, self._last_sentence = section, False, b""
        self._is_other_program = False
        self.sections.append(section)
        if arguments is not None:
            head = _HEAD.match(line)
            form = "namespace" if head else "print"
            section.form = "config" if arguments.is_config else form
            section.arguments = arguments.by_key()
            values = section.arguments
            section.save_folder = normal_path(values.get("save_dir") or "checkpoints")
            section.dev_subset = str(values.get("valid_subset") or "valid").split(",")[0]
            for key, value in arguments.pairs:
                section.state(f"{program}.{key}", value)
                # Two groups of a config may state one key. fairseq's group `bmuf` has its own
                # copies of the keys `distributed_*`, which are not compared.
                if value != values[key] and not key.startswith("distributed_"):
                    section.state("conflict", f"{key} is {values[key]} and {value}")
            _keep_time(section, number, line)
        return section

    def _of_program(self, program: Program, number: int) -> Section:
        """Return the section for a line that a program printed. If the current section is of a
        different program, begin a new section without arguments.
        """
        section = self._section
        if section is None or section.program != program:
            section = self._begin(program, number, None, b"")
        return section

    def finish(self, num_lines: int, cut_piece: bytes) -> None:
        """End the last section of a log. The argument `cut_piece` is the last line of the log if
        this line does not end with a line feed.
        """
        # A log that was pasted often lacks only the last line feed.
        if cut_piece and _ENDS_WHOLE.search(cut_piece):
            self.read(num_lines, cut_piece)
        elif cut_piece and self._section is not None:
            self._section.cut_line = num_lines
        if self._pending:
            self._close_pending(is_forced=True)
        for section in self.sections:
            section.language_pair = _language_pair(section)
            if section.program == "train":
                section.symbols = symbols_of_start(section)
            elif section.program == "average":
                section.averaged_paths = _averaged_paths(section)
        # Cut arguments without anything below them are a refusal, and not a training.
        self.sections = [
            section
            for section in self.sections
            if section.arguments or section.facts or _has_any(section)
        ]


def _language_pair(section: Section) -> str:
    """Return the language pair from the arguments, or else from the order in which the log lists
    the dictionaries.
    """
    arguments = [section.arguments.get(key) for key in ("source_lang", "target_lang")]
    languages = list(dict.fromkeys(section.values("language")))
    # fairseq prints the dictionary of the source first, then the dictionary of the target.
    printed = languages[:2] if len(languages) > 1 else [None, None]
    pair = [str(value or other or "?") for value, other in zip(arguments, printed, strict=True)]
    return "" if pair == ["?", "?"] else "-".join(pair)


def _averaged_paths(section: Section) -> list[str]:
    """Return the paths of the checkpoints that were averaged. The list is empty if the line of the
    log with these paths is incomplete.
    """
    try:
        # fairseq's script prints a Python list. `literal_eval` does not execute code.
        paths = ast.literal_eval(str(section.value("inputs")))
    except (ValueError, SyntaxError):
        return []
    return list(map(normal_path, paths)) if isinstance(paths, list | tuple) else []


def _has_any(section: Section) -> bool:
    return bool(section.last_update or section.num_hypotheses)


def _unknown(section: Section, number: int, line: bytes, *, is_serious: bool) -> None:
    """Record an unknown line of a log as a fact. If unknown lines of this kind are not serious,
    only the first is recorded.
    """
    text = line[:200].decode("utf-8", errors="replace").strip()
    if is_serious:
        section.mention("unknown_line", text, number)
    else:
        section.mention("other_lines", f"the first {text[:80]!r}", number, 1)


def _keep_time(section: Section, number: int, line: bytes) -> None:
    """Keep the clock time of a line of the log, if the line has a time. If the time does not exist,
    or the date is before the date of an earlier line, add a conflict.
    """
    head = _HEAD.match(line)
    time = (head[1] or head[4]) if head else None
    if time:
        newest = time.decode().replace("T", " ")
        try:
            datetime.fromisoformat(newest)
        except ValueError:
            section.mention("conflict", f"the clock shows {newest}", number)
            return
        # Days only, because the lines of several ranks may be out of order by seconds.
        if newest[:10] < section.last_time[:10]:
            text = f"the clock goes back from {section.last_time}"
            section.mention("conflict", text, number)
        section.last_time = newest
        section.first_time = section.first_time or newest


def _count_inner(section: Section, number: int, update: int) -> bool:
    """Count a line of statistics within an epoch, and keep its update number. Return False if the
    number cannot be an update number.
    """
    if not 0 < update < MAX_UPDATES:
        section.mention("broken_lines", "a torn line of statistics", number, 1)
        return False
    # Within one start, updates only grow. A smaller number is from a different training.
    if update < section.last_update:
        text = f"update {update:,} follows update {section.last_update:,}"
        section.mention("conflict", text, number)
    section.last_update = max(section.last_update, update)
    section.num_inner += 1
    return True


def _keep_inner(section: Section, statistics: Statistics) -> None:
    """Count a line of statistics within an epoch. Keep the numbers of only one line in every
    `sample_step` lines.
    """
    if not _count_inner(section, statistics.line, statistics.update):
        return
    if section.first_update is None:
        section.first_update, section.first_epoch = statistics.update, statistics.epoch
    elif section.num_inner % section.sample_step:
        return
    section.samples.append(statistics)
    if len(section.samples) >= MAX_SAMPLES:
        # The second of every two is kept: the number of its line is a multiple of the doubled step.
        section.samples = section.samples[1::2]
        section.sample_step *= 2


def _check_perplexity(section: Section, statistics: Statistics) -> None:
    """Add a conflict if the perplexity in a line of statistics is not 2^loss, within the precision
    of the digits in the log.

    fairseq computes the perplexity from nll_loss, if present, and prints the perplexity with two
    decimals (up to version 0.12).
    """
    values = statistics.value_by_name
    bits = values.get("nll_loss", values.get("loss"))
    ppl = values.get("ppl")
    if bits is None or ppl is None or not 0 <= bits < 30:
        return
    # The bits have three decimals, which is a relative error of 0.00035 of the perplexity. The
    # perplexity has two decimals.
    slack = 0.0051 + 0.0007 * 2.0**bits
    if abs(2.0**bits - ppl) > slack:
        section.mention("conflict", "perplexity and loss contradict each other", statistics.line)


def _keep_statistics(section: Section, statistics: Statistics) -> None:
    """Keep the statistics of a validation or of the end of an epoch. Add a conflict if an earlier
    line has different numbers for the same validation or epoch.
    """
    # Old versions print some lines without `num_updates`. Such a line belongs to the newest update.
    update = statistics.update or section.last_update
    statistics = replace(statistics, update=update)
    if section.first_update is None:
        section.first_update, section.first_epoch = update, statistics.epoch
    section.last_update = max(section.last_update, update)
    if statistics.kind == "valid":
        earlier = section.validations.setdefault((statistics.subset, update), statistics)
        subject = f"the validation on {statistics.subset!r} at update {update:,}"
    else:
        earlier = section.epochs.setdefault(statistics.epoch, statistics)
        subject = f"the end of epoch {statistics.epoch}"
    if earlier.losses != statistics.losses:
        text = f"{subject} has other numbers than line {earlier.line}: two trainings"
        section.mention("conflict", text, statistics.line)
