"""The forest draws differences with their intervals, and says which are not called."""

import re
from pathlib import Path

import pandas as pd
import pytest

from analysis.conclusions import heavy_forest as forest
from analysis.conclusions.answers import Answer
from paper_tables.render.figure import FigureError, write_figure, write_figures
from tests import laid_out
from tests.records_factory import make_site, write_dev_scores, write_everything
from tests.support.drawings import drawn, svg_of


def forest_frame() -> pd.DataFrame:
    """Return a row of Table 3 that is run, and a row that is not run."""
    metric, printed = "bleu_tok_compound_split", ("", "printed")
    lines = [
        ("(A)", "table3_a_h1", "h 1", "printed", "paper", metric, None, -0.9, None, None, *printed),
        ("(C)", "table3_c_n2", "N 2", "printed", "paper", metric, None, -2.1, None, None, *printed),
        (
            "(C)",
            "table3_c_n2",
            "N 2",
            "ours",
            "demo",
            metric,
            3,
            -1.5,
            -1.9,
            -1.1,
            "interval",
            "holds",
        ),
    ]
    return pd.DataFrame(lines, columns=list(forest.FOREST_COLUMNS))


def test_the_frame_is_written_beside_the_picture_and_can_be_drawn_again(tmp_path: Path) -> None:
    paths = write_figure(forest.FOREST_BLEU, forest_frame(), tmp_path)
    assert [path.name for path in paths] == [
        "forest_bleu.svg",
        "forest_bleu.pdf",
    ]
    assert paths[1].read_bytes().startswith(b"%PDF")
    again = pd.read_csv(tmp_path / "forest_bleu.tsv", sep="\t")
    assert (
        drawn(forest.FOREST_BLEU, again.fillna({"spread": ""}))[0]
        == drawn(forest.FOREST_BLEU, forest_frame())[0]
    )


def test_a_frame_without_rows_is_refused_in_a_sentence_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(FigureError, match="nothing to draw"):
        write_figure(forest.FOREST_BLEU, forest_frame().iloc[:0], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_any_run_what_is_printed_is_drawn(tmp_path: Path) -> None:
    frame = laid_out.frame_of(make_site(tmp_path))
    names = []
    for figure, make in forest.figures_of_scale(frame, {}, None):
        figure.chart(make())
        names.append(figure.name)
    assert sorted(names) == ["forest_bits", "forest_bleu"]


def test_a_forest_of_single_seeds_has_differences_without_intervals(tmp_path: Path) -> None:
    site = make_site(tmp_path, seeds=[1], ablation_seeds=[1])
    write_everything(site)
    write_dev_scores(site, "base", 1, 30.0)
    write_dev_scores(site, "table3_c_n2", 1, 27.5)
    frame = forest.forest_frame(laid_out.frame_of(site), "bleu_tok_compound_split")
    ours = frame[(frame["row"] == "table3_c_n2") & (frame["source"] == "ours")].iloc[0]
    assert (ours["difference"], ours["spread"]) == (-2.5, forest.NO_SD)
    assert (ours["num_seeds"], ours["answer"]) == (1, "not called")
    assert pd.isna(ours["low"])


@pytest.mark.parametrize(
    "names", [list(Answer), list(forest.ANSWER_BY_CALL.values())], ids=["bits", "BLEU"]
)
def test_a_forest_is_readable_at_400_pixels_with_every_kind_of_answer(names: list[str]) -> None:
    lines = [
        (
            "(C)",
            name,
            name,
            "ours",
            "demo",
            "bits_per_subword",
            2,
            0.1,
            0.0,
            0.2,
            "interval",
            str(name),
        )
        for name in (forest.PRINTED_NAME, *names, forest.NOT_CALLED)
    ]
    svg = svg_of(forest.FOREST_BITS, pd.DataFrame(lines, columns=list(forest.FOREST_COLUMNS)))
    assert float(re.findall(r'<svg[^>]* width="([0-9.]+)"', svg)[0]) <= 400
    assert min(float(size) for size in re.findall(r'font-size="([0-9.]+)px"', svg)) >= 10


def test_files_of_a_figure_that_is_no_longer_drawn_are_removed(tmp_path: Path) -> None:
    write_figures([(forest.FOREST_BLEU, forest_frame)], tmp_path)
    assert (tmp_path / "forest_bleu.svg").exists()
    (drawn,) = write_figures([(forest.FOREST_BLEU, lambda: forest_frame().iloc[:0])], tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert (drawn.svg, "nothing to draw" in drawn.reason) == ("", True)
