"""One layout, four formats: whole golden files, real spans, and nothing that breaks a format."""

import re
from dataclasses import replace

import pytest

from aiayn.paths import CellKey
from paper_tables.frame import Number
from paper_tables.latex import escape_latex
from paper_tables.layout import SPANNED, Cell, Column, Note, Part, Row, Table, compact, text_cell
from paper_tables.make_frame import make_frame
from paper_tables.render.render import (
    RENDERER_BY_SUFFIX,
    plain_text,
    render_html,
    render_latex,
    render_markdown,
)
from paper_tables.render.tables import ONLY_ON_THE_PAGE, lay_out_tables
from paper_tables.scale_results import gather_results
from tests.golden_files import GOLDEN_FOLDER, check_golden
from tests.records_factory import make_site, write_everything

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


# Marks, notes, several levels of headings and states; of the other tables the csv says what their
# cells hold.
IN_EVERY_FORMAT = ("table2", "conclusions")


@pytest.fixture(scope="module")
def demo_tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    site = make_site(
        tmp_path_factory.mktemp("demo"),
        ablation_systems=["table3_c_n2", "table3_e_learned"],
        variants=["table3_e_learned"],
        architectures=["table3_c_n2"],  # in the place of recurrence or convolution
        variant_seeds=[1, 2],
    )
    write_everything(site)
    results = gather_results(
        site.scale, site.results_folder, so_far=False, config_folder=site.config_folder
    )
    return {table.name: table for table in lay_out_tables(make_frame(results))}


@pytest.mark.parametrize("suffix", sorted(RENDERER_BY_SUFFIX))
def test_the_rendered_tables_are_the_golden_ones(
    demo_tables: dict[str, Table], suffix: str
) -> None:
    written = [name for name in demo_tables if name not in ONLY_ON_THE_PAGE]
    written = [name for name in written if suffix == "csv" or name in IN_EVERY_FORMAT]
    for name in written:
        check_golden(f"tables/{name}.{suffix}", RENDERER_BY_SUFFIX[suffix](demo_tables[name]))
    assert {path.stem for path in (GOLDEN_FOLDER / "tables").glob(f"*.{suffix}")} == set(written)


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


def test_a_span_over_an_omitted_column_becomes_narrower() -> None:
    columns = (
        Column("row", "", side="label"),
        Column("one", "one"),
        Column("empty", "empty", side="ours"),
    )
    rows = (
        Row((text_cell("a", "label"), text_cell("1"), text_cell("\u2013", "state"))),
        Row((text_cell("b", "label"), text_cell("2"), SPANNED)),
    )
    shown = compact(replace(SMALL, columns=columns, rows=rows))
    assert [column.name for column in shown.columns] == ["row", "one"]
    assert [list(map(plain_text, row.cells)) for row in shown.rows] == [["a", "1"], ["b", "2"]]


def test_a_column_that_waits_for_all_its_runs_is_named_once_there_is_any_number() -> None:
    key = CellKey(
        corpus="c", system="base", average="last5", testset="t", role="test", language_pair="en-fr"
    )
    columns = (
        Column("row", "", side="label"),
        Column("de", "ours", "BLEU EN-DE", "ours"),
        Column("fr", "ours", "BLEU EN-FR", "ours"),
        Column("call", "call", side="ours"),
    )
    waiting = replace(
        text_cell("2 missing", "state"), shows=(Number(key=key, metric="bleu", quantity="bleu"),)
    )
    number, call = (
        replace(waiting, parts=(Part("27.3"),), kind="ours"),
        text_cell("too close to call", "state"),
    )

    def shown(first: Cell) -> Table:
        rows = (
            Row((text_cell("base", "label"), first, waiting, call)),
            Row((text_cell("big", "label"), *[waiting] * 3)),
        )
        return compact(replace(SMALL, columns=columns, rows=rows, notes=()))

    assert [column.name for column in shown(number).columns] == ["row", "de", "call"]
    assert [note.text for note in shown(number).notes] == [
        "Left out, as no number of ours is in them: BLEU EN-FR ours."
    ]
    assert shown(waiting).columns == columns  # nothing is measured: each column shows its state
    assert shown(waiting).notes == ()


def test_a_table_without_rows_keeps_its_columns() -> None:
    assert compact(replace(SMALL, rows=())).columns == SMALL.columns


def test_an_interval_is_below_its_number_in_html() -> None:
    cells = (
        text_cell("27.30 \u00b1 0.25 (n=3)", "ours", "\u2020"),
        text_cell("25.1, 26.2 (n=2)", "ours"),
    )
    text = render_html(
        replace(SMALL, rows=(Row((text_cell("a", "label"), *cells, text_cell("1"))),))
    )
    assert "27.30<sup>\u2020</sup><small>\u00b1 0.25 (n=3)</small></td>" in text
    assert "25.1, 26.2<small>(n=2)</small></td>" in text


def test_the_best_of_ours_is_by_the_mean_and_separate_from_the_printed() -> None:
    columns = (
        Column("row", "", side="label"),
        Column("one", "PPL", better="lower"),
        Column("two", "BLEU", side="ours", better="higher"),
    )
    rows = (
        Row((text_cell("a", "label"), text_cell("4.9"), text_cell("25.0, 27.0 (n=2)", "ours"))),
        Row(
            (text_cell("b", "label"), text_cell("4.3"), text_cell("25.9 \u00b1 9.0 (n=3)", "ours"))
        ),
        Row((text_cell("c", "label"), text_cell("5.0", "ours"), text_cell("missing", "state"))),
    )
    table = replace(SMALL, columns=columns, rows=rows)

    def best(table: Table) -> list[str]:
        cells = [cell for row in compact(table).rows for cell in row.cells]
        return [part.text for cell in cells for part in cell.parts if part.is_best]

    assert best(table) == ["25.0, 27.0 (n=2)", "4.3"]
    columns = tuple(replace(column, better="") for column in columns)
    assert best(replace(table, columns=columns)) == []
    assert "<b>4.3</b>" in render_html(compact(table))


def check_latex(latex: str, num_comments: int = 1) -> None:
    """Fail on unbalanced braces or dollars, a comment sign, or a character that pdflatex does not
    know.
    """
    bare = re.sub(r"\\[\\{}%$&#_]", "", re.sub(r"^% .*$", "", latex, flags=re.MULTILINE))
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert bare.count("%") == num_comments  # ends the line of \\resizebox
    assert bare.isascii(), [character for character in bare if not character.isascii()]


def test_latex_is_balanced_and_escaped(demo_tables: dict[str, Table]) -> None:
    for table in demo_tables.values():
        check_latex(render_latex(table))


def test_no_character_keeps_a_meaning_in_latex() -> None:
    assert escape_latex("50 % of $x_1 & {a} ~ ^ # \\") == (
        r"50 \% of \$x\_1 \& \{a\} \textasciitilde{} \textasciicircum{} \# \textbackslash{}"
    )


def test_a_failure_message_cannot_break_the_page_or_the_table() -> None:
    row = Row((text_cell("<script>x</script> | *b*", "label"), *[text_cell("")] * 3))
    table = Table("t", "T", "C", SMALL.columns, (row,))
    assert "<script>" not in render_html(table)
    assert r"\<script>x\</script> \| \*b\*" in render_markdown(table)
