"""`aiayn score` refuses lines in another order, doubts case and language, and nothing else."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from aiayn.__main__ import main
from aiayn.errors import ScoreError
from aiayn.scoring.outputs.line_match import check_order, find_doubts, find_shift

NOUNS = (
    "Der Mann",
    "Die alte Frau",
    "Ein Kind",
    "Unser Nachbar",
    "Das kleine Haus",
    "Jeder Fluss",
    "Kein Hund",
)
VERBS = ("sieht", "hat", "findet", "zeigt", "kennt", "holt", "sucht")
THINGS = (
    "ein Schiff",
    "den Wald",
    "eine Stadt",
    "das Meer",
    "zwei Boote",
    "ein Pferd",
    "die Wiese",
)
REFERENCES = [
    f"{noun} {verb} heute {thing} und geht nicht weiter."
    for noun in NOUNS
    for verb in VERBS
    for thing in THINGS
]
ENGLISH = [
    f"The {number} men of the town have seen what they were told on that day."
    for number in range(len(REFERENCES))
]
TRANSLATIONS = [line.replace("heute ", "") for line in REFERENCES]
SHUFFLED = [
    TRANSLATIONS[int(index)] for index in np.random.default_rng(1).permutation(len(TRANSLATIONS))
]
ONE_OUTPUT = [TRANSLATIONS[0]] * len(
    TRANSLATIONS
)  # of a model that is not trained: its score is its own


@pytest.mark.parametrize(
    ("lines", "words", "doubt"),
    [
        (SHUFFLED, "the order of the lines is not", ""),
        ([*TRANSLATIONS[40:], *TRANSLATIONS[:40]], "lines", ""),
        ([line.upper() for line in TRANSLATIONS], "", "upper case"),
        ([line.lower() for line in TRANSLATIONS], "", "lower case"),
        (ENGLISH, "", "language"),
        ([" ".join(line.split()[:4]) for line in TRANSLATIONS], "", "are they cut?"),
        (TRANSLATIONS, "", ""),
        (ONE_OUTPUT, "", ""),
    ],
    ids=[
        "shuffled",
        "rotated",
        "upper case",
        "lower case",
        "English",
        "first words",
        "right",
        "one output",
    ],
)
def test_another_order_is_a_fault_and_case_and_language_are_doubts(
    lines: list[str], words: str, doubt: str
) -> None:
    if words:
        with pytest.raises(ScoreError, match=f"^out.de: .*{words}"):
            check_order(lines, REFERENCES, path="out.de")
    else:
        check_order(lines, REFERENCES, path="out.de")
    assert [doubt in sentence for sentence in find_doubts(lines, REFERENCES)] == [True] * bool(
        doubt
    )


VARIED = [" ".join(f"wort{line * 7 + word}" for word in range(7)) for line in range(90)]


@pytest.mark.parametrize(
    ("lines", "first_line", "offset"),
    [
        ([*VARIED[:50], *VARIED[51:], "nichts"], 51, -1),
        ([*VARIED[:50], *VARIED[53:], *["nichts"] * 3], 51, -3),
        ([*VARIED[:51], *VARIED[50:-1]], 51, 1),
        (["Kopf", *VARIED[:-1]], 1, 1),
    ],
    ids=["a lost line", "three lost lines", "a doubled line", "a heading"],
)
def test_a_shift_is_refused_with_a_command_that_moves_the_lines_back(
    lines: list[str],
    first_line: int,
    offset: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shift = find_shift(lines, VARIED)
    assert shift is not None
    assert (shift.first_line, shift.offset) == (first_line, offset)
    for name, text in (("hyp.de", lines), ("ref.de", VARIED)):
        (tmp_path / name).write_text("\n".join([*text, ""]), encoding="utf-8")
    files = ["--hypotheses", str(tmp_path / "hyp.de"), "--references", str(tmp_path / "ref.de")]
    assert main(["score", *files, "--language-pair", "en-de"]) == 1
    assert (
        f"from line {first_line} on each line stands {abs(offset)} too" in capsys.readouterr().err
    )
    command = f"{shift.command} < {tmp_path / 'hyp.de'}"
    moved = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    in_place = [
        line == expected for line, expected in zip(moved.stdout.split("\n"), VARIED, strict=False)
    ]
    assert in_place.count(False) <= abs(offset)


def test_a_bad_translation_and_a_short_one_have_no_shift() -> None:
    assert find_shift(ONE_OUTPUT, REFERENCES) is None
    assert find_shift(VARIED[:3], VARIED[1:4]) is None


def test_a_doubt_is_one_line_and_can_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, lines in (
        ("hyp.de", [line.upper() for line in TRANSLATIONS]),
        ("ref.de", REFERENCES),
    ):
        (tmp_path / name).write_text("\n".join([*lines, ""]), encoding="utf-8")
    command = [
        "score",
        "--hypotheses",
        str(tmp_path / "hyp.de"),
        "--references",
        str(tmp_path / "ref.de"),
    ]
    assert main([*command, "--language-pair", "en-de"]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("upper case") == 1
    assert "bleu_tok_compound_split " in captured.out
    assert main([*command, "--language-pair", "en-de", "--no-warning"]) == 0
    assert "upper case" not in capsys.readouterr().err
