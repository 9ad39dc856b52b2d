"""Paired tests over segments: sacreBLEU's own numbers, its two faults corrected, and a seed that is an argument."""

import os

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from aiayn.errors import ScoreError
from analysis.questions.significance import (
    NUM_RESAMPLES_BY_METHOD,
    Method,
    PairedComparison,
    Statistics,
    compare_segments,
)

METHODS: tuple[Method, ...] = ("bootstrap", "randomisation")
SHORT_BY_METHOD = {"bootstrap": "bs", "randomisation": "ar"}


def spoilt(lines: list[str], fraction: float, seed: int) -> list[str]:
    """Return the lines with some words replaced."""
    rng = np.random.default_rng(seed)
    return [" ".join("x" if rng.random() < fraction else word for word in line.split()) for line in lines]


def random_lines(num_lines: int = 40) -> list[str]:
    rng = np.random.default_rng(3)
    return [" ".join(rng.choice(list("abcdefgh"), size=12)) for _ in range(num_lines)]


REFERENCES = random_lines()
BASELINE, SYSTEM = spoilt(REFERENCES, 0.3, 1), spoilt(REFERENCES, 0.1, 2)


def counted(lines: list[str], metric: BLEU | CHRF) -> Statistics:
    return np.array(metric._extract_corpus_statistics(lines, [REFERENCES]))


def compare(
    baseline: list[str], system: list[str], method: Method = "bootstrap", *, seed: int = 7, num_resamples: int = 200
) -> PairedComparison:
    metric = BLEU()
    return compare_segments(
        counted(baseline, metric), counted(system, metric), scorer=metric, metric="bleu_sacre_13a",
        signature="nrefs:1|case:mixed|version:2", method=method, num_resamples=num_resamples, seed=seed,
    )  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("metric", [BLEU(), CHRF()], ids=["bleu", "chrf"])
def test_the_scores_and_sacrebleus_p_value_are_those_that_sacrebleu_prints(
    method: Method, metric: BLEU | CHRF, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = spoilt(REFERENCES, 0.28, 5)
    rows = counted(BASELINE, metric), counted(close, metric)
    ours = compare_segments(
        *rows, scorer=metric, metric="m", signature="nrefs:1", method=method, num_resamples=200, seed=7
    )
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    named = [("baseline", BASELINE), ("system", close)]
    test = PairedTest(named, {"m": metric}, [REFERENCES], test_type=SHORT_BY_METHOD[method], n_samples=200)
    _, results = test()
    of_baseline, of_system = next(values for name, values in results.items() if name != "System")
    found = (ours.baseline, ours.system, ours.sacrebleu_p_value)
    assert found == (of_baseline.score, of_system.score, of_system.p_value)
    assert (ours.p_value == of_system.p_value) == (method == "randomisation")
    assert 0.001 < ours.sacrebleu_p_value < 0.999  # neither end, where many a mistake looks right


def test_the_bootstraps_p_value_is_the_share_of_both_tails_and_sacrebleus_about_half_of_it() -> None:
    close = spoilt(REFERENCES, 0.24, 5)
    found = compare(BASELINE, close, num_resamples=2000)
    metric, rng = BLEU(), np.random.default_rng(1)
    rows = counted(BASELINE, metric), counted(close, metric)
    draws = rng.integers(len(REFERENCES), size=(2000, len(REFERENCES)))
    scores = [[metric._compute_score_from_stats(side[draw].sum(axis=0)).score for draw in draws] for side in rows]
    differences = np.subtract(scores[1], scores[0])
    both_tails = float((np.abs(differences - differences.mean()) > abs(found.difference)).mean())
    assert both_tails == pytest.approx(found.p_value, abs=0.02)
    assert both_tails > 0.06
    assert found.sacrebleu_p_value < 0.7 * both_tails


@pytest.mark.parametrize("method", METHODS)
def test_a_far_better_system_is_better_and_the_other_way_round_worse(method: Method) -> None:
    better, worse = compare(BASELINE, SYSTEM, method), compare(SYSTEM, BASELINE, method)
    assert better.difference == -worse.difference > 10
    assert better.is_significant
    assert worse.is_significant


def test_the_interval_holds_the_difference_and_changes_sign_with_it() -> None:
    better, worse = compare(BASELINE, SYSTEM), compare(SYSTEM, BASELINE)
    assert better.interval is not None
    low, high = better.interval
    assert 0 < low < better.difference < high
    assert worse.interval == pytest.approx((-high, -low))


def test_randomisation_has_no_interval() -> None:
    assert compare(BASELINE, SYSTEM, "randomisation").interval is None


@pytest.mark.parametrize("method", METHODS)
def test_identical_translations_differ_in_nothing_though_sacrebleu_says_significantly(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = compare(BASELINE, BASELINE, method)
    assert (ours.p_value, ours.num_differing, ours.is_significant) == (1.0, 0, False)
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    named = [("baseline", BASELINE), ("system", BASELINE)]
    test = PairedTest(named, {"m": BLEU()}, [REFERENCES], test_type=SHORT_BY_METHOD[method], n_samples=200)
    assert test()[1]["BLEU"][1].p_value == 1 / 201


@pytest.mark.parametrize(("num_corrected", "least"), [(1, 1.0), (2, 0.5), (3, 0.25)])
def test_a_difference_that_rests_on_few_sentences_cannot_be_significant(num_corrected: int, least: float) -> None:
    corrected = [*REFERENCES[:num_corrected], *BASELINE[num_corrected:]]
    found = compare(BASELINE, corrected, "randomisation")
    assert found.num_differing == num_corrected
    assert found.p_value >= least  # all swapped or none: 2 of 2^m ways
    assert not found.is_significant


def test_the_seed_is_an_argument_and_the_environment_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    close = spoilt(REFERENCES, 0.28, 5)
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    first, other = compare(BASELINE, close, seed=7), compare(BASELINE, close, seed=8)
    assert "SACREBLEU_SEED" not in os.environ
    monkeypatch.setenv("SACREBLEU_SEED", "none")
    assert compare(BASELINE, close, seed=7) == first
    assert os.environ["SACREBLEU_SEED"] == "none"
    assert first.p_value != other.p_value


def test_the_signature_says_test_resamples_seed_and_version() -> None:
    assert compare(BASELINE, SYSTEM).signature == "nrefs:1|bs:200|seed:7|case:mixed|version:2"
    assert compare(BASELINE, SYSTEM, "randomisation").signature == "nrefs:1|ar:200|seed:7|case:mixed|version:2"


def test_without_a_number_of_resamples_it_is_sacrebleus() -> None:
    rows = counted(BASELINE[:3], BLEU()), counted(SYSTEM[:3], BLEU())
    found = compare_segments(*rows, scorer=BLEU(), metric="m", signature="nrefs:1", method="bootstrap", seed=1)
    assert found.num_resamples == 1000
    defaults = {method: PairedTest._DEFAULT_SAMPLES[SHORT_BY_METHOD[method]] for method in METHODS}
    assert defaults == NUM_RESAMPLES_BY_METHOD


def test_a_seed_of_zero_is_refused_because_sacrebleu_would_draw_one_at_random() -> None:
    with pytest.raises(ScoreError, match="seed 0: expected 1 or more"):
        compare(BASELINE, SYSTEM, seed=0)


@pytest.mark.parametrize("num_resamples", [0, -1, 1_000_001])
def test_no_resamples_and_more_than_memory_holds_are_refused(num_resamples: int) -> None:
    with pytest.raises(ScoreError, match=r"resamples of 40 segments: expected 1 to 1,000,000"):
        compare(BASELINE, SYSTEM, num_resamples=num_resamples)
