"""Gaps, replications and causes are as published."""

import string
from decimal import Decimal

from analysis.reported.published import DATA_FOLDER, read_causes, read_reference_replications
from paper_tables.published_data import read_gaps


def test_a_gap_is_between_two_definitions_and_holds_its_own_printed_pair() -> None:
    for gap in read_gaps():
        assert gap.definition_from != gap.definition_to, gap
        assert gap.note or gap.counts == "yes", gap
        assert bool(gap.value_from) == bool(gap.value_to), gap
        if gap.value_from:
            low, high = gap.bounds
            assert low <= Decimal(gap.value_from) - Decimal(gap.value_to) <= high, gap


def test_every_replication_was_checked_and_german_alone_has_compounds() -> None:
    assert "unverified" not in (DATA_FOLDER / "reference_replications.csv").read_text(
        encoding="utf-8"
    )
    for one in read_reference_replications():
        assert float(one.value) > 0, one.name
        assert one.language_pair == "en-de" or "compound_split" not in one.metric, one.name


def test_a_commands_placeholders_are_those_that_are_filled_in() -> None:
    names = {
        name
        for cause in read_causes()
        for _, name, _, _ in string.Formatter().parse(cause.command)
        if name
    }
    assert names == {"corpus", "language_pair", "last", "system", "testset"}


def test_causes_are_ranked_as_they_cost() -> None:
    causes = read_causes()
    lowering = [cause.rank for cause in causes if cause.direction == "lowers"]
    in_order = sorted(lowering, key=lambda rank: (rank[0] == "L", int(rank.strip("Labcde")), rank))
    assert lowering == in_order  # rank L belongs to numbers below 17, where others come first
    cost_by_rank = {cause.rank: cause.cost for cause in causes}
    assert cost_by_rank["3"] == (Decimal(1), Decimal(5))
    assert cost_by_rank["10"] == (Decimal(0), Decimal(1))
    assert cost_by_rank["2"] == (Decimal(10), Decimal(100))  # all of it


def test_a_cause_is_confined_to_what_it_was_seen_in() -> None:
    definition = next(
        cause for cause in read_causes() if (cause.rank, cause.language_pair) == ("4", "en-de")
    )
    assert definition.applies_to("en-de", "big", "bleu_tok_compound_split")
    assert not definition.applies_to("en-fr", "big", "bleu_tok_moses")
    assert not definition.applies_to("en-de", "big", "bleu_sacre_13a")  # it is sacreBLEU already
    dropout = next(cause for cause in read_causes() if cause.rank == "7")
    assert dropout.applies_to("en-de", "base", "bleu_sacre_13a")
    assert not dropout.applies_to("en-de", "big", "bleu_sacre_13a")
