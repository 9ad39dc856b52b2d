"""What is made again after an edit: only values count, and only downstream. Dry runs after a whole
run of the demo.
"""

import re
import shutil
from pathlib import Path

from aiayn.stages import EVALUATION_VERSIONS, STAGE_VERSIONS
from tests.pipeline_copy import CHECKOUT, NOTHING_TO_DO, Pipeline, edited, make_pipeline

RULES = Path("workflow/rules")
SYSTEMS = Path("workflow/config/systems/demo")
CORPORA = Path("workflow/config/corpora")


def downstream_of(names: set[str], *verbs: str, part: str = "") -> set[str]:
    """Return the records of some verbs whose path holds a part, and the tables, which hang on all
    of them.
    """
    return {name for name in names if name.split("/")[0] in verbs and part in name} | {"tables"}


def test_a_second_run_has_nothing_to_do(finished_demo: Pipeline) -> None:
    assert finished_demo.planned() == set()


def test_comments_and_white_space_repeat_nothing(finished_demo: Pipeline) -> None:
    checkout = finished_demo.checkout
    with (
        edited(
            checkout / SYSTEMS / "base.yaml", "training:", "# a remark\ntraining:  # and another"
        ),
        edited(
            checkout / SYSTEMS / "table3_c_n2.yaml", "num_layers:", "# a remark\n  num_layers:   "
        ),
        edited(checkout / CORPORA / "demo_en_de.yaml", "\nname:", "\n# a remark\nname:"),
        edited(
            checkout / RULES / "train.smk",
            "        aiayn train \\\n",
            "        aiayn   train   \\\n",
        ),
    ):
        assert finished_demo.planned() == set()


def test_a_value_of_a_row_repeats_its_trainings_and_what_follows(finished_demo: Pipeline) -> None:
    with edited(
        finished_demo.checkout / SYSTEMS / "table3_c_n2.yaml", "num_layers: 1", "num_layers: 2"
    ):
        planned = finished_demo.planned()
    everything = set(finished_demo.made())
    assert planned == downstream_of(everything, "train", "evaluations", part="/table3_c_n2/")
    assert len(planned) == 2 * 2 + 1


def test_a_value_of_the_search_repeats_the_evaluations_and_no_training(
    finished_demo: Pipeline,
) -> None:
    with edited(finished_demo.checkout / SYSTEMS / "base.yaml", "beam_size: 4", "beam_size: 5"):
        planned = finished_demo.planned()
    assert planned == downstream_of(set(finished_demo.made()), "evaluations")
    assert len(planned) == 12 + 1


def test_a_value_of_a_corpus_repeats_that_corpus_alone(finished_demo: Pipeline) -> None:
    path = finished_demo.checkout / CORPORA / "demo_en_fr.yaml"
    with edited(path, "demo_test: 300", "demo_test: 301"):
        planned = finished_demo.planned()
    assert planned == {name for name in finished_demo.made() if "demo_en_fr" in name} | {"tables"}


def test_a_stage_of_a_new_version_is_repeated_with_what_follows(finished_demo: Pipeline) -> None:
    version = STAGE_VERSIONS["decode"]
    lines = (f'    "decode": {version},\n', f'    "decode": {version + 1},\n')
    with edited(finished_demo.checkout / "workflow/aiayn/stages.py", *lines):
        planned = finished_demo.planned()
    assert planned == downstream_of(set(finished_demo.made()), "evaluations")


def test_every_rule_of_a_stage_carries_its_version() -> None:
    texts = "".join(
        path.read_text(encoding="utf-8") for path in sorted((CHECKOUT / RULES).glob("*.smk"))
    )
    versioned_by_rule = dict(
        re.findall(r"^rule (\w+):.*?STAGE_VERSIONS\[\"(\w+)\"\]", texts, re.MULTILINE | re.DOTALL)
    )
    rules = set(STAGE_VERSIONS) - set(EVALUATION_VERSIONS)
    assert versioned_by_rule == {verb: verb for verb in rules}
    assert "part_versions=[STAGE_VERSIONS[verb] for verb in EVALUATION_VERSIONS]" in texts


def test_where_and_how_it_runs_repeats_nothing(finished_demo: Pipeline) -> None:
    # Results that were begun on one machine are finished on another.
    values = (
        "runs_folder=/else where",
        "allow_long_runs=true",
        "mirror=file:///nowhere",
        "cluster=plain",
    )
    machine = ("--profile", "profiles/local", "--set-threads", "train=2", "evaluations=2")
    launcher = ("--set-resources", "train:launcher=debug")
    assert finished_demo.planned(*machine, *launcher, "--config", *values) == set()


def test_one_seed_more_makes_only_that_seed(finished_demo: Pipeline) -> None:
    sheet = finished_demo.checkout / "workflow/config/trainings/demo.tsv"
    text = sheet.read_text(encoding="utf-8")
    with edited(sheet, text, re.sub(r"(table3_\w+\t)1,2\t", r"\g<1>1,2,3\t", text)):
        planned = finished_demo.planned()
    assert {name for name in planned if "/seed3" not in name} == {"tables"}
    assert len(planned) == 2 * 2 + 1


def test_a_finished_checkout_may_be_moved(finished_demo: Pipeline, tmp_path: Path) -> None:
    moved = shutil.copytree(finished_demo.checkout, tmp_path / "moved")
    pipeline = Pipeline(checkout=moved, fake_folder=finished_demo.fake_folder)
    assert pipeline.planned() == set()


def test_results_copied_with_their_times_are_finished_in_another_checkout(
    finished_demo: Pipeline, tmp_path: Path
) -> None:
    """Without `.snakemake`, what Snakemake knows of them is their times alone: `cp -a` and `rsync
    -a` keep these.
    """
    elsewhere = make_pipeline(tmp_path)
    shutil.copytree(finished_demo.checkout / "results", elsewhere.checkout / "results")
    assert elsewhere.planned() == set()
    second = elsewhere.run()
    assert NOTHING_TO_DO in second.stdout
    assert elsewhere.made() == []
