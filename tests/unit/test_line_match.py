"""`aiayn score` warns where a BLEU near 0 is not the model's: order, shift, case, language; and
nowhere else.
"""

from pathlib import Path

import numpy as np
import pytest

from aiayn.__main__ import main
from aiayn.scoring.outputs.line_match import find_doubt

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
    ("lines", "words"),
    [
        (SHUFFLED, "another order"),
        ([*TRANSLATIONS[40:], *TRANSLATIONS[:40]], "another order"),
        ([line.upper() for line in TRANSLATIONS], "upper case"),
        (ENGLISH, "language"),
        (TRANSLATIONS, ""),
        (ONE_OUTPUT, ""),
    ],
    ids=["shuffled", "shifted", "upper case", "English", "right", "one output"],
)
def test_a_score_near_zero_has_its_reason(lines: list[str], words: str) -> None:
    doubt = find_doubt(lines, REFERENCES, 0.5)
    assert bool(doubt) == bool(words)
    assert words in doubt
    assert find_doubt(lines, REFERENCES, 20.0) == ""


def test_the_warning_is_said_once_and_can_be_left_out(
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
