"""Each check of the doctor shown failing once, on the clean run's evidence with one thing in it
changed; problems of the judge under their causes.
"""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from aiayn.facts.trainings import Translation
from aiayn.facts.types import Fact, Section
from aiayn.known_good.judge import judge
from aiayn.records import Beginning, TrainRecord, read_record
from aiayn.spec.system import Overrides, read_corpus
from analysis.doctor.check_problems import check_training, check_translation
from analysis.doctor.check_training import check_divergence
from analysis.doctor.check_translation import check_lengths
from analysis.doctor.collect import collect_run
from analysis.doctor.costs import rank
from analysis.doctor.diagnose import CHECKS, diagnose, make_claim
from analysis.doctor.types import Case
from tests.doctor.fixtures import assemble, lay_out, results_of
from tests.logs.factory import TrainingText, write
from tests.records_factory import TRAINED

ROWS = tomllib.loads(Path(__file__).with_name("checks.toml").read_text(encoding="utf-8"))["case"]
CLAIM = make_claim("clean", "demo", "base", "demo_en_de", Overrides())


def collect(results: Path) -> Case:
    train = read_record(results / "demo/train/demo_en_de/base/seed1.json", TrainRecord)
    return collect_run(results, train, CLAIM)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return collect(results_of("clean", tmp_path_factory.mktemp("doctor")))


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_a_change_of_the_clean_run_is_answered(row: dict[str, Any], tmp_path: Path) -> None:
    """Each row of checks.toml replaces text in a file of the clean run."""
    made = assemble("clean", tmp_path / "made")
    path = made / row.get("file", "train.log")
    text = path.read_text(encoding="utf-8")
    for old, new in row["replaced"].items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    answer = CHECKS[row["check"]](collect(lay_out(made, tmp_path)))
    assert [one.cause for one in answer.findings] == row["causes"]
    content = msgspec.json.encode(answer).decode()
    assert [words for words in row.get("says", []) if words not in content] == []


def with_last_bits(case: Case, bits: float) -> Case:
    """Return a case whose last validation is at `bits` a subword."""
    assert case.training is not None
    *validations, last = case.training.validations
    validations.append(replace(last, value_by_name={"nll_loss": bits}))
    return replace(case, training=replace(case.training, validations=validations))


@pytest.mark.parametrize("bits", [12.0, float("nan")])
def test_a_training_that_ends_far_above_its_best_has_diverged(clean: Case, bits: float) -> None:
    assert check_divergence(clean).findings == ()
    (finding,) = check_divergence(with_last_bits(clean, bits)).findings
    assert finding.title.startswith("The training diverged after update ")


def test_a_check_without_its_evidence_says_so_and_finds_nothing() -> None:
    empty = Case(claim=CLAIM)
    assert [outcome.check for outcome in diagnose(empty).outcomes] == list(CHECKS)
    for check in CHECKS.values():
        outcome = check(empty)
        assert outcome.missing
        assert outcome.findings == ()


def test_of_two_averages_of_a_test_set_one_must_be_the_tables(tmp_path: Path) -> None:
    results = results_of("no_averaging", tmp_path)
    (finding,) = check_translation(collect(results)).findings
    assert (finding.cause, finding.amount) == ("average", 1.0)
    lay_out(assemble("clean", tmp_path / "averaged"), tmp_path)
    assert not check_translation(collect(results)).findings


def test_a_symptom_ranks_after_causes_and_is_found_only_where_bounds_are_published(
    clean: Case,
) -> None:
    section = Section(path="gen.out", program="generate", line=1)
    for name, value in (("bleu", 20.0), ("brevity_penalty", 0.8), ("reference_tokens", 100)):
        section.state(name, value, 9)
    section.state("hypothesis_tokens", 82, 9)
    translation = Translation(section=section)
    short = replace(clean, translations=[translation])
    assert not check_lengths(short).findings
    of_wmt14 = replace(CLAIM, corpus=read_corpus("wmt14_en_de"))
    symptoms = check_lengths(replace(short, claim=of_wmt14)).findings
    (symptom,) = symptoms
    assert symptom.cost is not None
    assert symptom.cost.low == pytest.approx(5.0)
    problems = judge([Fact("updates", 250, "train.log", 1)], {"updates": 700}, ("train",))
    cause = check_training(replace(clean, problems={"training": problems})).findings
    assert [one.cause for one in rank([*symptoms, *cause])] == ["updates", "lengths"]


def test_a_run_and_the_run_that_it_continues_are_one_training(tmp_path: Path) -> None:
    """They saved into two folders, and the record says that one continues the other."""
    loaded = "loaded checkpoint checkpoints/base/checkpoint_last.pt (epoch 3 @ 50000 updates)"
    first = dataclasses.replace(TrainingText(), is_done=False).text()
    second = dataclasses.replace(TrainingText(), first_epoch=3, num_epochs=2, loaded=loaded)
    texts = {"a/train.log": first, "b/train.log": second.changed(save_dir="checkpoints/b").text()}
    runs = write(tmp_path / "runs", texts)
    train = replace(
        TRAINED,
        run="b",
        log_path=runs / "b" / "train.log",
        beginning=Beginning(run="a", update=50_000, tensors_sha256=""),
    )
    case = collect_run(tmp_path, train, CLAIM)
    assert case.training is not None
    assert [one.value("resumed_updates") for one in case.training.sections] == [0, 50_000]
