"""Makes the HTML page of a scale's results (frame, tables and figures) by filling in the HTML
template.

A page is one file. The page does not contain scripts, and does not load anything from a server. Its
Content-Security-Policy enforces this.
"""

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
from markupsafe import Markup

from aiayn.paths import CellKey, workflow_command
from aiayn.printed import PAPER_SCALE
from aiayn.scoring.verdict import MARGIN_BLEU, Outcome
from aiayn.spec.system import CONFIG_FOLDER
from aiayn.wings import registered
from paper_tables.frame import Frame, Number, Run
from paper_tables.layout import (
    MARK_BY_SCALE,
    Column,
    Note,
    ShownCell,
    Table,
    anchor_of,
    grid,
)
from paper_tables.names import name_of_key, with_names
from paper_tables.render.chapters import CHAPTERS, place_of_figure, place_of_table
from paper_tables.render.drawn import INSTALL_COMMAND, DrawnFigure
from paper_tables.render.picture import Picture
from paper_tables.render.render import LONG_CELL, render_html
from paper_tables.rounding import rounded

# Nothing is loaded. The style sheet is in the page, and images are `data:` URLs.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
TITLE = "Attention Is All You Need: printed and ours"
# A sentence lists at most this number of trainings. The table of runs has all of them.
MAX_NAMED = 6
NUM_FIRST_COLUMNS = 5
# This number of characters fills two lines of a page.
MAX_CAPTION = 230
NO_FIGURES = f"The figures are not drawn, as the extra for it is not installed: {INSTALL_COMMAND}"
FROM_LOGS_COMMAND = (
    "`aiayn tables --from-logs FOLDER` fills it from a folder whose logs have its numbers"
)


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """How a page was made: the time, the commit of the code, and whether records were missing."""

    made: str
    commit: str
    so_far: bool


class Statement(NamedTuple):
    """A sentence below the picture of a page. `href` is a link to a part of the page, or ''."""

    text: str
    href: str = ""


class ShownTable(NamedTuple):
    """A table in the form in which an HTML page shows it.

    `more` are the columns that are hidden until the reader switches them on. `words` are the
    columns of text, which are aligned to the left. `empty` is '', or for an empty table a sentence
    with the command that makes its values. `lead` is the part of the caption that is always shown.
    `rest` is the other part of the caption, which is folded together with the notes. `asides` maps
    each reason for hiding rows to the names of the hidden rows. `legends` are the notes that
    explain a footnote mark.
    """

    table: Table
    rows: list[tuple[Any, list[ShownCell]]]
    more: set[str]
    words: set[str]
    lead: str
    rest: list[str]
    empty: str
    asides: dict[str, list[str]]
    legends: list[Note]
    notes: list[Note]


def render_report(
    frame: Frame,
    tables: Sequence[Table],
    origin: Origin | None,
    figures: Sequence[DrawnFigure] | None = None,
    *,
    banners: Sequence[str] = (),
) -> str:
    """Return the page of a scale. If `figures` is None, the page shows the command that installs
    the optional dependencies for figures. Without an `origin` (time and commit), pages with the
    same numbers have the same bytes.
    """
    picture = picture_of(frame)
    num_finished = sum(run.status.state == "finished" for run in frame.runs)
    counts = f"{num_finished} of {len(frame.runs)} trainings are finished"
    command = workflow_command(frame.scale, CONFIG_FOLDER / f"{frame.scale}.yaml")
    lead = []
    # The heading of the page is the most important statement that exists: how many conclusions
    # hold, else how much is trained.
    if picture is not None:
        sentence = picture.sentence
        lead.append(picture.details)
    elif num_finished:
        sentence = f"No conclusion of the paper can be called yet: {counts}."
    else:
        sentence = f"No results yet at scale {frame.scale}: {counts}."
    # A first visitor must not take the printed numbers for ours.
    if not num_finished:
        lead.append(f"Every value below is printed. No value of ours is here yet; {command}.")
    warnings = [*_banners(frame.scale, origin), *banners]
    return render_page(
        f"{TITLE}, scale {frame.scale}",
        sentence,
        tables,
        figures,
        origin,
        lead=lead,
        banners=warnings,
        picture=picture,
        facts=_facts(frame),
        command=command,
    )


def picture_of(frame: Frame) -> Picture | None:
    """Return the picture of the paper's conclusions that a wing (optional package) makes for a
    scale, or None as long as no conclusion has an answer.
    """
    # At most one wing registers a picture. If this wing was removed, the page starts with a
    # sentence only.
    for make in registered("answer"):
        picture: Picture | None = make(frame)
        return picture
    return None


def render_page(
    title: str,
    sentence: str,
    tables: Sequence[Table],
    figures: Sequence[DrawnFigure] | None,
    origin: Origin | None,
    *,
    lead: Sequence[str] = (),
    banners: Sequence[str] = (),
    picture: Picture | None = None,
    first_tables: Sequence[Table] = (),
    facts: Sequence[Statement] = (),
    command: str = FROM_LOGS_COMMAND,
    has_buttons: bool = True,
) -> str:
    """Return an HTML page: a sentence, the picture or the first tables, facts about the results,
    then chapters.

    `command` says how to get the values of a table that does not have any. On the page, our numbers
    are buttons that open the list of their runs, unless `has_buttons` is false.
    """
    # The template draws the chapters in the order of the page.
    placed = sorted(tables, key=lambda table: place_of_table(table.name))
    # A list of runs links to the row of a run only if this page has that row.
    anchors: set[str] = set()
    for table in (*first_tables, *placed):
        anchors.update(table.cells.anchor)
    # Without the extra for figures the page is still complete, and says how to get them.
    facts = [*facts, *([Statement(NO_FIGURES)] if figures is None else [])]
    return render_html(
        "page.html.j2",
        title=title,
        short_title="Attention Is All You Need",
        policy=POLICY,
        sentence=sentence,
        lead=lead,
        banners=banners,
        picture=picture,
        first_tables=[show_table(table, "") for table in first_tables],
        facts=facts,
        chapters=_chapters(placed, figures or (), command),
        origins=_Origins() if has_buttons else None,
        anchors=anchors,
        made=origin.made if origin else "",
        commit=origin.commit if origin else "",
    )


def render_table_page(table: Table) -> str:
    """Return an HTML page with a single table and all its rows."""
    # A row is hidden if it has a reason, so without reasons all rows are shown.
    whole = replace(table, cells=table.cells.assign(reason=""))
    return render_page(TITLE, table.title, (), (), None, first_tables=[whole], has_buttons=False)


def _chapters(
    tables: Sequence[Table], figures: Sequence[DrawnFigure], command: str
) -> list[dict[str, Any]]:
    """Return the chapters of a page that have a table or a figure, in the form that the HTML
    template needs.
    """
    chapters = []
    for index, chapter in enumerate(CHAPTERS):
        drawn = []
        # Several figures may be missing for the same reason, which is shown once. A dict keeps the
        # order.
        reasons: dict[str, None] = {}
        for figure in sorted(figures, key=lambda figure: place_of_figure(figure.name)):
            if place_of_figure(figure.name)[0] == index:
                drawn += [_figure(figure)] if figure.svg else []
                reasons[figure.reason] = None
        shown = []
        for table in tables:
            if place_of_table(table.name)[0] == index:
                shown.append(show_table(table, command))
        # A chapter without a table and without a figure is left out.
        if shown or reasons:
            chapters.append(
                {
                    "name": chapter.name,
                    "title": chapter.title,
                    "figures": drawn,
                    "tables": shown,
                    "reasons": list(filter(None, reasons)),
                }
            )
    return chapters


def _figure(figure: DrawnFigure) -> dict[str, Any]:
    """Return a figure in the form that the HTML template needs. The ids in the figure's SVG become
    unique on the page.
    """
    # Two figures may use the same id, and a browser would take the first on the page. An id is
    # defined as id="x" and used as url(#x) or href="#x".
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{figure.name}-", figure.svg)
    path = f"{figure.folder_name}/{figure.name}" if figure.folder_name else ""
    return {
        "name": figure.name,
        "title": figure.title,
        "caption": figure.caption,
        "svg": Markup(svg),
        "place": path,
    }


class _Opened(NamedTuple):
    """The content of the list that opens at a number's button: what the number is, and each run
    with its value as text.
    """

    quantity: str
    values: list[tuple[str, Run]]
    signatures: tuple[str, ...]


class _Origins:
    """Collects the lists of runs that the buttons of a page open. For each button the HTML template
    gets the index of its list. At the end of the page the template writes each list once.
    """

    def __init__(self) -> None:
        self._index_by_runs: dict[Hashable, int] = {}
        self.lists: list[list[_Opened]] = []

    def index_of(self, numbers: Iterable[Number]) -> int:
        """Return the index of the list of runs for these numbers, counted from 1. The index is 0 if
        no number has a value.
        """
        opened, key = [], []
        for number in numbers:
            if number.values:
                # Every value is shown, while the cell has only the mean.
                values = [(rounded(value, number.metric), run) for run, value in number.values]
                opened.append(_Opened(number.quantity, values, number.signatures))
                runs = tuple(run.status.run for run, _ in number.values)
                key.append((number.key, number.metric, number.settings, runs))
        if not opened:
            return 0
        index = self._index_by_runs.setdefault(tuple(key), len(self.lists) + 1)
        # The same runs behind two cells open the same list, which the page contains once.
        if index > len(self.lists):
            self.lists.append(opened)
        return index


def show_table(table: Table, command: str) -> ShownTable:
    """Return a table in the form in which an HTML page shows it. Rows with an aside (a reason to
    hide them) are left out: only their names appear below the table.
    """
    # A row without anything of ours would only make a table longer.
    is_shown = table.cells.reason == ""
    asides = {}
    for reason, cells in table.cells[~is_shown].groupby("reason", sort=False):
        asides[str(reason)] = list(cells.drop_duplicates("position").aside)
    # All rows count here. Hidden rows do not have a number of ours, so they make no difference.
    has_value = table.cells.empty or bool((table.cells.kind == "ours").any())
    table = replace(table, cells=table.cells[is_shown])
    rows = grid(table)
    has_ours = any(column.side == "ours" for column in table.columns)
    empty = ""
    if command and (not rows or (has_ours and not has_value)):
        empty = f"No value of ours is in this table; {command}."
    names = [column.name for column in table.columns]
    # `compact` may have dropped some of the first columns.
    first = [name for name in table.first if name in names] or names
    if len(names) <= NUM_FIRST_COLUMNS:
        first = names
    lead, rest = _split_caption(table.caption)
    return ShownTable(
        table=table,
        rows=rows,
        more=set(names) - set(first[:NUM_FIRST_COLUMNS]),
        words=_columns_of_words(table.columns, rows),
        lead=lead,
        rest=rest,
        empty=empty,
        asides=asides,
        legends=[note for note in table.notes if note.mark],
        notes=[note for note in table.notes if not note.mark],
    )


def _columns_of_words(
    columns: Sequence[Column], rows: Sequence[tuple[Any, list[ShownCell]]]
) -> set[str]:
    """Return the names of the columns of a table that are aligned to the left: labels, columns with
    a long cell, and columns in which most cells do not begin with a number.
    """
    words = set()
    for index, column in enumerate(columns):
        texts = [cells[index].text for _, cells in rows]
        filled = list(filter(None, texts))
        # Numbers begin like 27.3, -0.31, +0.60 or <0.001.
        num_numbers = sum(re.match(r"[-+<]?\d", text) is not None for text in filled)
        is_long = any(len(text) > LONG_CELL for text in filled)
        if column.side == "label" or is_long or 2 * num_numbers < len(filled):
            words.add(column.name)
    return words


def _split_caption(caption: str) -> tuple[str, list[str]]:
    """Split the caption of a table. Return as many first sentences as fit into two lines of a page,
    and the other sentences.
    """
    # A sentence ends at a full stop before a blank and a capital letter, so "0.5 BLEU" is not
    # split.
    sentences = re.split(r"(?<=[.]) (?=[A-Z])", caption)
    lead = sentences.pop(0)
    while sentences and len(lead) + 1 + len(sentences[0]) <= MAX_CAPTION:
        lead += f" {sentences.pop(0)}"
    return lead, [" ".join(sentences)] if sentences else []


def _named(names: Collection[str]) -> str:
    """Return the first few names as text, and how many more names there are."""
    shown = list(names)[:MAX_NAMED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _facts(frame: Frame) -> list[Statement]:
    """Return sentences about the trainings of a scale, about missing results, and about the number
    of the paper's BLEUs that have a verdict.
    """
    systems_by_corpus: dict[str, dict[str, None]] = {}
    corpora_by_system: dict[str, list[str]] = {}
    # Dicts serve as ordered sets: a system is listed once, in the order of the sheet.
    for corpus, system in frame.runs_by_system:
        systems_by_corpus.setdefault(corpus, {})[name_of_key(system)] = None
        corpora_by_system.setdefault(system, []).append(corpus)
    num_finished = sum(run.status.state == "finished" for run in frame.runs)
    facts = [Statement(f"{num_finished} of {len(frame.runs)} trainings finished.", "#runs")]
    for corpus, systems in systems_by_corpus.items():
        facts.append(Statement(f"{_corpus_words(frame, corpus)}: {_named(systems)}."))
    # One sentence for each state: many trainings may be waiting.
    names_by_state: dict[str, list[str]] = {}
    for run in frame.runs:
        status = run.status
        if status.state != "finished":
            name = name_of_key(run.system)
            # A system that is trained on two corpora would have the same name twice.
            if len(corpora_by_system[run.system]) > 1:
                name += f" {_pair_words(frame, run.corpus)}"
            name += f" seed {run.seed}"
            # The update of a run that waits in a queue is 0 or unknown.
            if status.update:
                name += f" at update {status.update:,} of {status.updates:,}"
            names_by_state.setdefault(status.state, []).append(name)
            # A failed run gets a sentence of its own, with a link to its row, because somebody has
            # to act.
            if status.state == "failed" and status.run:
                facts.append(Statement(f"Failed: {name}.", f"#{anchor_of(status.run)}"))
    for state, names in names_by_state.items():
        facts.append(Statement(f"{len(names)} {state}: {_named(names)}."))
    # A number with a signature was scored. A cell of a system with three seeds stands for three
    # evaluations.
    num_asked = sum(len(frame.runs_by_system[key.corpus, key.system]) for key in frame.keys)
    scored_evaluations: set[tuple[CellKey, int | None]] = set()
    for (key, _), number in frame.numbers.items():
        if number.signatures:
            scored_evaluations.update((key, run.seed) for run, _ in number.values)
    if num_asked > len(scored_evaluations):
        num_missing = num_asked - len(scored_evaluations)
        facts.append(Statement(f"{num_missing} of {num_asked} evaluations are not scored."))
    return [*facts, _verdict_fact(frame)]


def _pair_words(frame: Frame, corpus: str) -> str:
    """Return the languages of a corpus in the usual spelling, such as `En-De`."""
    return frame.corpora[corpus].language_pair.title()


def _corpus_words(frame: Frame, corpus: str) -> str:
    """Return a corpus in words: its readable name, or its languages and its description."""
    name = with_names(corpus)
    if name != corpus:
        return name
    return f"{_pair_words(frame, corpus)} ({frame.corpora[corpus].description})"


def _verdict_fact(frame: Frame) -> Statement:
    """Return a sentence with the number of the paper's BLEUs that have a verdict, and how often
    each outcome occurs.
    """
    outcomes = Counter(cell.verdict.outcome for cell in frame.judged)
    # A `Counter` does not raise an error if the key is missing.
    del outcomes[Outcome.NOT_COMPARABLE]
    counts = []
    for outcome in Outcome:
        if outcomes[outcome]:
            counts.append(f"{outcomes[outcome]} {outcome.value.lower()}")
    outcome_text = f": {', '.join(counts)}" if counts else ""
    # At a smaller scale no BLEU of the paper can be judged, which is not a gap in the results.
    if not counts and frame.scale != PAPER_SCALE:
        outcome_text = ": another corpus and scale than the paper's"
    text = f"{outcomes.total()} of {len(frame.judged)} printed BLEU judged, margin {MARGIN_BLEU}"
    return Statement(f"{text}{outcome_text}.", "#verdicts")


def _banners(scale: str, origin: Origin | None) -> list[str]:
    """Return the warnings at the top of a page: the scale is not the paper's, or results are
    incomplete.
    """
    warnings = []
    if scale != PAPER_SCALE:
        warnings.append(
            f"Scale {scale}: another corpus and smaller systems than the paper's. No number here"
            f" reproduces the paper's; the mark {MARK_BY_SCALE[scale]} is in each row with measured"
            " numbers."
        )
    if origin is not None and origin.so_far:
        warnings.append(
            "This page shows what is there so far; missing, running and failed runs are named."
        )
    return warnings
