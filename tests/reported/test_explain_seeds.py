"""Several values of one system: the verdict, the printed number as one run, what is cited, and what
is refused.
"""

import json

import pytest

from aiayn.__main__ import main
from analysis.reported.seeds import (
    explain_seeds,
    printed_numbers,
    question_of_values,
    render_seeds,
)

BIG = ["--system", "big"]


def asked(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, object]:
    assert main(["explain", *flags, "--json"]) == 0
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


def test_the_mean_of_another_paper_is_judged_with_its_own_sd_and_number_of_seeds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = (27.7, 27.84, 27.98)  # mean 27.84, sd 0.14
    of_values = asked(capsys, "--bleu", *map(str, values), *BIG)
    of_mean = asked(capsys, "--mean", "27.84", "--sd", "0.14", "--num-seeds", "3", *BIG)
    for name in (
        "outcome",
        "difference",
        "interval",
        "p_outside",
        "num_seeds_to_decide",
        "prediction_half_width",
    ):
        seen = [answer["verdicts"][0]["verdict"][name] for answer in (of_values, of_mean)]  # type: ignore[index]
        assert seen[0] == pytest.approx(seen[1]), name
    assert of_mean["question"]["values"] == []  # type: ignore[index]  # none is known
    assert of_mean["rule"]["sd_from"] == "given: 0.14, 2 degrees of freedom"  # type: ignore[index]


@pytest.mark.parametrize(("flags", "told"), [
    (("--mean", "27.8", "--sd", "0.1"), "--num-seeds"),
    (("--mean", "27.8", "--sd", "0.1", "--num-seeds", "1"), "one seed has no sd"),
    (("--mean", "nan", "--sd", "0.1", "--num-seeds", "5"), "expected 0 to 100"),
    (("--mean", "27.8", "--sd", "nan", "--num-seeds", "5"), "expected 0 to 100"),
    (("--bleu", "27.8", "27.9", "--num-seeds", "5"), "expected with --mean"),
])  # fmt: skip
def test_a_mean_without_its_sd_or_seeds_is_refused(
    flags: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *flags, *BIG]) == 2
    assert told in capsys.readouterr().err


def test_one_seed_without_an_sd_of_ours_has_the_seeds_at_public_noise() -> None:
    numbers = printed_numbers("big", "en-de")
    value = float(numbers[0].value) - 0.2
    question = question_of_values([value], numbers[0], testset=None, metric=None)
    text = " ".join(render_seeds(explain_seeds(question, numbers)).split())
    wanted = text.split("if mean and sd stayed: ")[1]
    assert "at MLPerf's sd 0.32 (En-De), " in wanted
    assert "at AlgoPerf's sd 0.17 (De-En). " in wanted
    assert "Source: mlcommons/training_results_v0.5 to v0.7" in wanted
