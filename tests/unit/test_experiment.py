"""A scale's names become exactly the trainings, evaluations and records that printed numbers ask
for.
"""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from aiayn.errors import ConfigError
from aiayn.experiment import Experiment, Training, all_compared, expand_trainings, read_experiment
from aiayn.paths import split_alpha
from aiayn.spec.system import CONFIG_FOLDER, read_scale
from tests.records_factory import make_site


def experiment_of(folder: Path, **changes: object) -> Experiment:
    """Return a small scale expanded, with changes to its lists."""
    site = make_site(folder, **changes)
    return read_experiment(site.scale, site.config_folder)


def asked(experiment: Experiment) -> set[tuple[str, str, int, str, str]]:
    """Return what is evaluated, as (corpus, system, seed, average, role)."""
    return {(e.corpus, e.system, e.seed, e.average, e.role) for e in experiment.evaluations}


def test_base_is_evaluated_averaged_on_test_and_unaveraged_on_dev_and_big_over_twenty(
    tmp_path: Path,
) -> None:
    found = asked(experiment_of(tmp_path))
    assert {one[1:] for one in found if one[0] == "demo_en_de"} == {
        ("base", 1, "last1", "dev"),
        ("base", 1, "last5", "test"),
        ("base", 2, "last1", "dev"),
        ("base", 2, "last5", "test"),
        ("table3_c_n2", 1, "last1", "dev"),
        ("big", 1, "last1", "dev"),
        ("big", 1, "last20", "test"),
        ("big", 2, "last1", "dev"),
        ("big", 2, "last20", "test"),
    }
    assert {one[1:] for one in found if one[1] == "big_enfr"} == {
        ("big_enfr", 1, "last20", "test"),
        ("big_enfr", 2, "last20", "test"),
    }


def test_perplexity_is_asked_on_dev_only(tmp_path: Path) -> None:
    found = [e for e in experiment_of(tmp_path).evaluations if e.has_perplexity]
    assert {e.testset for e in found} == {"demo_dev"}
    assert len(found) == 2 + 2 + 1


def test_rows_of_table_3_are_also_evaluated_on_further_test_sets_and_with_the_alpha_of_a_probe(
    tmp_path: Path,
) -> None:
    changes = {"row_testsets": ["demo_test"], "probed_alpha": 1.4, "variants": ["pre_norm"]}
    found = [
        e for e in experiment_of(tmp_path, **changes).evaluations if e.role in ("further", "alpha")
    ]
    assert {(e.corpus, e.average) for e in found} == {("demo_en_de", "last1")}
    assert {(e.testset, e.has_perplexity) for e in found} == {
        ("demo_test", True),
        ("demo_dev-alpha1.4", False),
    }
    assert {e.system for e in found} == {
        "base",
        "big",
        "table3_c_n2",
    }  # no variant, and nothing of En-Fr
    assert [split_alpha(name) for name in ("demo_dev-alpha1.4", "demo_dev")] == [
        ("demo_dev", 1.4),
        ("demo_dev", None),
    ]


def test_a_system_named_in_two_lists_is_trained_once(tmp_path: Path) -> None:
    trainings = experiment_of(
        tmp_path, ablation_systems=["big"], ablation_seeds=[1], en_fr_systems=[]
    ).trainings
    assert trainings.count(Training(corpus="demo_en_de", system="big", seed=1)) == 1


def test_base_en_de_and_replications_have_seeds_of_their_own_or_those_of_the_others(
    tmp_path: Path,
) -> None:
    lists = {"seeds": [5, 6], "ablation_seeds": [5], "replications": ["revisit_tiny"]}
    own = experiment_of(tmp_path, **lists, base_seeds=[5, 6, 7], replication_seeds=[1])
    corpora = ("demo_en_de", "demo_en_fr")
    assert [own.seeds_of(corpus, "base") for corpus in corpora] == [[5, 6, 7], [5, 6]]
    assert [own.seeds_of("demo_en_de", name) for name in ("big", "table3_c_n2")] == [[5, 6], [5]]
    assert own.seeds_of("multi30k_revisit_en_de", "revisit_tiny") == [1]
    without = experiment_of(tmp_path, **lists)
    places = (("demo_en_de", "base"), ("multi30k_revisit_en_de", "revisit_tiny"))
    assert [without.seeds_of(*place) for place in places] == [[5, 6], [5, 6]]


def test_the_records_are_one_of_each_kind(tmp_path: Path) -> None:
    lists = {"en_fr_systems": [], "en_de_systems": ["base"], "ablation_systems": [], "seeds": [7]}
    experiment = experiment_of(tmp_path, **lists, has_layer_timing=False)
    assert [str(path) for path in experiment.records(Path("results"))] == [
        "results/demo/train/demo_en_de/base/seed7.json",
        "results/demo/score/demo_en_de/base/seed7/last1/demo_dev.json",
        "results/demo/score/demo_en_de/base/seed7/last5/demo_test.json",
        "results/demo/perplexity/demo_en_de/base/seed7/last1/demo_dev.json",
        "results/demo/baselines/demo_en_de/demo_test.json",
    ]


def test_variants_bring_base_and_their_own_seeds(tmp_path: Path) -> None:
    """Base has Table 2's seed 1 and, for the comparison, 1 and 2; both have its own
    evaluations.
    """
    experiment = experiment_of(
        tmp_path,
        en_de_systems=["base"],
        en_fr_systems=[],
        ablation_systems=[],
        seeds=[1],
        variants=["pre_norm"],
        architectures=["lstm"],
        variant_seeds=[1, 2],
    )
    assert [(training.system, training.seed) for training in experiment.trainings] == [
        ("base", 1),
        ("base", 2),
        ("pre_norm", 1),
        ("pre_norm", 2),
        ("lstm", 1),
        ("lstm", 2),
    ]
    assert {one[1:] for one in asked(experiment) if one[2] == 2} == {
        ("base", 2, "last1", "dev"),
        ("base", 2, "last5", "test"),
        ("pre_norm", 2, "last1", "dev"),
        ("lstm", 2, "last1", "dev"),
    }


def test_variants_alone_need_their_corpus_and_base(tmp_path: Path) -> None:
    experiment = experiment_of(
        tmp_path, en_de_systems=[], en_fr_systems=[], ablation_systems=[], variants=["pre_norm"]
    )
    assert list(experiment.corpora) == ["demo_en_de"]
    assert set(experiment.system_by_name) == {"base", "pre_norm"}


def test_a_row_of_table_3_may_be_a_variant_and_is_trained_with_both_lists_of_seeds(
    tmp_path: Path,
) -> None:
    experiment = experiment_of(
        tmp_path, variants=["table3_c_n2"], ablation_seeds=[1], variant_seeds=[1, 3]
    )
    assert experiment.seeds_of("demo_en_de", "table3_c_n2") == [1, 3]
    found = {one[2:] for one in asked(experiment) if one[1] == "table3_c_n2"}
    assert found == {(1, "last1", "dev"), (3, "last1", "dev")}


def test_no_variant_asks_for_nothing_more(tmp_path: Path) -> None:
    without, with_seeds = (
        make_site(tmp_path, variant_seeds=seeds).scale for seeds in ([1], [1, 2, 3, 4])
    )
    assert expand_trainings(without) == expand_trainings(with_seeds)


def test_a_variant_keeps_one_checkpoint_and_base_five(tmp_path: Path) -> None:
    experiment = experiment_of(tmp_path, variants=["pre_norm"])
    kept = {name: experiment.num_models("demo_en_de", name) for name in ("pre_norm", "base", "big")}
    assert kept == {"pre_norm": 1, "base": 5, "big": 20}


def test_the_scale_that_names_every_variant_trains_each_with_two_seeds() -> None:
    """18 variants (no smoothing is also an ablation), 2 architectures, base, big and 2 ablations
    make 23.
    """
    known = all_compared()
    assert (len(known.variants), known.architectures) == (18, ["lstm", "fconv"])
    assert len(expand_trainings(known)) == 23 * 2


def test_updates_of_the_scale_stand_for_every_systems_own(tmp_path: Path) -> None:
    own = experiment_of(tmp_path, variants=["pre_norm"]).system_by_name
    assert {spec.training.updates for spec in own.values()} == {3000}
    short = experiment_of(tmp_path, variants=["pre_norm"], updates=2500).system_by_name
    assert short.keys() == own.keys()
    assert {spec.training.updates for spec in short.values()} == {2500}
    assert short["base"].decoding == own["base"].decoding


def test_updates_that_leave_too_few_checkpoints_to_average_are_refused(tmp_path: Path) -> None:
    """One every 100 updates, the last at the end: 1,901 updates have 20, at 1, 101, ..., 1901, and
    1,900 have 19.
    """
    assert experiment_of(tmp_path, updates=1901).evaluations != []
    with pytest.raises(ConfigError, match=r"scale demo: big\b.*\b19\b.*\b1900\b.*\b20\b"):
        experiment_of(tmp_path, updates=1900)
    few = experiment_of(tmp_path, updates=1900, en_de_systems=["base"], en_fr_systems=[])
    assert set(few.system_by_name) == {"base", "table3_c_n2"}


def test_baselines_are_asked_only_where_the_scale_has_them(tmp_path: Path) -> None:
    assert experiment_of(tmp_path).baselines == [
        ("demo_en_de", "demo_test"),
        ("demo_en_fr", "demo_test"),
    ]
    assert experiment_of(tmp_path, has_baselines=False).baselines == []


def test_a_replication_brings_its_own_corpus_and_average(tmp_path: Path) -> None:
    experiment = experiment_of(tmp_path, replications=["revisit_tiny"])
    assert list(experiment.corpora) == ["demo_en_de", "demo_en_fr", "multi30k_revisit_en_de"]
    found = [
        (e.average, e.testset, e.seed) for e in experiment.evaluations if e.system == "revisit_tiny"
    ]
    assert found == [("last10", "test_2016_flickr", 1), ("last10", "test_2016_flickr", 2)]


def test_the_snakefile_can_ask_without_pandas() -> None:
    code = (
        "import sys, aiayn.experiment; sys.exit('pandas' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_later_seeds_are_trained_and_evaluated_as_rows_but_kept_apart(tmp_path: Path) -> None:
    experiment = experiment_of(tmp_path, later_seeds=["table3_c_n2:11"], row_testsets=["demo_test"])
    later = Training(corpus="demo_en_de", system="table3_c_n2", seed=11)
    assert experiment.later_trainings == {later}
    assert later in experiment.trainings
    assert {one[3:] for one in asked(experiment) if one[2] == 11} == {
        ("last1", "dev"),
        ("last1", "further"),
    }
    with pytest.raises(
        ConfigError, match="later_seeds has seed 1 of table3_c_n2, which the tables use already"
    ):
        experiment_of(tmp_path / "again", later_seeds=["table3_c_n2:1"])


def test_a_training_that_continues_another_needs_that_other_in_the_scale() -> None:
    scale = read_scale(CONFIG_FOLDER / "multi30k.yaml")
    experiment = read_experiment(scale)
    assert len(experiment.later_trainings) == 10
    only_longer = msgspec.structs.replace(scale, later_seeds=["updates16000_base:11"])
    with pytest.raises(
        ConfigError, match="updates16000_base with seed 11 continues the training of base with that"
    ):
        read_experiment(only_longer)
    assert read_experiment(msgspec.structs.replace(scale, updates=8000)).later_trainings == set()
