"""Several values of one system: the verdict, the printed number as one run, what is cited, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.terminal import WIDTH
from tests.logs.factory import GenerationText, TrainingText, averaging_text, write
from tests.records_factory import make_site, write_config, write_everything, write_left

MEASURED = Path(__file__).resolve().parents[2] / "paper_tables" / "measured"
BIG = ["--system", "big"]


def asked(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, object]:
    assert main(["explain", *flags, "--json"]) == 0
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


def test_three_seeds_get_a_verdict_and_are_held_against_the_printed_single_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = asked(capsys, "--bleu", "28.13", "28.4", "27.86", *BIG)
    assert answer["question"]["conditions"]["metric"] == "bleu_tok_compound_split"  # type: ignore[index]
    assert answer["question"]["values"] == [28.13, 28.4, 27.86]  # type: ignore[index]
    assert answer["rule"]["sd_from"] == "these values"  # type: ignore[index]
    assert answer["version"]
    (judged,) = answer["verdicts"]  # type: ignore[misc]
    verdict = judged["verdict"]
    assert (judged["printed"]["value"], verdict["outcome"]) == ("28.4", "UNDECIDED")
    assert verdict["prediction_half_width"] == pytest.approx(1.341, abs=0.001)  # 4.303 * 0.27 * (4/3)^0.5
    assert judged["is_printed_predicted"] is True
    assert verdict["num_seeds_to_decide"] == 6  # t(0.95, 5 df) = 2.015: 0.27 + 2.015 * 0.27 / 6^0.5 = 0.49
    assert "330 runs" in str(answer["public_spread"])


def test_the_text_has_both_answers_with_their_meaning_and_no_line_too_wide(capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (BIG, ["--system", "revisit_tiny"], [*BIG, "--metric", "bleu_sacre_13a"]):
        assert main(["explain", "--bleu", "40.93", "41.03", "41.2", *flags]) == 0
        text = capsys.readouterr().out
        assert text.isascii()
        assert [line for line in text.split("\n") if len(line) > WIDTH] == []
    assert main(["explain", "--bleu", "28.3", "28.5", "28.4", *BIG]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "REPRODUCED. Equivalent" in text
    assert "28.4 lies inside the 95 % prediction interval of one more run, 27.90 to 28.90 (+-0.50)" in text
    assert "Inside says that one run cannot be told from ours. It is no REPRODUCED" in text
    assert "it enters no verdict. Source: mlcommons/training_results_v0.5" in text


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--metric", "bleu_sacre_13a"], "Another definition: ours is bleu_sacre_13a"),
        (["--testset", "newstest2014_filtered"], "Another test set: ours is newstest2014_filtered"),
        (["--scale", "multi30k"], "Another scale: ours is multi30k, the printed number's paper"),
    ],
)
def test_what_is_not_comparable_has_its_reason_and_no_prediction(
    flags: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = asked(capsys, "--bleu", "28.4", "28.4", "28.5", *BIG, *flags)
    (judged,) = answer["verdicts"]  # type: ignore[misc]
    assert judged["verdict"]["outcome"] == "NOT COMPARABLE"
    assert reason in judged["verdict"]["reason"]
    assert (judged["verdict"]["prediction_interval"], judged["is_printed_predicted"]) == (None, None)
    has_gaps = answer["evidence"] is not None and bool(answer["evidence"]["gaps"])  # type: ignore[index]
    assert has_gaps == ("--scale" not in flags and "--testset" not in flags)


@pytest.mark.parametrize(
    ("values", "expected", "exit_code"),
    [
        ("28.3 28.5 28.4", "reproduced", 0), ("28.3 28.5 28.4", "not-reproduced", 4),
        ("26.1 26.2 26.3", "reproduced", 4),
        ("26.1 26.2 26.3", "not-reproduced", 0), ("28.1 28.5 27.9", "reproduced", 4),
        ("28.3 28.5 28.4 --metric bleu_sacre_13a", "reproduced", 4),
    ],
)  # fmt: skip
def test_another_verdict_than_expected_is_exit_code_4_without_an_error_line(
    values: str, expected: str, exit_code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--bleu", *values.split(), *BIG, "--expect", expected]) == exit_code
    shown = capsys.readouterr()
    assert (shown.err, "Printed: 28.4" in shown.out) == ("", True)


def test_an_sd_with_its_degrees_of_freedom_replaces_that_of_the_values(capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(capsys, "--bleu", "28.13", "28.4", "27.86", *BIG, "--sd", "0.27", "--sd-df", "8")
    (judged,) = answer["verdicts"]  # type: ignore[misc]
    assert judged["verdict"]["prediction_half_width"] == pytest.approx(2.306 * 0.27 * (4 / 3) ** 0.5, abs=0.001)
    assert answer["rule"]["sd_from"] == "given: 0.27, 8 degrees of freedom"  # type: ignore[index]


def test_two_editions_are_judged_apart_and_one_is_named_to_be_expected(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--bleu", "41.7", "41.8", "41.9", *BIG, "--language-pair", "en-fr"]
    answer = asked(capsys, *flags)
    assert [one["printed"]["value"] for one in answer["verdicts"]] == ["41.0", "41.8"]  # type: ignore[attr-defined]
    assert main(["explain", *flags, "--expect", "reproduced"]) == 2
    assert "add --edition (neurips2017, arxiv)" in capsys.readouterr().err
    assert main(["explain", *flags, "--expect", "reproduced", "--edition", "arxiv"]) == 0
    assert main(["explain", *flags, "--expect", "reproduced", "--edition", "neurips2017"]) == 4


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--bleu 28.4 --expect reproduced", "--bleu has one value, on which there is no verdict"),
        ("--bleu 28.4 --sd 0.3 --sd-df 2", "--bleu has one value"),
        ("--bleu 28.4 28.5 --sd 0.3", "expected both"),
        ("--bleu 28.4 28.5 --sd 0.3 --sd-df 0", "1 or more"),
        ("--bleu 28.4 0.285", "did you mean 28.5"),
        ("--bleu 28.4 28.5 --metric bleu_sacre_13", "did you mean 'bleu_sacre_13a'"),
        ("--bleu 28.4 28.5 --scale multi3k", "did you mean 'multi30k'"),
        ("--bleu 28.4 28.5 --testset newstest2015", "--testset newstest2015: unknown"),
    ],
)
def test_a_question_without_answer_is_refused(flags: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *flags.split(), *BIG]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("flags", ["--bleu 28.4 --results results", "--bleu 28.4 28.5 --system base big", ""])
def test_two_sources_two_systems_or_none_are_a_usage_error(flags: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["explain", *flags.split(), *([] if "--system" in flags else BIG)])
    assert stopped.value.code == 2


def test_values_of_records_come_with_their_signature_and_are_judged_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = make_site(tmp_path, "paper", seeds=[1, 2, 3], has_baselines=False)
    write_left(site)
    flags = ["--system", "base", "--results", str(site.results_folder)]
    answer = asked(capsys, *flags)
    assert answer["question"]["values"] == [70.1, 70.2, 70.3]  # type: ignore[index]
    assert answer["question"]["signatures"] == ["case:mixed|of:bleu_tok_compound_split"]  # type: ignore[index]
    (judged,) = answer["verdicts"]  # type: ignore[misc]
    assert judged["verdict"]["outcome"] == "NOT REPRODUCED"
    path = next((site.results_folder / "paper/score/wmt14_en_de/base/seed2").glob("last5/*.json"))
    path.write_text(path.read_text(encoding="utf-8").replace("case:mixed", "case:lc"), encoding="utf-8")
    assert main(["explain", *flags]) == 1
    assert "values of unlike definitions, case:lc|" in capsys.readouterr().err


def test_seeds_whose_translations_are_gone_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = make_site(tmp_path, "paper", seeds=[1, 2, 3], has_baselines=False)
    write_everything(site)
    write_config(site)
    assert main(["explain", "--system", "base", "--results", str(site.results_folder)]) == 1
    write_left(site)
    next((site.results_folder / "paper/decode/wmt14_en_de/base/seed2").glob("last5/*.txt")).unlink()
    capsys.readouterr()
    answer = asked(capsys, "--system", "base", "--results", str(site.results_folder))
    assert answer["question"]["values"] == [70.1, 70.3]  # type: ignore[index]
    assert "so that its scores cannot be checked" in answer["question"]["left_out"][0]  # type: ignore[index]


@pytest.mark.skipif(not (MEASURED / "multi30k").is_dir(), reason="no measured runs are shipped")
def test_a_smaller_scale_is_a_reason_and_a_replication_of_it_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(capsys, "--from-logs", str(MEASURED / "multi30k"), "--system", "base")
    (judged,) = answer["verdicts"]  # type: ignore[misc]
    assert judged["verdict"]["reason"].startswith("Another scale: ours is multi30k")
    answer = asked(capsys, "--from-logs", str(MEASURED / "multi30k"), "--system", "revisit_tiny")
    (judged,) = answer["verdicts"]  # type: ignore[misc]
    assert judged["printed"]["value"] == "41.02"
    assert judged["verdict"]["outcome"] != "NOT COMPARABLE"


def write_logs(folder: Path, *, warm_up: int = 4000, score: str = GenerationText().score) -> Path:
    """Write logs of base with three seeds and the BLEU of each; the third with other values, if any are given."""
    for seed, value in ((1, "27.21"), (2, "27.31"), (3, "27.41")):
        place = f"checkpoints/s{seed}"
        training = TrainingText(final_nll_bits=2 + seed / 100).changed(seed=seed, save_dir=place)
        generation = replace(GenerationText(value=value), score=score if seed == 3 else GenerationText().score)
        average = averaging_text([f"{place}/checkpoint{n}.pt" for n in range(5)], f"{place}/averaged.pt")
        write(folder / f"s{seed}", {
            "train.log": (training.changed(warmup_updates=warm_up) if seed == 3 else training).text(),
            "gen.log": generation.changed(path=f"{place}/averaged.pt").text(), "average.log": average,
        })  # fmt: skip
    return folder


def test_foreign_logs_are_asked_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(capsys, "--from-logs", str(write_logs(tmp_path)), "--system", "base")
    assert sorted(answer["question"]["values"]) == [27.21, 27.31, 27.41]  # type: ignore[index]
    (judged,) = answer["verdicts"]  # type: ignore[misc]
    assert "ours is bleu_as_given" in judged["verdict"]["reason"]


@pytest.mark.parametrize(
    ("changes", "system", "message"),
    [
        ({"warm_up": 8000}, "base", "values of several configurations, as the row and warmup_steps 8,000"),
        ({"score": "BLEU = {value} 58.6/33.4/21.5/14.4 (BP = 1.000 ratio = 1.031 hyp_len = 66501 ref_len = 64512)"},
         "base", "values of unlike definitions, bleu_as_given and bleu_sacre_on_tokens"),
        ({}, "big", "no BLEU in these logs"),
        ({}, "revisit_tiny", "no BLEU in these logs"),
    ],
)  # fmt: skip
def test_values_that_do_not_belong_together_are_refused(
    changes: dict[str, int], system: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_logs(tmp_path, **changes)  # type: ignore[arg-type]
    assert main(["explain", "--from-logs", str(folder), "--system", system]) == 1
    assert message in capsys.readouterr().err
