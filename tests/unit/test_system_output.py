"""The form that a text is found to have beside another; `aiayn score` on files in every form that
is shared.
"""

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.data.text.tokenize_moses import tokenize_line
from aiayn.errors import ScoreError
from aiayn.scoring.outputs.system_output import (
    SystemOutput,
    check_num_lines,
    form_of,
    read_output,
    unlike_forms,
)
from aiayn.scoring.score import score_hypotheses
from tests.text_forms import FORMS, GENERATED, OTHER, PLAIN, pieces, sentence_pieces, tokens


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def score(
    capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, dict[str, float], str]:
    """Return the exit code, the values by metric, and all signatures or what was printed."""
    code = main(["score", *map(str, arguments), "--json"])
    captured = capsys.readouterr()
    if code:
        return code, {}, captured.err
    scores = json.loads(captured.out)
    return (
        code,
        {one["metric"]: one["value"] for one in scores},
        "\n".join(one["signature"] for one in scores),
    )


def unlike(*, is_as_given: bool = False, **lines_by_name: Sequence[str]) -> str:
    """Return the forms that forbid a score."""
    return unlike_forms(lines_by_name, is_as_given=is_as_given)


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_found_in_hypotheses_or_references(name: str) -> None:
    lines, kinds = FORMS[name]
    for side, other in (("hyp", "ref"), ("ref", "hyp")):
        assert unlike(**{side: lines, other: PLAIN}) == "+".join(f"{side}-{kind}" for kind in kinds)


def test_scores_of_unlike_sides_say_so_and_sacrebleus_warning_is_not_passed_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    lines = tokens(OTHER) * 5  # sacreBLEU warns from 100 lines on
    arguments = [
        "--hypotheses",
        write(tmp_path / "h", lines),
        "--references",
        write(tmp_path / "r", PLAIN * 5),
    ]
    assert main(["score", *map(str, arguments), "--no-warning"]) == 0
    captured = capfd.readouterr()
    assert {line.rpartition("|")[2] for line in captured.out.splitlines()} == {"unlike:hyp-tokens"}
    assert "force" not in captured.err + caplog.text


def test_tokens_beside_plain_text_or_unescaped_tokens_are_not_as_given() -> None:
    unescaped = FORMS["tokens, not escaped"][0]
    for reference in (PLAIN, unescaped):
        assert "hyp-tokens" in unlike(hyp=tokens(OTHER), ref=reference, is_as_given=True)
    assert unlike(hyp=tokens(OTHER), ref=tokens(PLAIN), is_as_given=True) == ""


WITHOUT_MARKS = ["Ein Satz, in dem nichts steht."] * 9


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        ([line.lower() for line in OTHER], [line.lower() for line in PLAIN]),
        ([*PLAIN[:-3], "Er schrieb &quot;ja&quot; .", "A \u2581 B @@ C", "ein @-@ zwei"], PLAIN),
        ([*WITHOUT_MARKS, "Meier &amp; Sohn &amp; Co, hier."], [*WITHOUT_MARKS, WITHOUT_MARKS[0]]),
    ],
    ids=["both lower-cased", "a few marks, entities and blanks", "two entities of two"],
)
def test_texts_of_one_form_do_not_differ(hypotheses: list[str], references: list[str]) -> None:
    assert unlike(hyp=hypotheses, ref=references) == ""


def test_french_blanks_before_colons_and_chinese_are_plain() -> None:
    french = ["Il dit : \u00ab oui \u00bb, puis il part ; pourquoi ? Voil\u00e0 !"] * 9
    assert form_of(french).is_tokens is False
    assert form_of(["\u6211 \u4eec \uff0c 3 . 5 , \u4f60 . \u3002"] * 9).is_tokens is False


def test_a_generate_log_is_read_in_the_order_of_the_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(tmp_path / "gen.out", GENERATED)
    output = read_output(log)
    assert (output.kind, output.lines, output.references) == (
        "generate log",
        pieces(tokens(OTHER)),
        tokens(PLAIN),
    )
    code, values, signatures = score(
        capsys, "--hypotheses", log, "--as-given", "--repair", "pieces"
    )
    assert code == 0
    assert "repaired:pieces" in signatures
    (expected,) = score_hypotheses(
        tokens(OTHER),
        tokens(PLAIN),
        metrics=["bleu_as_given"],
        target_language="de",
        hypotheses_sha256="",
        testset="",
    )
    assert values == {"bleu_as_given": pytest.approx(expected.value)}
    with pytest.raises(
        ScoreError, match=r"without the hypotheses of 1 of 30 sentences, the first H-7"
    ):
        read_output(
            write(
                tmp_path / "cut.out", [line for line in GENERATED if not line.startswith("H-7\t")]
            )
        )


@pytest.mark.parametrize(
    "prefix", ["0: ", "2026-11-26T10:00:00Z stdout F ", "node-1  | ", "> ", "    ", "\t"]
)
def test_lines_of_a_generate_log_may_have_a_prefix(prefix: str, tmp_path: Path) -> None:
    log = write(tmp_path / "gen.out", [prefix + line for line in GENERATED])
    assert read_output(log).lines == pieces(tokens(OTHER))
    targets = [prefix + line for line in GENERATED if line.startswith("T-")]
    assert read_output(write(tmp_path / "targets", targets)).references == tokens(PLAIN)


def test_sgm_gzip_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    body = "".join(f'<seg id="{number}">{line}</seg>\n' for number, line in enumerate(PLAIN, 1))
    sgm = tmp_path / "a.sgm"
    sgm.write_text(
        f'<refset setid="x" trglang="de">\n<doc>\n{body}</doc>\n</refset>\n', encoding="utf-8"
    )
    packed = tmp_path / "packed"
    packed.write_bytes(
        gzip.compress(b"\xef\xbb\xbf" + "".join(f"{line}\n" for line in PLAIN).encode())
    )
    assert read_output(sgm)[:3] == (str(sgm), PLAIN, "sgm")
    assert read_output(packed).lines == PLAIN


def test_as_many_lines_as_the_filtered_test_set_has_are_taken_for_it() -> None:
    output = SystemOutput("h", ["Ein Satz."] * 2737, "lines")
    with pytest.raises(ScoreError, match="newstest2014_filtered"):
        check_num_lines(output, 3003, "r")
    check_num_lines(output, 2737, "r")


def test_a_language_whose_words_no_definition_finds_is_left_to_sacrebleu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "h", OTHER)
    pair = ("--language-pair", "en-ja")
    code, _, refusal = score(capsys, "--hypotheses", path, "--references", path, *pair)
    assert code == 1
    assert "use sacreBLEU: `sacrebleu REFERENCES -i HYPOTHESES" in refusal


NEEDS_MIRROR = pytest.mark.skipif(
    "AIAYN_MIRROR" not in os.environ, reason="set AIAYN_MIRROR to a base with newstest/"
)


@NEEDS_MIRROR
@pytest.mark.parametrize(
    "name",
    [
        "newstest2013.de",
        "newstest2014.de",
        "newstest2013.fr",
        "newstest2014-fren.fr",
        "newstest2013.en",
        "newstest2014.en",
    ],
)
def test_published_text_raises_no_alarm_beside_other_text_and_every_form_of_it_does(
    name: str,
) -> None:
    folder = Path(os.environ["AIAYN_MIRROR"].removeprefix("file://"))
    lines = read_output(folder / "newstest" / name).lines[::4]
    flickr = folder / "multi30k/data/task1/raw" / f"test_2016_flickr.{name.rpartition('.')[2]}.gz"
    for other in (
        read_output(flickr).lines,
        read_output(folder / "newstest" / "newstest2014.de").lines[::4],
    ):
        assert unlike(hyp=lines, ref=other) == unlike(hyp=other, ref=lines) == ""
    language = name.rpartition(".")[2]
    tokenized = [tokenize_line(line, language) for line in lines[:100]]
    for changed in (
        tokenized,
        pieces(lines),
        sentence_pieces(lines),
        [line.lower() for line in lines],
    ):
        assert unlike(hyp=changed, ref=lines)


def test_json_lines_of_a_trainer_are_no_translations(tmp_path: Path) -> None:
    metrics = write(tmp_path / "metrics.jsonl", ['{"epoch": 3, "valid_bleu": 25.1}'] * 3)
    with pytest.raises(ScoreError, match=r"metrics\.jsonl:1: JSON lines of a trainer"):
        read_output(metrics)
    text = write(tmp_path / "text.jsonl", ['{"step": 3, "translation": "Ein Satz ."}'] * 3)
    assert len(read_output(text).lines) == 3
