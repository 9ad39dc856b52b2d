"""Each check of the doctor shown failing once, on the clean run's evidence with one thing in it
changed; problems of the judge under their causes.
"""

import dataclasses
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from aiayn.facts.trainings import Generation
from aiayn.facts.types import Fact, Section
from aiayn.known_good.judge import judge
from aiayn.records import Beginning, TrainRecord, read_record
from aiayn.spec.system import Overrides, read_corpus
from analysis.doctor.check_problems import check_problems
from analysis.doctor.check_training import check_divergence
from analysis.doctor.check_translation import check_lengths
from analysis.doctor.collect import collect_run
from analysis.doctor.costs import rank
from analysis.doctor.diagnose import diagnose, make_claim
from analysis.doctor.types import Case, Checked, Finding
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


def found(answer: Checked) -> Sequence[Finding]:
    """Return the findings of a check that could be made."""
    assert not isinstance(answer, str)
    return answer


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
    findings = check_problems(collect(lay_out(made, tmp_path)))
    assert [finding.cause for finding in found(findings)] == row["causes"]
    content = msgspec.json.encode(findings).decode()
    assert [words for words in row.get("says", []) if words not in content] == []


def with_last_bits(case: Case, bits: float) -> Case:
    """Return a case whose last validation is at `bits` a subword."""
    assert case.training is not None
    *validations, last = case.training.validations
    validations.append(replace(last, value_by_name={"nll_loss": bits}))
    return replace(case, training=replace(case.training, validations=validations))


@pytest.mark.parametrize("bits", [12.0, float("nan")])
def test_a_training_that_ends_far_above_its_best_has_diverged(clean: Case, bits: float) -> None:
    assert found(check_divergence(clean)) == []
    (finding,) = found(check_divergence(with_last_bits(clean, bits)))
    assert finding.title.startswith("The training diverged after update ")


def test_a_check_without_its_evidence_says_so_and_finds_nothing() -> None:
    diagnosis = diagnose(Case(claim=CLAIM))
    assert diagnosis.findings == ()
    assert diagnosis.not_judged == ("the log of the training", "a translation of the test set")
    (sentence,) = diagnosis.notes
    names = ("divergence", "the start", "the length of translations", "the definition of the score")
    assert sentence.startswith("Not checked: ")
    assert [name for name in names if name not in sentence] == []


def test_what_keeps_a_perplexity_out_is_a_note(clean: Case) -> None:
    problems = judge([Fact("dev_pairs", 10, "train.log", 7)], {"dev_pairs": 3000}, ("ppl",))
    diagnosis = diagnose(replace(clean, problems=problems))
    assert diagnosis.findings == ()
    assert "Note: train.log:7: number of dev pairs 10, expected 3,000" in diagnosis.notes[0]


def test_a_system_with_learned_positions_is_not_told_to_train_without_them(clean: Case) -> None:
    fact = Fact("positions", "sinusoidal", "train.log", 1)
    problems = judge([fact], {"positions": "learned"}, ("train",))
    (finding,) = found(check_problems(replace(clean, problems=problems)))
    assert finding.fix.startswith("--encoder-learned-pos --decoder-learned-pos for learned")


def test_of_two_averages_of_a_test_set_one_must_be_the_tables(tmp_path: Path) -> None:
    results = results_of("no_averaging", tmp_path)
    (finding,) = found(check_problems(collect(results)))
    assert (finding.cause, finding.amount) == ("average", 1.0)
    lay_out(assemble("clean", tmp_path / "averaged"), tmp_path)
    assert found(check_problems(collect(results))) == []


def test_a_symptom_ranks_after_causes_and_is_found_only_where_bounds_are_published(
    clean: Case,
) -> None:
    section = Section(path="gen.out", program="generate", line=1)
    for name, value in (("bleu", 20.0), ("brevity_penalty", 0.8), ("reference_tokens", 100)):
        section.state(name, value, 9)
    section.state("hypothesis_tokens", 82, 9)
    generation = Generation(section=section)
    short = replace(clean, generations=[generation])
    assert found(check_lengths(short)) == []
    of_wmt14 = replace(CLAIM, corpus=read_corpus("wmt14_en_de"))
    symptoms = found(check_lengths(replace(short, claim=of_wmt14)))
    (symptom,) = symptoms
    assert symptom.cost is not None
    assert symptom.cost.low == pytest.approx(5.0)
    problems = judge([Fact("updates", 250, "train.log", 1)], {"updates": 700}, ("train",))
    causes = found(check_problems(replace(clean, problems=problems)))
    assert [finding.cause for finding in rank([*symptoms, *causes])] == ["updates", "lengths"]


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
