"""The table of what holds of the paper's conclusions: its contrasts, calls, marks and notes."""

from pathlib import Path

import msgspec
import pytest

from aiayn.paths import evaluation_record, train_record
from aiayn.printed import read_rows
from aiayn.records import PerplexityRecord, read_record, write_record
from analysis.conclusions.published import DATA_FOLDER, PublishedFinding, read_conclusions
from analysis.conclusions.scale_contrasts import draw_contrasts
from analysis.conclusions.tables.conclusions import lay_out_conclusions
from paper_tables.layout import Table
from tests import laid_out
from tests.laid_out import frame_of, notes_of
from tests.records_factory import Site, make_site, write_dev_scores, write_everything


def rows_of(table: Table) -> dict[tuple[str, str], dict[str, str]]:
    """Return the rows by (difference, metric)."""
    return {(row["rows"], row["metric"]): row for row in laid_out.rows_of(table)}


def test_every_printed_difference_has_the_sign_that_the_paper_concludes(tmp_path: Path) -> None:
    contrasts = draw_contrasts(frame_of(make_site(tmp_path))).contrasts
    printed = {
        one.conclusion.name: one.printed_effect for one in contrasts if one.conclusion is not None
    }
    for one in contrasts:
        if one.conclusion is not None:
            effect, relation = one.printed_effect, one.conclusion.relation
            assert {"above": effect > 0, "below": effect < 0, "equivalent": abs(effect) < 0.5}[
                relation
            ], one
    assert printed["one_head_bleu"] == pytest.approx(-0.9)
    assert (printed["big_en_fr_neurips"], printed["big_en_fr_arxiv"]) == (
        pytest.approx(2.9),
        pytest.approx(3.7),
    )


BITS, BLEU = "bits_per_subword", "bleu_tok_compound_split"


def three_against_three(tmp_path: Path, **changes: object) -> Site:
    """Base has 2.9, 3.0 and 3.1 bits (sd 0.1, 2 degrees of freedom), and 24.8, 25.0 and 25.2 BLEU."""
    site = make_site(
        tmp_path,
        seeds=[1, 2, 3],
        en_de_systems=["base"],
        ablation_systems=["table3_c_n2"],
        **changes,
    )
    write_everything(site)
    for seed, step in ((1, -1), (2, 0), (3, 1)):
        write_dev_scores(site, "base", seed, 25 + 0.2 * step, 2 ** (3 + 0.1 * step))
    return site


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0.01, "not above 0.06: no further seed of the rows is asked for."),
        (0.02, "above 0.06: seed 2 of all rows is"),
    ],
)
def test_the_notes_say_by_the_sd_alone_whether_rows_get_another_seed(
    tmp_path: Path, step: float, expected: str
) -> None:
    """A reach of 4.97 sds: 0.0497 and 0.0994 bits. As long as a run is missing that is not final."""
    site = three_against_three(tmp_path)
    for seed in (1, 2, 3):
        write_dev_scores(site, "base", seed, 25, 2 ** (3 + step * (seed - 2)))
    notes = notes_of(lay_out_conclusions(frame_of(site)))
    assert expected in notes
    assert "it is decided when all are in" not in notes
    train_record(site.results_folder, "demo", "demo_en_de", "table3_c_n2", 1).unlink()
    assert "so far; it is decided when all are in." in notes_of(lay_out_conclusions(frame_of(site)))


def write_perplexity(site: Site, system: str, seed: int, **changes: object) -> None:
    """Change what the record of a dev perplexity holds."""
    one = next(
        e
        for e in site.experiment.evaluations
        if (e.system, e.seed, e.role) == (system, seed, "dev")
    )
    path = evaluation_record(site.results_folder, site.scale.scale, "perplexity", one)
    write_record(msgspec.structs.replace(read_record(path, PerplexityRecord), **changes), path)


def test_a_base_that_did_not_start_refuses_the_scale(tmp_path: Path) -> None:
    site = three_against_three(tmp_path)
    write_dev_scores(site, "table3_c_n2", 1, 20.0, 2**3.6)
    write_perplexity(site, "base", 2, cross_attention_entropy=[[0.999]], bits_lost_uniform=0.0)
    row = rows_of(lay_out_conclusions(frame_of(site)))[("table3_c_n2 minus base", BITS)]
    assert row["call"] == "the control did not start (1 of 3): choose the scale anew"


def test_every_row_of_a_primary_contrast_has_what_others_found() -> None:
    rows = [
        finding.row for _, finding in read_rows(DATA_FOLDER / "elsewhere.csv", PublishedFinding)
    ]
    assert len(rows) == len(set(rows))
    assert set(rows) == {one.row for one in read_conclusions() if one.column == "ppl_dev"}
