"""A difference is rounded with its sign, and every number of ours says what it is of."""

from pathlib import Path

import msgspec

from paper_tables.layout import anchor_of
from paper_tables.rounding import BITS, BLEU, rounded
from paper_tables.tables.table2 import lay_out_table2
from paper_tables.tables.verdicts import lay_out_replications
from tests.laid_out import DAGGER, frame_of, row_of
from tests.records_factory import (
    EIGHT_P100,
    make_site,
    write_everything,
    write_scores,
    write_training,
)


def test_a_difference_has_its_sign_and_no_negative_zero() -> None:
    values = (0.3, -0.3, -0.001)
    signed = [rounded(value, BLEU, is_signed=True) for value in values]
    assert signed == ["+0.30", "-0.30", "+0.00"]
    assert rounded(-0.0001, BITS) == "0.000"


def test_a_number_of_parameters_has_three_digits_also_where_rounding_adds_a_digit() -> None:
    counts = (65_000_000, 213_000_000, 9_996_000, 99_960_000)
    assert [rounded(count, "num_parameters") for count in counts] == ["65.0", "213", "10.0", "100"]


def test_a_gpu_that_is_not_in_hardware_yaml_gives_no_cost(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    write_everything(site, hardware=msgspec.structs.replace(EIGHT_P100, gpu="X-9000"))
    assert (
        row_of(lay_out_table2(frame_of(site)), "Transformer (base")["flops_en_de_ours"]
        == f"\u2013 {DAGGER} [d]"
    )


def test_a_replication_is_compared_with_its_own_printed_number(tmp_path: Path) -> None:
    site = make_site(
        tmp_path, "multi30k", replications=["revisit_tiny"], seeds=[1, 2, 3], has_baselines=False
    )
    write_everything(site, base_bleu=40.9)  # 41.0, 41.1, 41.2 against 41.02
    row = row_of(lay_out_replications(frame_of(site)), "revisit_tiny")
    assert row["printed"] == "41.02"
    assert row["ours"] == "41.10 \u00b1 0.25 (n=3) [\u2021]"
    assert row["difference"].startswith("+0.08 (")
    assert row["verdict"] == "REPRODUCED"


def test_a_definition_that_was_not_measured_is_a_dash(tmp_path: Path) -> None:
    site = make_site(
        tmp_path, en_fr_systems=[], ablation_systems=[], en_de_systems=["base"], seeds=[1]
    )
    write_training(site, "demo_en_de", "base", 1)
    for evaluation in site.experiment.evaluations:
        write_scores(site, evaluation, {"bleu_sacre_13a": 71.25})
    row = row_of(lay_out_table2(frame_of(site)), "Transformer (base")
    assert (row["bleu_en_de_ours"], row["bleu_en_de_ours_sacre"]) == (
        f"\u2013 {DAGGER}",
        f"71.25 (n=1) {DAGGER}",
    )


def test_logs_with_different_names_have_different_anchors_without_blanks() -> None:
    names = ["a b/train.log", "a-b/train.log", "\u00fcber.log", "\u00f6ber.log"]
    anchors = {anchor_of(name) for name in names}
    assert len(anchors) == len(names)
    assert not any(" " in anchor for anchor in anchors)
