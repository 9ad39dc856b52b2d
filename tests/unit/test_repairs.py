"""Each repair on translations that were damaged in its way: named with both scores, and it restores
the clean lines.
"""

import json
import random
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.data.text.tokenize_moses import tokenize_line
from aiayn.scoring.outputs.repairs import PAIRS, REPAIRS, SHIFT, best_repair, repair_sides

WORDS = [
    "Mann",
    "Frau",
    "Kind",
    "Nachbar",
    "Haus",
    "Fluß",
    "Schiff",
    "Stadt",
    "Wasser",
    "Wald",
    "Berg",
    "Straße",
    "Brücke",
    "Garten",
    "Vogel",
    "Hund",
    "Katze",
    "Fenster",
    "Tür",
    "Dach",
    "Brot",
    "Käse",
    "Wein",
    "Abend",
    "Morgen",
    "Winter",
    "Sommer",
    "Regen",
    "Schnee",
    "Wolke",
]


def sentences(rng: random.Random) -> list[str]:
    """Return sentences with quotation marks, commas, umlauts and few words in common."""
    drawn = [rng.sample(WORDS, 6) for _ in range(60)]
    return [f'{a} {b}, sagt "{c} {d}", über {e} und {f}.' for a, b, c, d, e, f in drawn]


REFERENCES = sentences(random.Random(2017))
CLEAN = [
    line.replace("über", "unter") if number % 3 else line for number, line in enumerate(REFERENCES)
]


def in_pieces(line: str) -> str:
    """Return a line with longer words cut after three letters, in the notation of subword-nmt."""
    return " ".join(f"{word[:3]}@@ {word[3:]}" if len(word) > 4 else word for word in line.split())


# By damage, the repair and what each line becomes; the files of SHIFT lose or repeat a line.
# NUMBER is the line's number from 0, NEXT from 1.
DAMAGES: dict[str, tuple[str, Callable[[str], str]]] = {
    "decomposed": ("nfc", lambda line: unicodedata.normalize("NFD", line)),
    "zero-width": ("invisible", lambda line: line.replace(" ", "\u200b ")),
    "mojibake": ("mojibake", lambda line: line.encode().decode("cp1252", "replace")),
    "sentence ends": ("symbols", "<s> {} </s>".format),
    "padding": ("symbols", "{} <pad> <pad> <pad> <pad>".format),
    "language tags": ("frame", ">>deu<< {}".format),
    "subword-nmt": ("pieces", in_pieces),
    "underscores": ("pieces", lambda line: f"_{line.replace(' ', ' _')}"),
    "line numbers": ("frame", "(NEXT) {}".format),
    "a toolkit's prefix": ("frame", "2024-03-01 12:00:NEXT PRED NUMBER: {}".format),
    "quoted": ("frame", "'{}'".format),
    "an n-best list": ("frame", "NUMBER ||| {} ||| LM= -3.NEXT ||| -0.NUMBER".format),
    "segments": (
        "frame+entities",
        lambda line: f'<seg id="NEXT">{line.replace(chr(34), "&quot;")}</seg>',
    ),
    "compound split": ("compounds", lambda line: line.replace("Nachbar", "N ##AT##-##AT## r")),
    "source column": ("column", "the source of this sentence\t{}".format),
    "source last": ("first-column", "{} ||| the source of this sentence".format),
    "JSON lines": ("json", lambda line: json.dumps({"id": 1, "translation": line})),
    "JSON by language": ("json", lambda line: json.dumps({"en": "the source", "de": line})),
    "CSV": ("csv", lambda line: '"' + line.replace('"', '""') + '"'),
    "CSV of two columns": ("csv", lambda line: 'NUMBER,"' + line.replace('"', '""') + '"'),
    "entities": ("entities", lambda line: line.replace("e", "&#101;")),
    "tokens": ("detokenise", lambda line: tokenize_line(line, "de").rstrip()),
    "pieces of tokens": (
        "pieces+detokenise",
        lambda line: in_pieces(tokenize_line(line, "de").rstrip()),
    ),
    "a lost line": (SHIFT, str),
    "a doubled line": (SHIFT, str),
    "three lost lines": (SHIFT, str),
}


def damaged(damage: str) -> list[str]:
    """Return the clean lines after a damage."""
    if damage == "a lost line":
        return [*CLEAN[:20], *CLEAN[21:], "nichts"]
    if damage == "three lost lines":
        return [*CLEAN[:10], *CLEAN[11:30], *CLEAN[32:], "nichts", "gar", "nichts"]
    if damage == "a doubled line":
        return [*CLEAN[:21], *CLEAN[20:-1]]
    lines = map(DAMAGES[damage][1], CLEAN)
    numbered = []
    for number, line in enumerate(lines):
        numbered.append(line.replace("NUMBER", str(number)).replace("NEXT", str(number + 1)))
    return numbered


def shared_lines(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return how many percent of the references' lines are hypotheses."""
    return 100 * len(set(hypotheses) & set(references)) / len(references)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damage_is_named_with_both_scores_and_its_repair(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = DAMAGES[damage][0]
    monkeypatch.chdir(tmp_path)
    Path("ref.de").write_text("\n".join([*REFERENCES, ""]), encoding="utf-8")
    Path("out.de").write_text("\n".join([*damaged(damage), ""]), encoding="utf-8")
    command = [
        "score",
        "--hypotheses",
        "out.de",
        "--references",
        "ref.de",
        "--language-pair",
        "en-de",
        "--json",
    ]
    assert main(command) == 0
    captured = capsys.readouterr()
    objects = json.loads(captured.out)
    given = next(
        one["value"] for one in objects if one["metric"] == "bleu_tok_moses" and "repair" not in one
    )
    (repaired,) = [
        one for one in objects if one["metric"] == "bleu_tok_moses" and one.get("repair") == name
    ]
    assert repaired["value"] > given + 2
    assert (
        f"bleu_tok_moses is {given:.2f} as given, and {repaired['value']:.2f} with" in captured.err
    )
    assert captured.err.rstrip().endswith("--repair " + " ".join(name.split("+")))
    assert main([*command, "--repair", *name.split("+")]) == 0
    assert json.loads(capsys.readouterr().out)[0]["value"] == pytest.approx(repaired["value"])


def test_clean_translations_have_no_repair() -> None:
    def never(hypotheses: object, references: object) -> float:
        raise AssertionError("nothing is to be scored")

    assert best_repair(CLEAN, REFERENCES, "de", never, 90.0) is None
    assert repair_sides(["pieces"], CLEAN, REFERENCES, "de") is None


def test_blank_lines_have_no_repair() -> None:
    blank = [""] * len(REFERENCES)
    assert best_repair(blank, REFERENCES, "de", lambda *sides: 0.0, 0.0) is None
    rows = [f'{number},"{line}"' for number, line in enumerate(CLEAN)]
    found = best_repair([*rows[:9], "", *rows[10:]], CLEAN, "de", shared_lines, 1.0)
    assert found is not None
    assert found[0].hypotheses == [*CLEAN[:9], "", *CLEAN[10:]]


def test_there_are_at_most_twenty_repairs_and_pairs_are_of_them() -> None:
    names = [repair.name for repair in REPAIRS]
    assert len(names) + 1 <= 20
    assert {name for pair in PAIRS for name in pair} <= set(names)


def test_an_unknown_repair_and_one_that_changes_nothing_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ref.de"
    path.write_text("\n".join([*REFERENCES, ""]), encoding="utf-8")
    command = [
        "score",
        "--hypotheses",
        str(path),
        "--references",
        str(path),
        "--language-pair",
        "en-de",
        "--repair",
    ]
    assert main([*command, "peices"]) == 2
    assert "did you mean 'pieces'" in capsys.readouterr().err
    assert main([*command, "pieces"]) == 1
    assert "changes nothing here" in capsys.readouterr().err
