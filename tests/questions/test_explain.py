"""An answer without any run: the ranges that a reader can work out by hand, and errors that name what was meant."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from aiayn.__main__ import build_parser, main, verbs
from aiayn.errors import UsageError
from aiayn.printed import PUBLISHED_FOLDER
from aiayn.terminal import WIDTH
from analysis.scoring.definitions import METRICS
from paper_tables.questions.explain import SEED_NOISE, Explanation, explain
from paper_tables.questions.explain_text import aligned, render_explanation
from paper_tables.questions.reference import read_causes


def ask(
    bleu: float,
    system: str,
    *,
    metric: str | None = "bleu_sacre_13a",
    testset: str = "newstest2014",
    language_pair: str = "en-de",
    folder: Path = PUBLISHED_FOLDER,
) -> Explanation:
    return explain(bleu=bleu, metric=metric, testset=testset, language_pair=language_pair, system=system, folder=folder)


def ranges(explanation: Explanation) -> list[tuple[str, float | None, float | None]]:
    return [(reading.printed, reading.low, reading.high) for reading in explanation.readings]


def ranks(explanation: Explanation) -> list[str]:
    return [cause.rank for cause in explanation.causes]


def commands_of(explanation: Explanation) -> list[str]:
    return [cause.command for cause in explanation.causes if cause.command]


def check_command(command: str) -> None:
    """Fail unless a command is one of this project's verbs with flags that its own parser takes."""
    program, verb, *flags = shlex.split(command)
    assert program == "aiayn"
    assert verb in verbs()
    build_parser(verb).parse_args(flags)


# Printed minus 1.87 (gluon-nlp) and minus 0.6 (HAT), rounded outwards.
@pytest.mark.parametrize(
    ("system", "printed", "low", "high"), [("big", "28.4", 26.5, 27.8), ("base", "27.3", 25.4, 26.7)]
)
def test_english_german_reads_0_6_to_1_9_lower_in_sacrebleu(system: str, printed: str, low: float, high: float) -> None:
    assert ranges(ask(26.0, system)) == [(printed, low, high)]


def test_english_french_reads_1_8_to_2_9_lower_for_each_edition() -> None:
    answer = ask(38.5, "big", language_pair="en-fr")
    assert ranges(answer) == [("41.0", 38.1, 39.2), ("41.8", 38.9, 40.0)]
    assert [(one.edition, one.position, one.distance) for one in answer.readings] == [
        ("neurips2017", "within", 0),
        ("arxiv", "below", 0.4),
    ]
    assert answer.amount == (0, 1.5)  # 40.0 - 38.5
    assert ask(38.5, "big_enfr", language_pair="en-fr") == answer  # our name of the same row


def test_a_number_within_the_range_says_so_in_one_sentence() -> None:
    (reading,) = ask(26.9, "big").readings
    assert reading.sentence == (
        "26.9 bleu_sacre_13a lies within the range 26.5 to 27.8, in which the printed 28.4 bleu_tok_compound_split "
        "reads by published gaps."
    )


def test_a_number_below_and_one_above_say_by_how_much() -> None:
    (below,) = ask(24.9, "base").readings
    assert (below.position, below.distance) == ("below", 0.5)
    assert "24.9 bleu_sacre_13a lies 0.5 below the range 25.4 to 26.7" in below.sentence
    answer = ask(28.6, "big")  # fairseq's
    assert (answer.readings[0].position, answer.readings[0].distance) == ("above", 0.8)
    assert (answer.direction, answer.amount) == ("raises", (0.8, 2.1))  # 28.6 - 27.8, 28.6 - 26.5


@pytest.mark.parametrize(("bleu", "position"), [(26.49, "below"), (26.5, "within"), (27.8, "within"), (27.81, "above")])
def test_the_ends_belong_to_the_range(bleu: float, position: str) -> None:
    assert ask(bleu, "big").readings[0].position == position


def test_in_the_papers_own_definition_no_gap_is_used() -> None:
    answer = ask(26.9, "big", metric="bleu_tok_compound_split")
    assert ranges(answer) == [("28.4", 28.4, 28.4)]
    assert answer.gaps == []
    assert answer.readings[0].sentence == (
        "26.9 bleu_tok_compound_split lies 1.5 below the printed 28.4 bleu_tok_compound_split: the same definition."
    )
    assert answer.amount == (1.5, 1.5)
    assert "4" in ranks(answer)  # it may be sacreBLEU after all: that costs 0.7 to 1.9


def test_what_rounds_to_the_printed_number_lacks_nothing() -> None:
    answer = ask(28.38, "big", metric="bleu_tok_compound_split")
    assert (answer.readings[0].position, answer.amount, answer.causes) == ("within", (0, 0), [])
    assert "Nothing is missing." in render_explanation(answer)
    assert ask(28.34, "big", metric="bleu_tok_compound_split").readings[0].position == "below"


@pytest.mark.parametrize("metric", ["chrf", "bleu_tok_moses_lc", "bleu_sacre_13a_lc"])
def test_without_a_published_gap_the_answer_says_so(metric: str) -> None:
    answer = ask(26.9, "big", metric=metric)
    assert ranges(answer) == [("28.4", None, None)]
    assert (answer.readings[0].position, answer.amount, answer.causes) == ("not comparable", None, [])
    text = render_explanation(answer)
    assert "no published gap" in text
    assert "known to be missing" in text


def test_a_gap_that_does_not_count_is_shown_but_makes_no_range() -> None:
    answer = ask(27.9, "big", metric="bleu_sacre_13a_lc")
    assert answer.gaps == []
    assert [gap.who for gap in answer.other_gaps] == ["NVIDIA, big"]
    assert "NVIDIA, big" in render_explanation(answer)


def test_the_range_follows_the_published_gaps(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(PUBLISHED_FOLDER, tmp_path / "published"))
    path = folder / "gaps.csv"
    kept = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if "HAT, " not in line]
    path.write_text("".join(kept), encoding="utf-8", newline="\n")
    assert ranges(ask(26.9, "big", folder=folder)) == [("28.4", 26.5, 27.8)]  # 28.4 - 0.69 is 27.71, outwards
    kept = [line for line in kept if "gluon-nlp, " not in line]
    path.write_text("".join(kept), encoding="utf-8", newline="\n")
    assert ranges(ask(26.9, "big", folder=folder)) == [("28.4", 26.9, 27.8)]  # 28.4 - 1.50


def test_table_3_is_read_on_newstest2013() -> None:
    answer = ask(23.4, "table3_c_n2", testset="newstest2013")
    assert ranges(answer) == [("23.7", 23.4, 23.5)]  # 23.7 - 0.25
    assert "The range rests on one source." in answer.caveats
    assert any("averages no checkpoints" in caveat for caveat in answer.caveats)
    assert answer.replications == []
    assert "None is published" in render_explanation(answer)


def test_the_filtered_set_has_a_caveat() -> None:
    assert any("2,737" in caveat for caveat in ask(27.0, "big", testset="newstest2014_filtered").caveats)
    assert not any("2,737" in caveat for caveat in ask(27.0, "big").caveats)


def test_the_nearest_replications_are_alike_in_everything_but_the_value() -> None:
    answer = ask(27.9, "big", metric="bleu_sacre_13a_lc")
    assert [(near.replication.value, near.difference) for near in answer.replications] == [
        ("27.92", 0.02), ("27.82", -0.08), ("27.76", -0.14), ("28.09", 0.19), ("27.66", -0.24),
    ]  # fmt: skip
    near = [one.replication for one in ask(26.9, "big").replications]
    assert {(one.system, one.metric, one.testset, one.language_pair) for one in near} == {
        ("big", "bleu_sacre_13a", "newstest2014", "en-de")
    }
    assert [one.value for one in near] == ["27.1", "27.4", "27.5", "27.7", "27.98"]


def test_causes_are_those_whose_cost_meets_what_is_missing() -> None:
    # 24.9 lacks 0.5 to 1.8; with 0.3 for the seed, 0.2 to 2.1.
    assert ranks(ask(24.9, "base")) == ["3", "5a", "7", "8", "9", "10", "11", "12"]
    # 15 lacks 11.5 to 12.8: only what spoils everything.
    assert ranks(ask(15.0, "big")) == ["1a", "2"]


def test_a_number_too_high_has_other_causes() -> None:
    answer = ask(29.2, "big", metric="bleu_tok_compound_split")
    assert ranks(answer) == ["A2", "A3", "A4", "A5", "A6"]
    assert {cause.direction for cause in answer.causes} == {"raises"}


def test_if_no_cause_costs_that_the_nearest_are_named_as_such() -> None:
    answer = ask(55.0, "big")  # 27.2 above
    assert not answer.is_amount_matched
    assert len(answer.causes) == 3
    assert "No single published cause" in render_explanation(answer)


def test_the_noise_of_a_seed_is_that_of_its_cause() -> None:
    assert next(cause.cost for cause in read_causes() if cause.rank == "12") == (Decimal(0), SEED_NOISE)


ANSWERS = [
    (bleu, system, pair, metric)
    for bleu in (1.25, 20.0, 26.9, 38.5)
    for system, pair in (("base", "en-de"), ("big", "en-de"), ("big", "en-fr"))
    for metric in METRICS
    if pair == "en-de" or "compound_split" not in metric
]


def test_every_command_exists_and_no_line_is_wider_than_a_terminal() -> None:
    commands = set()
    for bleu, system, pair, metric in ANSWERS:
        answer = ask(bleu, system, language_pair=pair, metric=metric)
        commands |= set(commands_of(answer))
        text = render_explanation(answer)
        assert text.isascii()
        assert [line for line in text.split("\n") if len(line) > WIDTH] == []
    assert {command.split()[1] for command in commands} == {"score", "fetch", "average", "decode", "tables"}
    assert {command for command in commands if "{" in command} == set()
    for command in commands:
        check_command(command)


def test_a_command_over_several_lines_is_still_one_command() -> None:
    answer = ask(24.9, "base")
    text = render_explanation(answer)
    printed = [command.replace("\\\n", "") for command in re.findall(r"\$ ((?:.*\\\n)*.*)\n", text)]  # as a shell joins
    assert [shlex.split(command) for command in printed] == [shlex.split(command) for command in commands_of(answer)]
    assert "\\\n" in text


def test_the_printed_number_is_never_shown_without_its_definition() -> None:
    for system, pair, metric in (("big", "en-de", "bleu_sacre_13a"), ("big", "en-fr", "bleu_sacre_13a")):
        text = render_explanation(ask(26.9, system, language_pair=pair, metric=metric))
        part_1 = text[: text.index("Gaps that make the range")]
        for reading in ask(26.9, system, language_pair=pair, metric=metric).readings:
            assert f"{reading.printed} {reading.printed_metric}" in part_1
            assert f"{reading.low:.1f} to {reading.high:.1f} {metric}" in part_1


def test_columns_are_aligned_and_long_cells_wrapped() -> None:
    assert aligned(("n", "words"), [("1.5", "one two"), ("12", "three")], (5, 5)) == [
        "    n  words",
        "  ----------",
        "  1.5  one",
        "       two",
        "   12  three",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": "bleu_sacre_13"}, "--metric bleu_sacre_13: unknown; .*did you mean 'bleu_sacre_13a'"),
        ({"metric": "bleu"}, "--metric bleu: unknown; expected one of bleu_tok_moses"),
        ({"testset": "newstest204"}, "--testset newstest204: unknown; .*did you mean 'newstest2014'"),
        ({"testset": "newstest2017"}, "--testset newstest2017: unknown; expected one of newstest2013"),
        ({"system": "bigg"}, "--system bigg: unknown .*; expected one of base, big; did you mean 'big'"),
        ({"system": "table3_c_n2"}, "--system table3_c_n2: unknown .*en-de on newstest2014"),
        ({"language_pair": "en-cs"}, "--language-pair en-cs: unknown; expected one of en-de, en-fr"),
        ({"language_pair": "en-fr", "metric": "bleu_tok_compound_split"}, "defined for German only"),
        ({"language_pair": "en-fr", "testset": "newstest2013"}, "--testset newstest2013: unknown"),
        ({"bleu": 0.269}, "did you mean 26.9"),
        ({"bleu": 269.0}, "0 to 100"),
        ({"bleu": float("nan")}, "0 to 100"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(changes: dict[str, object], message: str) -> None:
    question: dict[str, object] = {
        "bleu": 26.9, "metric": "bleu_sacre_13a", "testset": "newstest2014", "language_pair": "en-de", "system": "big",
    }  # fmt: skip
    with pytest.raises(UsageError, match=message):
        explain(**(question | changes))  # type: ignore[arg-type]


def test_the_verb_prints_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--bleu", "26.9", "--metric", "bleu_sacre_13a", "--system", "big"]) == 0
    assert capsys.readouterr().out == render_explanation(ask(26.9, "big"))


def test_the_verb_prints_one_object_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--bleu", "24.9", "--system", "base", "--json", "--metric", "bleu_sacre_13a"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["question"]["metric"], answer["taken"]) == ("bleu_sacre_13a", "")
    assert answer["amount"] == [0.5, 1.8]
    assert answer["readings"][0]["printed_metric"] == "bleu_tok_compound_split"


@pytest.mark.parametrize(
    ("bleu", "system", "pair", "metric", "other"),
    [
        (28.4, "big", "en-de", "bleu_tok_compound_split", "lies 0.6 above the range 26.5 to 27.8"),
        (41.8, "big", "en-fr", "bleu_tok_moses", "lies 1.8 above the range 38.9 to 40.0"),
    ],
)
def test_the_papers_number_without_a_definition_is_the_papers_own(
    bleu: float, system: str, pair: str, metric: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ask(bleu, system, language_pair=pair, metric=None)
    assert (answer.question.metric, answer.question.is_metric_given) == (metric, False)
    assert "within" in [reading.position for reading in answer.readings]
    assert metric in answer.taken
    assert other in answer.taken
    assert main(["explain", "--bleu", str(bleu), "--system", system, "--language-pair", pair]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"No --metric is given: taken as {metric}" in shown
    assert ask(bleu, system, language_pair=pair, metric=metric).taken == ""


def test_fairseqs_two_numbers_read_as_the_moses_tokens_that_they_count() -> None:
    expected = [("27.3", 26.3, 26.6)]  # 27.3 less 0.7 to 1.0, compounds not split (T2T #317)
    for metric in ("bleu_tok_moses", "bleu_fairseq", "bleu_as_given"):
        answer = ask(26.65, "base", metric=metric)
        assert ranges(answer) == expected
        assert answer.readings[0].position == "above"
        assert "26.65" in [near.replication.value for near in answer.replications]  # fairseq #1352
        assert ranks(ask(24.66, "base", metric=metric))
    french = ask(41.3, "big", language_pair="en-fr", metric="bleu_fairseq")
    assert ranges(french) == [("41.0", 41.0, 41.0), ("41.8", 41.8, 41.8)]
    assert french.readings[1].sentence.endswith("both count alike.")


def test_caveats_say_what_tokens_as_given_are_taken_to_be() -> None:
    assert any("prepare-wmt14en2de.sh" in caveat for caveat in ask(26.0, "base", metric="bleu_as_given").caveats)
    assert any("bleu_tok_moses" in caveat for caveat in ask(26.0, "base", metric="bleu_fairseq").caveats)


def test_below_10_the_questions_are_other_ones() -> None:
    answer = ask(1.25, "big", metric="bleu_as_given")
    assert answer.is_low
    assert ranks(answer)[:5] == ["L1", "L2", "L3", "L4", "L5"]
    text = " ".join(render_explanation(answer).split())
    for words in ("1.25 at length ratio 1.107", "epochs", "effective batch", "learning rate", "another test set",
                  "pieces left in", "another direction"):  # fmt: skip
        assert words in text, words
    assert ranks(ask(1.25, "big", language_pair="en-fr", metric="bleu_fairseq"))[0] == "L2"  # L1 is of En-De
    assert not any(rank.startswith("L") for rank in ranks(ask(10.0, "big")))


def test_stopping_early_is_a_range_and_no_reason_for_base() -> None:
    (early,) = [cause for cause in read_causes() if cause.rank == "6"]
    assert (early.systems, early.cost) == ("big", (Decimal("0.5"), Decimal("1.3")))
    for bleu in (22.0, 24.0, 24.9, 26.5, 26.9):
        for metric in ("bleu_tok_compound_split", "bleu_sacre_13a", "bleu_fairseq"):
            assert "6" not in ranks(ask(bleu, "base", metric=metric))


def test_an_answer_does_not_load_pandas_or_torch() -> None:
    code = (
        "import sys\nfrom aiayn.__main__ import main\nmain('explain --bleu 26.9 --system big'.split())\n"
        "print('loaded:', *sorted({'pandas', 'scipy', 'torch', 'fairseq', 'sacrebleu'} & set(sys.modules)))"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout.splitlines()[-1] == "loaded:"
