"""Reads what `fairseq-generate` prints: the BLEU line, how many sentences, which files.

0.9 prints `| Translated 3003 sentences (...)` and `| Generate test with beam=4: BLEU4 = ...` to the end of its lines of
hypotheses; later versions log the first, with thousands' commas, and print the second bare. Scores by sacreBLEU read
`BLEU = 27.3 58.3/32.1/... (BP = 1.000 ratio = ... hyp_len = ... ref_len = ...)`.
"""

import re

from analysis.logs.arguments import ParsedArguments
from analysis.logs.types import BleuLine, GenerationLog

_TRANSLATED = re.compile(rb"Translated ([\d,]+) sentences \(")
_GENERATE = re.compile(rb"Generate (\S+) with beam=(\d+): (BLEU4?)(?:\|[^=]*)? = ([\d.]+),? .*\(BP ?= ?([\d.]+),? .*\)")
_LENGTHS = re.compile(rb"(?:syslen|hyp_len) ?= ?(\d+),? (?:reflen|ref_len) ?= ?(\d+)")
_LOADING = re.compile(rb"loading model\(s\) from (\S+)")
_PIECE = re.compile("(?:@@ |@@$|\u2581)".encode())


def has_generation_event(line: bytes) -> bool:
    """Return whether a line may be one that `Generation.read_event` reads."""
    return b"Translated " in line or b"with beam=" in line or b"loading model(s)" in line


class Generation:
    """One run of fairseq-generate, filled line by line."""

    def __init__(self, line: int, arguments: ParsedArguments | None) -> None:
        self.line = self.last_line = line
        self.arguments = arguments
        self.model_path = "" if arguments is None else str(arguments.get("path") or "")
        self.num_sentences: int | None = None
        self.num_hypotheses = 0
        self.has_piece_marks = False
        self.bleu: BleuLine | None = None
        self._last_sentence = b""

    def read_sentence(self, number: int, line: bytes) -> None:
        """Take in a line of S-, T-, H-, D- or P-; only the best of several hypotheses counts."""
        self.last_line = number
        if line[:2] == b"H-":
            sentence = line[: line.find(b"\t")]
            if sentence != self._last_sentence:
                self._last_sentence = sentence
                self.num_hypotheses += 1
                self.has_piece_marks = self.has_piece_marks or _PIECE.search(line) is not None

    def read_event(self, number: int, line: bytes) -> None:
        """Take in any other line."""
        self.last_line = number
        if found := _TRANSLATED.search(line):
            self.num_sentences = int(found[1].replace(b",", b""))
        elif found := _LOADING.search(line):
            self.model_path = found[1].decode(errors="replace")
        elif found := _GENERATE.search(line):
            lengths = _LENGTHS.search(line)
            self.bleu = BleuLine(
                line=number,
                subset=found[1].decode(errors="replace"),
                beam_size=int(found[2]),
                name=found[3].decode(),
                value=float(found[4]),
                brevity_penalty=float(found[5]),
                hypothesis_length=int(lengths[1]) if lengths else 0,
                reference_length=int(lengths[2]) if lengths else 0,
            )

    @property
    def is_ended(self) -> bool:
        """Whether the BLEU line was seen, the last that fairseq-generate prints."""
        return self.bleu is not None

    def as_log(self, truncated_line: int | None) -> GenerationLog:
        """Return what was read."""
        return GenerationLog(
            first_line=self.line,
            last_line=self.last_line,
            arguments=dict(self.arguments or {}),
            model_path=self.model_path,
            num_sentences=self.num_sentences,
            num_hypotheses=self.num_hypotheses,
            has_piece_marks=self.has_piece_marks,
            bleu=self.bleu,
            truncated_line=truncated_line,
        )
