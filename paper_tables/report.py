"""Makes one self-contained page of all tables of a scale: no script, no font, no image from elsewhere."""

import html
from collections import Counter
from collections.abc import Sequence

import msgspec

from paper_tables.findings import Findings
from paper_tables.judged import PAPER_SCALE, JudgedCell
from paper_tables.layout import MARK_BY_SCALE, Table
from paper_tables.render import render_html

STYLE = """
:root { color-scheme: light; --ink: #1d2733; --soft: #5b6875; --line: #dfe4ea; --ours: #f2f7fd; --accent: #1f5fa8;
  --warn: #9a4a00; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 96rem; background: #fff; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; margin: 0 0 .3rem; }
p { margin: 0 0 .7rem; max-width: 62rem; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
code { font: .84em/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
header { border-bottom: 1px solid var(--line); padding-bottom: 1rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; margin-top: .9rem; }
section { padding: 1.8rem 0 .4rem; }
.facts { display: flex; flex-wrap: wrap; gap: .5rem; margin: .9rem 0 0; padding: 0; list-style: none; }
.facts li { border: 1px solid var(--line); border-radius: 999px; padding: .12rem .8rem; font-size: .9rem; }
.facts li.bad { border-color: #e8b98a; background: #fff6ec; color: var(--warn); }
.banner { border-left: 4px solid #d9822b; background: #fff8ef; padding: .6rem .9rem; margin: 1rem 0 0;
  max-width: none; }
.caption { color: var(--soft); font-size: .95rem; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .55rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap;
  font-weight: 400; }
thead th { vertical-align: bottom; font-weight: 600; color: var(--soft); background: #fafbfc; white-space: normal; }
thead th.group { text-align: center; color: var(--ink); }
thead th.group:empty { border-bottom-color: transparent; }
tbody th, td.label, thead th.label { text-align: left; }
td.label { white-space: normal; overflow-wrap: anywhere; min-width: 9rem; }
th[scope=row] { position: sticky; left: 0; background: #fff; font-weight: 500; }
td.ours, thead th.ours, tr.ours th, tr.ours td { background: var(--ours); }
td.state { color: var(--warn); font-style: italic; }
td[colspan] { text-align: center; }
tbody tr:last-child > * { border-bottom: 0; }
small { display: block; color: var(--soft); font-size: .85em; line-height: 1.2; }
sup { color: var(--accent); font-size: .72em; line-height: 0; margin-left: .1em; }
td.printed:not(.ours) sup { color: inherit; }
.notes, details ul { color: var(--soft); font-size: .88rem; padding-left: 1.1rem; margin: .6rem 0; max-width: 72rem; }
details { font-size: .9rem; color: var(--soft); }
summary { cursor: pointer; }
footer { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: .8rem; color: var(--soft);
  font-size: .88rem; }
@media (max-width: 40rem) {
  body { padding: 1.2rem .8rem 3rem; }
  th, td { padding: .32rem .4rem; }
  th[scope=row] { position: static; }
}
@media print { .scroll { overflow: visible; } nav { display: none; } }
""".strip()


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What a page says of its own making: when, from which commit, and whether everything was there."""

    made: str
    commit: str
    so_far: bool


def wrap_page(title: str, body: str) -> str:
    """Return a whole HTML page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


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
            f"None reproduces a number of the paper's; each carries the mark {MARK_BY_SCALE[scale]}."
        )
    if origin.so_far:
        warnings.append("This page shows what is there so far; missing, running and failed runs are named.")
    return "".join(f'<p class="banner">{html.escape(text)}</p>\n' for text in warnings)
