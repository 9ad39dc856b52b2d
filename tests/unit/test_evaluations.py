"""A scale's names become exactly the trainings and evaluations that printed numbers ask for."""

import subprocess
import sys
from pathlib import Path

import pytest

from aiayn.errors import ConfigError, TableError
from aiayn.spec import CONFIG_FOLDER, read_scale
from paper_tables.evaluations import (
    ARCHITECTURES,
    VARIANTS,
    Training,
    expand_baselines,
    expand_evaluations,
    expand_trainings,
    largest_asked_average,
    needs_perplexity,
    read_corpora,
    read_systems,
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
        "results/demo/measure/record.json",
    ]


def test_variants_bring_base_and_their_own_seeds(tmp_path: Path) -> None:
    """Base has Table 2's seed 1 and, to be compared, 1 and 2; its own evaluations are asked of either."""
    site = make_site(
        tmp_path, en_de_systems=["base"], en_fr_systems=[], ablation_systems=[], seeds=[1],
        variants=["pre_norm"], architectures=["lstm"], variant_seeds=[1, 2],
    )  # fmt: skip
    assert [(training.system, training.seed) for training in expand_trainings(site.scale)] == [
        ("base", 1), ("base", 2), ("pre_norm", 1), ("pre_norm", 2), ("lstm", 1), ("lstm", 2),
    ]  # fmt: skip
    evaluations = expand_evaluations(site.scale, site.config_folder)
    asked = {(e.system, e.average, e.role) for e in evaluations if e.seed == 2}
    assert asked == {
        ("base", "last1", "dev"), ("base", "last5", "test"), ("pre_norm", "last1", "dev"), ("lstm", "last1", "dev"),
    }  # fmt: skip
    assert all(needs_perplexity(e) for e in evaluations if e.system in ("pre_norm", "lstm"))


def test_variants_alone_need_their_corpus_and_base(tmp_path: Path) -> None:
    site = make_site(tmp_path, en_de_systems=[], en_fr_systems=[], ablation_systems=[], variants=["pre_norm"])
    assert used_corpora(site.scale) == ["demo_en_de"]
    assert {training.system for training in expand_trainings(site.scale)} == {"base", "pre_norm"}


def test_a_row_of_table_3_may_be_a_variant_and_is_trained_with_both_lists_of_seeds(tmp_path: Path) -> None:
    site = make_site(tmp_path, variants=["table3_c_n2"], ablation_seeds=[1], variant_seeds=[1, 3])
    rows = [training for training in expand_trainings(site.scale) if training.system == "table3_c_n2"]
    assert [training.seed for training in rows] == [1, 3]
    evaluations = [e for e in expand_evaluations(site.scale, site.config_folder) if e.system == "table3_c_n2"]
    assert [(e.seed, e.average, e.role) for e in evaluations] == [(1, "last1", "dev"), (3, "last1", "dev")]


def test_no_variant_asks_for_nothing_more(tmp_path: Path) -> None:
    without, with_seeds = (make_site(tmp_path, variant_seeds=seeds).scale for seeds in ([1], [1, 2, 3, 4]))
    assert expand_trainings(without) == expand_trainings(with_seeds)


def test_a_variant_keeps_one_checkpoint_and_base_five(tmp_path: Path) -> None:
    site = make_site(tmp_path, variants=["pre_norm"])
    corpus = read_corpora(site.scale, site.config_folder)["demo_en_de"]
    kept = {name: largest_asked_average(site.scale, corpus, name) for name in ("pre_norm", "base", "big")}
    assert kept == {"pre_norm": 1, "base": 5, "big": 20}


def test_variants_yaml_names_every_variant_and_architecture() -> None:
    """18 variants, of which no smoothing is among the ablations; 2 architectures; base, big and 2 ablations: 23."""
    scale = read_scale(CONFIG_FOLDER / "variants.yaml")
    assert (tuple(scale.variants), tuple(scale.architectures)) == (VARIANTS, ARCHITECTURES)
    assert len(expand_trainings(scale)) == 23 * 2


def test_updates_of_the_scale_stand_for_every_systems_own(tmp_path: Path) -> None:
    site = make_site(tmp_path, variants=["pre_norm"])
    own = read_systems(site.scale, site.config_folder)
    assert {spec.training.updates for spec in own.values()} == {3000}
    short = read_systems(make_site(tmp_path, variants=["pre_norm"], updates=2500).scale, site.config_folder)
    assert short.keys() == own.keys()
    assert {spec.training.updates for spec in short.values()} == {2500}
    assert short["base"].decoding == own["base"].decoding


def test_updates_that_leave_too_few_checkpoints_to_average_are_refused(tmp_path: Path) -> None:
    """One every 100 updates, the last at the end: 1,901 updates have 20, at 1, 101, ..., 1901, and 1,900 have 19."""
    site = make_site(tmp_path)
    assert read_systems(make_site(tmp_path, updates=1901).scale, site.config_folder) != {}
    with pytest.raises(ConfigError, match=r"big writes 19 checkpoint\(s\) in 1900 updates, one every 100, expected 20"):
        read_systems(make_site(tmp_path, updates=1900).scale, site.config_folder)
    few = make_site(tmp_path, updates=1900, en_de_systems=["base"], en_fr_systems=[]).scale
    assert set(read_systems(few, site.config_folder)) == {"base", "table3_c_n2"}


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
