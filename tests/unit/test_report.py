"""The page stands alone, shows every table, and cannot be taken for a reproduction."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from paper_tables.findings import gather_findings
from paper_tables.judged import judge_cells
from paper_tables.report import Origin, render_report
from paper_tables.tables import lay_out_tables
from tests.records_factory import EIGHT_P100, Site, make_site, write_attempt, write_everything

VOID_TAGS = {"meta", "br", "hr", "img", "link"}


class TagChecker(HTMLParser):
    """Collects ids and complains about a tag that is closed out of turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open_tags: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID_TAGS:
            self.open_tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag


def page_of(site: Site, *, so_far: bool) -> str:
    findings = gather_findings(site.scale, site.results_folder, so_far=so_far, config_folder=site.config_folder)
    judged = judge_cells(findings)
    origin = Origin(made="2026-01-01T00:00:00+00:00", commit="0123456", so_far=so_far)
    return render_report(findings, judged, lay_out_tables(findings, judged), origin)


@pytest.fixture
def demo_page(tmp_path: Path) -> str:
    site = make_site(tmp_path)
    write_everything(site)
    return page_of(site, so_far=False)


def test_the_page_loads_nothing_from_elsewhere(demo_page: str) -> None:
    assert not re.search(r"https?://|src=|@import|url\(|<script|<link", demo_page)


def test_every_table_is_there_and_linked(demo_page: str) -> None:
    checker = TagChecker()
    checker.feed(demo_page)
    assert checker.open_tags == []
    names = [
        "table2",
        "table3",
        "conclusions",
        "variants",
        "architectures",
        "parameters",
        "expectations",
        "baselines",
        "replications",
        "verdicts",
        "claims",
        "runs",
        "table1",
        "table4",
        "reference_replications",
    ]
    assert checker.ids == names
    assert re.findall(r'href="#(\w+)"', demo_page) == names


def test_a_tag_closed_out_of_turn_is_noticed() -> None:
    with pytest.raises(AssertionError):
        TagChecker().feed("<p><b></p></b>")


def test_the_demo_says_that_it_is_no_reproduction(demo_page: str) -> None:
    assert "None reproduces a number of the paper&#x27;s; the mark \u2020 stands in each row that has one." in demo_page
    assert "12 trainings finished" not in demo_page  # 9 are asked for
    assert "9 of 9 trainings finished" in demo_page


def test_a_page_of_the_papers_scale_has_no_such_banner(tmp_path: Path) -> None:
    site = make_site(tmp_path, "paper", has_baselines=False)
    write_everything(site, base_bleu=27, hardware=EIGHT_P100)
    assert 'class="banner"' not in page_of(site, so_far=False)


def test_a_page_without_any_run_is_whole_and_says_so(tmp_path: Path) -> None:
    page = page_of(make_site(tmp_path), so_far=True)
    assert "0 of 9 trainings finished" in page
    assert "9 missing" in page
    assert "what is there so far" in page


def test_a_failed_run_is_named_with_its_reason(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    write_attempt(site, "demo_en_fr", "big_enfr", 2, update=42, outcome="failed")
    page = page_of(site, so_far=True)
    assert '<li class="bad">1 failed</li>' in page
    assert "demo_en_fr big_enfr seed 2: failed at update 42 of 3,000; out of memory." in page


def test_signatures_stand_under_the_tables(demo_page: str) -> None:
    assert "<code>case:mixed|of:bleu_tok_compound_split</code>" in demo_page
    assert "<code>eos:yes|ls:no</code>" in demo_page
