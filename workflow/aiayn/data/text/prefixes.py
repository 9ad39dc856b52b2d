"""Finds the prefix that a launcher, a container or a paste adds to each line of a log.

A prefix of a log line is a rank (number of a training process), a time, a name or an indentation. A
log has at most one kind of prefix, and most lines of the log have this prefix.
"""

import re
from collections.abc import Sequence

NUM_LINES_SNIFFED = 100
MIN_SHARE = 0.8  # of the lines that are not blank
# The beginnings of fairseq's own lines, after any prefix.
# Most patterns below are so short that they count as a prefix only before such a beginning.
_OWN = (
    rb"(?=\d{4}-\d\d-\d\d \d|\||\{|Namespace|[STHDPAIE]-\d|epoch |Generate |Translated |averaging"
    rb" |INFO)"
)
_MODEL = rb"(?= *\(\w+\): |\w+\($| *\)$)"  # lines of a printed model
# Example lines, in the order of the patterns:
#   `0: epoch 001: ...`, `[default0]:2026-01-31 10:00:00 | INFO | ...`
#   `2026-01-31T10:00:00.123456Z stdout F epoch 001: ...`
#   `Jan 31 10:00:00 epoch 001: ...`
#   `trainer-1  | epoch 001: ...`
#   `> epoch 001: ...`
#   `    epoch 001: ...`
PREFIXES = (
    re.compile(
        rb"^\s*\[?(?:rank ?|default)?(?P<rank>\d{1,5})\]?: ?(?:" + _OWN + rb"|" + _MODEL + rb")"
    ),  # srun --label, torchrun
    re.compile(
        rb"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? (?:std(?:out|err)"
        rb" [FP] )?"
    ),  # containers
    re.compile(rb"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d "),  # ts
    re.compile(rb"^[\w.-]{1,60} +\| (?:" + _OWN + rb"|" + _MODEL + rb")"),  # docker compose
    re.compile(rb"^> ?(?:" + _OWN + rb"|" + _MODEL + rb")"),  # a quotation
    re.compile(rb"^(?: {2,}|\t+)" + _OWN),  # an indented paste
)


def find_prefix(lines: Sequence[bytes]) -> re.Pattern[bytes] | None:
    """Return the regular expression of the prefix that most of a log's first lines have, or None if
    the lines have no prefix.

    A prefix with a rank (number of a training process) is recognised even if only some lines have
    it, because in some logs only some of the processes print lines of fairseq.
    """
    sample = [line for line in lines[:NUM_LINES_SNIFFED] if line.strip()]
    for prefix in PREFIXES:
        num_matching = sum(prefix.match(line) is not None for line in sample)
        # PREFIXES[0] is the label of a rank. A text where lines of fairseq begin without a prefix
        # cannot have one of the other prefixes.
        is_label = prefix is PREFIXES[0] and num_matching > 0
        own_lines = [line for line in sample if re.match(_OWN, line)]
        if is_label or (
            num_matching >= 1 and not own_lines and _is_most(prefix, sample, num_matching)
        ):
            return prefix
    return None


def _is_most(prefix: re.Pattern[bytes], sample: Sequence[bytes], num_matching: int) -> bool:
    # An indentation is on fairseq's own lines only. The printed model has its own indentation.
    return prefix is PREFIXES[-1] or num_matching >= MIN_SHARE * len(sample)


def without_prefix(line: bytes, prefix: re.Pattern[bytes]) -> bytes | None:
    """Return a log line without the launcher's prefix, or None if the prefix says that a rank
    (training process) other than rank 0 printed the line.
    """
    match = prefix.match(line)
    if match is None:
        return line
    # Only rank 0 is read, because each rank may print the same line.
    if int(match.groupdict().get("rank") or 0):
        return None
    return line[match.end() :]
