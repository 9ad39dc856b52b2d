"""The page of a scale answers first which of the paper's conclusions hold."""

import re
from pathlib import Path

import msgspec
import pytest

from paper_tables.render.picture import Picture, PictureLine, place_lines
from paper_tables.render.render import render_html
from tests.records_factory import make_site, write_dev_scores, write_everything
from tests.unit.test_report import FIGURE, page_of


def test_the_page_opens_with_one_line_for_each_conclusion(tmp_path: Path) -> None:
    """Base and big have 3.0 and 3.02 bits (sd 0.014, df 2), the row of fewer layers 3.5."""
    site = make_site(tmp_path)
    write_everything(site)
    for system, bits in (("base", (3.0, 3.02)), ("table3_c_n2", (3.5,)), ("big", (3.0, 3.02))):
        for seed, value in enumerate(bits, start=1):
            write_dev_scores(site, system, seed, 25.0, 2**value)
    page = page_of(site, so_far=False, figures=[FIGURE])
    head, _, _ = page.partition("<main")
    heading = re.findall(r"<h1>(.*?)</h1>", head)
    assert heading == ["At the scale of the demo, 1 of the paper&#39;s 15 conclusions show."]
    assert "The effect of big is absent. 13 cannot be answered yet.</p>" in head
    words = re.findall(r'<span class="words">([^<]*)</span>', head)
    assert len(words) == 15
    assert words[0] == "one head instead of eight"
    answers = re.findall(r'<span class="word (\w+)">([^<]*)</span>', head)
    assert answers.count(("open", "not measured")) == 13
    assert ("same", "as printed") in answers
    (opened,) = re.findall(r'popovertarget="(from-\d+)">\+0.490<', head)
    provenance = page.partition(f'<div popover id="{opened}"')[2].partition("</div>")[0]
    for words_of_seed in ("seed 1", "seed 2", "commit <code>", "Signature: <code>"):
        assert words_of_seed in provenance, words_of_seed


def test_without_a_measured_contrast_the_first_line_says_so(tmp_path: Path) -> None:
    page = page_of(make_site(tmp_path), so_far=True)
    assert "<h1>No results yet at scale demo: 0 of 9 trainings are finished.</h1>" in page
    assert 'class="picture"' not in page
    assert "snakemake --profile profiles/local --configfile" in page


def line(**changes: object) -> PictureLine:
    values = {"row": "r", "words": "<r>", "printed": 0.2, "printed_text": "+0.2", "answer": "none"}
    return PictureLine(**(values | changes))  # type: ignore[arg-type]


def test_marks_have_their_places_on_one_axis_and_a_long_interval_is_cut() -> None:
    lines = place_lines([line(), line(printed=-0.2, ours=0.1, interval=(-9.0, 9.0))])
    picture = Picture(lines=lines, sentence="", details="", unit="", low_text="", high_text="")
    first, second = (line.at for line in picture.lines)
    assert first.keys() == {"zero", "printed"}
    assert first["zero"] == 50.0
    assert first["printed"] == pytest.approx(100 * (0.5 + 0.5 / 1.12), abs=0.01)
    assert second["ours"] == pytest.approx(100 * (0.5 + 0.25 / 1.12), abs=0.01)
    assert (second["low"], second["high"]) == (0.0, 100.0)
    assert picture.frame["high"].tolist()[1] == 9.0
    # A conclusion that two systems are equal holds although the interval includes 0.
    equal = place_lines([line(kind="same", ours=0.1, interval=(-0.1, 0.3))])
    hollow = render_html("picture.svg.j2", picture=msgspec.structs.replace(picture, lines=equal))
    assert '<circle class="ours same" style="fill: var(--paper)"' in hollow
    drawn = render_html("picture.svg.j2", picture=picture)
    assert "&lt;r&gt;" in drawn
    assert "<r>" not in drawn
