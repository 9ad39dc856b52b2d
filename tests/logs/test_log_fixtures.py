"""The forms of public logs (tests/logs/README.md): what is read from each, and what becomes of it
in the tables.
"""

from pathlib import Path

import pytest

from aiayn.facts.listing import list_folder
from aiayn.facts.reader import read_log
from aiayn.facts.trainings import JoinedLogs
from aiayn.facts.types import Section
from tests.known_good.folders import generation, judge, problems_of, training

FOLDER = Path(__file__).parents[1] / "logs"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".log", ".txt"))


def sections_of(name: str) -> tuple[Section, ...]:
    return read_log(FOLDER / name, name).sections


@pytest.fixture(scope="module")
def judged() -> JoinedLogs:
    return judge(FOLDER)


def curve_of(section: Section) -> list[tuple[int, int, float | None]]:
    return [(one.epoch, one.update, one.nll_bits) for one in section.validations.values()]


def test_every_fixture_is_read() -> None:
    # The folder also holds these tests, and may hold their byte code.
    paths = [path for path in list_folder(FOLDER).log_paths if "__pycache__" not in path]
    assert (paths, len(NAMES)) == (NAMES, 8)
    assert all(sections_of(name) for name in NAMES)


def test_statistics_pasted_into_a_thread_are_read_but_fill_nothing(judged: JoinedLogs) -> None:
    (section,) = sections_of("fairseq06_pasted.log")
    assert curve_of(section) == [
        (1, 25_000, 3.5),
        (2, 50_000, 3.0),
        (3, 75_000, 2.5),
        (4, 100_000, 2.0),
    ]
    assert section.arguments == {}
    assert problems_of(judged, "fairseq06_pasted.log") >= {"d_model", "done_seconds", "history"}


def test_json_without_times_whose_validations_name_no_update(judged: JoinedLogs) -> None:
    (section,) = sections_of("fairseq06_big_enfr.log")
    assert curve_of(section)[-1] == (4, 80_000, 2.0)
    assert section.value("num_gpus") == 128
    assert (section.arguments["max_tokens"], section.log_format) == (5120, "json")
    found = training(judged, "fairseq06_big_enfr.log")
    assert found.row is not None
    assert found.row.name == "big_enfr, en-fr"
    assert problems_of(judged, "fairseq06_big_enfr.log") >= {
        "peak_learning_rate",
        "updates",
        "tokens_per_update",
        "wrong_rates",
    }


def test_two_starts_wrapped_by_a_terminal_are_two_trainings_that_never_began(
    judged: JoinedLogs,
) -> None:
    sections = sections_of("fairseq09_wrapped.log")
    assert [section.line for section in sections] == [2, 10]
    assert [section.arguments["seed"] for section in sections] == [1, 2]
    for line in (2, 10):
        found = problems_of(judged, f"fairseq09_wrapped.log:{line}")
        assert found >= {"updates", "done_seconds"}


def test_a_resumed_training_of_another_model_is_named_by_it(judged: JoinedLogs) -> None:
    (section,) = sections_of("fairseq10_resumed.log")
    assert (section.value("resumed_updates"), section.last_update) == (50_000, 300_000)
    assert section.value("done_seconds") is None
    found = training(judged, "fairseq10_resumed.log")
    assert found.row is None
    differing = {problem.quantity: problem.value for problem in found.problems}
    assert differing["architecture"] == "syntax_glat"
    assert "done_seconds" in differing


def test_a_complete_training_of_another_corpus_matches_no_row(judged: JoinedLogs) -> None:
    (section,) = sections_of("fairseq12_iwslt.log")
    assert section.value("num_parameters") == 11_335_680
    assert str(section.value("gpu")).strip() == "GeForce RTX 2080 Ti"
    assert list(section.validations.values())[-1].value_by_name["bleu"] == 32.5
    found = training(judged, "fairseq12_iwslt.log")
    assert (found.row, found.target is None) == (None, False)
    differing = {one.quantity for one in found.problems if "row" in one.keeps_out}
    assert differing >= {"num_layers", "d_model", "num_heads", "language_pair"}


def test_many_generations_in_one_file_are_apart_and_of_a_changed_model(
    judged: JoinedLogs,
) -> None:
    found = [one for one in judged.generations if one.name.startswith("fairseq12_generations.log")]
    assert [one.bleu for one in found] == [33.0, 33.1, 33.2]
    for one in found:
        assert one.training is training(judged, "fairseq12_iwslt.log")
        assert "generate.model_overrides" in {problem.quantity for problem in one.problems}


def test_results_files_are_generations_of_pieces(judged: JoinedLogs) -> None:
    unstated = {"generate-test.txt": {"training"}, "generate-cut.txt": {"training", "bleu"}}
    for name, expected in unstated.items():
        (section,) = sections_of(name)
        assert (section.num_hypotheses, section.num_marked > 0) == (8, True)
        read = generation(judged, name)
        assert read.metric == "bleu_as_given"
        assert {one.quantity for one in read.problems if not one.is_stated} >= expected


def test_the_readme_names_every_fixture() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}`" not in text] == []
