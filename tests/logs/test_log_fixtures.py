"""The forms of public logs (tests/logs/README.md): what is read from each, and what becomes of it
in the tables.
"""

from pathlib import Path

import pytest

from aiayn.facts.listing import list_folder
from aiayn.logs.evidence import metric_of_generation
from aiayn.logs.reader import read_log
from aiayn.logs.types import GenerationLog, TrainingLog
from paper_tables.compare.decoding import compare_generation
from paper_tables.compare.lines import JudgedFolder
from paper_tables.compare.systems import read_systems
from tests.logs import factory

FOLDER = Path(__file__).parents[1] / "logs"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".log", ".txt"))
SYSTEMS = read_systems(["paper"])


def read_training(name: str) -> TrainingLog:
    (entry,) = read_log(FOLDER / name).entries
    assert isinstance(entry, TrainingLog)
    return entry


@pytest.fixture(scope="module")
def judged() -> JudgedFolder:
    return factory.judged(FOLDER, SYSTEMS)


def test_every_fixture_is_read() -> None:
    assert (list_folder(FOLDER).log_paths, len(NAMES)) == (NAMES, 8)
    assert all(read_log(FOLDER / name).entries for name in NAMES)


def test_statistics_pasted_into_a_thread_are_read_but_fill_nothing(judged: JudgedFolder) -> None:
    training = read_training("fairseq06_pasted.log")
    assert [(v.epoch, v.update, v.nll_bits) for v in training.validations] == [
        (1, 25_000, 3.5),
        (2, 50_000, 3.0),
        (3, 75_000, 2.5),
        (4, 100_000, 2.0),
    ]
    assert training.arguments == {}
    assert rules_of(judged, "fairseq06_pasted.log", "error") == ["start-line", "done-line"]


def test_json_without_times_whose_validations_name_no_update(judged: JudgedFolder) -> None:
    training = read_training("fairseq06_big_enfr.log")
    assert [(v.epoch, v.update, v.nll_bits) for v in training.validations][-1] == (4, 80_000, 2.0)
    assert (training.num_gpus, training.arguments["max_tokens"], training.log_format) == (
        128,
        5120,
        "json",
    )
    (logged,) = [one for one in judged.trainings if one.path == "fairseq06_big_enfr.log"]
    assert logged.system is not None
    assert (logged.system.system, logged.training.language_pair) == ("big_enfr", "en-fr")
    assert rules_of(judged, logged.path, "error") == []
    assert [one.quantity for one in logged.judgements if not one.is_good] == [
        "peak_learning_rate",
        "updates",
        "tokens_per_update",
        "printed_rates",
    ]


def test_two_starts_wrapped_by_a_terminal_are_two_trainings_that_never_began(
    judged: JudgedFolder,
) -> None:
    entries = read_log(FOLDER / "fairseq09_wrapped.log").entries
    assert [entry.first_line for entry in entries] == [2, 10]
    assert [entry.arguments["seed"] for entry in entries if isinstance(entry, TrainingLog)] == [
        1,
        2,
    ]
    for line in (2, 10):
        assert rules_of(judged, f"fairseq09_wrapped.log@{line}", "error") == [
            "updates-begun",
            "language-pair",
        ]


def test_a_resumed_training_of_another_model_is_named_by_it(judged: JudgedFolder) -> None:
    training = read_training("fairseq10_resumed.log")
    assert (training.first_update, training.last_update, training.is_done) == (
        50_000,
        300_000,
        False,
    )
    (logged,) = [one for one in judged.trainings if one.path == "fairseq10_resumed.log"]
    assert logged.training.symbols["architecture"] == "syntax_glat"
    assert logged.system is None
    assert rules_of(judged, logged.path, "error") == ["done-line", "language-pair"]


def test_a_complete_training_of_another_corpus_matches_no_row(judged: JudgedFolder) -> None:
    training = read_training("fairseq12_iwslt.log")
    assert (training.is_done, training.num_parameters, training.gpu) == (
        True,
        11_335_680,
        "GeForce RTX 2080 Ti",
    )
    assert training.validations[-1].bleu == 32.5
    assert rules_of(judged, "fairseq12_iwslt.log", "error") == ["language-pair"]
    (logged,) = [one for one in judged.trainings if one.path == "fairseq12_iwslt.log"]
    assert logged.match.nearest is not None
    assert [symbol for symbol, _, _ in logged.match.differences] == [
        "num_layers",
        "d_model",
        "num_heads",
        "p_drop",
    ]


def test_many_generations_in_one_file_are_apart_and_of_a_changed_model(
    judged: JudgedFolder,
) -> None:
    logged = [
        one for one in judged.logs.generations if one.path.startswith("fairseq12_generations.log")
    ]
    assert [one.bleu for one in logged] == [33.0, 33.1, 33.2]
    assert {one.training_path for one in logged} == {"fairseq12_iwslt.log"}
    base = next(system for system in SYSTEMS if system.system == "base")
    for one in logged:
        assert "model_overrides" in {
            judgement.quantity for judgement in compare_generation(one, "en-de", base)
        }


def test_results_files_are_generations_of_pieces(judged: JudgedFolder) -> None:
    for name, rules in {
        "generate-test.txt": ["known-training"],
        "generate-cut.txt": ["bleu-line", "known-training"],
    }.items():
        (entry,) = read_log(FOLDER / name).entries
        assert isinstance(entry, GenerationLog)
        assert (entry.num_hypotheses, entry.has_piece_marks) == (8, True)
        assert metric_of_generation(entry) == "bleu_as_given"
        (found,) = [one for one in judged.others if one.generation.path == name]
        assert [finding.check for finding in found.findings] == rules


def rules_of(judged: JudgedFolder, path: str, severity: str) -> list[str]:
    """Return the rules of a severity that a training breaks, in the order of the rules."""
    (training,) = [one for one in judged.trainings if one.path == path]
    return [finding.check for finding in training.findings if finding.severity == severity]


def test_the_readme_names_every_fixture() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}`" not in text] == []
