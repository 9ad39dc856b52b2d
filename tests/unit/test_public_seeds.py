"""Public seeds: what the shipped file has, which runs count, and the pooled noise. How a spoilt file
is refused is in the transcript `refused_printed`.
"""

from collections import Counter

import pytest

from aiayn.printed import PUBLISHED_FOLDER
from aiayn.scoring.verdict import judge
from paper_tables.public_seeds import (
    ALGOPERF,
    FILE_NAME,
    MLPERF,
    Quantity,
    noise_sentence,
    published_means,
    read_public_seeds,
    seed_noise,
    seeds_by_public_noise,
)

MAX_BYTES = 150_000


def test_every_run_is_there_by_source_and_the_file_is_small() -> None:
    lines = read_public_seeds()
    assert Counter(line.source for line in lines) == {
        "algoperf_v05": 585,
        "algoperf_v06": 33,
        "mlperf_v0.5": 30,
        "mlperf_v0.6": 120,
        "mlperf_v0.7": 180,
        "fairseq-apollo": 5,
        "reproduce-transformer": 2,
    }
    assert (PUBLISHED_FOLDER / FILE_NAME).stat().st_size <= MAX_BYTES
    assert [(line.setting, line.bleu_test, line.bleu_sd) for line in published_means()][-2:] == [
        ("fp32", 27.60, 0.13),
        ("amp", 27.58, 0.22),
    ]


def test_runs_of_a_setting_have_seeds_of_their_own() -> None:
    for source in (ALGOPERF, MLPERF):
        for runs in seed_noise(source).runs_by_setting.values():
            seeds = {run.seed for run in runs}
            assert seeds == {""} or len(seeds) == len(
                runs
            )  # MLPerf's v0.6 and Google's TensorFlow log no seed


@pytest.mark.parametrize(
    ("source", "quantity", "expected"),
    [
        (ALGOPERF, "bits_dev", (12, 47, 0.0038, 0.0014, 0.0061)),
        (ALGOPERF, "bleu_dev", (12, 47, 0.157, 0.077, 0.243)),
        (ALGOPERF, "bleu_test", (12, 47, 0.166, 0.033, 0.288)),
        (MLPERF, "bleu_test", (33, 297, 0.320, 0.152, 0.857)),
    ],
)
def test_the_noise_is_what_a_second_script_found(
    source: str, quantity: Quantity, expected: tuple[int, int, float, float, float]
) -> None:
    """The expected values were computed by pandas: `groupby` of the settings, then `std`."""
    pooled = seed_noise(source).pooled(quantity)
    assert pooled is not None
    assert (pooled.num_systems, pooled.degrees_of_freedom) == expected[:2]
    sds = (pooled.sd, pooled.smallest_sd, pooled.largest_sd)
    half_digit = 0.00005 if quantity == "bits_dev" else 0.0005
    assert sds == pytest.approx(expected[2:], abs=half_digit)


def test_a_run_that_stopped_early_or_never_learned_does_not_count() -> None:
    counted = [run for runs in seed_noise(ALGOPERF).runs_by_setting.values() for run in runs]
    assert {run.updates for run in counted} == {133_333}
    assert min(run.bleu_test for run in counted) > 25  # type: ignore[type-var]
    assert {run.averaged for run in counted} == {"no"}
    assert not any(
        "generalized_adam external_tuning/wmt_jax/trial_1" in run.setting_name for run in counted
    )


def test_the_sentence_names_both_sources() -> None:
    sentence = noise_sentence()
    for words in (
        "330 En-De runs of 33 systems have a pooled sd of 0.32 BLEU",
        "59 De-En runs of 12 settings 0.17",
    ):
        assert words in sentence


def test_a_verdict_without_an_sd_of_ours_says_the_seeds_at_public_noise() -> None:
    """MLPerf's sd 0.32 with about 300 df: 0.27 + 1.65 * 0.32 / n^0.5 falls below 0.5 at n = 6."""
    text = seeds_by_public_noise(judge(28.4, [28.13], None))
    assert text == "6 at MLPerf's sd 0.32 (En-De), 3 at AlgoPerf's sd 0.17 (De-En)"
    assert seeds_by_public_noise(judge(28.4, [28.13, 28.2], None)) == ""  # an sd of ours
    assert seeds_by_public_noise(judge(28.4, [], None)) == ""  # no difference
    assert seeds_by_public_noise(judge(28.4, [27.9], None)).startswith(
        "no number at MLPerf's sd"
    )  # at the margin
