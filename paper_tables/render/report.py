"""Turns a frame, its tables and its figures into the page of the scale, report.html."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from html import escape
from itertools import starmap

import msgspec

from aiayn.paths import CellKey
from aiayn.printed import PAPER_SCALE
from aiayn.scoring.verdict import MARGIN_BLEU, Outcome
from aiayn.wings import registered
from paper_tables.frame import Frame
from paper_tables.layout import (
    MARK_BY_SCALE,
    NAME_BY_PAIR,
    SPANNED,
    Table,
    anchor_of,
    format_seeds,
)
from paper_tables.render.chapters import CHAPTERS, place_of_figure, place_of_table
from paper_tables.render.drawn import INSTALL_COMMAND, DrawnFigure
from paper_tables.render.page import wrap_page
from paper_tables.render.render import Popovers, render_html_part
from paper_tables.tables.ours import our_cell

MIN_SORTABLE = 8  # rows; a reader takes in fewer at once
MAX_NAMED = 6  # trainings that a card names; the table of runs has all
NO_FIGURES = f"The figures are not drawn, as the extra for it is not installed: {INSTALL_COMMAND}"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a page: time, commit, and whether it was made from incomplete records."""

    made: str
    commit: str
    so_far: bool


def render_report(
    frame: Frame,
    tables: Sequence[Table],
    origin: Origin,
    figures: Sequence[DrawnFigure] | None = None,
    preface: str = "",
) -> str:
    """Return the page; if `figures` is None, it names the command that installs their extra.

    `preface` is HTML that follows the first paragraph of the page.
    """
    scale = frame.scale
    popovers = Popovers()
    title = f"Attention Is All You Need: printed and ours, scale {scale}"
    answer = ""
    for answered in registered("answer"):
        answer += answered(frame, figures or ())
    cards = (
        ("Asked", _asked(frame)),
        ("Came out", _came_out(frame, popovers)),
        ("Verdict", _verdict(frame)),
        ("Missing", _missing(frame)),
    )
    if figures is not None:  # the figures of an answer are not shown twice
        figures = [figure for figure in figures if f'id="figure-{figure.name}"' not in answer]
    lead = (
        "The paper's printed tables, with our numbers next to them on a tinted ground. Click a"
        " number of ours to see its origin: run, commit, seed, hardware, signature."
    )
    opening = f'<p class="lead">{lead}</p>\n{preface}{_banners(scale, origin)}'
    return render_page(
        title, opening, answer + render_cards(cards), tables, figures, origin, popovers
    )


def render_page(
    title: str,
    opening: str,
    glance: str,
    tables: Sequence[Table],
    figures: Sequence[DrawnFigure] | None,
    origin: Origin,
    popovers: Popovers,
) -> str:
    """Return a page in chapters.

    `opening` and `glance` are HTML; `popovers` has the provenance that buttons in them open.
    """
    sections, links = [], []
    shown_figures = sorted(figures or (), key=lambda figure: place_of_figure(figure.name))
    tables = sorted(tables, key=lambda table: place_of_table(table.name))
    for index, chapter in enumerate(CHAPTERS):
        drawn = laid_out = ""
        reasons: dict[str, None] = {}
        for figure in shown_figures:
            if place_of_figure(figure.name)[0] == index:
                drawn += render_figure(figure) if figure.svg else ""
                reasons[figure.reason] = None
        for table in tables:
            if place_of_table(table.name)[0] == index:
                laid_out += render_html_part(table, popovers, is_sortable=is_sortable(table))
        if not reasons and not laid_out:
            continue
        links.append(f'<a href="#{chapter.name}">{escape(chapter.title)}</a>\n')
        section = f'<section id="{chapter.name}">\n<h2>{escape(chapter.title)}</h2>\n'
        if drawn:
            section += f'<div class="figures">\n{drawn}</div>\n'
        section += laid_out
        for reason in filter(None, reasons):
            section += f'<p class="aside">{escape(reason)}</p>\n'
        sections.append(f"{section}</section>\n")
    anchors: set[str] = set()
    for table in tables:
        anchors.update(row.anchor for row in table.rows)
    without = f'<p class="aside">{escape(NO_FIGURES)}</p>\n' if figures is None else ""
    body = (
        '<a class="skip" href="#content">To the results</a>\n'
        f"<header>\n<h1>{escape(title)}</h1>\n{opening}"
        f'<section aria-label="At a glance">\n{glance}</section>\n{without}'
        f'<nav aria-label="Chapters">\n{"".join(links)}</nav>\n</header>\n'
        f'<main id="content">\n{"".join(sections)}</main>\n'
        f"<footer>Made {escape(origin.made)} from commit <code>{escape(origin.commit)}</code>."
        f"</footer>\n{popovers.render(anchors)}"
    )
    return wrap_page(title, body)


def is_sortable(table: Table) -> bool:
    """Return whether a table is long, without spans, and without printed rows followed by ours."""
    rows, sides = [], set()
    for row in table.rows:
        if row.aside is None:
            rows.append(row)
            sides.add(row.side)
    if len(rows) < MIN_SORTABLE or any(SPANNED in row.cells for row in rows):
        return False
    return len(sides) == 1 or table.name == "logs"


def render_figure(figure: DrawnFigure) -> str:
    """Return a figure with its title and caption; ids in its SVG become unique on the page."""
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{figure.name}-", figure.svg)
    place = f"{figure.folder_name}/{figure.name}"
    return (
        f'<figure id="figure-{figure.name}">\n<h3>{escape(figure.title)}</h3>\n{svg}\n'
        f'<figcaption>{escape(figure.caption)} <a href="{place}.tsv">Numbers</a>,'
        f' <a href="{place}.pdf">PDF</a>.</figcaption>\n</figure>\n'
    )


def render_cards(cards: Iterable[tuple[str, str]]) -> str:
    """Return the overview from the name and the content (HTML) of each card."""
    divs = starmap("<div><dt>{}</dt><dd>{}</dd></div>\n".format, cards)
    return f'<dl class="glance">\n{"".join(divs)}</dl>\n'


def card_words(strong: str, items: Iterable[str], kind: str = "") -> str:
    """Return the content of a card: a result in large letters, and lines of HTML below it."""
    listed = "".join(map("<li>{}</li>".format, items))
    attribute = f' class="{kind}"' if kind else ""
    below = f"<ul>{listed}</ul>" if listed else ""
    return f"<strong{attribute}>{escape(strong)}</strong>{below}"


def _asked(frame: Frame) -> str:
    """Return the card of the request: the systems of each corpus and their seeds."""
    num_seeds_by_corpus: dict[str, dict[str, int]] = {}
    for (corpus, system), runs in frame.runs_by_system.items():
        num_seeds_by_corpus.setdefault(corpus, {})[system] = len(runs)
    items = []
    for corpus, num_by_system in num_seeds_by_corpus.items():
        numbers = sorted(set(num_by_system.values()))
        seeds = " or ".join(map(str, numbers)) + f" seed{'' if numbers == [1] else 's'}"
        items.append(escape(f"{corpus}: {_named(num_by_system)}, {seeds} each"))
    return card_words(_trainings(len(frame.runs)), items)


def _trainings(number: int) -> str:
    return f"{number} training{'' if number == 1 else 's'}"


def _named(names: Collection[str]) -> str:
    """Return the first few names, and how many more there are."""
    shown = list(names)[:MAX_NAMED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _came_out(frame: Frame, popovers: Popovers) -> str:
    """Return the card of results: the BLEU of each system of Table 2 and of each replication."""
    items = []
    cell_by_system = {}
    for cell in frame.judged:
        if cell.table in ("2", "replications"):
            cell_by_system[cell.key.corpus, cell.key.system, cell.table] = cell
    for cell in cell_by_system.values():
        if cell.number is None or not cell.number.values:
            continue
        num_seeds = len(frame.runs_by_system[cell.key.corpus, cell.key.system])
        ours = escape(format_seeds(cell.number.seed_values, cell.metric, num_seeds))
        provenance = our_cell(cell.number).provenance
        if provenance:
            ours = popovers.button(provenance, ours)
        place = NAME_BY_PAIR.get(cell.key.language_pair, cell.key.language_pair)
        name = escape(f"{cell.key.system} {place}")
        items.append(f"{name}: <b>{ours}</b>, printed {escape(cell.printed)}")
    num_finished = sum(run.state.status == "finished" for run in frame.runs)
    strong = f"{num_finished} of {len(frame.runs)} trainings finished"
    return card_words(strong, items or ["No BLEU of a test set yet"])


def _verdict(frame: Frame) -> str:
    """Return the card of verdicts: how many printed BLEU were judged, and the outcomes."""
    outcomes: Counter[Outcome] = Counter()
    predicted: Counter[bool | None] = Counter()
    for cell in frame.judged:
        outcomes[cell.verdict.outcome] += 1
        predicted[cell.verdict.is_printed_predicted] += 1
    del outcomes[Outcome.NOT_COMPARABLE], predicted[None]
    items = [f"{outcomes.total()} of {len(frame.judged)} printed BLEU judged, margin {MARGIN_BLEU}"]
    if predicted:
        items.append(
            f"{predicted[True]} of {predicted.total()} printed BLEU could be one more run of ours:"
            " inside the 95 % prediction interval, which is not a verdict"
        )
    counts = []
    for outcome in Outcome:
        if outcomes[outcome]:
            counts.append(f"{outcomes[outcome]} {outcome.value.lower()}")
    strong = ", ".join(counts)
    if not outcomes:
        is_paper = frame.scale == PAPER_SCALE
        strong = "Nothing to judge yet" if is_paper else "Not comparable with the paper"
    kind = "bad" if outcomes[Outcome.NOT_REPRODUCED] else ""
    if set(outcomes) == {Outcome.REPRODUCED}:
        kind = "good"
    return card_words(strong, items, kind)


def _missing(frame: Frame) -> str:
    """Return the card of what is missing: unfinished trainings, missing scores, systems not run."""
    names_by_status: dict[str, list[str]] = {}
    for run in frame.runs:
        state = run.state
        if state.status != "finished":
            name = f"{run.corpus} {run.system} seed {run.seed}"
            if state.update:
                name += f" at update {state.update:,} of {state.updates:,}"
            name = escape(name)
            if state.run:
                name = f'<a href="#{anchor_of(state.run)}">{name}</a>'
            names_by_status.setdefault(state.status, []).append(name)
    num_asked = 0
    for key in frame.keys:
        num_asked += len(frame.runs_by_system[key.corpus, key.system])
    # Evaluations, of one seed each, with a number that needs more than the training.
    scored: set[tuple[CellKey, int | None]] = set()
    for (key, _), number in frame.numbers.items():
        if number.signatures:
            scored.update((key, run.seed) for run, _ in number.values)
    num_missing = num_asked - len(scored)
    num_not_asked = sum(cell.number is None for cell in frame.judged)
    items = []
    for status, names in names_by_status.items():
        items.append(f"{len(names)} {status}: {_named(names)}")
    if num_missing:
        items.append(f"{num_missing} of {num_asked} evaluations are not scored")
    if num_not_asked:
        items.append(
            f"Not asked at this scale: {num_not_asked} of {len(frame.judged)} printed BLEU"
        )
    num_unfinished = sum(map(len, names_by_status.values()))
    if num_unfinished:
        return card_words(_trainings(num_unfinished), items, "bad")
    if num_missing:
        return card_words("Scores", items)
    return card_words("Nothing that was asked", items, "good")


def _banners(scale: str, origin: Origin) -> str:
    """Return the warnings: the scale is not the paper's, or results are incomplete."""
    warnings = []
    if scale != PAPER_SCALE:
        warnings.append(
            f"Every measured number belongs to scale {scale}: another corpus and smaller systems"
            " than the paper's. No number here reproduces the paper's; the mark"
            f" {MARK_BY_SCALE[scale]} is in each row with measured numbers."
        )
    if origin.so_far:
        warnings.append(
            "This page shows what is there so far; missing, running and failed runs are named."
        )
    return "".join(map('<p class="banner">{}</p>\n'.format, map(escape, warnings)))
