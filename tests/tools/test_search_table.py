"""A search over beam and alpha: which pairs are tried, and a table that marks the best and the
paper's pair.
"""

import csv
import io

import msgspec
import pytest

from aiayn.errors import ScoreError, UsageError
from aiayn.spec.system import read_system
from analysis.tools.search import (
    CSV_COLUMNS,
    SearchCell,
    SearchTable,
    common_signature,
    pairs_to_try,
    render_csv,
    render_markdown,
)

BASE = read_system("base", "paper").decoding


def make_table(value_by_pair: dict[tuple[int, float], float]) -> SearchTable:
    """Return a table of these values, in percent."""
    cells = [
        SearchCell(
            beam_size=beam_size,
            alpha=alpha,
            value=value,
            sentences_per_second=7.0,
            hypotheses_sha256="0a",
            signature=f"nrefs:1|tok:13a|beam:{beam_size}|lenpen:gnmt|alpha:{alpha:g}|stop:fairseq|maxlen:1x+50",
        )
        for (beam_size, alpha), value in value_by_pair.items()
    ]
    return SearchTable(
        run="wmt14_en_de-base-seed1-0123abcd",
        average="last5",
        testset="newstest2013",
        num_lines=3000,
        metric="bleu_tok_compound_split",
        cells=cells,
    )


TABLE = make_table(
    {
        (1, 0.0): 24.0,
        (1, 0.6): 24.125,
        (4, 0.0): 25.5,
        (4, 0.6): 25.8,
        (8, 0.0): 25.4,
        (8, 0.6): 26.0,
    }
)


def test_all_pairs_are_tried_and_nothing_else_changes() -> None:
    tried = pairs_to_try(BASE, [4, 1], [0.6, 0.0])
    assert [(one.beam_size, one.length_penalty_alpha) for one in tried] == [
        (4, 0.6),
        (4, 0.0),
        (1, 0.6),
        (1, 0.0),
    ]
    assert tried[0] == BASE
    assert tried[3] == msgspec.structs.replace(BASE, beam_size=1, length_penalty_alpha=0.0)


@pytest.mark.parametrize(
    ("beam_sizes", "alphas", "message"),
    [
        ([4, 0], [0.6], r"--beam-sizes has 0; expected 1 or more; correct the flag"),
        ([4], [0.6, -0.2], r"--alphas has -0\.2; expected 0 or more; correct the flag"),
        ([4], [float("nan")], r"--alphas has nan; expected 0 or more"),
        ([4, 4], [0.6], r"--beam-sizes is \[4, 4\]; expected one or more"),
        ([4], [], r"--alphas is \[\]; expected one or more"),
    ],
)
def test_values_that_cannot_be_are_refused(
    beam_sizes: list[int], alphas: list[float], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        pairs_to_try(BASE, beam_sizes, alphas)


def test_the_table_is_read_at_a_glance() -> None:
    assert render_markdown(TABLE).split("\n") == [
        "## Beam size and alpha on newstest2013",
        "",
        (
            "bleu_tok_compound_split (percent) on newstest2013, 3000 lines;"
            " wmt14_en_de-base-seed1-0123abcd, last5"
        ),
        "",
        "|   beam |   alpha 0 |   alpha 0.6 |",
        "|-------:|----------:|------------:|",
        "|      1 |     24.00 |       24.12 |",
        "|      4 |     25.50 |     [25.80] |",
        "|      8 |     25.40 |   **26.00** |",
        "",
        "- bold is best: beam 8, alpha 0.6",
        "- [] the paper's choice (section 6.1): 0.20 below the best",
        "",
        "Signature: `nrefs:1|tok:13a|beam:ROW|lenpen:gnmt|alpha:COLUMN|stop:fairseq|maxlen:1x+50`",
        "",
    ]


def test_equals_are_all_best_and_the_papers_pair_may_be_among_them() -> None:
    table = make_table({(1, 0.2): 25.0, (1, 0.6): 25.0, (4, 0.2): 24.0, (4, 0.6): 25.0})
    text = " ".join(render_markdown(table).split())
    assert "| 1 | **25.00** | **25.00** | | 4 | 24.00 | [**25.00**] |" in text
    assert "bold is best: beam 1, alpha 0.2, 0.6; beam 4, alpha 0.6 " in text
    assert "the paper's choice (section 6.1): 0.00 below the best" in text


def test_a_table_without_the_papers_pair_says_so() -> None:
    without = msgspec.structs.replace(
        TABLE, cells=[cell for cell in TABLE.cells if cell.beam_size != 4]
    )
    assert "\n- the paper's choice, beam 4 and alpha 0.6, was not tried\n" in render_markdown(
        without
    )


def test_the_csv_has_every_pair_unrounded_with_its_whole_signature() -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(TABLE))))
    assert list(rows[0]) == list(CSV_COLUMNS)
    assert [row["beam_size"] for row in rows] == ["1", "1", "4", "4", "8", "8"]
    assert [row["alpha"] for row in rows] == ["0.0", "0.6"] * 3
    assert [row["value"] for row in rows] == ["24.0", "24.125", "25.5", "25.8", "25.4", "26.0"]
    assert [row["is_best"] for row in rows] == ["False"] * 5 + ["True"]
    assert [row["is_papers_choice"] for row in rows] == ["False"] * 3 + ["True"] + ["False"] * 2
    assert (
        rows[3]["signature"]
        == "nrefs:1|tok:13a|beam:4|lenpen:gnmt|alpha:0.6|stop:fairseq|maxlen:1x+50"
    )
    assert (rows[3]["run"], rows[3]["num_lines"]) == ("wmt14_en_de-base-seed1-0123abcd", "3000")


@pytest.mark.parametrize("render", [render_markdown, render_csv])
def test_values_of_two_definitions_are_never_put_in_one_table(render: object) -> None:
    other = msgspec.structs.replace(
        TABLE.cells[0], signature=TABLE.cells[0].signature.replace("13a", "intl")
    )
    mixed = msgspec.structs.replace(TABLE, cells=[other, *TABLE.cells[1:]])
    assert common_signature(TABLE).startswith("nrefs:1|tok:13a|beam:ROW")
    with pytest.raises(
        ScoreError,
        match=r"0123abcd: 2 definitions in one table: .*intl.*; expected a single definition",
    ):
        render(mixed)  # type: ignore[operator]
