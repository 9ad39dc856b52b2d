"""Makes one page of all tables of a scale, under what was run and how it stands."""

import html
from collections import Counter
from collections.abc import Sequence

import msgspec

from paper_tables.conditions import PAPER_SCALE
from paper_tables.findings import Findings
from paper_tables.judged import JudgedCell
from paper_tables.layout import MARK_BY_SCALE, Table
from paper_tables.page import wrap_page
from paper_tables.render import render_html


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What a page says of its own making: when, from which commit, and whether everything was there."""

    made: str
    commit: str
    so_far: bool


def render_report(findings: Findings, judged: Sequence[JudgedCell], tables: Sequence[Table], origin: Origin) -> str:
    """Return the page: what was run and how it stands, then every table in the order given."""
    scale = findings.scale.scale
    title = f"Attention Is All You Need: printed and ours, scale {scale}"
    links = "".join(f'<a href="#{table.name}">{html.escape(table.title)}</a>\n' for table in tables)
    header = (
        f"<header>\n<h1>{html.escape(title)}</h1>\n"
        "<p>The paper's printed tables, with our numbers beside them on a tinted ground.</p>\n"
        f"{_facts(findings, judged)}{_banner(scale, origin)}<nav>\n{links}</nav>\n</header>\n"
    )
    footer = (
        f"<footer>Made {html.escape(origin.made)} from commit <code>{html.escape(origin.commit)}</code>.</footer>\n"
    )
    return wrap_page(
        title, header + "<main>\n" + "".join(render_html(table) for table in tables) + "</main>\n" + footer
    )


def _facts(findings: Findings, judged: Sequence[JudgedCell]) -> str:
    """Return the counts: trainings by state, verdicts by outcome."""
    states = Counter(state.status for state in findings.state_by_key.values())
    num_trainings = len(findings.state_by_key)
    items = [f"<li>{states['finished']} of {num_trainings} trainings finished</li>"]
    items += [
        f'<li class="bad">{count} {status}</li>' for status, count in sorted(states.items()) if status != "finished"
    ]
    outcomes = Counter(cell.verdict.outcome.value for cell in judged if cell.evaluation is not None)
    items += [f"<li>{count} {outcome.lower()}</li>" for outcome, count in sorted(outcomes.items())]
    return '<ul class="facts">\n' + "\n".join(items) + "\n</ul>\n"


def _banner(scale: str, origin: Origin) -> str:
    """Return what a reader must not overlook: that this is another scale than the paper's, or not everything yet."""
    warnings = []
    if scale != PAPER_SCALE:
        warnings.append(
            f"Every number that was measured is of scale {scale}: another corpus and smaller systems than the paper's. "
            f"None reproduces a number of the paper's; the mark {MARK_BY_SCALE[scale]} stands in each row that has one."
        )
    if origin.so_far:
        warnings.append("This page shows what is there so far; missing, running and failed runs are named.")
    return "".join(f'<p class="banner">{html.escape(text)}</p>\n' for text in warnings)
