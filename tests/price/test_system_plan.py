"""`aiayn plan --system` plans one system: what its scale trains, or one training of a system that
no list names.
"""

import json
import shlex
from pathlib import Path

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.spec.system import CONFIG_FOLDER, SCALES, read_scale
from aiayn.terminal import WIDTH
from analysis.price.plan import Plan, make_plan
from analysis.price.system_plan import add_commands, expand_system
from analysis.price.text import render_plan
from tests.planned_scales import HARDWARE
from tests.price.plans import P100


def plan_one(name: str, scale: str = "paper", **training: object) -> Plan:
    """Plan one system of a shipped scale on 8 P100, with some keys of its training changed."""
    experiment = expand_system(read_scale(CONFIG_FOLDER / f"{scale}.yaml"), name)
    system = experiment.system_by_name[name]
    changed = msgspec.structs.replace(
        system, training=msgspec.structs.replace(system.training, **training)
    )
    experiment = msgspec.structs.replace(experiment, system_by_name={name: changed})
    plan = make_plan(experiment, P100, HARDWARE, Path("none"))
    return add_commands(plan, experiment, name)


def test_a_listed_system_has_the_corpora_and_seeds_of_its_scale() -> None:
    rows = plan_one("base").trainings
    assert [(row.corpus, row.seeds) for row in rows] == [
        ("wmt14_en_de", [1, 2, 3]),
        ("wmt14_en_fr", [1, 2, 3]),
    ]
    assert len(plan_one("base").corpora) == 2
    assert len(plan_one("table3_c_n2").corpora) == 1


def test_a_system_that_no_list_names_has_one_training() -> None:
    (row,) = plan_one("lstm").trainings
    assert (row.corpus, row.system, row.seeds) == ("wmt14_en_de", "lstm", [1])


def test_a_training_that_continues_a_shorter_one_has_only_the_further_updates() -> None:
    """16,000 updates, of which base has computed 8,000."""
    (longer,) = plan_one("updates16000_base", "multi30k").trainings
    base, _ = plan_one("base", "multi30k").trainings
    assert longer.updates == base.updates == 8000
    assert longer.hours == base.hours


@pytest.mark.parametrize("system", ["table3_b_dk16", "big_enfr"])
def test_the_printed_command_reads_as_the_same_words(system: str) -> None:
    system_plan = plan_one(system)
    printed = render_plan(system_plan).partition("fairseq-train ")[2]
    assert (
        printed.count(" \\\n") == len(printed.splitlines()) - 1
    )  # a backslash ends every line except the last
    (command,) = system_plan.command_by_corpus.values()
    assert shlex.split(printed.replace("\\\n", "")) == command[1:]


def test_a_system_that_fairseq_cannot_train_is_planned_with_the_reason() -> None:
    system_plan = plan_one("lstm", "demo", patience_epochs=3)
    assert system_plan.command_by_corpus == {}
    assert render_plan(system_plan).endswith("set one of them to null\n")


@pytest.mark.parametrize("scale", SCALES)
def test_every_system_of_every_scale_can_be_planned(scale: str) -> None:
    for path in sorted((CONFIG_FOLDER / "systems" / scale).glob("*.yaml")):
        lines = render_plan(plan_one(path.stem, scale)).splitlines()
        assert [line for line in lines if len(line) > WIDTH and "--user-dir" not in line] == [], (
            path.stem
        )


def test_the_verb_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--system", "table3_b_dk16", "--gpu", "P100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = found["trainings"]
    assert row["system"] == "table3_b_dk16"
    assert (
        row["num_parameters"] == 63_082_496 - 18 * 2 * 8 * 48 * 513
    )  # base, without the columns of W^Q and W^K that d_k 16 lacks
    assert found["command_by_corpus"]["wmt14_en_de"][0] == "fairseq-train"
