"""A search over beam and alpha: which pairs are tried, and a table that marks the best and the
paper's pair.
"""

import msgspec
import pytest

from aiayn.errors import UsageError
from aiayn.spec.system import read_system
from analysis.tools.search import SearchTable, pairs_to_try, render_markdown

BASE = read_system("base", "paper").decoding


def make_table(value_by_pair: dict[tuple[int, float], float]) -> SearchTable:
    """Return a table of these values, in percent."""
    return SearchTable(
        run="wmt14_en_de-base-seed1-0123abcd",
        average="last5",
        testset="newstest2013",
        num_lines=3000,
        metric="bleu_tok_compound_split",
        signature="nrefs:1|tok:13a|beam:ROW|alpha:COLUMN",
        value_by_pair=value_by_pair,
    )


def test_all_pairs_are_tried_and_nothing_else_changes() -> None:
    tried = pairs_to_try(BASE, [4, 1], [0.6, 0.0])
    assert [(search.beam_size, search.length_penalty_alpha) for search in tried] == [
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
    table = make_table({(1, 0.0): 24.0, (1, 0.6): 26.0, (4, 0.0): 25.5, (4, 0.6): 25.8})
    assert render_markdown(table).split("\n") == [
        "## Beam size and alpha on newstest2013",
        "",
        (
            "bleu_tok_compound_split (percent) on newstest2013, 3000 lines;"
            " wmt14_en_de-base-seed1-0123abcd, last5"
        ),
        "",
        "|   beam |   alpha 0 |   alpha 0.6 |",
        "|-------:|----------:|------------:|",
        "|      1 |     24.00 |   **26.00** |",
        "|      4 |     25.50 |     [25.80] |",
        "",
        "- bold is best: beam 1 with alpha 0.6",
        "- [] the paper's choice (section 6.1): 0.20 below the best",
        "",
        "Signature: `nrefs:1|tok:13a|beam:ROW|alpha:COLUMN`",
        "",
    ]


def test_equals_are_all_best_and_the_papers_pair_may_be_among_them() -> None:
    text = render_markdown(make_table({(1, 0.6): 25.0, (4, 0.2): 24.0, (4, 0.6): 25.0}))
    assert "[**25.00**]" in text
    assert "bold is best: beam 1 with alpha 0.6, beam 4 with alpha 0.6\n" in text
    assert "the paper's choice (section 6.1): 0.00 below the best" in text


def test_a_table_without_the_papers_pair_says_so() -> None:
    text = render_markdown(make_table({(1, 0.6): 25.0}))
    assert "\n- the paper's choice, beam 4 and alpha 0.6, was not tried\n" in text
