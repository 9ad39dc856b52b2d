"""What Snakemake plans at each scale, where it may work, and how it refuses a wrong config: all
with a fake `aiayn`.
"""

import functools
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from aiayn.__main__ import build_parser
from aiayn.spec.sheet import SHEET_NAME, read_sheet
from aiayn.stages import STAGE_VERSIONS
from aiayn.wings import present_stages
from tests.pipeline_copy import Pipeline, make_pipeline, planned_in

ONE_SEED = (
    "--config",
    "only=demo_en_de/base:1 big:1",
    "has_baselines=false",
    "has_layer_timing=false",
)
# base, big: 2 systems x 1 seed.
RECORDS_OF_ONE_SEED = {
    "fetch": 1,
    "clean": 1,
    "segment": 1,
    "binarize": 1,
    "train": 2,
    "evaluations": 2,
    "tables": 1,
}

# Each training has one job of evaluations. paper: 30 = 3 seeds x (2 + 2) + 18 rows of Table 3.
# multi30k: 49 = 6 seeds of En-De's base + 2 x (1 + 2) + 2 x 18 rows + 1 of a published replication,
# which is on a corpus that comes in pieces; the later seeds add 10 (3 of base, 2 of a row, each once
# more to more updates). The layers of Table 1 are timed once a scale. demo: 12 = 2 seeds x (2 + 2 + 2
# rows). variants: 46 = 2 seeds x (base, big, 2 rows, 17 more variants, 2 architectures).
NUM_BY_VERB_BY_SCALE = {
    "paper": {"fetch": 2, "clean": 2, "segment": 2, "binarize": 2, "train": 30, "evaluations": 30, "measure": 1, "tables": 1},
    "multi30k": {"fetch": 3, "clean": 2, "segment": 2, "binarize": 3, "train": 59, "evaluations": 59, "measure": 1, "tables": 1},
    "demo": {"fetch": 2, "clean": 2, "segment": 2, "binarize": 2, "train": 12, "evaluations": 12, "baselines": 2, "measure": 1,
             "tables": 1},
    "variants": {"fetch": 1, "clean": 1, "segment": 1, "binarize": 1, "train": 46, "evaluations": 46, "baselines": 1,
                 "measure": 1, "tables": 1},
    "toy_en_es": {"fetch": 1, "binarize": 1, "train": 3, "evaluations": 3, "tables": 1},
}  # fmt: skip
# A training of paper and of multi30k, with its evaluations and those with a perplexity.
WORDS_BY_TRAINING = {
    ("paper", "wmt14_en_de/big/seed1"): ("last1/newstest2013 last20/newstest2014", "last1/newstest2013"),
    ("paper", "wmt14_en_fr/base/seed1"): ("last5/newstest2014", ""),
    ("multi30k", "multi30k_en_de/table3_c_n2/seed5"): (
        "last1/val last1/test_2016_flickr last1/test_2017_flickr last1/val-alpha1.4",
        "last1/val last1/test_2016_flickr last1/test_2017_flickr",
    ),
}  # fmt: skip


def num_by_verb(scale: str) -> dict[str, int]:
    """Return the jobs of a scale by verb, without the stages of wings that are deleted."""
    present = {*STAGE_VERSIONS, *(stage.verb for stage in present_stages())}
    jobs = NUM_BY_VERB_BY_SCALE[scale]
    return {verb: number for verb, number in jobs.items() if verb in present}


def count_verbs(names: set[str]) -> dict[str, int]:
    """Return how many records each verb writes."""
    return dict(Counter(name.split("/")[0] for name in names))


def with_config(pipeline: Pipeline, *arguments: str) -> Pipeline:
    """Return the pipeline under another config."""
    return Pipeline(
        checkout=pipeline.checkout, fake_folder=pipeline.fake_folder, arguments=arguments
    )


@pytest.fixture(scope="module")
def dry_run_of(untouched: Pipeline) -> Callable[[str], str]:
    """Return what a dry run of a scale prints. Each is made once."""

    @functools.cache
    def dry_run(scale: str) -> str:
        # A bare `snakemake` is the paper's.
        arguments = () if scale == "paper" else ("--configfile", f"workflow/config/{scale}.yaml")
        return with_config(untouched, *arguments).dry_run()

    return dry_run


@pytest.mark.parametrize("scale", NUM_BY_VERB_BY_SCALE)
def test_a_scale_asks_for_its_stages_and_nothing_else(
    dry_run_of: Callable[[str], str], scale: str
) -> None:
    assert count_verbs(planned_in(dry_run_of(scale))) == num_by_verb(scale)


@pytest.mark.parametrize("scale", ["paper", "multi30k"])
def test_a_training_has_one_job_for_all_its_evaluations(
    dry_run_of: Callable[[str], str], scale: str
) -> None:
    commands = re.findall(r"^ *aiayn (evaluations .*?) >", dry_run_of(scale), re.M)
    calls = [shlex.split(command) for command in commands]
    words_by_place = {}
    for call in calls:
        flags = vars(build_parser("evaluations").parse_args(call[1:]))
        place = "/".join(flags["record"].with_suffix("").parts[3:])
        perplexity = flags["perplexity"] or []
        words_by_place[place] = (" ".join(flags["decode"]), " ".join(perplexity))
    for (asked_scale, place), words in WORDS_BY_TRAINING.items():
        if asked_scale == scale:
            assert words_by_place[place] == words


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ("precision=bf16", "--precision bf16"),
        ("precision=fp32", ""),
        ("updates=399", "--updates 399"),
    ],
)
def test_a_value_of_the_config_reaches_every_training_and_repeats_it_unless_it_is_their_own(
    change: str, flag: str, finished_demo: Pipeline
) -> None:
    """The systems' own is fp32."""
    text = finished_demo.dry_run("--config", change)
    planned = planned_in(text)
    trained = {name for name in finished_demo.made() if name.split("/")[0] == "train"}
    assert len(trained) == 12
    assert trained & planned == (trained if flag else set())
    commands = re.findall(r"^ *aiayn train .*$", text, flags=re.MULTILINE)
    assert len(commands) == (12 if flag else 0)
    assert all(f" {flag} " in command for command in commands)
    assert not any(name.split("/")[0] in ("fetch", "clean", "binarize") for name in planned)


def test_it_runs_in_another_directory_and_with_blanks_in_every_path(tmp_path: Path) -> None:
    spaced = make_pipeline(
        tmp_path / "a folder", checkout="my checkout", directory="my results here"
    )
    outcome = spaced.run(*ONE_SEED, "runs_folder=my runs", "mirror=file:///my mirror")
    assert outcome.returncode == 0, outcome.stdout
    assert count_verbs(set(spaced.made())) == RECORDS_OF_ONE_SEED
    sheet = read_sheet(spaced.working_folder / "results" / "demo" / SHEET_NAME)
    assert [(row.system, row.seeds) for row in sheet] == [("base", (1,)), ("big", (1,))]
    assert (spaced.working_folder / "results" / "demo" / "report.html").exists()
    assert not (spaced.checkout / "results").exists()
    lines = (spaced.fake_folder / "calls.jsonl").read_text(encoding="utf-8").splitlines()
    calls = {call[0]: call for call in map(json.loads, lines)}
    assert "--mirror=file:///my mirror" in calls["fetch"]
    assert calls["train"][calls["train"].index("--runs-folder") + 1] == "my runs"
    assert spaced.planned(*ONE_SEED, "runs_folder=my runs", "mirror=file:///my mirror") == set()


def test_snakemakes_own_report_has_page_and_numbers_with_captions(finished_demo: Pipeline) -> None:
    outcome = finished_demo.run("--report", "snakemake.html")
    assert outcome.returncode == 0, outcome.stdout
    text = (finished_demo.working_folder / "snakemake.html").read_text(encoding="utf-8")
    for name in ("report.html", "summary.tsv", "verdicts.tsv"):
        assert f"demo/{name}" in text
    caption = "our numbers next to them, and where each of our numbers comes from"
    assert caption in " ".join(text.replace("\\n", " ").split())


def test_every_command_of_a_rule_parses_and_has_no_empty_argument_and_no_flag_twice(
    finished_demo: Pipeline,
) -> None:
    lines = (finished_demo.fake_folder / "calls.jsonl").read_text(encoding="utf-8").splitlines()
    calls = [json.loads(line) for line in lines]
    assert {call[0] for call in calls} == set(num_by_verb("demo"))
    for verb, *arguments in calls:
        build_parser(verb).parse_args(arguments)  # ends the process if it does not know a flag
        assert "" not in arguments, verb
        flags = [argument for argument in arguments if argument.startswith("--")]
        assert len(set(flags)) == len(flags), verb


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("olny=base:1", "unknown key 'olny'; did you mean 'only'?"),
        ("only=bsae:1", "only: 'bsae:1': the sheet does not list it; did you mean 'base'?"),
        ("cluster=nope", "workflow/config/clusters/nope.yaml: no such file; "),
        ("updates=50", "base writes 3 checkpoint(s) in 50 updates, 1 every 20, expected 5"),
    ],
)
def test_a_wrong_config_ends_with_one_message_and_no_traceback(
    untouched: Pipeline, change: str, expected: str
) -> None:
    outcome = untouched.run("--dry-run", "--config", change)
    assert outcome.returncode == 1
    assert expected in outcome.stdout
    assert "Traceback" not in outcome.stdout
    assert len(outcome.stdout.splitlines()) <= 8, outcome.stdout


def test_the_longest_training_begins_first_and_text_before_all(pipeline: Pipeline) -> None:
    """On one core: no short job is left for the end of a long training next to it."""
    outcome = pipeline.run("--cores", "1", "--config", "only=table3_c_n2:1 base:1 big:1")
    assert outcome.returncode == 0, outcome.stdout
    names = pipeline.made()
    verbs = [name.split("/")[0] for name in names]
    assert set(verbs[:8]) == {"fetch", "clean", "segment", "binarize"}
    systems = [name.split("/")[2] for name in names if name.startswith("train/")]
    assert systems == ["big", "base", "base", "table3_c_n2"]
    # A finished training is evaluated at once. What nothing waits for comes last.
    assert verbs[8:16] == ["train", "evaluations"] * 4
    assert verbs[-1] == "tables"
