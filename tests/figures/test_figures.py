"""Every figure draws what its frame says, and says so in words; a wrong frame is seen in the
drawing.

What is drawn is read from the SVG: Vega labels each mark with its values.
"""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from aiayn.errors import RecordError
from analysis.figures import ATTENTION_COLUMNS
from analysis.figures import heavy_attention as attention
from analysis.figures import heavy_curves as curves
from analysis.figures import heavy_grouped_curves as grouped
from analysis.figures.heavy_registry import NO_ATTENTION, figures_of_scale
from paper_tables.frame import Frame
from paper_tables.render.figure import (
    INK,
    Figure,
    FigureError,
    write_figure,
    write_figures,
)
from tests import laid_out
from tests.records_factory import (
    make_site,
)
from tests.support.drawings import drawn, labels_of, svg_of

MEASURED_FOLDER = Path(__file__).resolve().parents[2] / "paper_tables" / "measured"


def curve_frame() -> pd.DataFrame:
    """Return two seeds of base over three updates, and a seed of big."""
    lines: list[tuple[object, ...]] = []
    for run, series, seed, shift in (
        ("a", "base", 1, 0.0),
        ("b", "base", 2, 1.0),
        ("c", "big", 1, 3.0),
    ):
        for update in (10, 20, 30):
            lines += [
                (run, series, seed, "loss_bits", update, 8 - update / 10 + shift),
                (run, series, seed, "dev_ppl_per_subword", update, 2 + shift),
                (run, series, seed, "learning_rate", update, update / 1000),
                (run, series, seed, "target_tokens_per_second", update, 500.0),
            ]
    return pd.DataFrame(lines, columns=list(curves.COLUMNS))


def attention_frame(num_tokens: int = 4, num_heads: int = 2) -> pd.DataFrame:
    """Return a head that copies (head 1: each token attends to itself), others that attend to all
    alike.
    """
    lines = [
        (
            "run",
            "encoder",
            5,
            6,
            head,
            query,
            f"w{query}",
            key,
            f"w{key}",
            float(query == key) if head == 1 else 1 / num_tokens,
        )
        for head in range(1, num_heads + 1)
        for query in range(num_tokens)
        for key in range(num_tokens)
    ]
    return pd.DataFrame(lines, columns=list(ATTENTION_COLUMNS))


def full_cells(frame: pd.DataFrame) -> list[tuple[float, float]]:
    """Return where, in pixels, the matrix of head 1 has cells of full colour."""
    svg = svg_of(attention.ATTENTION_HEADS, frame[frame["head"] == 1])
    colour = attention.HEAD_COLOURS[0]
    cells = re.findall(rf'<path d="M([\d.]+),([\d.]+)h[^"]*" fill="{colour}" opacity="1"', svg)
    return sorted((float(x), float(y)) for x, y in cells)


def changed(frame: pd.DataFrame, column: str, value: object, row: int = -1) -> pd.DataFrame:
    """Return a frame with one value planted in it."""
    wrong = frame.copy()
    wrong.iloc[row, list(frame.columns).index(column)] = value
    return wrong


# Each figure that no shipped run has (as for those, see tests/packs/test_measured.py): a right
# frame, what must be drawn of it, and the wrong frame of which it must not be.
CASES: dict[str, tuple[Callable[[], pd.DataFrame], str, Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "curves_by_update": (
        curve_frame, "update: 10; value: 7.5; series: base; seeds: 2",
        lambda frame: changed(frame, "value", 9.0, row=0),
    ),
    "curves": (
        curve_frame, "update: 10; value: 2.5; series: base; seeds: 2",
        lambda frame: frame.assign(value=frame["value"] + 1),
    ),
    "attention_lines": (
        attention_frame, "query_index: 2; end: 1; key_end: 1.925; name: head 1; weight: 1; query: w2; key: w2",
        lambda frame: frame.assign(weight=0.25),
    ),
}  # fmt: skip
FIGURE_BY_NAME = {
    figure.name: figure
    for module in (curves, grouped, attention)
    for figure in vars(module).values()
    if isinstance(figure, Figure)
}


def test_every_figure_has_a_case_or_is_drawn_of_a_shipped_run() -> None:
    """The matrices of attention, whose cells have no labels, are looked at by their places."""
    shipped = {path.stem for path in MEASURED_FOLDER.glob("multi30k/figures/*.svg")}
    assert set(FIGURE_BY_NAME) <= set(CASES) | shipped | {"attention_heads"}


@pytest.mark.parametrize("name", CASES)
def test_a_figure_draws_what_its_frame_says_and_a_wrong_frame_shows(name: str) -> None:
    make, expected, plant = CASES[name]
    figure, frame = FIGURE_BY_NAME[name], make()
    svg = svg_of(figure, frame)
    assert [label for label in labels_of(svg) if expected in label] != []
    assert [label for label in drawn(figure, plant(frame)) if expected in label] == []
    check_adapts(figure, frame, svg)


def check_adapts(figure: Figure, frame: pd.DataFrame, svg: str) -> None:
    """Fail unless a drawing adapts to dark and light, is as narrow as a phone, and is described."""
    assert 'role="img"' in svg[:3000]
    assert html.escape(figure.describe(frame))[:60] in svg
    assert INK not in svg.replace("svg.figure{color:#1d2733}", "")
    assert "currentColor" in svg
    assert float(re.search(r'width="([\d.]+)"', svg)[1]) <= 460  # type: ignore[index]
    assert len(figure.caption) > 40
    assert figure.title


def test_a_copying_head_shows_its_diagonal_and_another_head_does_not() -> None:
    frame = attention_frame()
    check_adapts(attention.ATTENTION_HEADS, frame, svg_of(attention.ATTENTION_HEADS, frame))
    cells = full_cells(frame)
    assert len(cells) == 4
    assert all(x == pytest.approx(y) for x, y in cells)
    shifted = attention_frame().assign(
        weight=lambda frame: (frame["key_index"] == (frame["query_index"] + 1) % 4) * 1.0
    )
    assert not all(x == pytest.approx(y) for x, y in full_cells(shifted))


def test_the_frame_is_written_beside_the_picture_and_can_be_drawn_again(tmp_path: Path) -> None:
    paths = write_figure(curves.CURVES_BY_UPDATE, curve_frame(), tmp_path)
    assert [path.name for path in paths] == ["curves_by_update.svg", "curves_by_update.pdf"]
    assert paths[1].read_bytes().startswith(b"%PDF")
    again = pd.read_csv(tmp_path / "curves_by_update.tsv", sep="\t")
    assert (
        drawn(curves.CURVES_BY_UPDATE, again)[0] == drawn(curves.CURVES_BY_UPDATE, curve_frame())[0]
    )


def test_files_of_a_figure_that_is_no_longer_drawn_are_removed(tmp_path: Path) -> None:
    write_figures([(curves.CURVES_BY_UPDATE, curve_frame)], tmp_path)
    assert (tmp_path / "curves_by_update.svg").exists()
    (undrawn,) = write_figures(
        [(curves.CURVES_BY_UPDATE, lambda: curve_frame().iloc[:0])], tmp_path
    )
    assert list(tmp_path.iterdir()) == []
    assert (undrawn.svg, "nothing to draw" in undrawn.reason) == ("", True)


# ---- what is hard to draw
# -----------------------------------------------------------------------------------------


def test_curves_mark_values_that_are_no_numbers_and_need_no_dev_scores() -> None:
    frame = curve_frame()
    frames = (
        frame,
        frame.assign(value=frame["value"].where(frame["update"] < 30)),
        frame[frame["measure"] != "dev_ppl_per_subword"],
    )
    svgs = [svg_of(curves.CURVES_BY_UPDATE, one) for one in frames]
    assert ["not a number from here" in svg for svg in svgs] == [False, True, False]
    assert [
        label for label in labels_of(svgs[2]) if "value: 7.5" in label
    ] != []  # the other panels are there
    assert "No dev perplexity" in curves.describe_curves(frames[2])


def test_a_series_beyond_the_colours_is_pale_also_where_other_series_have_no_values() -> None:
    """The first of seven series did not validate, so the perplexity has only six."""
    first = curve_frame().query("series == 'base' and measure == 'loss_bits'")
    frames = [first.assign(series="s0")]
    frames += [curve_frame().query("run == 'a'").assign(series=f"s{n}") for n in range(1, 7)]
    chart = curves.draw_curves(pd.concat(frames, ignore_index=True))
    pale = re.findall(r"indexof\((.*?), datum", json.dumps(chart.to_dict()))
    assert pale == ["['s6']"] * len(curves.PANELS)


@pytest.mark.parametrize(
    ("figure", "frame", "message"),
    [
        (curves.CURVES_BY_UPDATE, curve_frame().assign(value=float("nan")), "diverged"),
        (attention.ATTENTION_LINES, attention_frame(300, num_heads=1), "300 tokens"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence_and_writes_nothing(
    figure: Figure, frame: pd.DataFrame, message: str, tmp_path: Path
) -> None:
    with pytest.raises(FigureError, match=message):
        write_figure(figure, frame, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_table_of_weights_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.tsv"
    changed(attention_frame(), "weight", float("nan")).to_csv(path, sep="\t", index=False)
    with pytest.raises(RecordError, match=r"weights\.tsv: not a table of attention weights"):
        attention.read_attention(path)


@pytest.mark.parametrize(
    ("tokens", "word", "expected"),
    [
        (["\u2581mak", "ing", "\u2581the"], "making", [0, 1]),
        (["making@@", "s", "making"], "making", [2]),
        (["It", "is", "its"], "its", [2]),
        (["\u2581Its", ".", "</s>"], "its", [0, 1]),
        (["a", "b"], "c", []),
    ],
)
def test_a_word_is_found_in_its_pieces(tokens: list[str], word: str, expected: list[int]) -> None:
    assert attention.positions_of_word(tokens, word) == expected


def test_pieces_are_shown_as_words() -> None:
    assert attention.shown_tokens(["\u2581mak", "ing", "</s>"]) == ["mak", "\u00b7ing", "</s>"]
    assert attention.shown_tokens(["mak@@", "ing", "on"]) == ["mak", "\u00b7ing", "on"]


# ---- frames out of records
# ----------------------------------------------------------------------------------------


def frame_without_runs(folder: Path) -> Frame:
    return laid_out.frame_of(make_site(folder, "demo"))


def test_without_any_run_each_figure_has_a_reason(tmp_path: Path) -> None:
    cells = frame_without_runs(tmp_path)
    names, reasons = set(), []
    for figure, make in figures_of_scale(cells, {}, None):
        names.add(figure.name)
        with pytest.raises(FigureError) as caught:
            figure.chart(make())
        reasons.append(str(caught.value))
    assert names == {"curves", "attention_lines"}
    assert all(reason.endswith(".") for reason in reasons)
    assert reasons[-1] == NO_ATTENTION


def test_attention_that_was_written_is_drawn(tmp_path: Path) -> None:
    cells = frame_without_runs(tmp_path)
    folder = tmp_path / "attention" / "some-run"
    folder.mkdir(parents=True)
    attention_frame().to_csv(folder / "encoder_layer5.tsv", sep="\t", index=False)
    figures = list(figures_of_scale(cells, {}, tmp_path / "attention"))[-2:]
    write_figures(figures, tmp_path / "figures")
    assert {path.stem for path in (tmp_path / "figures").glob("*.svg")} == {
        "attention_lines_some-run_encoder_layer5",
        "attention_heads_some-run_encoder_layer5",
    }
