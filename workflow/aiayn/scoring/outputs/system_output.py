"""Reads a system output or references from any file and recognises the form of the text: plain,
tokens or pieces.

Every BLEU except `bleu_as_given` begins with plain lines of hypotheses and references. Outputs are
shared in other forms: Moses' tokens with their escapes, subword pieces, lower case, an .sgm file, a
log of fairseq-generate. A form shows in marks that plain text lacks, as a share of the places where
they could occur:

| form | share of | in plain text | in that form |
|---|---|---|---|
| tokens | full stops and commas after a word, separated from it | at most 0.16 | 0.97 and more |
| escaped | the characters that Moses escapes that are entities (`&quot;`) | at most 0.09, or one or two of two | 1 |
| hyphens apart | hyphens inside words that are ` @-@ ` (tokenizer.perl -a) | at most 0.002 | 1 |
| pieces | lines with a mark of pieces: `@@ `, U+2581, U+FFED | at most 0.05 | 0.78 and more |
| lower case | letters with case that are capitals, over the other text's share | at least 0.04 | 0 |

The shares in plain text come from 451 outputs of WMT 2021 and 2023 in 15 languages and their
references. The shares in the other forms come from 12 outputs of rsennrich/lingeval97 and the test
data of tensorflow/nmt. The limits of this module are between both.
"""  # noqa: E501

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from aiayn.data.sources.joining import read_segments
from aiayn.data.text.detokenise import PIECE_PATTERN, join_any_pieces
from aiayn.errors import ScoreError
from aiayn.packed import UNPACK_ERRORS, open_unpacked

TOKEN_SHARE = (
    0.5  # of marks that are separate, of characters that are entities, of hyphens that are ` @-@ `
)
MIN_COUNT = 4  # marks: fewer may be chance; 4 of 4 has one in 256 where a quarter is
PIECE_SHARE = 0.1  # of lines that hold a mark
MIN_CAPITALS = 5.0  # that the other text's share predicts; none by chance has one in 148
LOWER_SHARE = 0.01  # of the expected capitals, below which a text is lower-cased throughout
NUM_FULL, NUM_FILTERED = 3003, 2737  # lines of newstest2014, and of what sacreBLEU calls wmt14

_BYTE_ORDER_MARK = "\ufeff"
# A launcher, a container or a paste may add a prefix: a rank, a time, a name, an indentation.
_SENTENCE = re.compile(r"(?:[^\t]{0,80}[ :|>]|\t+)?([STHD])-(\d+)\t(.*)")
_SGM = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE[^>]*>\s*)?<(?:srcset|refset|tstset|mteval)\b",
    re.IGNORECASE,
)
_PIECE = re.compile(PIECE_PATTERN)
# A letter of a script that parts words by blanks: not of Thai, Lao, Khmer, Chinese, Japanese.
_LETTER = r"[^\W\d_\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
_APART = re.compile(rf"{_LETTER} [.,\u060c](?= |$)", re.MULTILINE)
_ATTACHED = re.compile(rf"{_LETTER}[.,\u060c](?= |$)", re.MULTILINE)
_ENTITY = re.compile(r"&(?:amp|quot|apos|lt|gt|#124|#91|#93|#39|#34);")
_TO_ESCAPE = re.compile(r"""["'|<>\[\]&]""")
_HYPHEN_APART = re.compile(r"(?<= )@-@(?= )")
_HYPHEN = re.compile(r"(?<=\w)-(?=\w)")


class Share(NamedTuple):
    """How many of how many."""

    num: int
    total: int

    @property
    def value(self) -> float:
        """The share, 0 of none."""
        return self.num / max(1, self.total)

    def __str__(self) -> str:
        return f"{self.value:.0%} of {self.total:,}"

    @property
    def is_most(self) -> bool:
        """Whether it is more than `TOKEN_SHARE`, of enough places."""
        return self.num >= MIN_COUNT and self.value > TOKEN_SHARE


class Form(NamedTuple):
    """The form of a text, by the module's table; subword pieces are joined first."""

    mark: str
    marked_lines: Share
    apart: Share
    escaped: Share
    hyphens_apart: Share
    capitals: Share

    @property
    def is_pieces(self) -> bool:
        """Whether words are split into pieces."""
        return self.marked_lines.num > 0 and self.marked_lines.value > PIECE_SHARE

    @property
    def token_kinds(self) -> tuple[bool, bool, bool]:
        """Whether marks are apart, characters escaped, hyphens split: equal for two texts that are
        scored as given.
        """
        return self.apart.is_most, self.escaped.is_most, self.hyphens_apart.is_most

    @property
    def is_tokens(self) -> bool:
        """Whether the text is tokens rather than plain text."""
        return any(self.token_kinds)

    def is_lower_beside(self, other: "Form") -> bool:
        """Return whether this text is lower-cased throughout where the other has capitals."""
        expected = self.capitals.total * other.capitals.value
        return expected >= MIN_CAPITALS and self.capitals.num <= LOWER_SHARE * expected


class SystemOutput(NamedTuple):
    """A text as it was read; `references` are the T- lines of a generate log, otherwise None."""

    path: str
    lines: list[str]
    kind: Literal["lines", "sgm", "generate log"]
    references: list[str] | None = None
    sha256: str = ""  # of the file's unpacked bytes

    @property
    def words(self) -> str:
        """Return the origin of the lines in words; '' if they are the lines of the file."""
        return {"lines": "", "sgm": "the segments of an sgm file"}.get(
            self.kind, "the lines of a fairseq-generate log"
        )


def read_output(path: Path, *, may_be_blank: bool = False) -> SystemOutput:
    """Return the lines of a file: as they are, the segments of .sgm, or the best hypotheses of a
    generate log.

    A file packed by gzip or xz is unpacked, a byte order mark left out; lines end at LF alone. With
    `may_be_blank` all lines may be blank: a model that has hardly been trained, or has diverged,
    may end every sentence at once.

    Raises:
        ScoreError: naming file and line, if it is absent, empty, torn, no UTF-8, or binary.
    """
    text = read_text(path, may_be_blank=may_be_blank)
    sha256 = hashlib.sha256(text.encode("utf-8")).hexdigest()
    if _SGM.match(text):
        lines = list(read_segments(text, str(path)))
        if not lines:
            raise ScoreError(
                f"{path}: an sgm file without <seg>; expected one a sentence; is it cut?"
            )
        return SystemOutput(str(path), lines, "sgm", sha256=sha256)
    lines = text.removesuffix("\n").split("\n")
    if any(found[1] != "S" for line in lines if (found := _SENTENCE.match(line))):
        return generated_output(lines, str(path))._replace(sha256=sha256)
    _refuse_trainer_json(path, lines)
    return SystemOutput(str(path), lines, "lines", sha256=sha256)


def _refuse_trainer_json(path: Path, lines: Sequence[str]) -> None:
    """Refuse JSON lines of a trainer: an epoch or a step with numbers, and no text.

    Raises:
        ScoreError: if the first line is a JSON line of a trainer.
    """
    try:
        value = json.loads(lines[0])
    except ValueError:
        return
    is_metric = isinstance(value, dict) and bool({"epoch", "step", "num_updates"} & value.keys())
    if is_metric and not any(re.search("[^\\W\\d_]{2}", str(text)) for text in value.values()):
        raise ScoreError(
            f"{path}:1: JSON lines of a trainer, numbers without text; expected one translation a"
            " line; give the output of its decoder"
        )


def read_text(path: Path, *, may_be_blank: bool = False) -> str:
    """Return a file's text.

    Raises:
        ScoreError: as `read_output`.
    """
    if not path.exists():
        raise ScoreError(f"{path}: no such file; give one line a segment, UTF-8")
    try:
        with open_unpacked(path) as unpacked:
            content = unpacked.read()
    except UNPACK_ERRORS as error:
        raise ScoreError(
            f"{path}: not a whole gzip file (or xz): {error}; copy or fetch it again"
        ) from error
    try:
        text = content.decode("utf-8").removeprefix(_BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ScoreError(
            f"{path}:{line}: byte {error.start}, {content[error.start]:#04x}, is not UTF-8;"
            " expected text, one line a segment; is it cut? Else convert it: iconv -f ITS_ENCODING"
            " -t UTF-8"
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ScoreError(
            f"{path}:{line}: a NUL character: binary, or another encoding; expected text in UTF-8"
        )
    if not (text if may_be_blank else text.strip()):
        raise ScoreError(f"{path}: empty; expected one line a segment")
    return text


def generated_output(lines: Sequence[str], place: str) -> SystemOutput:
    """Return the best hypothesis of each sentence of a generate log, in the order of the source.

    Raises:
        ScoreError: if sentences are missing before the last one.
    """
    sentences = generated_sentences(lines)
    targets = sentences["T"]
    chosen = sentences["D"] or sentences["H"] or targets
    missing = sorted(set(range(max(chosen, default=-1) + 1)) - set(chosen))
    if missing:
        raise ScoreError(
            f"{place}: a fairseq-generate log without the hypotheses of {len(missing)} of"
            f" {max(chosen) + 1} sentences, the first H-{missing[0]}; expected every sentence; is"
            " it cut, or of one shard, or were long sentences skipped?"
        )
    references = (
        [targets[number] for number in sorted(chosen)] if chosen.keys() <= targets.keys() else None
    )
    return SystemOutput(
        place, [chosen[number] for number in sorted(chosen)], "generate log", references
    )


def generated_sentences(lines: Iterable[str]) -> dict[str, dict[int, str]]:
    """Return the first line of each sentence's number by kind: S source, T target, H hypothesis, D
    detokenised.
    """
    line_by_kind: dict[str, dict[int, str]] = {kind: {} for kind in "STHD"}
    for line in lines:
        if found := _SENTENCE.match(line):
            text = found[3] if found[1] in "ST" else found[3].partition("\t")[2]
            line_by_kind[found[1]].setdefault(int(found[2]), text)
    return line_by_kind


def form_of(lines: Sequence[str]) -> Form:
    """Return the form of a text."""
    marks = [found[0] for line in lines if (found := _PIECE.search(line))]
    mark = max(set(marks), key=marks.count, default="")
    text = "\n".join(join_any_pieces(line) for line in lines) if marks else "\n".join(lines)
    num_entities = len(_ENTITY.findall(text))
    num_apart, num_hyphens_apart = len(_APART.findall(text)), len(_HYPHEN_APART.findall(text))
    num_capitals = sum(map(str.isupper, text))
    return Form(
        mark=mark,
        marked_lines=Share(len(marks), len(lines)),
        apart=Share(num_apart, num_apart + len(_ATTACHED.findall(text))),
        # An entity begins with a character that plain text has bare.
        escaped=Share(num_entities, len(_TO_ESCAPE.findall(text))),
        hyphens_apart=Share(num_hyphens_apart, num_hyphens_apart + len(_HYPHEN.findall(text))),
        capitals=Share(num_capitals, num_capitals + sum(map(str.islower, text))),
    )


def unlike_forms(lines_by_name: Mapping[str, Sequence[str]], *, is_as_given: bool) -> str:
    """Return the forms that forbid a score as requested, in the words of a signature: `hyp-tokens`.

    '' means that they can. With `is_as_given` tokens of the same kind on both sides can.
    """
    form_by_name = {name: form_of(lines) for name, lines in lines_by_name.items()}
    forms = form_by_name.values()
    is_alike = len({form.token_kinds for form in forms}) == 1
    tags = []
    for name, form in form_by_name.items():
        if form.is_pieces:
            tags.append(f"{name}-pieces")
        if form.is_tokens and not (is_as_given and is_alike):
            tags.append(f"{name}-tokens")
        if any(form.is_lower_beside(other) for other in forms):
            tags.append(f"{name}-lower")
    return "+".join(tags)


def check_tokens(sides: Iterable[Sequence[str]]) -> None:
    """Check that texts which are scored as given are not plain text.

    Raises:
        ScoreError: if no side is tokens, and each side has full stops and commas that are attached.
    """
    forms = [form_of(lines) for lines in sides]
    num_attached = min(form.apart.total - form.apart.num for form in forms)
    if num_attached >= MIN_COUNT and not any(form.is_tokens for form in forms):
        raise ScoreError(
            "--as-given: hypotheses and references are plain text, not tokens; omit the flag"
        )


def check_num_lines(output: SystemOutput, num_references: int, place: str) -> None:
    """Check that there are as many hypotheses as references.

    Raises:
        ScoreError: with both numbers and, where it shows, the reason.
    """
    num_lines = len(output.lines)
    if num_lines == num_references:
        return
    hint = "is it cut, or of another test set?"
    if num_lines > num_references and not any(
        line.strip() for line in output.lines[num_references:]
    ):
        hint = "the extra lines are empty lines at its end: delete them"
    elif (num_lines, num_references) == (NUM_FILTERED, NUM_FULL):
        hint = (
            f"{NUM_FILTERED:,} lines are the filtered newstest2014: --testset newstest2014_filtered"
        )
    elif (num_lines, num_references) == (NUM_FULL, NUM_FILTERED):
        hint = f"{NUM_FULL:,} lines are the full newstest2014: --testset newstest2014"
    elif num_lines % num_references == 0:
        hint = f"is it a list of the {num_lines // num_references} best of each?"
    raise ScoreError(
        f"{output.path}: {num_lines:,} lines, {place} has {num_references:,}; expected one line a"
        f" segment in both, split at LF alone; {hint}"
    )
