"""Each check of the doctor shown failing once, on the clean run's evidence with one thing in it
changed; problems of the judge under their causes.
"""

import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from aiayn.facts.types import Fact
from aiayn.known_good.judge import judge
from aiayn.spec.system import Overrides, read_corpus
from analysis.doctor.check_data import check_vocabulary
from analysis.doctor.check_lengths import check_lengths
from analysis.doctor.check_problems import check_training, check_translation
from analysis.doctor.check_scores import check_definition, check_reference_order
from analysis.doctor.check_training import check_divergence
from analysis.doctor.collect import collect_folder
from analysis.doctor.costs import rank
from analysis.doctor.diagnose import CHECKS, diagnose
from analysis.doctor.diagnoses import make_claim
from analysis.doctor.types import Answer, Case, Reported
from tests.doctor.fixtures import assemble

ROWS = tomllib.loads(Path(__file__).with_name("checks.toml").read_text(encoding="utf-8"))["case"]
LINES = ("Der Mann sieht das Haus.", "Eine Frau liest heute.", "Wir gehen zum Fluss, weil er ruft.")


def count_words(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Return a score that is quick to check: the share of lines that are right, with and without
    case.
    """
    pairs = list(zip(hypotheses, references, strict=True))
    right = 100 * np.mean([one == other for one, other in pairs])
    lower = 100 * np.mean([one.lower() == other.lower() for one, other in pairs])
    return {"bleu_sacre_13a": float(right), "bleu_sacre_13a_lc": float(lower)}


def collect(folder: Path) -> Case:
    claim = make_claim("clean", "demo", "base", "demo_en_de", Overrides())
    return collect_folder(folder, claim, count_words, hypotheses_path=None, references_path=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assemble("clean", tmp_path_factory.mktemp("doctor") / "clean")


@pytest.fixture(scope="module")
def clean(folder: Path) -> Case:
    return collect(folder)


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_a_change_of_the_clean_run_is_answered(
    row: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    """Each row of checks.toml replaces text in a file of the clean run."""
    changed = tmp_path / "run"
    shutil.copytree(folder, changed)
    path = changed / row.get("file", "train.log")
    text = path.read_text(encoding="utf-8")
    for old, new in row["replaced"].items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    answer = CHECKS[row["check"]](collect(changed))
    assert [one.cause for one in answer.findings] == row["causes"]
    content = msgspec.json.encode(answer).decode()
    assert [words for words in row.get("says", []) if words not in content] == []


def test_lines_without_their_end_of_sentence_are_found(
    clean: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clean.data is not None
    side = clean.data.sides_by_split["train"][1]
    monkeypatch.setattr(side, "lengths", side.lengths - 1)
    (finding,) = check_vocabulary(clean).findings
    assert finding.cause == "end_of_sentence"


def test_two_dictionaries_of_one_size_are_separate_vocabularies(
    folder: Path, tmp_path: Path
) -> None:
    changed = tmp_path / "run"
    shutil.copytree(folder, changed)
    path = changed / "data-bin" / "dict.de.txt"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[::-1]), encoding="utf-8")
    assert [one.cause for one in check_training(collect(changed)).findings] == ["vocabulary"]


def with_last_bits(case: Case, bits: float) -> Case:
    """Return a case whose last validation is at `bits` a subword."""
    assert case.training is not None
    training = case.training.training
    *validations, last = training.validations
    training = replace(
        training, validations=[*validations, replace(last, value_by_name={"nll_loss": bits})]
    )
    return replace(case, training=replace(case.training, training=training))


@pytest.mark.parametrize("bits", [12.0, float("nan")])
def test_a_training_that_ends_far_above_its_best_has_diverged(clean: Case, bits: float) -> None:
    assert check_divergence(clean).findings == ()
    (finding,) = check_divergence(with_last_bits(clean, bits)).findings
    assert finding.title.startswith("The training diverged after update ")


def of_wmt14(case: Case) -> Case:
    """Return a case that claims to be of the paper's corpus, without a data-bin."""
    return replace(case, claim=replace(case.claim, corpus=read_corpus("wmt14_en_de")), data=None)


def with_translation(case: Case, **changes: Any) -> Case:
    return replace(case, translations=(replace(case.translations[0], **changes),))


def small(case: Case, **changes: Any) -> Case:
    """Return a case of three lines, without a data-bin."""
    changes = {"lines": LINES, "references": LINES, "reported": (), **changes}
    return with_translation(replace(case, data=None), **changes)


def titles(outcome: Answer) -> list[str]:
    return [finding.title for finding in outcome.findings]


def test_a_check_without_its_evidence_says_so_and_finds_nothing(clean: Case) -> None:
    empty = Case(claim=clean.claim, scorer=count_words)
    assert [outcome.check for outcome in diagnose(empty).outcomes] == list(CHECKS)
    for check in CHECKS.values():
        outcome = check(empty)
        assert outcome.missing
        assert outcome.findings == ()


def test_of_two_averages_of_a_test_set_one_must_be_the_tables(folder: Path, tmp_path: Path) -> None:
    single = tmp_path / "single"
    shutil.copytree(folder, single)
    path = single / "demo_test.json"
    record = path.read_text(encoding="utf-8").replace('"last5"', '"last1"')
    path.write_text(record, encoding="utf-8")
    (finding,) = check_translation(collect(single)).findings
    assert (finding.cause, finding.amount) == ("average", 1.0)
    shutil.copyfile(folder / "demo_test.json", single / "second.json")
    assert not check_translation(collect(single)).findings


ANIMALS = tuple(
    f"{name} sieht {number} Tiere im Wald {number + 7}"
    for number, name in enumerate("abcdefghijklmnopqrstuvwxyz" * 2)
)


def test_a_symptom_ranks_after_causes_and_is_found_only_where_bounds_are_published(
    clean: Case,
) -> None:
    short = small(clean, lines=tuple(line[:9] for line in LINES))
    assert not check_lengths(short).findings
    symptoms = check_lengths(of_wmt14(short)).findings
    assert clean.training is not None
    short_training = Fact("updates", 250, "train.log", 1)
    problems = judge([short_training], {"updates": 700}, ("train",))
    cause = check_training(replace(clean, problems={"training": problems})).findings
    assert [one.cause for one in rank([*symptoms, *cause])] == ["updates", "lengths"]


def test_translations_that_end_after_a_few_words_are_found(clean: Case) -> None:
    lines = [" ".join(line.split()[: 3 if place < 5 else 20]) for place, line in enumerate(ANIMALS)]
    (finding,) = check_lengths(small(clean, lines=tuple(lines), references=ANIMALS)).findings
    assert finding.title == "10% of the translations end after at most 3 words"
    lines[0] = ANIMALS[0]
    assert not check_lengths(small(clean, lines=tuple(lines), references=ANIMALS)).findings


def test_a_bleu_near_one_is_told_apart_by_what_the_translations_are(clean: Case) -> None:
    assert check_reference_order(small(clean, lines=ANIMALS, references=ANIMALS)).findings == ()
    few_words = tuple(
        f"{'abcde'[(number + 2) % 5]} sieht {(number + 3) % 5} Tiere" + " im Wald" * (number % 40)
        for number in range(len(ANIMALS))
    )
    one_log = {"lines": ANIMALS[::-1], "references_path": clean.translations[0].path}
    for changes, title in (
        ({"lines": ANIMALS[::-1]}, "Translations and references are in different orders"),
        ({"lines": ANIMALS[:1] * len(ANIMALS)}, "Translations belong to other sentences"),
        ({"lines": few_words}, "Translations belong to other sentences"),
        (one_log, "Translations belong to other sentences"),
    ):
        (finding,) = check_reference_order(small(clean, references=ANIMALS, **changes)).findings
        assert finding.title.startswith(title)


def test_a_part_that_is_shifted_is_out_of_order(clean: Case) -> None:
    shifted = (*ANIMALS[:40], *ANIMALS[41:], "")
    case = small(clean, lines=shifted, references=ANIMALS)
    (finding,) = check_reference_order(case).findings
    assert (finding.cause, finding.evidence[0].value) == ("reference_order", "41")
    assert CHECKS["pieces"](case).findings == ()


def test_references_of_another_number_are_found(clean: Case) -> None:
    references = (clean.translations[0].references or ())[:-1]
    assert titles(check_reference_order(with_translation(clean, references=references))) == [
        "Scored against other references than the test set's"
    ]
    assert check_reference_order(clean).findings == ()


def test_a_score_that_is_another_definitions_is_named(clean: Case) -> None:
    lines = (LINES[0].lower(), *LINES[1:])
    reported = Reported("score.json", "bleu_sacre_13a", 100.0, "")
    (finding,) = check_definition(small(clean, lines=lines, reported=(reported,))).findings
    assert finding.evidence[0].expected == "66.67; 100.00 is bleu_sacre_13a_lc"
    assert finding.title == "Scored without case"
    assert finding.cost is not None
    assert finding.cost.low == pytest.approx(-33.33, abs=0.01)
    right = replace(reported, value=66.67)
    assert not check_definition(small(clean, lines=lines, reported=(right,))).findings


def test_lower_cased_translations_lose_what_a_score_without_case_would_have_more(
    clean: Case,
) -> None:
    lines = tuple(line.lower() for line in LINES)
    (finding,) = check_definition(small(clean, lines=lines)).findings
    assert finding.title.startswith("Translations are lower-cased")
    assert finding.cost is not None
    assert finding.cost.low == 100.0  # 0 of 3 lines are right, 3 of 3 without case
    (finding,) = check_definition(small(clean, references=lines)).findings
    assert finding.title.startswith("The references are lower-cased")
