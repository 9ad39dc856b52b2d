"""Makes the page of a scale: request, results, verdicts and what is missing; figures and tables."""

import html
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from aiayn.printed import PAPER_SCALE
from aiayn.scoring.verdict import MARGIN_BLEU, Outcome
from aiayn.wings import registered
from paper_tables.frame import Frame
from paper_tables.layout import MARK_BY_SCALE, NAME_BY_PAIR, Table, anchor_of, format_seeds
from paper_tables.render.chapters import CHAPTERS, Chapter, place_of_figure, place_of_table
from paper_tables.render.drawn import INSTALL_COMMAND, DrawnFigure
from paper_tables.render.page import wrap_page
from paper_tables.render.render import Popovers, render_html_part
from paper_tables.tables.ours import our_cell

MIN_SORTABLE = 8  # rows; fewer are seen at once
MAX_SVG_BYTES = 2_200_000  # of all figures of a page, which stays below 3 MB
MAX_NAMED = 6  # trainings that are named in the first look; the table of runs has all
NO_FIGURES = f"The figures are not drawn, as the extra for it is not installed: {INSTALL_COMMAND}"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a page: when, from which commit, and whether all records were there."""

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
    """Return the page; without `figures` it has only tables, and the command that installs the
    packages that draw them. `preface` is HTML that follows the page's first paragraph.
    """
    scale = frame.scale
    popovers = Popovers()
    title = f"Attention Is All You Need: printed and ours, scale {scale}"
    answer = "".join(answered(frame, figures or ()) for answered in registered("answer"))
    cards = (
        ("Asked", _asked(frame)),
        ("Came out", _came_out(frame, popovers)),
        ("Verdict", _verdict(frame)),
        ("Missing", _missing(frame)),
    )
    if figures is not None:  # what an answer shows is not shown again
        figures = [figure for figure in figures if f'id="figure-{figure.name}"' not in answer]
    lead = (
        "The paper's printed tables, and our numbers beside them on a tinted ground. A number of"
        " ours opens where it comes from: run, commit, seed, hardware, signature."
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
    """Return a page in chapters: `opening` and `glance` are HTML, `popovers` what buttons in these
    open.
    """
    sections, links = [], []
    figures = figures if figures is None else _within_limit(figures)
    for chapter, chapter_figures, chapter_tables in _chapters(figures or (), tables):
        links.append(f'<a href="#{chapter.name}">{html.escape(chapter.title)}</a>\n')
        drawn = "".join(map(render_figure, (one for one in chapter_figures if one.svg)))
        parts = [f'<section id="{chapter.name}">\n<h2>{html.escape(chapter.title)}</h2>\n']
        parts += [f'<div class="figures">\n{drawn}</div>\n'] if drawn else []
        parts += [
            render_html_part(one, popovers, is_sortable=is_sortable(one)) for one in chapter_tables
        ]
        reasons = dict.fromkeys(one.reason for one in chapter_figures if one.reason)
        parts += [f'<p class="aside">{html.escape(reason)}</p>\n' for reason in reasons]
        sections.append("".join([*parts, "</section>\n"]))
    anchors = {row.anchor for table in tables for row in table.rows if row.anchor}
    without = f'<p class="aside">{html.escape(NO_FIGURES)}</p>\n' if figures is None else ""
    body = (
        '<a class="skip" href="#content">To the'
        f' results</a>\n<header>\n<h1>{html.escape(title)}</h1>\n{opening}<section aria-label="At a'
        f' glance">\n{glance}</section>\n{without}<nav'
        f' aria-label="Chapters">\n{"".join(links)}</nav>\n</header>\n<main'
        f' id="content">\n{"".join(sections)}</main>\n<footer>Made {html.escape(origin.made)} from'
        f" commit <code>{html.escape(origin.commit)}</code>.</footer>\n{popovers.render(anchors)}"
    )
    return wrap_page(title, body)


def _within_limit(figures: Iterable[DrawnFigure]) -> list[DrawnFigure]:
    """Return the figures; those that would make the page too large become a sentence with their
    path.
    """
    kept, num_left = [], MAX_SVG_BYTES
    for one in figures:
        size = len(one.svg.encode())
        if size > num_left:
            place = f"{one.folder_name}/{one.name}.svg"
            kept.append(
                one._replace(
                    svg="", reason=f"{one.title}: not on this page for its size, see {place}."
                )
            )
        else:
            kept.append(one)
            num_left -= size
    return kept


def _chapters(
    figures: Iterable[DrawnFigure], tables: Sequence[Table]
) -> list[tuple[Chapter, list[DrawnFigure], list[Table]]]:
    """Return the chapters that have content; figures and tables without a place are in the last."""
    figures = sorted(figures, key=lambda figure: place_of_figure(figure.name))
    tables = sorted(tables, key=lambda table: place_of_table(table.name))
    found = []
    for index, chapter in enumerate(CHAPTERS):
        own_figures = [
            figure for figure in figures if place_of_figure(figure.name).chapter == index
        ]
        own_tables = [table for table in tables if place_of_table(table.name).chapter == index]
        if own_tables or own_figures:
            found.append((chapter, own_figures, own_tables))
    return found


def is_sortable(table: Table) -> bool:
    """Return whether a table is long and each row is independent: no printed row with ours below
    it, no span.
    """
    rows = [row for row in table.rows if row.aside is None]
    sides = {row.side for row in rows}
    spans = any(cell.num_columns > 1 for row in rows for cell in row.cells)
    return len(rows) >= MIN_SORTABLE and not spans and (len(sides) == 1 or table.name == "logs")


def render_figure(figure: DrawnFigure) -> str:
    """Return a figure with its title and caption; ids within its SVG are made its own, as a page
    has each once.
    """
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{figure.name}-", figure.svg)
    place = f"{figure.folder_name}/{figure.name}"
    return (
        "<figure"
        f' id="figure-{figure.name}">\n<h3>{html.escape(figure.title)}</h3>\n{svg}\n<figcaption>{html.escape(figure.caption)} <a'  # noqa: E501
        f' href="{place}.tsv">Numbers</a>, <a href="{place}.pdf">PDF</a>.</figcaption>\n</figure>\n'
    )


def render_cards(cards: Iterable[tuple[str, str]]) -> str:
    """Return the overview from the name and the content, which is HTML, of each card."""
    divs = "".join(f"<div><dt>{name}</dt><dd>{content}</dd></div>\n" for name, content in cards)
    return f'<dl class="glance">\n{divs}</dl>\n'


def card_words(strong: str, items: Iterable[str], kind: str = "") -> str:
    """Return the content of a card: what counts, and lines of HTML below it."""
    listed = "".join(f"<li>{item}</li>" for item in items)
    attribute = f' class="{kind}"' if kind else ""
    return f"<strong{attribute}>{html.escape(strong)}</strong>" + (
        f"<ul>{listed}</ul>" if listed else ""
    )


def _asked(frame: Frame) -> str:
    num_seeds_by_corpus: dict[str, dict[str, int]] = {}
    for (corpus, system), runs in frame.runs_by_system.items():
        num_seeds_by_corpus.setdefault(corpus, {})[system] = len(runs)
    items = []
    for corpus, num_by_system in num_seeds_by_corpus.items():
        numbers = sorted(set(num_by_system.values()))
        seeds = " or ".join(map(str, numbers)) + f" seed{'' if numbers == [1] else 's'}"
        items.append(html.escape(f"{corpus}: {_named(num_by_system)}, {seeds} each"))
    num_trainings = len(frame.runs)
    return card_words(f"{num_trainings} training{'' if num_trainings == 1 else 's'}", items)


def _named(names: Collection[str]) -> str:
    """Return names, of many the first few and how many more."""
    shown = list(names)[:MAX_NAMED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _came_out(frame: Frame, popovers: Popovers) -> str:
    items = []
    shown = [cell for cell in frame.judged if cell.table in ("2", "replications")]
    for cell in {(cell.key.corpus, cell.key.system, cell.table): cell for cell in shown}.values():
        if cell.number is None or not cell.number.values:
            continue
        num_seeds = len(frame.runs_by_system[cell.key.corpus, cell.key.system])
        text = html.escape(
            format_seeds([value for _, value in cell.number.values], cell.metric, num_seeds)
        )
        provenance = our_cell(cell.number).provenance
        ours = popovers.button(provenance, text) if provenance else text
        place = NAME_BY_PAIR.get(cell.key.language_pair, cell.key.language_pair)
        items.append(
            f"{html.escape(f'{cell.key.system} {place}')}: <b>{ours}</b>, printed"
            f" {html.escape(cell.printed)}"
        )
    num_finished = sum(run.state.status == "finished" for run in frame.runs)
    strong = f"{num_finished} of {len(frame.runs)} trainings finished"
    return card_words(strong, [*items, *([] if items else ["No BLEU of a test set yet"])])


def _verdict(frame: Frame) -> str:
    judged = frame.judged
    comparable = [
        cell.verdict.outcome
        for cell in judged
        if cell.verdict.outcome is not Outcome.NOT_COMPARABLE
    ]
    outcomes: Counter[Outcome] = Counter(comparable)
    items = [f"{sum(outcomes.values())} of {len(judged)} printed BLEU judged, margin {MARGIN_BLEU}"]
    predicted = [
        cell.verdict.is_printed_predicted
        for cell in judged
        if cell.verdict.is_printed_predicted is not None
    ]
    if predicted:
        items.append(
            f"{sum(predicted)} of {len(predicted)} printed BLEU could be one more run of ours:"
            " inside the 95 % prediction interval, which is no verdict"
        )
    strong = ", ".join(
        f"{outcomes[outcome]} {outcome.value.lower()}" for outcome in Outcome if outcomes[outcome]
    )
    if not outcomes:
        is_paper = frame.scale == PAPER_SCALE
        strong = "Nothing to judge yet" if is_paper else "Not comparable with the paper"
    kind = (
        "good"
        if set(outcomes) == {Outcome.REPRODUCED}
        else "bad"
        if outcomes[Outcome.NOT_REPRODUCED]
        else ""
    )
    return card_words(strong, items, kind)


def _missing(frame: Frame) -> str:
    names_by_status: dict[str, list[str]] = {}
    for run in frame.runs:
        state = run.state
        if state.status != "finished":
            place = f"{run.corpus} {run.system} seed {run.seed}"
            if state.update:
                place += f" at update {state.update:,} of {state.updates:,}"
            text = html.escape(place)
            named = f'<a href="#{anchor_of(state.run)}">{text}</a>' if state.run else text
            names_by_status.setdefault(state.status, []).append(named)
    num_asked = sum(len(frame.runs_by_system[key.corpus, key.system]) for key in frame.keys)
    num_missing = num_asked - frame.num_scored
    num_not_asked = sum(cell.number is None for cell in frame.judged)
    items = [f"{len(names)} {status}: {_named(names)}" for status, names in names_by_status.items()]
    items += [f"{num_missing} of {num_asked} evaluations are not scored"] if num_missing else []
    items += (
        [f"Not asked at this scale: {num_not_asked} of {len(frame.judged)} printed BLEU"]
        if num_not_asked
        else []
    )
    num_states = sum(len(names) for names in names_by_status.values())
    if not num_states:
        return (
            card_words("Scores", items)
            if num_missing
            else card_words("Nothing that was asked", items, "good")
        )
    return card_words(f"{num_states} training{'' if num_states == 1 else 's'}", items, "bad")


def _banners(scale: str, origin: Origin) -> str:
    """Return the warnings: the scale is not the paper's, or results are incomplete."""
    warnings = []
    if scale != PAPER_SCALE:
        warnings.append(
            f"Every number that was measured is of scale {scale}: another corpus and smaller"
            " systems than the paper's. None reproduces a number of the paper's; the mark"
            f" {MARK_BY_SCALE[scale]} is in each row that has one."
        )
    if origin.so_far:
        warnings.append(
            "This page shows what is there so far; missing, running and failed runs are named."
        )
    return "".join(f'<p class="banner">{html.escape(text)}</p>\n' for text in warnings)
