"""The table of a search over beam and alpha, which marks the best and the paper's pair."""

from analysis.tools.search import SearchTable, render_markdown


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
