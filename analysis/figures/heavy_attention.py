"""Draws Figures 3 to 5: what the heads of one layer attend to, as lines between words and as one
matrix a head.

A frame is of one sentence and has a line a weight: run, kind, layer, num_layers, head, query_index,
query, key_index, key, weight. The weights of a query sum to 1 in each head; `aiayn attention`
writes them, taken from the model itself.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from aiayn.errors import RecordError
from paper_tables.render.figure import (
    INK,
    PALETTE,
    WIDTH,
    Figure,
    FigureError,
    Format,
    write_figure,
)

COLUMNS = (
    "run",
    "kind",
    "layer",
    "num_layers",
    "head",
    "query_index",
    "query",
    "key_index",
    "key",
    "weight",
)
HEAD_COLOURS = (
    *PALETTE,
    INK,
    "#8A8F98",
)  # of 8 heads; further ones repeat them, and the legend numbers all
SUM_TOLERANCE = 1e-3
MAX_LABELLED = 48  # tokens whose words a column of lines, or a matrix, can name
MAX_SIDE = (
    60  # cells of a matrix's side: longer sentences are drawn as means over squares of neighbours
)
MAX_CELLS = 6000  # of all heads' matrices together, about 500 KB of SVG
MIN_DRAWN_WEIGHT = 0.02
MAX_LINES = 120
TOKEN_HEIGHT = 15


def read_attention(path: Path) -> pd.DataFrame:
    """Return the frame that `aiayn attention` wrote.

    Raises:
        RecordError: if it is no such file.
        FigureError: if it is of several layers, or a query has a weight below 0 or weights that do
        not sum to 1.
    """
    types = dict.fromkeys(("run", "kind", "query", "key"), str) | {"weight": float}
    try:
        frame = pd.read_csv(path, sep="\t", dtype=types, keep_default_na=False, quoting=3)
    except (ValueError, pd.errors.ParserError) as error:
        raise RecordError(
            f"{path}: not a table of attention weights ({error}); write it again: aiayn attention"
        ) from error
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise RecordError(
            f"{path}: lacks {', '.join(missing)}; write it again with `aiayn attention`"
        )
    shown = frame[["run", "kind", "layer"]].drop_duplicates()
    if len(shown) > 1:
        raise FigureError(
            f"Attention: the table holds {len(shown)} runs, kinds or layers; a figure is of one."
        )
    sums = frame.groupby(["kind", "layer", "head", "query_index"], sort=False)["weight"].agg(
        ["sum", "min"]
    )
    wrong = sums[~((sums["sum"] - 1).abs() <= SUM_TOLERANCE) | ~(sums["min"] >= 0)]
    if not wrong.empty:
        kind, layer, head, query = wrong.index[0]
        total = wrong["sum"].iloc[0]
        raise FigureError(
            f"Attention: the weights of query {query} in {kind} layer {layer}, head {head} sum to"
            f" {total:.4g}, expected 1 and none below 0; write the table again with `aiayn"
            " attention`."
        )
    return frame


def positions_of_word(tokens: Sequence[str], word: str) -> list[int]:
    """Return the indices of the tokens that a word is made of, at its first occurrence; none if it
    does not occur.

    Tokens are words, sentencepiece's pieces (a word begins with U+2581) or subword-nmt's (`@@` goes
    on). Case and punctuation at the ends are no matter.
    """
    groups: list[tuple[str, list[int]]] = []
    for index, (text, is_inside) in enumerate(_pieces(tokens)):
        if is_inside and groups:
            groups[-1] = (groups[-1][0] + text, [*groups[-1][1], index])
        else:
            groups.append((text, [index]))
    bare = word.lower().strip(".,;:!?")
    return next((indices for text, indices in groups if text.lower().strip(".,;:!?") == bare), [])


def _pieces(tokens: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each token without marks of subwords, and whether it continues a word; fairseq's own
    (</s>) never does.
    """
    tokens, goes_on = list(tokens), False
    has_marks = any(token.startswith("\u2581") for token in tokens)
    for token in tokens:
        is_special = token.startswith("<") and token.endswith(">")
        is_inside = not token.startswith("\u2581") if has_marks else goes_on
        goes_on = token.endswith("@@")
        yield token.removeprefix("\u2581").removesuffix("@@"), is_inside and not is_special


def shown_tokens(tokens: Iterable[str]) -> list[str]:
    """Return tokens for a reader: without marks of subwords, a dot before a token that continues a
    word.
    """
    return ["\u00b7" * is_inside + text for text, is_inside in _pieces(tokens)]


def select(frame: pd.DataFrame, *, heads: Sequence[int] = (), word: str = "") -> pd.DataFrame:
    """Return the weights of some heads, and of the queries that a word is made of.

    Raises:
        FigureError: if there is no such head, or the word does not occur.
    """
    known = sorted(frame["head"].unique())
    missing = [head for head in heads if head not in known]
    if missing:
        raise FigureError(
            f"--head {missing[0]}: no such head; expected one of heads {known[0]} to {known[-1]}"
        )
    if heads:
        frame = frame[frame["head"].isin(heads)]
    if not word:
        return frame
    queries = frame.drop_duplicates("query_index").sort_values("query_index")
    found = positions_of_word(list(queries["query"]), word)
    if not found:
        queried = " ".join(queries["query"])
        raise FigureError(
            f"--word {word}: not among the queries; expected a word of: {queried[:300]}"
        )
    return frame[frame["query_index"].isin(queries["query_index"].iloc[found])]


def draw_attention(
    path: Path, formats: Sequence[Format], *, heads: Sequence[int], word: str, needs_word: bool
) -> Iterator[str]:
    """Draw what `aiayn attention` wrote at `path`, beside it; yield the path of each picture, or
    why there is none.

    Lines are drawn of `word` alone if it is given; with `needs_word` it must occur. Without heads
    all are drawn.

    Raises:
        FigureError: as `read_attention`, or if there is no such head or word.
    """
    frame = select(read_attention(path), heads=heads)
    of_word = frame
    try:
        of_word = select(frame, word=word)
    except FigureError:
        if needs_word:
            raise
    for figure, shown in ((ATTENTION_LINES, of_word), (ATTENTION_HEADS, frame)):
        named = replace(figure, name=f"{path.stem}_{figure.name.removeprefix('attention_')}")
        try:
            yield from (
                str(one)
                for one in write_figure(named, shown, path.parent, formats, with_frame=False)
            )
        except FigureError as error:
            yield str(error)


def draw_lines(frame: pd.DataFrame) -> alt.TopLevelMixin:
    """Return queries on the left, keys on the right, and a line for each weight: coloured by head,
    as strong as it is.

    Raises:
        FigureError: if the sentence is too long to name its tokens.
    """
    num_tokens = int(max(frame["query_index"].max(), frame["key_index"].max())) + 1
    if num_tokens > MAX_LABELLED:
        raise FigureError(
            f"Attention as lines: {num_tokens} tokens, more than the {MAX_LABELLED} that can be"
            " named in a column; the matrices show them."
        )
    sides = {}
    for side, at, align in (("query", 0.0, "right"), ("key", 1.0, "left")):
        words = frame.drop_duplicates(f"{side}_index")[[f"{side}_index", side]]
        words = words.rename(columns={f"{side}_index": "index", side: "token"}).assign(at=at)
        words["token"] = shown_tokens(words.sort_values("index")["token"])
        sides[align] = words
    if (
        frame["query_index"].nunique() == 1 and frame["kind"].iloc[0] != "cross"
    ):  # one word: the others in grey
        others = sides["left"].copy()
        sides["grey"] = others[~others["index"].isin(frame["query_index"])].assign(at=0.0)
    strongest = frame.nlargest(MAX_LINES, "weight")  # never none, and never a wall of grey
    drawn = strongest[
        strongest["weight"] >= min(MIN_DRAWN_WEIGHT, float(strongest["weight"].max()))
    ]
    drawn = drawn.assign(start=0.0, end=1.0)
    heads = sorted(frame["head"].unique())
    domain = [f"head {head}" for head in heads]
    step = 0.6 / max(
        len(heads), 4
    )  # heads end beside each other at a key, so that one does not hide another
    ends = drawn["key_index"] + (drawn["head"].map(heads.index) - (len(heads) - 1) / 2) * step
    drawn = drawn.assign(name=drawn["head"].map(lambda head: f"head {head}"), key_end=ends)
    colours = [HEAD_COLOURS[(head - 1) % len(HEAD_COLOURS)] for head in heads]
    y_scale = alt.Scale(domain=[num_tokens - 0.5, -0.5], nice=False)
    x_scale = alt.Scale(domain=[0, 1], nice=False)
    x, y = (
        alt.X("start:Q", scale=x_scale, axis=None),
        alt.Y("query_index:Q", scale=y_scale, axis=None),
    )
    legend = (
        alt.Legend(title=None, columns=4, symbolType="stroke", symbolOpacity=1)
        if len(heads) > 1
        else None
    )
    largest = float(drawn["weight"].max())
    strength = alt.Opacity(
        "weight:Q", scale=alt.Scale(domain=[0, largest], range=[0.06, 0.95]), legend=None
    )
    lines = (
        alt.Chart(drawn)
        .mark_rule(strokeWidth=1.8)
        .encode(
            x,
            y,
            alt.X2("end:Q"),
            alt.Y2("key_end:Q"),
            strength,
            alt.Color(
                "name:N", scale=alt.Scale(domain=domain, range=colours), sort=domain, legend=legend
            ),
            tooltip=["name:N", "query:N", "key:N", alt.Tooltip("weight:Q", format=".3f")],
        )
    )
    layers = [lines]
    for align, words in sides.items():
        is_left = align != "left"
        text = alt.Chart(words).mark_text(
            align="right" if is_left else "left",
            dx=-6 if is_left else 6,
            baseline="middle",
            fontSize=10.5,
            opacity=0.45 if align == "grey" else 1,
        )
        side_x = alt.X("at:Q", scale=x_scale, axis=None)
        layers.append(
            text.encode(side_x, alt.Y("index:Q", scale=y_scale, axis=None), text="token:N")
        )
    return alt.layer(*layers).properties(
        width=WIDTH - 150,
        height=num_tokens * TOKEN_HEIGHT,
        title=alt.TitleParams(_heading(frame), frame="group"),
    )


def draw_heads(frame: pd.DataFrame) -> alt.ConcatChart:
    """Return a matrix a head: queries downwards, keys to the right, darker where the weight is
    larger.
    """
    num_queries, num_keys = (int(frame[f"{side}_index"].max()) + 1 for side in ("query", "key"))
    longest = max(num_queries, num_keys)
    side_cells = min(MAX_SIDE, math.isqrt(MAX_CELLS // frame["head"].nunique()))
    cell = math.ceil(longest / side_cells)
    binned = frame
    if cell > 1:
        rows, columns = frame["query_index"] // cell * cell, frame["key_index"] // cell * cell
        groups = frame.assign(query_index=rows, key_index=columns).groupby(
            ["head", "query_index", "key_index"], as_index=False
        )
        binned = groups.agg(
            weight=("weight", "mean"), query=("query", "first"), key=("key", "first")
        )
    binned = binned[binned["weight"] >= MIN_DRAWN_WEIGHT / 2 / cell]  # paler than can be seen
    heads = sorted(frame["head"].unique())
    num_columns = 1 if len(heads) == 1 else 2
    is_named = longest <= (MAX_LABELLED if num_columns == 1 else 24)
    side = (
        (WIDTH - 40 if is_named else WIDTH)
        if num_columns == 1
        else (WIDTH - (110 if is_named else 60)) / 2
    )
    charts = []
    for index, head in enumerate(heads):
        part = binned[binned["head"] == head]
        is_left, is_bottom = index % num_columns == 0, index >= len(heads) - num_columns
        colour = HEAD_COLOURS[(head - 1) % len(HEAD_COLOURS)]
        if is_named:
            # Tokens may repeat: an axis of indices, named by token.
            axes = {
                name: _token_axis(frame, name, shows=shows, angle=angle)
                for name, shows, angle in (("key", is_bottom, -90), ("query", is_left, 0))
            }
            x = alt.X("key_index:O", axis=axes["key"], title=None)
            y = alt.Y("query_index:O", axis=axes["query"], title=None)
            marks = alt.Chart(part).mark_rect(color=colour, aria=False)
            encoded = marks.encode(x, y)
        else:
            ends = part.assign(to_key=part["key_index"] + cell, to_query=part["query_index"] + cell)
            axis: dict[str, Any] = {"grid": False, "tickCount": 4}
            x = alt.X(
                "key_index:Q",
                scale=alt.Scale(domain=[0, num_keys], nice=False),
                axis=alt.Axis(title="key (token)" if is_bottom else None, **axis),
            )
            y = alt.Y(
                "query_index:Q",
                scale=alt.Scale(domain=[num_queries, 0], nice=False),
                axis=alt.Axis(title="query (token)" if is_left else None, **axis),
            )
            encoded = (
                alt.Chart(ends)
                .mark_rect(color=colour, aria=False)
                .encode(x, y, alt.X2("to_key:Q"), alt.Y2("to_query:Q"))
            )
        opacity = alt.Opacity(
            "weight:Q",
            scale=alt.Scale(
                domain=[0, 1 if cell == 1 else float(part["weight"].max())], range=[0, 1]
            ),
            legend=None,
        )
        tooltip = ["query:N", "key:N", alt.Tooltip("weight:Q", format=".3f")]
        title = alt.TitleParams(
            f"head {head}", frame="group", fontSize=11, fontWeight="normal", offset=3
        )
        border = alt.ViewBackground(stroke=INK, strokeOpacity=0.25)
        height = side * (num_queries / num_keys if num_columns == 1 else 1)
        plot = encoded.encode(opacity, tooltip=tooltip)
        charts.append(plot.properties(width=side, height=height, title=title, view=border))
    heading = alt.TitleParams(_heading(frame), anchor="start")
    return alt.concat(*charts, columns=num_columns, spacing=10).properties(title=heading)


def _token_axis(frame: pd.DataFrame, side: str, *, shows: bool, angle: int) -> alt.Axis:
    words = frame.drop_duplicates(f"{side}_index").sort_values(f"{side}_index")
    named = dict(zip(words[f"{side}_index"].astype(int), shown_tokens(words[side]), strict=True))
    escaped = {
        index: token.replace("\\", "\\\\").replace("'", "\\'") for index, token in named.items()
    }
    table = "{" + ", ".join(f"'{index}': '{token}'" for index, token in escaped.items()) + "}"
    return alt.Axis(
        labels=shows,
        ticks=False,
        domain=False,
        labelAngle=angle,
        labelFontSize=9,
        labelLimit=90,
        labelExpr=f"({table})[datum.label]",
        labelOverlap=False,
    )


def _heading(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    names = {
        "encoder": "Encoder self-attention",
        "decoder": "Decoder self-attention",
        "cross": "Encoder-decoder attention",
    }
    return (
        f"{names.get(first['kind'], first['kind'])}, layer {first['layer']} of"
        f" {first['num_layers']}"
    )


def describe_attention(frame: pd.DataFrame) -> str:
    """Return the layer, the sentence, and what each head attends to most."""
    first = frame.iloc[0]
    queries = frame.drop_duplicates("query_index").sort_values("query_index")["query"]
    strongest = frame.loc[frame.groupby("head")["weight"].idxmax()].sort_values("head")
    words = [
        f"Head {line['head']}: largest weight {line['weight']:.2f}, from {line['query']} to"
        f" {line['key']}."
        for line in strongest.to_dict("records")
    ]
    return " ".join(
        [f"{_heading(frame)}, of {first['run']}; queries: {' '.join(queries)[:400]}.", *words]
    )


ATTENTION_LINES = Figure(
    name="attention_lines",
    title="Figures 3 to 5: attention between words",
    caption=(
        "Queries on the left, keys on the right; a line is a weight, coloured by head, stronger if"
        f" larger. The {MAX_LINES} largest weights are drawn, none below {MIN_DRAWN_WEIGHT}. The"
        " weights are the model's own."
    ),
    draw=draw_lines,
    describe=describe_attention,
)
ATTENTION_HEADS = Figure(
    name="attention_heads",
    title="Attention, head by head",
    caption=(
        "One matrix a head: queries downwards, keys to the right; full colour is a weight of 1, and"
        " each row sums to 1. Of long sentences means over squares of neighbours are drawn, full"
        " colour the largest."
    ),
    draw=draw_heads,
    describe=describe_attention,
)
