"""The page needs no other file, shows what was run in one look, and cannot be taken for a
reproduction.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from paper_tables.layout import Cell, Column, Table, cell_frame, label, row_of
from paper_tables.render.chapters import FURTHER, place_of_table
from paper_tables.render.drawn import INSTALL_COMMAND
from paper_tables.render.report import (
    MAX_CAPTION,
    POLICY,
    DrawnFigure,
    Origin,
    render_page,
    render_report,
    show_table,
)
from paper_tables.render.tables import lay_out_tables
from tests.laid_out import frame_of, results_of
from tests.records_factory import EIGHT_P100, Site, make_site, write_attempt, write_everything
from tests.unit.test_render import SMALL

VOID_TAGS = {"meta", "br", "hr", "img", "link", "wbr", "input"}
FIGURE = DrawnFigure(
    name="forest_bleu", title="Table 3 as a forest", caption="Differences.", reason="",
    svg='<svg class="figure" role="img" aria-label="Differences to base"><clipPath id="clip0"/>'
    '<g clip-path="url(#clip0)"/></svg>', folder_name="figures",
)  # fmt: skip


class PageReader(HTMLParser):
    """Collects ids, links, headings and what asks for a file. Complains about a tag that is closed
    out of turn.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open_tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.asked: list[str] = []
        self.levels: list[int] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        assert self.open_tags == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.attributes.append((tag, values))
        self.ids += [values["id"] or ""] if "id" in values else []
        for name in ("src", "srcset", "data", "poster", "action", "background", "ping"):
            self.asked += [f"{tag} {name}"] if name in values else []
        self.asked += (
            [tag] if tag in ("link", "iframe", "object", "embed", "base", "image", "use") else []
        )
        if tag == "a":
            self.links.append(values.get("href") or "")
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if tag not in VOID_TAGS:
            self.open_tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag


def tables_of(site: Site, *, so_far: bool) -> list[Table]:
    return lay_out_tables(frame_of(site, so_far=so_far))


def page_of(site: Site, *, so_far: bool, figures: Sequence[DrawnFigure] | None = (FIGURE,)) -> str:
    frame = frame_of(site, so_far=so_far)
    origin = Origin(made="2026-01-01T00:00:00+00:00", commit="0123456", so_far=so_far)
    return render_report(frame, lay_out_tables(frame), origin, figures)


@pytest.fixture(scope="module")
def demo_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = make_site(tmp_path_factory.mktemp("demo"))
    write_everything(site)
    return site


@pytest.fixture(scope="module")
def demo_page(demo_site: Site) -> str:
    return page_of(demo_site, so_far=False)


def requests_of(page: str) -> list[str]:
    """Return what a browser would fetch to show a page: sources, imported styles, scripts that
    load.
    """
    asked = PageReader(page).asked
    style_and_script = "".join(
        re.findall(r"<(?:style|script)>.*?</(?:style|script)>", page, flags=re.DOTALL)
    )
    asked += re.findall(
        r"@import|url\((?!#)|https?://|fetch\(|XMLHttp|import\(|WebSocket", style_and_script
    )
    return asked


def test_the_page_has_no_script_and_no_request_leaves_it(demo_page: str) -> None:
    assert requests_of(demo_page) == []
    assert "<script" not in demo_page
    assert f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">' in demo_page
    assert POLICY.startswith("default-src 'none'")


def test_every_table_and_figure_is_in_a_chapter_and_every_link_leads_somewhere(
    demo_site: Site, demo_page: str
) -> None:
    reader = PageReader(demo_page)
    assert len(reader.ids) == len(set(reader.ids))
    assert {table.name for table in tables_of(demo_site, so_far=False)} <= set(reader.ids)
    assert FURTHER not in {
        place_of_table(table.name) for table in tables_of(demo_site, so_far=False)
    }
    within = [link[1:] for link in reader.links if link.startswith("#")]
    assert set(within) <= set(reader.ids)
    assert {link for link in reader.links if not link.startswith("#")} == {
        "figures/forest_bleu.tsv",
        "figures/forest_bleu.pdf",
    }


def test_a_table_and_a_figure_that_no_chapter_names_are_in_a_last_one(demo_site: Site) -> None:
    origin = Origin(made="", commit="", so_far=False)
    page = render_report(frame_of(demo_site), [SMALL], origin, [FIGURE._replace(name="another")])
    assert re.search(
        r'<section id="further">.*id="figure-another".*id="small"', page, flags=re.DOTALL
    )


def test_headings_are_in_order(demo_page: str) -> None:
    # A screen reader jumps by their levels.
    levels = PageReader(demo_page).levels
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))


def test_a_screen_reader_finds_names_of_regions_tables_and_figures(demo_page: str) -> None:
    attributes = PageReader(demo_page).attributes
    regions = [
        values for tag, values in attributes if tag == "div" and values.get("class") == "scroll"
    ]
    assert all(values.get("aria-label") and values.get("tabindex") == "0" for values in regions)
    assert demo_page.count("<table") == demo_page.count("<caption>")
    assert all(values.get("scope") for tag, values in attributes if tag == "th")
    drawings = [values for tag, values in attributes if tag == "svg"]
    assert all(values.get("aria-label") or values.get("aria-hidden") for values in drawings)
    assert 'lang="en"' in demo_page
    assert '<a class="skip" href="#content">' in demo_page


def test_each_number_of_ours_opens_its_run_commit_seed_hardware_and_signature(
    demo_site: Site, demo_page: str
) -> None:
    for name in ("table2", "table3"):
        part = demo_page.partition(f'<section id="{name}">')[2].partition("</section>")[0]
        cells = re.findall(r'<td class="ours[^"]*"[^>]*>(.*?)</td>', part)
        numbers = [text for text in cells if "<small>" in text]  # with a number of seeds
        assert numbers, name
        assert [text for text in numbers if "popovertarget" not in text] == [], name
    targets = set(re.findall(r'popovertarget="([^"]+)"', demo_page))
    assert targets
    assert targets <= set(PageReader(demo_page).ids)
    train = results_of(demo_site).train_by_key["demo_en_de", "base", 1]
    opened = re.findall(r'<div popover id="[^"]+".*?</div>', demo_page, flags=re.DOTALL)
    of_bleu = [
        one
        for one in opened
        if "<b>bleu_tok_compound_split of base, Demo En-De, demo_test, last5</b>" in one
    ]
    assert len(of_bleu) == 1
    assert f'<a href="#run-{train.run}">' in of_bleu[0]
    for detail in (
        "seed 1",
        train.provenance.commit[:12],
        "thread(s)",
        "case:mixed|of:bleu_tok_compound_split",
    ):
        assert detail in of_bleu[0]


def test_what_was_not_run_has_a_line_and_no_table(demo_page: str) -> None:
    assert "<tbody>\n\n</tbody>" not in demo_page
    assert "NOT COMPARABLE" not in demo_page
    for name in ("replications", "verdicts"):
        part = demo_page.partition(f'<section id="{name}">')[2].partition("</section>")[0]
        assert "<table" not in part, name
        assert "snakemake --profile profiles/local" in part, name


def page_of_table(table: Table) -> str:
    return render_page("T", "S", [table], (), None, command="`make it`")


def test_a_row_without_numbers_is_named_below_and_not_shown() -> None:
    is_second = SMALL.cells.position == 1
    cells = SMALL.cells.assign(
        aside=SMALL.cells.aside.mask(is_second, "c|d"),
        reason=SMALL.cells.reason.mask(is_second, "Not run here"),
    )
    page = page_of_table(replace(SMALL, cells=cells))
    assert "Not run here: c|d." in page
    assert page.count("<tr") == 2
    assert "failed" not in page


def test_a_table_without_any_value_names_the_command_that_makes_them() -> None:
    assert "make it" not in page_of_table(SMALL)
    without = replace(SMALL, cells=SMALL.cells[SMALL.cells.position == 1])
    assert "No value of ours is in this table; <code>make it</code>." in page_of_table(without)


def test_five_columns_are_shown_and_the_others_are_behind_a_switch_without_a_script() -> None:
    names = ("one", "two", "three", "four", "five", "six", "seven")
    columns = tuple(Column(name, name) for name in names)
    row = row_of({name: Cell(name) for name in names})
    table = replace(SMALL, columns=columns, cells=cell_frame([row]), first=("one", "six"))
    assert show_table(table, "").more == {"two", "three", "four", "five", "seven"}
    assert show_table(replace(table, first=()), "").more == {"six", "seven"}
    page = page_of_table(table)
    assert '<input type="checkbox" class="switch"' in page
    assert "<script" not in page
    assert show_table(replace(table, columns=columns[:5], first=("one",)), "").more == set()
    few = show_table(SMALL, "")
    assert few.more == set()
    assert "checkbox" not in page_of_table(SMALL)


def test_no_header_cell_is_empty_and_captions_have_two_lines(demo_page: str) -> None:
    headings = re.findall(r"<th [^>]*>(.*?)</th>", demo_page)
    assert headings
    assert "" not in headings
    captions = re.findall(r'<p class="caption">(.*?)</p>', demo_page)
    assert captions
    assert max(map(len, captions)) <= MAX_CAPTION + 60  # entities


def test_without_the_extra_the_page_has_tables_alone_and_says_how_to_get_pictures(
    demo_site: Site,
) -> None:
    page = page_of(demo_site, so_far=False, figures=None)
    assert page.count(INSTALL_COMMAND) == 1
    assert "<figure" not in page
    assert "<table" in page


def test_figures_have_ids_of_their_own_and_those_not_shown_are_a_sentence(demo_site: Site) -> None:
    absent = FIGURE._replace(name="curves_by_update", svg="", reason="No BLEU yet <here>.")
    figures = [FIGURE, FIGURE._replace(name="forest_more"), absent]
    page = page_of(demo_site, so_far=False, figures=figures)
    ids = re.findall(r'<figure id="figure-([^"]+)"', page)
    assert ids == ["forest_bleu", "forest_more"]
    assert page.count("url(#forest_bleu-clip0)") == page.count("url(#forest_more-clip0)") == 1
    assert "No BLEU yet &lt;here&gt;." in page


def test_the_demo_says_that_it_is_no_reproduction(demo_page: str) -> None:
    assert (
        "No number here reproduces the paper&#39;s; the mark \u2020 is in each row with measured"
        in demo_page
    )
    assert "12 trainings finished" not in demo_page  # the config has 9
    assert "9 of 9 trainings finished" in demo_page
    assert "0 of 26 printed BLEU judged" in demo_page


def test_a_page_of_the_papers_scale_has_no_such_banner(tmp_path: Path) -> None:
    site = make_site(tmp_path, "paper", has_baselines=False, seeds=[1, 2, 3])
    write_everything(site, base_bleu=27, hardware=EIGHT_P100)
    page = page_of(site, so_far=False)
    assert 'class="banner"' not in page
    assert re.search(r"printed BLEU judged, margin 0.5: [0-9]+ (not )?reproduced", page)
    assert "NOT REPRODUCED" in page  # its table has rows


def test_a_page_without_any_run_is_whole_and_says_so(tmp_path: Path) -> None:
    page = page_of(make_site(tmp_path), so_far=True)
    for words in (
        "0 of 9 trainings are finished",
        "9 missing: base En-De seed 1, ",
        "what is there so far",
    ):
        assert words in page


def test_a_failed_run_is_named_with_its_reason(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    write_attempt(site, "demo_en_fr", "big_enfr", 2, update=42, outcome="failed")
    page = page_of(site, so_far=True)
    assert re.search(
        r'<a href="#run-demo_en_fr-big_enfr-seed2-[^"]*">Failed: big, En-Fr seed 2 at update 42',
        page,
    )
    assert "Demo En-Fr big, En-Fr seed 2: failed at update 42 of 3,000; out of memory." in page


def test_a_column_of_words_is_read_from_the_left_and_one_of_numbers_is_not() -> None:
    columns = (Column("answer", "answer", side="ours"), Column("ours", "ours", side="ours"))
    rows = [
        row_of({"answer": Cell("as printed", "ours"), "ours": Cell("+0.17 (n=2 and 6)", "ours")}),
        row_of({"answer": Cell("differs", "ours"), "ours": Cell("not run", "state")}),
    ]
    cells = cell_frame(rows)
    assert show_table(replace(SMALL, columns=columns, cells=cells), "").words == {"answer"}
    long = Cell("1 of a cell that has very many words in its text")
    cells = cell_frame([*rows, row_of({"answer": Cell("absent"), "ours": long})])
    shown = show_table(replace(SMALL, columns=columns, cells=cells), "")
    assert shown.words == {"answer", "ours"}


def test_the_page_names_systems_for_people_and_leaves_other_words() -> None:
    names = ("table3_a_h4 minus base", "runs/table3_a_h4-seed1")
    cells = cell_frame([row_of({"row": label(name)}) for name in names])
    page = page_of_table(replace(SMALL, columns=SMALL.columns[:1], cells=cells))
    assert ">four heads minus base</th>" in page
    assert ">runs/table3_<wbr>a_<wbr>h4-seed1</th>" in page
