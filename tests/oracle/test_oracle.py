"""What tokenizer.perl, multi-bleu.perl and fairseq-score printed, against ours: the whole line,
digit for digit.

The last tests compare the BLEU of four Python libraries with our definitions and check the table in
docs/tables.md.

fairseq-score takes some bigrams for others (see `aiayn.scoring.words`). Its lines are met to
0.01 BLEU, and to the digit once its hashes are put in place of the words. So nothing else
differs.
"""

import csv
import hashlib
import html
import lzma
import math
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU, BLEUScore

from aiayn.data.text.tokenize_moses import split_compounds
from aiayn.scoring.definitions import PROCEDURE_BY_METRIC, Procedure, Treatment
from aiayn.scoring.score import SACREBLEU_BY_METRIC, Text, procedure_bleu
from aiayn.scoring.words import fairseq_words

FOLDER = Path(__file__).parent
COLUMNS = ("reference", "tok", "light", "medium", "heavy")
TESTSETS = ("newstest2014.de", "newstest2014-fren.fr")
NO_ESCAPE = "tokenizer -no-escape | multi-bleu"
PROCEDURE_BY_NAME = {
    "tokenizer | multi-bleu": PROCEDURE_BY_METRIC["bleu_tok_moses"],
    "tokenizer | multi-bleu -lc": PROCEDURE_BY_METRIC["bleu_tok_moses_lc"],
    NO_ESCAPE: PROCEDURE_BY_METRIC["bleu_tok_moses"],
    "tokenizer | compound split | multi-bleu (2017)": PROCEDURE_BY_METRIC[
        "bleu_tok_compound_split"
    ],
    "get_ende_bleu: hypotheses replace-unicode-punctuation | tokenizer | compound split; reference tokenizer | compound split; multi-bleu": PROCEDURE_BY_METRIC[
        "bleu_tok_compound_split_2018"
    ],
    "same, reference replace-unicode-punctuation too (the normalised reference)": (
        PROCEDURE_BY_METRIC["bleu_tok_compound_split_quotes"]
    ),
    "tokenizer | compound split | fairseq-score": Procedure(split="at-at", count="fairseq-score"),
    "tokenizer | fairseq-score": PROCEDURE_BY_METRIC["bleu_fairseq"],
}
PRECISION_TOLERANCE_PERCENT = (
    0.011  # fairseq-score's hashes: at most 6 of 58,073 bigrams too many, 0.0103 %
)
# The definition that each kind of text is compared with. The calls in TOKENISING_CALLS tokenise
# by 13a themselves, so they are always compared with sacreBLEU's.
METRIC_BY_TEXT = {"raw": "bleu_as_given", "tok": "bleu_tok_moses"}
TOKENISING_CALLS = ('evaluate.load("bleu")', "torchmetrics.text.SacreBLEUScore")
TEXT_NAMES = {"raw": "plain text", "tok": "Moses tokens"}
PAPERS_METRIC = "bleu_tok_compound_split"
LARGEST_ROUNDING = 0.00005  # BLEU; torchmetrics and torchtext compute in float32
TABLES_PAGE = FOLDER.parents[1] / "docs" / "tables.md"
Lines = list[str]


class UnescapedText(Text):
    """Text as `tokenizer.perl -no-escape` leaves it."""

    def tokenized(self, treatment: Treatment) -> Lines:
        """Moses tokens with their entities read back."""
        return [html.unescape(line) for line in super().tokenized(treatment)]


def read_lines(content: bytes) -> Lines:
    """Lines of a text that ends in LF."""
    return content.decode("utf-8").split("\n")[:-1]


@cache
def bundled_column(testset: str, column: str) -> Lines:
    """Return a column of the file next to this test."""
    rows = [
        line.split("\t")
        for line in read_lines(lzma.decompress((FOLDER / f"{testset}.tsv.xz").read_bytes()))
    ]
    return [row[COLUMNS.index(column)] for row in rows]


@cache
def text(testset: str, column: str, *, is_escaped: bool = True) -> Text:
    """A column, tokenised at most once however many tests want it."""
    lines = bundled_column(testset, column)
    language = testset.rpartition(".")[2]
    return Text(lines, language) if is_escaped else UnescapedText(lines, language)


def printed_rows(path: Path) -> list[tuple[str, str, str, str]]:
    """(test set, hypotheses, procedure, printed line) of each row of a scores.tsv."""
    with path.open(encoding="utf-8", newline="\n") as table:
        rows = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        (row["reference"], row["hypotheses"].rpartition(".")[2], row["procedure"], row["output"])
        for row in rows
    ]


@cache
def our_score(
    procedure: Procedure, testset: str, hypotheses: str, *, is_escaped: bool = True
) -> BLEUScore:
    """Our score of a hypotheses file, which rows of both tables want."""
    return procedure_bleu(
        procedure,
        text(testset, hypotheses, is_escaped=is_escaped),
        text(testset, "reference", is_escaped=is_escaped),
    )


def score_of_row(testset: str, hypotheses: str, procedure: str) -> BLEUScore:
    """Our score of a row of scores.tsv."""
    is_escaped = procedure != NO_ESCAPE
    return our_score(PROCEDURE_BY_NAME[procedure], testset, hypotheses, is_escaped=is_escaped)


def printed_line(score: BLEUScore, procedure: str) -> str:
    """A score as the procedure's program prints it."""
    name, hypothesis_length, reference_length = (
        ("BLEU4", "syslen", "reflen") if is_fairseq(procedure) else ("BLEU", "hyp_len", "ref_len")
    )
    precisions = "/".join(f"{precision:.1f}" for precision in score.precisions)
    return (
        f"{name} = {score.score:.2f}, {precisions} (BP={score.bp:.3f}, ratio={score.ratio:.3f}, "
        f"{hypothesis_length}={score.sys_len}, {reference_length}={score.ref_len})"
    )


def is_fairseq(procedure: str) -> bool:
    """Whether fairseq-score printed the line."""
    return procedure.endswith("fairseq-score")


@cache
def words_of_column(testset: str, column: str, is_split: bool) -> list[list[str]]:
    """The words that fairseq-score counts."""
    lines = [line.encode("utf-8") for line in text(testset, column).tokenized("raw")]
    if is_split:
        lines = [split_compounds(line) for line in lines]
    is_reference = column == "reference"
    return [fairseq_words(line.decode("utf-8"), is_reference=is_reference) for line in lines]


def hashed_score_of_row(testset: str, hypotheses: str, procedure: str) -> BLEUScore:
    """The score of fairseq-score with its confusions: matches are counted over libbleu's hashes, as
    on x86.
    """
    is_split = "compound split" in procedure
    words = [words_of_column(testset, column, is_split) for column in (hypotheses, "reference")]
    index_by_word = {
        "<s>": 0,
        "<pad>": 1,
        "</s>": 2,
        "<unk>": 3,
    }  # then by first occurrence, hypothesis line first
    for pair in zip(*words, strict=True):
        for word in (*pair[0], *pair[1]):
            index_by_word.setdefault(word, len(index_by_word))
    sides = [
        hashes_by_order([[index_by_word[word] for word in line] for line in side]) for side in words
    ]
    matches = [
        (Counter(ours) & Counter(theirs)).total() for ours, theirs in zip(*sides, strict=True)
    ]
    totals = [len(side) for side in sides[0]]
    return BLEU.compute_bleu(
        matches, totals, len(sides[0][0]), len(sides[1][0]), smooth_method="none"
    )


def hashes_by_order(indices: list[list[int]]) -> list[list[tuple[int, int]]]:
    """(line, hash) of each n-gram, for n from 1 to 4: 64-bit FNV-1a over the bytes of 32-bit word
    indices.

    The bytes are signed, as on x86, so that `il faut` (39 219) has the hash of `faut il`.
    """
    flat = np.array([index for line in indices for index in line], dtype="<i4")
    lines = np.repeat(np.arange(len(indices)), [len(line) for line in indices])
    addends = flat.view(np.int8).reshape(-1, 4).astype(np.int64).astype(np.uint64)
    hashes = []
    for order in range(1, 5):
        starts = np.flatnonzero(lines[: len(lines) - order + 1] == lines[order - 1 :])
        state = np.full(len(starts), 14695981039346656037, dtype=np.uint64)
        for word in range(order):
            for byte in range(4):
                state = (state ^ addends[starts + word, byte]) * np.uint64(0x100000001B3)
        hashes.append(list(zip(lines[starts].tolist(), state.tolist(), strict=True)))
    return hashes


def disagreements(row: tuple[str, str, str, str]) -> list[str]:
    """What of a printed line is not ours. fairseq-score's is met to 0.01, and to the digit with its
    hashes.
    """
    *place, output = row
    testset, hypotheses, procedure = place
    ours = score_of_row(testset, hypotheses, procedure)
    if not is_fairseq(procedure):
        line = printed_line(ours, procedure)
        return [] if line == output else [f"{line}, printed {output}"]
    theirs = hashed_score_of_row(testset, hypotheses, procedure)
    messages = (
        []
        if printed_line(theirs, procedure) == output
        else [f"{printed_line(theirs, procedure)}, printed {output}"]
    )
    if not math.isclose(ours.score, theirs.score, rel_tol=0, abs_tol=0.01):
        messages.append(f"BLEU {ours.score}, with libbleu's hashes {theirs.score}")
    if not np.allclose(
        ours.precisions, theirs.precisions, rtol=0, atol=PRECISION_TOLERANCE_PERCENT
    ):
        messages.append(f"precisions {ours.precisions}, with libbleu's hashes {theirs.precisions}")
    if (ours.bp, ours.sys_len, ours.ref_len) != (theirs.bp, theirs.sys_len, theirs.ref_len):
        messages.append(
            f"brevity penalty {ours.bp} of {ours.sys_len}, {ours.ref_len} words: printed {output}"
        )
    return messages


QUICK_FRENCH_PROCEDURES = ("tokenizer | multi-bleu", "tokenizer | fairseq-score")


def rows_with_marks() -> list[Any]:
    """Rows of scores.tsv, of which some are slow tests."""
    rows = []
    for row in printed_rows(FOLDER / "scores.tsv"):
        is_quick = row[0] == TESTSETS[0] or row[2] in QUICK_FRENCH_PROCEDURES
        marks = [] if row[1] == "heavy" and is_quick else [pytest.mark.slow]
        rows.append(pytest.param(row, marks=marks, id=f"{row[0]}.{row[1]}, {row[2]}"))
    return rows


def lines_with_other_tokens(ours: Lines, theirs: Lines) -> list[tuple[Lines, Lines]]:
    """Return both sides' tokens where they differ. tokenizer.perl may leave surplus blanks."""
    tokens = [
        (our_line.split(" "), their_line.split())
        for our_line, their_line in zip(ours, theirs, strict=True)
    ]
    return [pair for pair in tokens if pair[0] != pair[1]]


@pytest.mark.parametrize("row", rows_with_marks())
def test_our_line_is_the_one_the_program_printed(row: tuple[str, str, str, str]) -> None:
    """Rows of `light` and `medium` are slow: the same lines of code give those of `heavy`, whose
    translations differ most from the reference. Of French most are slow: a procedure does with its
    tokens what it does with German ones, and the test of French tokens compares each of them.
    """
    assert disagreements(row) == []


def test_every_procedure_and_hypothesis_file_has_a_row() -> None:
    rows = {row[:3] for row in printed_rows(FOLDER / "scores.tsv")}
    assert rows == {
        (testset, column, name)
        for testset in TESTSETS
        for column in COLUMNS[2:]
        for name in PROCEDURE_BY_NAME
    }


@pytest.mark.parametrize("testset", TESTSETS)
def test_our_tokens_are_tokenizer_perls_one_by_one(testset: str) -> None:
    ours = text(testset, "reference").tokenized("raw")
    assert lines_with_other_tokens(ours, bundled_column(testset, "tok")) == []


def test_the_german_reference_is_the_published_file() -> (
    None
):  # MD5 in MLCommons' and NVIDIA's verify_dataset.sh
    content = "".join(
        f"{line}\n" for line in bundled_column("newstest2014.de", "reference")
    ).encode("utf-8")
    assert (
        hashlib.md5(content, usedforsecurity=False).hexdigest()
        == "f6c3818b477e4a25cad68b61cc883c17"
    )


def library_rows() -> list[dict[str, str]]:
    """Rows of library_bleu.tsv."""
    with (FOLDER / "library_bleu.tsv").open(encoding="utf-8", newline="\n") as table:
        return list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def our_bleu(metric: str, testset: str, hypotheses: str) -> float:
    """Our score of a hypotheses file by one definition."""
    if metric in PROCEDURE_BY_METRIC:
        return our_score(PROCEDURE_BY_METRIC[metric], testset, hypotheses).score
    sides = [text(testset, column) for column in (hypotheses, "reference")]
    return SACREBLEU_BY_METRIC[metric]().corpus_score(sides[0].lines, [sides[1].lines]).score


def range_of_differences(rows: list[dict[str, str]], metric: str) -> str:
    """A library's BLEU minus ours, smallest to largest, or "equal" up to the rounding of float32."""
    differences = [
        100 * float(row["output"]) - our_bleu(metric, row["reference"], row["hypotheses"])
        for row in rows
    ]
    if max(map(abs, differences)) < LARGEST_ROUNDING:
        return "equal"
    # Adding 0 turns a rounded -0.0 into 0.0, which is printed without its sign.
    smallest, largest = (round(value, 3) + 0 for value in (min(differences), max(differences)))
    return f"{smallest:+.3f} to {largest:+.3f}"


def library_table(rows: list[dict[str, str]]) -> str:
    """The table in docs/tables.md, from the recorded outputs and our scores of the same files."""
    lines = [
        (
            "| library and call | given | our definition of BLEU | BLEU: library - ours |"
            f" BLEU: library - `{PAPERS_METRIC}` (German) |"
        ),
        "|---|---|---|---|---|",
    ]
    for library, call, kind in sorted({(row["library"], row["call"], row["text"]) for row in rows}):
        chosen = [row for row in rows if (row["call"], row["text"]) == (call, kind)]
        german = [row for row in chosen if row["reference"] == "newstest2014.de"]
        metric = "bleu_sacre_13a" if call.startswith(TOKENISING_CALLS) else METRIC_BY_TEXT[kind]
        lines.append(
            f"| {library} {chosen[0]['version']}, `{call}` | {TEXT_NAMES[kind]} | `{metric}` |"
            f" {range_of_differences(chosen, metric)} |"
            f" {range_of_differences(german, PAPERS_METRIC)} |"
        )
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_the_page_shows_which_bleu_the_libraries_compute() -> None:
    assert f"\n{library_table(library_rows())}\n" in TABLES_PAGE.read_text(encoding="utf-8")


def test_every_library_call_has_a_row_for_each_file() -> None:
    rows = [
        (row["call"], row["reference"], row["hypotheses"], row["text"]) for row in library_rows()
    ]
    calls = {row[0] for row in rows}
    assert len(calls) == 5
    assert sorted(rows) == sorted(
        (call, testset, column, kind)
        for call in calls
        for testset in TESTSETS
        for column in COLUMNS[2:]
        for kind in TEXT_NAMES
    )
