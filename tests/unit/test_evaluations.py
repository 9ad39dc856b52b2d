"""A scale's names become exactly the trainings and evaluations that printed numbers ask for."""

import subprocess
import sys
from pathlib import Path

import pytest

from aiayn.errors import ConfigError, TableError
from aiayn.spec import CONFIG_FOLDER, read_scale
from paper_tables.evaluations import (
    Training,
    expand_baselines,
    expand_evaluations,
    expand_trainings,
    needs_perplexity,
    read_corpora,
    required_records,
    used_corpora,
)
from tests.records_factory import make_site


def test_the_papers_config_asks_for_thirty_trainings() -> None:  # 2 + 2 systems x 3 seeds, 18 ablations x 1
    assert len(expand_trainings(read_scale(CONFIG_FOLDER / "paper.yaml"))) == 30


def test_the_demos_config_asks_for_twelve_trainings() -> None:  # (2 + 2 + 2) systems x 2 seeds
    assert len(expand_trainings(read_scale(CONFIG_FOLDER / "demo.yaml"))) == 12


def test_base_is_evaluated_averaged_on_test_and_unaveraged_on_dev(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    found = {
        (e.system, e.seed, e.average, e.testset)
        for e in expand_evaluations(site.scale, site.config_folder)
        if e.corpus == "demo_en_de" and e.system != "big"
    }
    assert found == {
        ("base", 1, "last1", "demo_dev"),
        ("base", 1, "last5", "demo_test"),
        ("base", 2, "last1", "demo_dev"),
        ("base", 2, "last5", "demo_test"),
        ("table3_c_n2", 1, "last1", "demo_dev"),
    }


def test_big_is_averaged_over_twenty_in_both_languages(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    evaluations = expand_evaluations(site.scale, site.config_folder)
    found = {(e.corpus, e.system, e.average) for e in evaluations if e.system.startswith("big") and e.role == "test"}
    assert found == {("demo_en_de", "big", "last20"), ("demo_en_fr", "big_enfr", "last20")}


def test_perplexity_is_asked_on_dev_only(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    asked = [e for e in expand_evaluations(site.scale, site.config_folder) if needs_perplexity(e)]
    assert {e.testset for e in asked} == {"demo_dev"}
    assert len(asked) == 2 + 2 + 1


def test_a_system_named_in_two_lists_is_trained_once(tmp_path: Path) -> None:
    scale = make_site(tmp_path, ablation_systems=["big"], ablation_seeds=[1], en_fr_systems=[]).scale
    assert expand_trainings(scale).count(Training(corpus="demo_en_de", system="big", seed=1)) == 1


def test_required_records_are_one_of_each_kind(tmp_path: Path) -> None:
    site = make_site(tmp_path, en_fr_systems=[], en_de_systems=["base"], ablation_systems=[], seeds=[7])
    paths = [str(path) for path in required_records(site.scale, Path("results"), site.config_folder)]
    assert paths == [
        "results/demo/train/demo_en_de/base/seed7.json",
        "results/demo/score/demo_en_de/base/seed7/last1/demo_dev.json",
        "results/demo/score/demo_en_de/base/seed7/last5/demo_test.json",
        "results/demo/perplexity/demo_en_de/base/seed7/last1/demo_dev.json",
        "results/demo/baselines/demo_en_de/demo_test.json",
    ]


def test_baselines_are_asked_only_where_the_scale_has_them(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    corpora = read_corpora(site.scale, site.config_folder)
    assert expand_baselines(site.scale, corpora) == [("demo_en_de", "demo_test"), ("demo_en_fr", "demo_test")]
    assert expand_baselines(make_site(tmp_path, has_baselines=False).scale, corpora) == []


def test_a_replication_brings_its_own_corpus_and_average(tmp_path: Path) -> None:
    site = make_site(tmp_path, replications=["revisit_tiny"])
    assert used_corpora(site.scale) == ["demo_en_de", "demo_en_fr", "multi30k_revisit_en_de"]
    evaluations = expand_evaluations(site.scale, site.config_folder)
    found = [(e.average, e.testset, e.seed) for e in evaluations if e.system == "revisit_tiny"]
    assert found == [("last10", "test_2016_flickr", 1), ("last10", "test_2016_flickr", 2)]


def test_an_unpublished_replication_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"replications has 'revisit_tny'; expected rows of .*: revisit_tiny"):
        expand_trainings(make_site(tmp_path, replications=["revisit_tny"]).scale)


def test_a_system_that_no_printed_number_asks_for_is_refused(tmp_path: Path) -> None:
    site = make_site(tmp_path, en_fr_systems=["big"])
    with pytest.raises(TableError, match=r"'big' in 'en-fr': no printed number asks for it"):
        expand_evaluations(site.scale, site.config_folder)


def test_a_corpus_of_the_other_language_pair_is_refused(tmp_path: Path) -> None:
    site = make_site(tmp_path, en_de_corpus="demo_en_fr")
    with pytest.raises(ConfigError, match=r"corpus demo_en_fr is en-fr, expected en-de"):
        read_corpora(site.scale, site.config_folder)


def test_the_snakefile_can_ask_without_pandas() -> None:
    code = "import sys, paper_tables.evaluations; sys.exit('pandas' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
