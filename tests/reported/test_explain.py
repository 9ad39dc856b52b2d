"""An answer without any run: the ranges that a reader can work out by hand, and errors that name
what was meant.
"""

import json
import re
import shlex
import subprocess
import sys
from decimal import Decimal

import pytest

from aiayn.__main__ import build_parser, main, verbs
from aiayn.scoring.definitions import METRICS
from aiayn.terminal import WIDTH
from analysis.reported.explain import ASSUMED, SEED_NOISE, Explanation, explain, render_explanation
from analysis.reported.published import read_causes


def ask(
    bleu: float,
    system: str,
    *,
    metric: str | None = "bleu_sacre_13a",
    testset: str | None = None,
    language_pair: str = "en-de",
) -> Explanation:
    return explain(
        bleu=bleu,
        metric=metric,
        testset=testset,
        language_pair=language_pair,
        system=system,
    )


def commands_of(explanation: Explanation) -> list[str]:
    return [cause.command for cause in explanation.causes if cause.command]


def check_command(command: str) -> None:
    """Fail unless a command is a verb of this project with flags that its parser accepts."""
    program, verb, *flags = shlex.split(command)
    assert program == "aiayn"
    assert verb in verbs()
    build_parser(verb).parse_args(flags)


def test_stopping_early_is_no_reason_for_base() -> None:
    for bleu in (22.0, 24.0, 24.9, 26.5, 26.9):
        for metric in ("bleu_tok_compound_split", "bleu_sacre_13a", "bleu_fairseq"):
            assert "6" not in [cause.rank for cause in ask(bleu, "base", metric=metric).causes]


@pytest.mark.parametrize(
    ("bleu", "position"), [(26.49, "below"), (26.5, "within"), (27.8, "within"), (27.81, "above")]
)
def test_the_ends_belong_to_the_range(bleu: float, position: str) -> None:
    assert ask(bleu, "big").readings[0].position == position


def test_the_noise_of_a_seed_is_that_of_its_cause() -> None:
    assert next(cause.cost for cause in read_causes() if cause.rank == "12") == (
        Decimal(0),
        SEED_NOISE,
    )


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
    assert {command.split()[1] for command in commands} == {
        "score",
        "fetch",
        "average",
        "evaluate",
        "decode",
        "tables",
    }
    assert {command for command in commands if "{" in command} == set()
    for command in commands:
        check_command(command)


def test_a_command_over_several_lines_is_still_one_command() -> None:
    answer = ask(24.9, "base")
    text = render_explanation(answer)
    printed = [
        command.replace("\\\n", "") for command in re.findall(r"\$ ((?:.*\\\n)*.*)\n", text)
    ]  # as a shell joins
    assert [shlex.split(command) for command in printed] == [
        shlex.split(command) for command in commands_of(answer)
    ]
    assert "\\\n" in text


def test_the_verb_prints_one_object_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "explain",
                "--bleu",
                "24.9",
                "--system",
                "base",
                "--json",
                "--metric",
                "bleu_sacre_13a",
            ]
        )
        == 0
    )
    answer = json.loads(capsys.readouterr().out)
    assert answer["question"]["metric"] == "bleu_sacre_13a"
    assert ASSUMED not in answer["caveats"]
    assert answer["amount"] == [0.5, 1.8]
    assert answer["readings"][0]["printed_metric"] == "bleu_tok_compound_split"


def test_an_answer_does_not_load_pandas_or_torch() -> None:
    code = (
        "import sys\nfrom aiayn.__main__ import main\nmain('explain --bleu 26.9 --system"
        " big'.split())\nprint('loaded:', *sorted({'pandas', 'scipy', 'torch', 'fairseq',"
        " 'sacrebleu'} & set(sys.modules)))"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert outcome.stdout.splitlines()[-1] == "loaded:"


@pytest.mark.parametrize(
    ("bleu", "system", "metric", "rank"),
    [
        (10.15, "big", "bleu_fairseq", "L6"),  # fairseq #788: 10.15 in place of 29.15
        (12.3, "base", "bleu_tok_moses", "L7"),  # OpenNMT-py #2262
    ],
)
def test_a_low_number_gets_the_cause_that_it_was_once_published_with(
    bleu: float, system: str, metric: str, rank: str
) -> None:
    assert rank in [cause.rank for cause in ask(bleu, system, metric=metric).causes]


def refusal_of_explain(capsys: pytest.CaptureFixture[str], bleu: str) -> str:
    """Return the sentence about a wrong command line without a system."""
    with pytest.raises(SystemExit) as ended:
        main(["explain", "--bleu", bleu])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_missing_system_and_a_decimal_comma_are_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = refusal_of_explain(capsys, "26.9")
    assert "--system is missing (base, big" in missing
    assert "for example: aiayn explain --bleu 26.9" in missing
    assert "write a decimal point: 26.9;" in refusal_of_explain(capsys, "26,9")
