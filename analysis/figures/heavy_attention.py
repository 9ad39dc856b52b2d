"""Draws attention as in Figures 3 to 5 of the paper: what the heads of a layer attend to. A first
figure has lines between words, a second figure has a matrix for each head.

The frame has the attention weights for one sentence, with a line for each weight: run, kind, layer,
num_layers, head, query_index, query, key_index, key, weight. In each head the attention weights of
a query sum to 1. `aiayn attention` computes the weights with the model and writes the frame to a
file.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import altair as alt
import pandas as pd

from aiayn.errors import RecordError
from analysis.figures import ATTENTION_COLUMNS
from paper_tables.render.figure import (
    INK,
    PALETTE,
    WIDTH,
    Figure,
    FigureError,
    write_figure,
)

# There are 8 colours. Further heads repeat them.
HEAD_COLOURS = (*PALETTE, INK, "#8A8F98")
# A column of lines, or a matrix, has room for the labels of this number of tokens.
MAX_LABELLED = 48
# The limit for all matrices of a figure together, which gives about 500 KB of SVG.
MAX_CELLS = 6000
MIN_DRAWN_WEIGHT = 0.02
MAX_LINES = 120
TOKEN_HEIGHT = 15


def read_attention(path: Path) -> pd.DataFrame:
    """Return the table of attention weights that `aiayn attention` wrote to a file.

    Raises:
        RecordError: if the file is not a table of attention weights.
    """
    # Tokens are text from anywhere. Without these options pandas would read the token `null` as
    # missing, 1999 as a number, and a quotation mark as the beginning of a quoted field (3 is
    # csv.QUOTE_NONE).
    types = dict.fromkeys(("run", "kind", "query", "key"), str) | {"weight": float}
    try:
        frame = pd.read_csv(path, sep="\t", dtype=types, keep_default_na=False, quoting=3)
    except (ValueError, pd.errors.ParserError) as error:
        raise RecordError(
            f"{path}: not a table of attention weights ({error}); write it again: aiayn attention"
        ) from error
    missing = [name for name in ATTENTION_COLUMNS if name not in frame.columns]
    if missing:
        raise RecordError(
            f"{path}: lacks {', '.join(missing)}; write it again with `aiayn attention`"
        )
    return frame


def positions_of_word(tokens: Sequence[str], word: str) -> list[int]:
    """Return the indices of the tokens that make up a word, at its first occurrence in the
    sentence. The list is empty if the word does not occur in the sentence.

    Tokens are words, pieces of sentencepiece (U+2581 begins a word) or pieces of subword-nmt (`@@`
    continues a word). Case, and punctuation at the ends of the word, are ignored.
    """
    # Pieces are joined to words first, because the word may be in several pieces.
    words: list[str] = []
    indices_by_word: list[list[int]] = []
    for index, (text, is_inside) in enumerate(_pieces(tokens)):
        if is_inside and words:
            words[-1] += text
            indices_by_word[-1].append(index)
        else:
            words.append(text)
            indices_by_word.append([index])
    bare_words = [text.lower().strip(".,;:!?") for text in words]
    bare = word.lower().strip(".,;:!?")
    return indices_by_word[bare_words.index(bare)] if bare in bare_words else []


def _pieces(tokens: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each token without its subword mark, and whether the token continues a word. </s> does
    not continue a word.
    """
    # Sentencepiece marks the first piece of a word with U+2581. subword-nmt marks every piece of a
    # word except the last: "vot@@ ing". A sentence has only one of the two marks.
    tokens = list(tokens)
    goes_on = False
    has_marks = any(token.startswith("\u2581") for token in tokens)
    for token in tokens:
        # </s> is not marked, and must not be joined to the word before it.
        is_special = token.startswith("<") and token.endswith(">")
        is_inside = not token.startswith("\u2581") if has_marks else goes_on
        goes_on = token.endswith("@@")
        yield token.removeprefix("\u2581").removesuffix("@@"), is_inside and not is_special


def shown_tokens(tokens: Iterable[str]) -> list[str]:
    """Return the tokens in a readable form: without subword marks, and with a dot before a token
    that continues a word.
    """
    return ["\u00b7" * is_inside + text for text, is_inside in _pieces(tokens)]


def select(frame: pd.DataFrame, *, heads: Sequence[int] = (), word: str = "") -> pd.DataFrame:
    """Select the attention weights of the given heads, and of the queries that are tokens of the
    given word.

    By default all heads and all queries are selected.

    Raises:
        FigureError: if a head does not exist, or if the word does not occur in the sentence.
    """
    indices = sorted(frame["head"].unique())
    missing = [head for head in heads if head not in indices]
    if missing:
        raise FigureError(
            f"--head {missing[0]}: no such head; expected heads {indices[0]} to {indices[-1]}"
        )
    if heads:
        frame = frame[frame["head"].isin(heads)]
    if not word:
        return frame
    # The frame has a line for each pair of query and key, so each query occurs many times.
    queries = frame.drop_duplicates("query_index").sort_values("query_index")
    positions = positions_of_word(list(queries["query"]), word)
    if not positions:
        queried = " ".join(queries["query"])
        raise FigureError(
            f"--word {word}: not among the queries; expected a word of: {queried[:300]}"
        )
    return frame[frame["query_index"].isin(queries["query_index"].iloc[positions])]


def draw_attention(
    path: Path, *, heads: Sequence[int], word: str, needs_word: bool
) -> Iterator[str]:
    """Draw the attention weights in a file of `aiayn attention`, into the folder of the file. Yield
    the path of each picture, or the reason why a picture is missing.

    With a `word`, only the lines from this word are drawn. With `needs_word` the word must occur in
    the sentence. Without `heads`, all heads are drawn.

    Raises:
        FigureError: if a head does not exist, or if a needed word does not occur in the sentence.
    """
    frame = select(read_attention(path), heads=heads)
    # The default words are the paper's. A different sentence does not have to contain them, so then
    # all lines are drawn.
    of_word = frame
    try:
        of_word = select(frame, word=word)
    except FigureError:
        if needs_word:
            raise
    for figure, shown in ((ATTENTION_LINES, of_word), (ATTENTION_HEADS, frame)):
        # The pictures get the name of the TSV. A figure that cannot be drawn does not stop the
        # other figure.
        named = replace(figure, name=f"{path.stem}_{figure.name.removeprefix('attention_')}")
        try:
            yield from map(str, write_figure(named, shown, path.parent, with_frame=False))
        except FigureError as error:
            yield str(error)


def draw_lines(frame: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw the query tokens on the left, the key tokens on the right, and a line for each attention
    weight.

    A line has the colour of its attention head, and is stronger for a larger weight.

    Raises:
        FigureError: if the sentence has too many tokens to be labelled in the figure.
    """
    # The longer of the two columns decides the height.
    num_tokens = int(max(frame["query_index"].max(), frame["key_index"].max())) + 1
    if num_tokens > MAX_LABELLED:
        raise FigureError(
            f"Attention as lines: {num_tokens} tokens, more than the {MAX_LABELLED} that can be"
            " named in a column; the matrices show them."
        )
    # The largest weight is always drawn, even where attention is so even that all weights are
    # small. At most MAX_LINES lines are drawn.
    drawn = frame.nlargest(MAX_LINES, "weight")
    drawn = drawn[drawn["weight"] >= min(MIN_DRAWN_WEIGHT, float(drawn["weight"].max()))]
    drawn = drawn.assign(start=0.0, end=1.0)
    heads = sorted(frame["head"].unique())
    domain = [f"head {head}" for head in heads]
    # The lines of different heads end at slightly different heights of a key, so that all of them
    # can be seen.
    step = 0.6 / max(len(heads), 4)
    ends = drawn["key_index"] + (drawn["head"].map(heads.index) - (len(heads) - 1) / 2) * step
    drawn = drawn.assign(name=drawn["head"].map(lambda head: f"head {head}"), key_end=ends)
    # Head 3 has the same colour in a picture of all heads and in a picture of head 3 only.
    colours = [HEAD_COLOURS[(head - 1) % len(HEAD_COLOURS)] for head in heads]
    # The domain is reversed, because the first token is at the top. `nice=False` keeps Vega from
    # extending the axis to round numbers.
    y_scale = alt.Scale(domain=[num_tokens - 0.5, -0.5], nice=False)
    x_scale = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("start:Q", scale=x_scale, axis=None)
    y = alt.Y("query_index:Q", scale=y_scale, axis=None)
    legend = None
    if len(heads) > 1:
        legend = alt.Legend(title=None, columns=4, symbolType="stroke", symbolOpacity=1)
    # Opacity is relative to the largest weight, because all weights of a sentence may be small.
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
    # A layer of Vega-Lite has one kind of mark, so the labels of both columns are further layers.
    layers = [lines]
    # In self-attention both sides have the same tokens, also where only one query is drawn.
    left = "query" if frame["kind"].iloc[0] == "cross" else "key"
    for side, at in ((left, 0), ("key", 1)):
        index = f"{side}_index"
        words = frame.drop_duplicates(index).sort_values(index)
        words = words.assign(at=at, token=shown_tokens(words[side]))
        text = alt.Chart(words).mark_text(
            align="left" if at else "right", dx=12 * at - 6, baseline="middle", fontSize=10.5
        )
        side_x = alt.X("at:Q", scale=x_scale, axis=None)
        layers.append(
            text.encode(side_x, alt.Y(f"{index}:Q", scale=y_scale, axis=None), text="token:N")
        )
    return alt.layer(*layers).properties(
        width=WIDTH - 150,
        height=num_tokens * TOKEN_HEIGHT,
        title=alt.TitleParams(_heading(frame), frame="group"),
    )


def draw_heads(frame: pd.DataFrame) -> alt.ConcatChart:
    """Draw a matrix of attention weights for each head, with queries downwards and keys to the
    right. Larger weights are darker.
    """
    # Sizes come from the indices and not from the cells, because pale cells are not drawn.
    num_queries, num_keys = (int(frame[f"{side}_index"].max()) + 1 for side in ("query", "key"))
    longest = max(num_queries, num_keys)
    # Paler cells cannot be seen. Of the visible cells only the strongest are drawn, because each is
    # an element of the SVG.
    cells = frame[frame["weight"] >= MIN_DRAWN_WEIGHT / 2].nlargest(MAX_CELLS, "weight")
    heads = sorted(frame["head"].unique())
    # `side` is a matrix's width in pixels: what the labels leave of the figure's width.
    if len(heads) == 1:
        num_columns = 1
        is_named = longest <= MAX_LABELLED
        side = float(WIDTH - 40 if is_named else WIDTH)
        height = side * num_queries / num_keys
    else:
        num_columns = 2
        is_named = longest <= MAX_LABELLED // 2
        side = height = (WIDTH - (110 if is_named else 60)) / 2
    # Only the matrices at the left and at the bottom have token labels. Neighbours share them.
    charts = []
    for index, head in enumerate(heads):
        is_left, is_bottom = index % num_columns == 0, index >= len(heads) - num_columns
        # Tokens may repeat, so the axes have indices, with the tokens as labels.
        key_axis = _token_axis(frame, "key", shows=is_named and is_bottom, angle=-90)
        query_axis = _token_axis(frame, "query", shows=is_named and is_left, angle=0)
        x_scale, y_scale = (alt.Scale(domain=list(range(n))) for n in (num_keys, num_queries))
        encoded = (
            alt.Chart(cells[cells["head"] == head])
            # Without `aria=False` Vega writes a label for screen readers into each of the thousands
            # of cells.
            .mark_rect(color=HEAD_COLOURS[(head - 1) % len(HEAD_COLOURS)], aria=False)
            .encode(
                alt.X("key_index:O", axis=key_axis, scale=x_scale, title=None),
                alt.Y("query_index:O", axis=query_axis, scale=y_scale, title=None),
            )
        )
        opacity = alt.Opacity("weight:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None)
        tooltip = ["query:N", "key:N", alt.Tooltip("weight:Q", format=".3f")]
        title = alt.TitleParams(
            f"head {head}", frame="group", fontSize=11, fontWeight="normal", offset=3
        )
        border = alt.ViewBackground(stroke=INK, strokeOpacity=0.25)
        plot = encoded.encode(opacity, tooltip=tooltip)
        charts.append(plot.properties(width=side, height=height, title=title, view=border))
    heading = alt.TitleParams(_heading(frame), anchor="start")
    return alt.concat(*charts, columns=num_columns, spacing=10).properties(title=heading)


def _token_axis(frame: pd.DataFrame, side: str, *, shows: bool, angle: int) -> alt.Axis:
    # Vega labels an ordinal axis with the indices. The expression looks up the token of an index in
    # a JSON table.
    words = frame.drop_duplicates(f"{side}_index").sort_values(f"{side}_index")
    named = dict(zip(words[f"{side}_index"].astype(int), shown_tokens(words[side]), strict=True))
    table = json.dumps(named, ensure_ascii=False)
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
    """Return a text for the figure: the layer, the sentence, and the largest attention weight of
    each head.
    """
    first = frame.iloc[0]
    queries = frame.drop_duplicates("query_index").sort_values("query_index")["query"]
    # The alternative text of the picture: a reader who cannot see it gets the main point of each
    # head.
    strongest = frame.loc[frame.groupby("head")["weight"].idxmax()].sort_values("head")
    sentences = [
        f"Head {line['head']}: largest weight {line['weight']:.2f}, from {line['query']} to"
        f" {line['key']}."
        for line in strongest.to_dict("records")
    ]
    return " ".join(
        [f"{_heading(frame)}, of {first['run']}; queries: {' '.join(queries)[:400]}.", *sentences]
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
        "A matrix for each head: queries downwards, keys to the right; full colour is a weight of"
        f" 1, and each row sums to 1. The {MAX_CELLS:,} largest weights are drawn, none below"
        f" {MIN_DRAWN_WEIGHT / 2}."
    ),
    draw=draw_heads,
    describe=describe_attention,
)
