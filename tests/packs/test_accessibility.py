"""The page of the shipped runs in headless Chromium: axe-core finds no serious fault, on a screen
and on a phone, light and dark.
"""

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paper_tables.logs.pages import make_tables_from_logs
from tests.support.axe import ALL_RULES, AXE_FOLDER, RULES_OF_COLOURS, Finding, find_faults
from tests.support.browser import BrowserUnavailableError, require_chromium

PACK_FOLDER = Path(__file__).parents[2] / "paper_tables" / "measured" / "multi30k"
# Serious findings that the page still has. A rule leaves this list when the page is mended; no rule
# comes in.
KNOWN: frozenset[str] = frozenset()
# Each width and each scheme gets all rules once; the other two visits look at colours.
VISITS = (
    (1400, "light", ALL_RULES),
    (420, "dark", ALL_RULES),
    (1400, "dark", RULES_OF_COLOURS),
    (420, "light", RULES_OF_COLOURS),
)
SMALL_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>t</title><style>
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: {dark}; }} }}
@media (max-width: 500px) {{ input {{ {phone} }} }}
</style></head><body><main><h1>Page</h1><p>A sentence.</p>
<details><summary>more</summary><label>{label}<input></label></details>
<table><tr><th>{header}</th></tr><tr><td>1</td></tr></table></main></body></html>"""


@pytest.fixture(scope="module", autouse=True)
def _chromium() -> None:
    """Skip on a developer's machine without Chromium. CI fails there: it has to run this."""
    try:
        require_chromium()
    except BrowserUnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no browser for the page: {error}")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the shipped runs."""
    output = tmp_path_factory.mktemp("tables")
    assert make_tables_from_logs([PACK_FOLDER], output).faults == ()
    return output / PACK_FOLDER.name / "report.html"


def serious(findings: list[Finding]) -> Iterator[Finding]:
    """Yield the findings that keep somebody from reading the page."""
    for finding in findings:
        if finding.impact in ("serious", "critical"):
            yield finding


@pytest.mark.slow
@pytest.mark.figures
def test_axe_finds_nothing_serious_on_the_page(page: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        visits = [
            pool.submit(find_faults, page, width=width, scheme=scheme, rules=rules)
            for width, scheme, rules in VISITS
        ]
    found: dict[str, str] = {}
    for (width, scheme, _), visit in zip(VISITS, visits, strict=True):
        for finding in serious(visit.result()):
            where = f"{width} px, {scheme}: {finding.num_places} times, first {finding.html}"
            found.setdefault(finding.rule, where)
    assert {rule: where for rule, where in found.items() if rule not in KNOWN} == {}
    assert found.keys() >= KNOWN, "the page was mended: take the rule out of KNOWN"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "width", "scheme", "rules"),
    [
        ({}, 1400, "light", []),
        ({}, 420, "dark", []),
        ({"label": ""}, 1400, "light", ["label"]),  # in a folded part
        ({"dark": "#333"}, 1400, "light", []),
        ({"dark": "#333"}, 1400, "dark", ["color-contrast"]),
        ({"phone": "display: none;"}, 420, "dark", []),
        ({"label": "", "phone": "display: none;"}, 1400, "dark", ["label"]),
        ({"label": "", "phone": "display: none;"}, 420, "dark", []),
    ],
)
def test_a_planted_fault_is_found_where_it_is(
    change: dict[str, str], width: int, scheme: str, rules: list[str], tmp_path: Path
) -> None:
    values = {"label": "name", "header": "column", "dark": "#eee", "phone": ""} | change
    path = tmp_path / "page.html"
    path.write_text(SMALL_PAGE.format(**values), encoding="utf-8")
    findings = find_faults(path, width=width, scheme=scheme)
    assert [finding.rule for finding in serious(findings)] == rules


def test_axe_is_the_file_of_the_version_in_its_note() -> None:
    for line in (AXE_FOLDER / "SHA256").read_text(encoding="utf-8").splitlines():
        digest, name = line.split()
        assert hashlib.sha256((AXE_FOLDER / name).read_bytes()).hexdigest() == digest
    version = (AXE_FOLDER / "axe.min.js").read_text(encoding="utf-8").split("\n", 1)[0]
    assert version.replace("/*! axe v", "# axe-core ") in (AXE_FOLDER / "README.md").read_text(
        encoding="utf-8"
    )
