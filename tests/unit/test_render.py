"""One layout, four formats: whole golden files, real spans, and nothing that breaks a format."""

from dataclasses import replace

import pytest

from paper_tables.layout import (
    Cell,
    Column,
    Note,
    Table,
    cell_frame,
    compact,
    grid,
    label,
    row_of,
)
from paper_tables.render.render import (
    escape_latex,
    plain_text,
    render_csv,
    render_latex,
    render_markdown,
)
from paper_tables.render.report import render_table_page
from paper_tables.render.tables import ONLY_ON_THE_PAGE
from tests.golden_files import GOLDEN_FOLDER
from tests.support.golden_tables import RENDERERS, check_tables, lay_out_demo

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
    cells=cell_frame(
        [
            row_of(
                {
                    "row": label("a_b"),
                    "one": Cell("3.3e18"),
                    "two": Cell("", "spanned"),
                    "ours": Cell("1.50 (n=2)", "ours", ("\u2020",)),
                }
            ),
            row_of(
                {
                    "row": label("c|d"),
                    "one": Cell("O(n^2 * d)", "formula"),
                    "two": Cell("100 %"),
                    "ours": Cell("failed", "state"),
                }
            ),
        ]
    ),
    notes=(Note("Not the paper's.", "\u2020"),),
    signatures=(("bleu_sacre_13a", "demo_test", "case:mixed|tok:13a"),),
)


@pytest.fixture(scope="module")
def demo_tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    return lay_out_demo(tmp_path_factory.mktemp("demo"))


@pytest.mark.parametrize("suffix", sorted(RENDERERS))
def test_the_rendered_tables_are_the_golden_ones(
    demo_tables: dict[str, Table], suffix: str
) -> None:
    written = [name for name in demo_tables if name not in ONLY_ON_THE_PAGE]
    folder = GOLDEN_FOLDER / "tables"
    # Marks, notes, several levels of headings and states; of the other tables the csv says what
    # their cells hold.
    check_tables(demo_tables, written, folder, suffix, in_every_format=("table2",))


def test_if_a_mark_holds_for_part_of_a_row_each_number_is_marked() -> None:
    # A mark of the row would speak of its other numbers, too.
    columns = tuple(Column(name, name, side="ours") for name in ("one", "two", "three"))
    rows = []
    for name, *texts in (
        ("part", "1+", "2+", "3"),
        ("whole", "4+", "5+", "6+"),
        ("blanks apart", "7+", "+", ""),
    ):
        cells = {"row": label(name)}
        for column, text in zip(columns, texts, strict=True):
            cells[column.name] = Cell(text.strip("+"), "ours", ("\u2020",) * text.count("+"))
        rows.append(row_of(cells))
    shown = compact(
        replace(SMALL, columns=(Column("row", "", side="label"), *columns), cells=cell_frame(rows))
    )
    texts = [" | ".join(map(plain_text, cells)) for _, cells in grid(shown)]
    assert texts == [
        "part | 1 [\u2020] | 2 [\u2020] | 3",
        "whole | 4 [\u2020] | 5 | 6",
        "blanks apart | 7 [\u2020] |  | ",
    ]


def test_a_table_without_rows_keeps_its_columns() -> None:
    assert compact(replace(SMALL, cells=cell_frame([]))).columns == SMALL.columns


def test_no_character_keeps_a_meaning_in_latex() -> None:
    assert escape_latex("50 % of $x_1 & {a} ~ ^ # \\") == (
        r"50 \% of \$x\_1 \& \{a\} \textasciitilde{} \textasciicircum{} \# \textbackslash{}"
    )
    # At the beginning of a row, a bracket or a star would belong to the `\\` of the row before.
    assert escape_latex("[old] *.log") == "{[}old] {*}.log"


# Markup of each format, a control character, and a mark that turns the direction of writing.
EVIL = "<script>x</script> | *b* \\input{x} $y$ \x1b[31m \u202etxt"


def test_names_stay_text_in_every_format() -> None:
    cells = cell_frame([row_of({"row": label(EVIL)})])
    table = Table("t", EVIL, EVIL, SMALL.columns, cells, notes=(Note(EVIL),))
    html, markdown, latex = render_table_page(table), render_markdown(table), render_latex(table)
    assert "<script>" not in html
    assert "<script>" not in markdown.replace(r"\<script>", "")
    assert r"\| \*b\*" in markdown
    assert r"\input{x}" not in latex
    assert r"\textbackslash{}input\{x\} \$y\$" in latex
    for text in (html, markdown, latex, render_csv(table)):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "u202e" in text  # spelt out


def test_formats_for_people_have_names_and_the_csv_has_keys() -> None:
    cells = cell_frame([row_of({"row": label("table3_a_h1, ours"), "ours": Cell("1", "ours")})])
    note = Note("Left out: base on multi30k_en_de (table3_a_h4); see runs/multi30k_en_de/log.")
    table = compact(replace(SMALL, cells=cells, notes=(note,)))
    for text in (render_markdown(table), render_latex(table), render_table_page(table)):
        assert "one head, ours" in text
        assert "base on Multi30k En-De (four heads); see runs/multi30k" in text.replace("\\", "")
    assert '"table3_a_h1, ours"' in render_csv(table)


def test_the_best_value_is_found_by_number_not_by_text() -> None:
    """9.999 and 10.001 are both shown as 10.00. Only the larger is the best."""
    columns = (Column("row", "row", side="label"), Column("x", "x", side="ours", better="higher"))
    rows = []
    for value in (9.999, 10.001):
        rows.append(row_of({"row": label("r"), "x": Cell(f"{value:.2f}", "ours", value=value)}))
    shown = compact(replace(SMALL, columns=columns, cells=cell_frame(rows))).cells
    assert list(shown[shown.column == "x"].is_best) == [False, True]
