"""The list of a training's evaluations: tables and `check` compare the records with it."""

from collections import Counter
from pathlib import Path

import pytest

from aiayn.errors import CorpusError
from aiayn.integrity import check_folder
from aiayn.paths import evaluation_record, evaluations_record
from aiayn.provenance import file_sha256
from aiayn.records import EvaluationsRecord, write_record
from tests.laid_out import results_of
from tests.records_factory import PROVENANCE, Site, make_site, write_everything, write_scores

KEY = ("demo_en_de", "base", 1)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return the results of a small demo, with the list of one training."""
    monkeypatch.chdir(tmp_path)
    site = make_site(tmp_path)
    write_everything(site)
    paths = [
        evaluation_record(site.results_folder, site.scale.scale, "score", evaluation)
        for evaluation in site.experiment.evaluations_of_training(*KEY)
    ]
    listed = EvaluationsRecord(
        provenance=PROVENANCE,
        run="demo_en_de-base-seed1-01234567",
        sha256_by_record={path: file_sha256(path) for path in paths},
    )
    write_record(listed, evaluations_record(site.results_folder, site.scale.scale, *KEY))
    return site


def test_tables_refuse_a_record_that_is_not_the_listed_one(site: Site) -> None:
    assert not results_of(site, so_far=False).scores.empty  # the other trainings have no list
    evaluation = site.experiment.evaluations_of_training(*KEY)[0]
    write_scores(site, evaluation, {"bleu_sacre_13a": 99.0})
    path = evaluation_record(site.results_folder, site.scale.scale, "score", evaluation)
    with pytest.raises(CorpusError, match=rf"{path}: sha256 .*, its record says .*; restore it"):
        results_of(site, so_far=False)
    assert not results_of(site, so_far=True).scores.empty
    faults = [text for text in check_folder(site.results_folder, Counter()) if str(path) in text]
    assert len(faults) == 1


def test_the_tables_wait_for_the_list_of_every_training(site: Site) -> None:
    declared = site.experiment.records(site.results_folder, is_declared=True)
    read = site.experiment.records(site.results_folder)
    lists = {
        evaluations_record(site.results_folder, site.scale.scale, *training)
        for training in site.experiment.trainings
    }
    assert len(set(declared)) == len(declared)
    scored = {
        evaluation_record(site.results_folder, site.scale.scale, verb, evaluation)
        for verb in ("score", "perplexity")
        for evaluation in site.experiment.evaluations
    }
    assert set(declared) == (set(read) - scored) | lists
