"""Segments are the text between their marks: no character is lost, and lines are not segments."""

from pathlib import Path

import pytest

from aiayn.data.sources.joining import read_segments
from aiayn.errors import CorpusError


def segments(text: str) -> list[str]:
    """Return the segments of a text."""
    return list(read_segments(text, "a.sgm"))


def test_segments_are_read_in_order_and_nothing_else_is() -> None:
    text = (
        '<srcset setid="a">\n<doc docid="b">\n<hl>\n<seg id="1">One.</seg>\n</hl>\n<p><seg'
        ' id="2">Two.</seg></p></doc>'
    )
    assert segments(text) == ["One.", "Two."]


def test_quirk_8_it_is_no_xml() -> None:
    assert segments('<seg id=1>S&P < 5 & "R" <b> &c</seg>') == ['S&P < 5 & "R" <b> &c']


def test_quirk_8_nothing_is_unescaped_and_no_apostrophe_replaced() -> None:
    assert segments("<seg>L\u2019AT&amp;T &lt;3</seg>") == ["L\u2019AT&amp;T &lt;3"]


def test_quirk_9_white_space_and_soft_hyphens_of_a_segment_stay() -> None:
    assert segments("<seg> bo\u00eete\u00a0? \u00ad\u2028x\u0085 </seg>") == [
        " bo\u00eete\u00a0? \u00ad\u2028x\u0085 "
    ]


def test_a_segment_may_go_on_over_lines_or_share_one() -> None:
    assert segments("<seg>a\n  b\r\nc</seg><seg>d</seg> <SEG ID='3'>\ne\n</SEG>") == [
        "a b c",
        "d",
        "e",
    ]


def test_an_empty_segment_is_a_line() -> None:
    assert segments("<seg></seg><seg>b</seg>") == ["", "b"]


def test_quotes_hide_the_end_of_a_mark_and_other_marks_are_no_segments() -> None:
    assert segments("<seg id='a>b'>x</seg><segment>y</segment><seg\nid='2'>z</seg>") == ["x", "z"]


@pytest.mark.parametrize("text", ["a\n<seg id='1'>b", "a\n<seg id='1'>b\n<seg id='2'>c</seg>"])
def test_a_segment_without_end_is_named_with_its_line(text: str) -> None:
    with pytest.raises(
        CorpusError,
        match=r"^a\.sgm:2: <seg id='1'> has no </seg>; the file is torn, fetch it again$",
    ):
        segments(text)


@pytest.fixture
def french(newstest: Path) -> Path:
    """Return the folder of test sets, if it also has the French markup."""
    if not (newstest / "newstest2014-fren-src.en.sgm").exists():
        pytest.skip(f"{newstest} has no newstest2014-fren-src.en.sgm")
    return newstest


@pytest.mark.parametrize(
    ("markup", "plain", "num_shared", "num_with_nbsp"),
    [("newstest2014-fren-src.en.sgm", "newstest2014-fren.en", 3002, 0),
     ("newstest2014-fren-ref.fr.sgm", "newstest2014-fren.fr", 2999, 707)],
)  # fmt: skip
def test_quirk_7_the_french_pair_of_another_source_has_another_order_and_nearly_the_same_lines(
    markup: str, plain: str, num_shared: int, num_with_nbsp: int, french: Path
) -> None:
    found = segments((french / markup).read_bytes().decode())
    lines = (french / plain).read_bytes().decode().split("\n")[:-1]
    assert len(found) == len(lines) == 3003
    assert len(set(found) & set(lines)) == num_shared
    assert sum("\u00a0" in segment for segment in found) == num_with_nbsp
    assert found[0] != lines[0]
    if plain.endswith("en"):
        assert found[0] == "Jet makers feud over seat width with big orders at stake"
        assert lines[0] == "Spectacular Wingsuit Jump Over Bogota"
