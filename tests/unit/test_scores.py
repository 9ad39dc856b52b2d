"""Records become one tidy frame. A number of another run, or a repeated number, does not enter."""

from pathlib import Path

import pytest

from aiayn.errors import RecordError, ScoreError
from aiayn.paths import Evaluation
from aiayn.scoring.scores import (
    SCORE_COLUMNS,
    collect_scores,
    read_trainings,
    tidy_frame,
    values_by_number,
)
from aiayn.spec.sheet import TrainingKey
from tests.records_factory import Site, make_site, write_scores, write_training

DEV = Evaluation(
    corpus="demo_en_de",
    system="base",
    seed=1,
    average="last1",
    testset="demo_dev",
    role="dev",
    language_pair="en-de",
)


def line(seed: int, value: float, metric: str = "x") -> tuple[str | int | float, ...]:
    """Return a line of scores.tsv."""
    return ("x", "x", seed, "x", "x", metric, value, "x", "x", "x", "x")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def collect(site: Site, *, so_far: bool) -> list[tuple[object, ...]]:
    trains = read_trainings([DEV.training], site.results_folder, "demo", Path("runs"))
    frame = collect_scores(
        [DEV], trains, {DEV.training: site.results_folder}, "demo", so_far=so_far
    )
    assert tuple(frame.columns) == SCORE_COLUMNS
    return list(frame.itertuples(index=False, name=None))


def test_the_columns_are_those_that_others_read() -> None:
    expected = (
        "corpus system seed average testset metric value signature hypotheses_sha256 run commit"
    )
    assert " ".join(SCORE_COLUMNS) == expected


def test_a_score_and_a_perplexity_are_a_line_each(site: Site) -> None:
    write_training(site, "demo_en_de", "base", 1)
    write_scores(site, DEV, {"bleu_sacre_13a": 71.5, "ppl_per_subword": 2.0})
    key, run = ("demo_en_de", "base", 1, "last1", "demo_dev"), "demo_en_de-base-seed1-0a1b2c3d"
    assert collect(site, so_far=False) == [
        (
            *key,
            "bleu_sacre_13a",
            71.5,
            "case:mixed|of:bleu_sacre_13a",
            "f" * 64,
            run,
            "0123456789abcdef",
        ),
        (*key, "ppl_per_subword", 2.0, "eos:yes|ls:no", "", run, "0123456789abcdef"),
        (*key, "bits_per_subword", 1.0, "eos:yes|ls:no", "", run, "0123456789abcdef"),
    ]


def test_a_score_of_an_earlier_run_is_refused_and_left_out_so_far(site: Site) -> None:
    # The training was repeated, and its evaluation was not yet.
    write_training(site, "demo_en_de", "base", 1)
    write_scores(
        site,
        DEV,
        {"bleu_sacre_13a": 71.5, "ppl_per_subword": 1.25},
        run="demo_en_de-base-seed1-ffffffff",
    )
    assert collect(site, so_far=True) == []
    with pytest.raises(RecordError, match=r"demo_dev\.json: .*-ffffffff"):
        collect(site, so_far=False)


def test_a_score_without_its_training_is_left_out_so_far(site: Site) -> None:
    write_scores(site, DEV, {"bleu_sacre_13a": 71.5})
    assert collect(site, so_far=True) == []
    with pytest.raises(RecordError, match="expected no training record"):
        collect(site, so_far=False)


def test_a_missing_perplexity_is_an_error_but_not_so_far(site: Site) -> None:
    write_training(site, "demo_en_de", "base", 1)
    write_scores(site, DEV, {"bleu_sacre_13a": 71.5})
    assert len(collect(site, so_far=True)) == 1
    with pytest.raises(RecordError, match=r"perplexity.*demo_dev\.json"):
        collect(site, so_far=False)


def test_a_training_record_of_another_seed_is_refused(site: Site) -> None:
    write_training(site, "demo_en_de", "base", 1)
    folder = site.results_folder / "demo" / "train" / "demo_en_de" / "base"
    (folder / "seed1.json").rename(folder / "seed2.json")
    key = TrainingKey("demo_en_de", "base", 2)
    message = r"seed2\.json: record of demo_en_de base seed 1, expected demo_en_de base seed 2;"
    with pytest.raises(RecordError, match=message):
        read_trainings([key], site.results_folder, "demo", Path("runs"))


def test_one_number_twice_is_refused() -> None:
    with pytest.raises(ScoreError, match="x, x, 1, x, x, x"):
        tidy_frame([line(1, 1.0), line(1, 2.0)])


def test_values_come_by_seed_in_rising_order() -> None:
    frame = tidy_frame([line(3, 0.3), line(1, 0.1), line(1, 1.0, "other")])
    values, signatures = values_by_number(frame)[("x", "x", "x", "x"), "x"]
    assert list(values.items()) == [(1, 0.1), (3, 0.3)]
    assert signatures == ("x",)
