"""One layout, four formats: whole golden files, real spans, and nothing that breaks a format."""

from dataclasses import replace

import pytest

from paper_tables.latex import escape_latex
from paper_tables.layout import SPANNED, Column, Note, Row, Table, compact, text_cell
from paper_tables.render.render import (
    RENDERER_BY_SUFFIX,
    plain_text,
    render_html,
    render_markdown,
)
from paper_tables.render.tables import ONLY_ON_THE_PAGE
from tests.golden_files import GOLDEN_FOLDER
from tests.support.golden_tables import check_tables, lay_out_demo

SMALL = Table(
    name="small",
    title="Small",
    caption="A table.",
    columns=(
        Column("row", "", side="label"),
        Column("one", "d_model", "Cost"),
        Column("two", "eps_ls", "Cost"),
        Column("ours", "ours", side="ours"),
    ),
    rows=(
        Row(
            (
                text_cell("a_b", "label"),
                text_cell("3.3e18"),
                SPANNED,
                text_cell("1.50 (n=2)", "ours", "\u2020"),
            )
        ),
        Row(
            (
                text_cell("c|d", "label"),
                text_cell("O(n^2 * d)", "formula"),
                text_cell("100 %"),
                text_cell("failed", "state"),
            )
        ),
    ),
    notes=(Note("Not the paper's.", "\u2020"),),
    signatures=(("bleu_sacre_13a", "demo_test", "case:mixed|tok:13a"),),
)


@pytest.fixture(scope="module")
def demo_tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    return lay_out_demo(tmp_path_factory.mktemp("demo"))


@pytest.mark.parametrize("suffix", sorted(RENDERER_BY_SUFFIX))
def test_the_rendered_tables_are_the_golden_ones(
    demo_tables: dict[str, Table], suffix: str
) -> None:
    written = [name for name in demo_tables if name not in ONLY_ON_THE_PAGE]
    folder = GOLDEN_FOLDER / "tables"
    # Marks, notes, several levels of headings and states; of the other tables the csv says what
    # their cells hold.
    check_tables(demo_tables, written, folder, suffix, in_every_format=("table2",))


def test_if_a_mark_holds_for_part_of_a_row_each_number_is_marked() -> None:
    columns = tuple(Column(name, name, side="ours") for name in ("one", "two", "three"))
    rows = []
    for name, *texts in (
        ("part", "1+", "2+", "3"),
        ("whole", "4+", "5+", "6+"),
        ("blanks apart", "7+", "+", ""),
    ):
        cells = [text_cell(name, "label")]
        for text in texts:
            cells.append(text_cell(text.strip("+"), "ours", *["\u2020"] * text.count("+")))
        rows.append(Row(tuple(cells)))
    shown = compact(
        replace(SMALL, columns=(Column("row", "", side="label"), *columns), rows=tuple(rows))
    )
    texts = [" | ".join(map(plain_text, row.cells)) for row in shown.rows]
    assert texts == [
        "part | 1 [\u2020] | 2 [\u2020] | 3",
        "whole | 4 [\u2020] | 5 | 6",
        "blanks apart | 7 [\u2020] |  | ",
    ]


def test_a_table_without_rows_keeps_its_columns() -> None:
    assert compact(replace(SMALL, rows=())).columns == SMALL.columns


def test_no_character_keeps_a_meaning_in_latex() -> None:
    assert escape_latex("50 % of $x_1 & {a} ~ ^ # \\") == (
        r"50 \% of \$x\_1 \& \{a\} \textasciitilde{} \textasciicircum{} \# \textbackslash{}"
    )


def test_a_failure_message_cannot_break_the_page_or_the_table() -> None:
    row = Row((text_cell("<script>x</script> | *b*", "label"), *[text_cell("")] * 3))
    table = Table("t", "T", "C", SMALL.columns, (row,))
    assert "<script>" not in render_html(table)
    assert r"\<script>x\</script> \| \*b\*" in render_markdown(table)
