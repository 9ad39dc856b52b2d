"""The form that a text is found to have beside another, and `aiayn score` on files in every form
that is shared.
"""

import gzip
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.data.text.tokenize_moses import tokenize_line
from aiayn.errors import ScoreError
from aiayn.scoring.outputs.form import find_form_fault
from aiayn.scoring.outputs.system_output import SystemOutput, check_num_lines, read_output
from tests.text_forms import FORMS, GENERATED, OTHER, PLAIN, pieces, sentence_pieces, tokens

HONEST = Path(__file__).parents[1] / "facts" / "honest"


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def test_sacrebleus_own_warning_is_not_passed_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    hypotheses = write(tmp_path / "h", tokens(OTHER) * 5)  # sacreBLEU warns from 100 lines on
    references = write(tmp_path / "r", PLAIN * 5)
    files = ["--hypotheses", str(hypotheses), "--references", str(references)]
    assert main(["score", *files, "--no-warning"]) == 0
    assert "force" not in capfd.readouterr().err + caplog.text


def known_form(hypotheses: list[str], references: list[str], *, is_as_given: bool = False) -> str:
    """Return the words of the fault, '' if the texts are of one form."""
    fault = find_form_fault(hypotheses, references, is_as_given=is_as_given)
    return fault.words if fault else ""


def test_tokens_beside_plain_text_are_not_as_given() -> None:
    assert "tokens" in known_form(tokens(OTHER), PLAIN, is_as_given=True)
    assert known_form(tokens(OTHER), tokens(PLAIN), is_as_given=True) == ""
    assert "entities" in known_form(tokens(OTHER), FORMS["tokens, not escaped"], is_as_given=True)


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        ([line.lower() for line in OTHER], [line.lower() for line in PLAIN]),
        ([*PLAIN[:-2], "Er schrieb &quot;ja&quot; .", "ein @-@ zwei"], PLAIN),
    ],
    ids=["both lower-cased", "a few marks, entities and blanks"],
)
def test_texts_of_one_form_do_not_differ(hypotheses: list[str], references: list[str]) -> None:
    assert known_form(hypotheses, references) == ""


def test_french_blanks_before_colons_and_chinese_are_plain() -> None:
    # They have blanks where Moses' tokens have them.
    french = ["Il dit : \u00ab oui \u00bb, puis il part ; pourquoi ? Voil\u00e0 !"] * 9
    assert known_form(french, french) == ""
    chinese = ["\u6211 \u4eec \uff0c 3 . 5 , \u4f60 . \u3002"] * 9
    assert known_form(chinese, chinese) == ""


def test_a_generate_log_is_read_in_the_order_of_the_source(tmp_path: Path) -> None:
    output = read_output(write(tmp_path / "gen.out", GENERATED))
    assert output.kind == "generate log"
    assert output.lines == pieces(tokens(OTHER))
    assert output.references == tokens(PLAIN)


@pytest.mark.parametrize(
    "prefix", ["0: ", "2026-11-26T10:00:00Z stdout F ", "node-1  | ", "> ", "    ", "\t"]
)
def test_lines_of_a_generate_log_may_have_a_prefix(prefix: str, tmp_path: Path) -> None:
    # Containers, schedulers and mails put something before each line.
    log = write(tmp_path / "gen.out", [prefix + line for line in GENERATED])
    assert read_output(log).lines == pieces(tokens(OTHER))
    targets = [prefix + line for line in GENERATED if line.startswith("T-")]
    assert read_output(write(tmp_path / "targets", targets)).references == tokens(PLAIN)


def test_two_decodings_in_one_file_are_doubted_and_n_best_lists_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    joined = [line.replace("@@ ", "") for line in GENERATED]  # it has two hypotheses a sentence
    for lines, is_doubted in ((joined, False), (joined * 2, True)):
        log = write(tmp_path / "g", lines)
        assert main(["score", "--hypotheses", str(log), "--as-given"]) == 0
        assert ("two decodings in one file" in capsys.readouterr().err) is is_doubted


def test_a_session_of_fairseq_interactive_is_read_as_it_was_run() -> None:
    for version in ("0.10.2", "0.12.2"):
        path = HONEST / version / "update_checkpoints" / "interactive.log"
        output = read_output(path)
        assert (len(output.lines), output.has_several, output.references) == (20, False, None)


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
    # Many published outputs are of 2,737 of the 3,003 lines.
    output = SystemOutput("h", ["Ein Satz."] * 2737, "lines")
    with pytest.raises(ScoreError, match="newstest2014_filtered"):
        check_num_lines(output, 3003, "r")
    check_num_lines(output, 2737, "r")


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
    language = name.rpartition(".")[2]
    flickr = folder / "multi30k/data/task1/raw" / f"test_2016_flickr.{language}.gz"
    other = read_output(flickr).lines[: len(lines)]
    assert known_form(lines[: len(other)], other) == ""
    tokenized = [tokenize_line(line, language) for line in lines]
    for changed in (tokenized, pieces(lines), sentence_pieces(lines)):
        assert known_form(changed, lines) != ""
