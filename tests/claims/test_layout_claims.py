"""The table of claims: each verdict by the number beside it, and what was not run says how to run it."""

import dataclasses
from pathlib import Path

import msgspec
import pytest

from aiayn.errors import TableError
from aiayn.printed import read_sentences
from aiayn.spec.system import CorpusSpec, ListedSource
from paper_tables.claims.layout import VERDICTS, Judgement, PublishedClaim, judge_claim, lay_out_claims, read_claims
from paper_tables.frame import Frame, Translations
from paper_tables.layout import Table
from tests import laid_out
from tests.laid_out import DAGGER, PLUS_MINUS, frame_of
from tests.records_factory import (
    EIGHT_P100,
    Site,
    make_compared_site,
    make_pre_norm_site,
    make_site,
    write_dev_scores,
    write_everything,
    write_measured,
)

NOT_RUN = "not run here: snakemake --profile profiles/local --configfile workflow/config/variants.yaml"


def table_of(site: Site) -> Table:
    return lay_out_claims(frame_of(site))


def rows_of(table: Table) -> dict[str, dict[str, str]]:
    """Return the texts of each row by column, by the claim's name."""
    return {row["id"]: row for row in laid_out.rows_of(table)}


def claim_of(**fields: str) -> PublishedClaim:
    """Return a claim of one's own."""
    values = {"id": "V-01", "part": "", "source": "a blog", "kind": "claim", "statement": "it is so", "evidence": "",
              "expected": "", "finding": "", "config": "", "note": ""}  # fmt: skip
    return msgspec.convert(values | fields, PublishedClaim)


def judged(site: Site, **fields: str) -> Judgement:
    return judge_claim(claim_of(**fields), frame_of(site))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site whose scores no test changes; its measurements each test writes that needs some."""
    return make_pre_norm_site(tmp_path_factory.mktemp("claims"), architectures=["lstm"])


def test_every_claim_has_one_row_and_the_counts_add_up(site: Site) -> None:
    table = table_of(site)
    rows = rows_of(table)
    assert set(rows) == {claim.name for claim in read_claims()}
    verdicts = [row["verdict"].removesuffix(f" {DAGGER}") for row in rows.values()]
    order: list[str] = list(VERDICTS)
    assert verdicts == sorted(verdicts, key=order.index)
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS)
    assert table.caption.endswith(f"Of {len(rows)} statements: {counts}.")


def test_nothing_run_is_nothing_settled_by_a_run(tmp_path: Path) -> None:
    rows = rows_of(table_of(make_site(tmp_path)))
    by_name = {claim.name: claim for claim in read_claims()}
    waiting = [
        name for name, claim in by_name.items() if claim.decided_by in ("comparison", "measurement", "sentences")
    ]
    assert {rows[name]["verdict"] for name in waiting} == {"not settled"}
    assert rows["X-3"]["by"] == NOT_RUN
    assert rows["V-50d"]["by"].endswith("workflow/config/claims.yaml")
    assert rows["V-05a"]["by"].startswith("not run here: aiayn measure --seed 1 --record ")
    assert rows["V-24g"]["by"].endswith("nothing was run here: snakemake --profile slurm")


@pytest.mark.parametrize(
    ("name", "verdict", "by"),
    [
        ("V-46d", "settled", "pre_norm minus base, ppl_per_subword on demo_dev, n=2: -0.25, -0.25, expected < 0"),
        # mean -1.5, sd 0.7071, half-width 12.706 x 0.7071 / sqrt(2) = 6.353, beyond zero
        ("X-3", "not settled", "base minus pre_norm, bleu_tok_compound_split on demo_dev, n=2: -1, -2, expected > 0"),
        ("V-25d", "contradicted",  # alike is not faster
         "base minus lstm, wall_seconds of a training, n=2: 0, 0, expected < 0; on the machine of this run"),
    ],
)  # fmt: skip
def test_a_difference_is_taken_seed_by_seed_and_judged_by_its_interval(
    site: Site, name: str, verdict: str, by: str
) -> None:
    row = rows_of(table_of(site))[name]
    assert (row["verdict"], row["by"]) == (f"{verdict} {DAGGER}", by)


def test_a_difference_of_three_seeds_is_shown_as_a_mean_with_its_interval(tmp_path: Path) -> None:
    """Differences 1, 2 and 3: t(0.975, 2 df) = 4.303, over the root of 3."""
    made = make_compared_site(tmp_path, variants=["pre_norm"], variant_seeds=[1, 2, 3])
    write_everything(made)
    for seed in (1, 2, 3):
        write_dev_scores(made, "base", seed, 70.0 + seed, 1.5)
        write_dev_scores(made, "pre_norm", seed, 70.0, 1.5)
    row = rows_of(table_of(made))["X-3"]
    assert row["by"].endswith(f"n=3: 2 {PLUS_MINUS} 2.5, expected > 0")


def test_one_seed_settles_nothing(site: Site) -> None:
    one_seed = dataclasses.replace(site, scale=msgspec.structs.replace(site.scale, variant_seeds=[1]))
    row = rows_of(table_of(one_seed))["V-46d"]
    assert row["verdict"] == f"not settled {DAGGER}"
    assert row["by"].endswith("n=1: -0.25; one seed has no interval")


def test_the_signatures_of_what_was_compared_are_below_the_table(site: Site) -> None:
    write_measured(site, dot_product_variance_over_d_k_4=(1.0, 0.005))
    signatures = table_of(site).signatures
    assert ("ppl_per_subword", "demo_dev (demo_en_de)", "eos:yes|ls:no") in signatures
    name = "dot_product_variance_over_d_k_4"
    assert (name, "measured without a training", f"draws:100|of:{name}") in signatures


@pytest.mark.parametrize(
    ("estimate", "verdict", "number"),
    [
        ((1.0, 0.005), "settled", f"1 {PLUS_MINUS} 0.0098"),  # 1.96 standard errors
        ((1.025, 0.005), "not settled", f"1.025 {PLUS_MINUS} 0.0098"),
        ((4.0, 0.005), "contradicted", f"4 {PLUS_MINUS} 0.0098"),
        ((1.0, 0.0), "settled", "1"),
    ],
)
def test_a_measurement_is_judged_by_its_interval(
    site: Site, estimate: tuple[float, float], verdict: str, number: str
) -> None:
    write_measured(site, dot_product_variance_over_d_k_4=estimate)
    row = rows_of(table_of(site))["V-05a"]
    assert row["verdict"] == verdict
    assert row["by"] == f"dot_product_variance_over_d_k_4: {number}, expected 0.97 to 1.03"


@pytest.mark.parametrize(("finding", "verdict"), [("holds", "settled"), ("fails", "contradicted")])
def test_a_test_may_show_that_a_claim_is_wrong(site: Site, finding: str, verdict: str) -> None:
    names = "tests/unit/test_a.py::test_b tests/unit/test_a.py::test_c"
    judgement = judged(site, decided_by="test", evidence=names, finding=finding, note="a reason")
    assert judgement.verdict == verdict
    assert judgement.by == "test tests/unit/test_a.py::test_b, tests/unit/test_a.py::test_c; a reason"


def test_printed_numbers_are_worked_out_exactly(site: Site) -> None:
    """41.8 - 41.0 is 0.8, which binary fractions miss; a cell that spans two columns is found under either."""
    rows = rows_of(table_of(site))
    assert rows["X-1"]["by"].startswith("printed 41.8 minus 41.0 (Table 2, page 8): 0.8, expected = 0.8")
    assert rows["X-1"]["verdict"] == "settled"
    assert rows["V-24d"]["by"].startswith("printed 2.3e19 over 1.2e20")
    wrong = judged(site, decided_by="printed", evidence="table2:big:bleu_en_de", expected="= 28.5")
    assert wrong.verdict == "contradicted"


@pytest.mark.parametrize("cell", ["table2:big:bleu_en_fr", "table2:huge:bleu_en_de", "table2:big:bleu"])
def test_a_cell_that_is_not_printed_is_refused(site: Site, cell: str) -> None:
    with pytest.raises(TableError, match=rf"claims.csv: {cell} is not printed"):
        judged(site, decided_by="printed", evidence=cell, expected="> 0")


def test_at_the_papers_scale_a_reproduction_takes_over_its_verdict(tmp_path: Path) -> None:
    paper = make_site(tmp_path, "paper", has_baselines=False, seeds=[1, 2, 3], ablation_seeds=[1, 2, 3])
    write_everything(paper, base_bleu=28.2, hardware=EIGHT_P100)  # 28.3, 28.4 and 28.5: 28.4 as printed
    rows = rows_of(table_of(paper))
    assert rows["V-24g"]["verdict"] == "settled"
    assert rows["V-24g"]["by"].startswith("printed 28.4: REPRODUCED. ")
    assert rows["V-24h"]["verdict"] == "contradicted"  # 28.4 is not 41.0
    assert rows["V-24h"]["by"].startswith("printed 41: NOT REPRODUCED. ")


def toy_findings(frame: Frame, lines: tuple[str, ...]) -> Frame:
    """Return a frame with the tutorial's run: three sentences, two of them trained on."""
    run = read_sentences()["toy_en_es"][0]
    pairs = [{"en": "one", "es": "uno"}, {"en": "two", "es": "dos"}]
    source = ListedSource(pairs_by_split={"train": pairs, run.testset: [*pairs, {"en": "three", "es": "tres"}]})
    corpus = CorpusSpec(name=run.corpus, description="three", language_pair="en-es", source=source,
                        dev_testset=run.testset, test_testset=run.testset)  # fmt: skip
    translations = {run.key: {1: Translations(lines, "beam:3")}}
    return msgspec.structs.replace(frame, corpora={run.corpus: corpus}, translations=translations)


@pytest.mark.parametrize(
    ("which", "verdict", "number"), [("trained", "settled", "2 of 2"), ("unseen", "contradicted", "0 of 1")]
)
def test_trained_and_unseen_sentences_are_counted_separately(site: Site, which: str, verdict: str, number: str) -> None:
    claim = claim_of(decided_by="sentences", evidence=f"toy_en_es {which}", expected="= 1", config="claims")
    judgement = judge_claim(claim, toy_findings(frame_of(site), ("uno", "dos", "dos")))
    assert judgement.verdict == verdict
    assert judgement.by.startswith(f"{number} sentences as the reference, n=1: ")
