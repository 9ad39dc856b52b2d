"""Several values of one system: the verdict, the printed number as one run, what is cited, and what
is refused.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from aiayn.__main__ import main
from analysis.reported.seeds import (
    explain_seeds,
    printed_numbers,
    question_of_values,
    render_seeds,
)
from tests.logs.factory import GenerationText, TrainingText, averaging_text, write

MEASURED = Path(__file__).resolve().parents[2] / "paper_tables" / "measured"
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
    (("--mean", "127.8", "--sd", "0.1", "--num-seeds", "5"), "expected 0 to 100"),
    (("--mean", "27.8", "--sd", "-0.1", "--num-seeds", "5"), "expected 0 to 100"),
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
    question = question_of_values([value], numbers[0], scale=None, testset=None, metric=None)
    text = " ".join(render_seeds(explain_seeds(question, numbers)).split())
    wanted = text.split("if mean and sd stayed: ")[1]
    assert "at MLPerf's sd 0.32 (En-De), " in wanted
    assert "at AlgoPerf's sd 0.17 (De-En). " in wanted
    assert "Source: mlcommons/training_results_v0.5 to v0.7" in wanted


@pytest.mark.skipif(not (MEASURED / "multi30k").is_dir(), reason="no measured runs are shipped")
def test_a_smaller_scale_is_a_reason_and_a_replication_of_it_is_judged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = asked(capsys, "--from-logs", str(MEASURED / "multi30k"), "--system", "base")
    (judged,) = answer["verdicts"]  # type: ignore[misc]
    assert judged["verdict"]["reason"].startswith("Another scale: ours is multi30k")
    answer = asked(capsys, "--from-logs", str(MEASURED / "multi30k"), "--system", "revisit_tiny")
    (judged,) = answer["verdicts"]  # type: ignore[misc]
    assert judged["printed"]["value"] == "41.02"
    assert judged["verdict"]["outcome"] != "NOT COMPARABLE"


def write_logs(folder: Path, *, warm_up: int = 4000, score: str = GenerationText().score) -> Path:
    """Write logs of base with three seeds and the BLEU of each; the third with other values, if any
    are given.
    """
    for seed, value in ((1, "27.21"), (2, "27.31"), (3, "27.41")):
        place = f"checkpoints/s{seed}"
        text = TrainingText(num_epochs=20, final_nll_bits=2 + seed / 100)
        training = text.changed(seed=seed, save_dir=place)
        generation = replace(
            GenerationText(value=value), score=score if seed == 3 else GenerationText().score
        )
        average = averaging_text(
            [f"{place}/checkpoint{n}.pt" for n in range(16, 21)], f"{place}/averaged.pt"
        )
        write(
            folder / f"s{seed}",
            {
                "train.log": (
                    (training.changed(warmup_updates=warm_up) if seed == 3 else training).text()
                ),
                "gen.log": generation.changed(path=f"{place}/averaged.pt").text(),
                "average.log": average,
            },
        )
    return folder


def test_foreign_logs_are_asked_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = asked(capsys, "--from-logs", str(write_logs(tmp_path)), "--system", "base")
    assert sorted(answer["question"]["values"]) == [27.21, 27.31, 27.41]  # type: ignore[index]
    (judged,) = answer["verdicts"]  # type: ignore[misc]
    assert "ours is bleu_as_given" in judged["verdict"]["reason"]


def test_a_seed_with_different_settings_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_logs(tmp_path, warm_up=8000)
    answer = asked(capsys, "--from-logs", str(folder), "--system", "base")
    assert sorted(answer["question"]["values"]) == [27.21, 27.31]  # type: ignore[index]


@pytest.mark.parametrize(
    ("changes", "system", "message"),
    [
        ({"score": "BLEU = {value} {precisions} (BP = 1.000 ratio = 1.031 hyp_len = 66501 ref_len = 64512)"},
         "base", "values of several definitions, bleu_as_given and bleu_sacre_on_tokens"),
        ({}, "big", "no BLEU in these logs fills the row"),
        ({}, "revisit_tiny", "no BLEU in these logs fills the row"),
    ],
)  # fmt: skip
def test_values_that_do_not_belong_together_are_refused(
    changes: dict[str, int],
    system: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = write_logs(tmp_path, **changes)  # type: ignore[arg-type]
    assert main(["explain", "--from-logs", str(folder), "--system", system]) == 1
    assert message in capsys.readouterr().err
