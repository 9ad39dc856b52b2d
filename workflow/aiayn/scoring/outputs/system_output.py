"""Reads translations or references from a file of any common kind: plain lines, .sgm, gzip, or the
output of fairseq-generate or fairseq-interactive.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from aiayn.data.sources.joining import read_segments
from aiayn.errors import ScoreError
from aiayn.packed import MAX_TEXT_BYTES, exists, read_bounded

NUM_FULL, NUM_FILTERED = 3003, 2737  # lines of newstest2014, and of what sacreBLEU calls wmt14

_BYTE_ORDER_MARK = "\ufeff"
# A launcher, a container or a paste may add a prefix: a rank, a time, a name, an indentation.
# Example lines: `D-12<tab>-0.53<tab>A dog runs.`, and with a prefix `[rank0]: H-12<tab>-0.53<tab>A
# dog runs .`.
_SENTENCE = re.compile(r"(?:[^\t]{0,80}[ :|>]|\t+)?([STHD])-(\d+)\t(.*)")
_SGM = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE[^>]*>\s*)?<(?:srcset|refset|tstset|mteval)\b",
    re.IGNORECASE,
)


class SystemOutput(NamedTuple):
    """The lines of translations or references in a file. If the file is a log of fairseq-generate,
    `references` are its T- lines, otherwise None.
    """

    path: str
    lines: list[str]
    kind: Literal["lines", "sgm", "generate log"]
    references: list[str] | None = None
    sha256: str = ""  # of the file's unpacked bytes
    has_several: bool = False  # whether sentences occur twice: the log of two decodings


def read_output(path: Path) -> SystemOutput:
    """Return the lines of a plain text, the segments of an .sgm file, or the best hypotheses of a
    fairseq-generate log.

    A file that is compressed by gzip or xz is decompressed. A byte order mark at the beginning of
    the text is removed. Only LF ends a line.

    Raises:
        ScoreError: if the file is absent, empty, not UTF-8, or binary. The message contains file
            and line.
        FileError: if the file is incomplete, too large, or not a regular file.
    """
    text = _read_text(path)
    sha256 = hashlib.sha256(text.encode("utf-8")).hexdigest()
    if _SGM.match(text):
        lines = list(read_segments(text, str(path)))
        if not lines:
            raise ScoreError(
                f"{path}: an sgm file without <seg>; expected one a sentence; is it cut?"
            )
        return SystemOutput(str(path), lines, "sgm", sha256=sha256)
    lines = text.removesuffix("\n").split("\n")
    if any(match[1] != "S" for line in lines if (match := _SENTENCE.match(line))):
        return generated_output(lines, str(path))._replace(sha256=sha256)
    return SystemOutput(str(path), lines, "lines", sha256=sha256)


def _read_text(path: Path) -> str:
    if not exists(path):
        raise ScoreError(f"{path}: no such file; give one line a segment, UTF-8")
    # Read once: a path may be a pipe.
    content = read_bounded(path, MAX_TEXT_BYTES)
    wrong = content.find(0)  # text has no NUL, UTF-16 has
    try:
        text = content.decode("utf-8").removeprefix(_BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        wrong = error.start
    if wrong >= 0:
        line = content.count(b"\n", 0, wrong) + 1
        raise ScoreError(
            f"{path}:{line}: byte {wrong}, {content[wrong]:#04x}, is not UTF-8 text, one line a"
            " segment; is the file cut or binary? Else convert it: iconv -f ITS_ENCODING -t UTF-8"
        )
    if not text.strip():
        raise ScoreError(f"{path}: empty; expected one line a segment")
    return text


def generated_output(lines: Sequence[str], path: str) -> SystemOutput:
    """Return the best hypothesis of each sentence in a log of fairseq-generate, in the order of the
    source sentences.

    Raises:
        ScoreError: if the log has no hypothesis for a sentence that comes before the last sentence
            in the source.
    """
    # The first line of each sentence by kind: S source, T target, H hypothesis, D detokenised.
    sentences: dict[str, dict[int, str]] = {kind: {} for kind in "STHD"}
    num_printed = 0  # of sources and targets: a decoding prints each once, n-best lists included
    for line in lines:
        if match := _SENTENCE.match(line):
            kind, number, text = match.groups()
            num_printed += kind in "ST"
            # H and D lines have the log-probability before the text, S and T lines do not.
            text = text if kind in "ST" else text.partition("\t")[2]
            sentences[kind].setdefault(int(number), text)
    # Detokenised lines (D) are plain text, as the definitions need. A log without them has only
    # tokens.
    targets = sentences["T"]
    chosen = sentences["D"] or sentences["H"] or targets
    # Sentences are numbered from 0 in the order of the source. A gap means that a score would
    # compare different test sets.
    missing = sorted(set(range(max(chosen, default=-1) + 1)) - set(chosen))
    if missing:
        raise ScoreError(
            f"{path}: a fairseq-generate log without the hypotheses of {len(missing)} of"
            f" {max(chosen) + 1} sentences, the first H-{missing[0]}; expected every sentence; is"
            " it cut, or of one shard, or were long sentences skipped?"
        )
    numbers = sorted(chosen)
    return SystemOutput(
        path,
        [chosen[number] for number in numbers],
        "generate log",
        [targets[number] for number in numbers] if chosen.keys() <= targets.keys() else None,
        has_several=num_printed > len(sentences["S"]) + len(targets),
    )


def check_num_lines(output: SystemOutput, num_references: int, references_name: str) -> None:
    """Check that the numbers of hypotheses and references are equal.

    Raises:
        ScoreError: if the numbers of hypotheses and references differ. The message contains both
            numbers and the likely reason.
    """
    num_lines = len(output.lines)
    if num_lines == num_references:
        return
    # The most frequent reasons for a different number of lines.
    hint = "is it cut, or of another test set?"
    if num_lines > num_references and not any(
        line.strip() for line in output.lines[num_references:]
    ):
        hint = "the extra lines are empty lines at its end: delete them"
    elif {num_lines, num_references} == {NUM_FILTERED, NUM_FULL}:
        hint = (
            f"newstest2014 has {NUM_FULL:,} lines: --testset newstest2014; the filtered one"
            f" {NUM_FILTERED:,}: --testset newstest2014_filtered"
        )
    elif num_lines % num_references == 0:
        hint = f"is it a list of the {num_lines // num_references} best of each?"
    raise ScoreError(
        f"{output.path}: {num_lines:,} lines, {references_name} has {num_references:,}; expected"
        f" one line a segment in both, split at LF alone; {hint}"
    )
