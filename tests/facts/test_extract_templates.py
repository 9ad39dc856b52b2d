"""The templates of log lines are those of fairseq's sources: the script that extracts them, and the
installed fairseq against both tables.
"""

import ast
import csv
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from aiayn.facts.templates import match_template, read_templates
from tests.facts.extract_templates import (
    UNKNOWN_PATH,
    Line,
    extract,
    patterns_of,
    place_of,
    read_rows,
    sample,
    template_of,
)


@pytest.mark.parametrize(
    ("call", "template"),
    [
        ('logger.info("done training in {:.1f} seconds".format(x.sum))', "done training in {:float} seconds"),
        ('logger.info(f"loaded {len(a):,} examples from: {path}")', "loaded {:int} examples from: {:text}"),
        ('print("| training on {} GPUs".format(args.distributed_world_size))', "training on {:int} GPUs"),
        ('logger.warning("%d of %s, %.2f%%", a, b, c)', "{:int} of {:text}, {:float}%"),
        ('print("averaging checkpoints: ", args.inputs)', "averaging checkpoints:  {:text}"),
        ('logger.info("a {} " "b".format(x) + "c {}".format(num_updates))', "a {:text} bc {:int}"),
        ('logger.info("model " + name + "\\n" + str(model))', "model {:text}"),
        ('logger.info("rank {rank}: {{}}".format(rank=rank))', "rank {:int}: {{}}"),
        ("logger.info(model)", "{:text}"),
    ],
)  # fmt: skip
def test_a_call_has_its_template(call: str, template: str) -> None:
    statement = ast.parse(call, mode="eval").body
    assert isinstance(statement, ast.Call)
    assert template_of(statement) == template


def installed_fairseq() -> Path:
    """Return the folder that holds the installed fairseq; its modules are not imported."""
    spec = find_spec("fairseq_cli")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("fairseq is not installed")
    return Path(spec.submodule_search_locations[0]).parent


def test_each_line_of_the_installed_fairseq_is_classified_and_none_of_the_unknown_is_known() -> (
    None
):
    lines = list(extract(installed_fairseq()))
    assert len(lines) > 150
    patterns = patterns_of(read_rows())
    with UNKNOWN_PATH.open(encoding="utf-8", newline="") as file:
        unknown = {row["template"] for row in csv.DictReader(file)}
    missing = [
        line for line in lines if place_of(line, patterns) is None and line.template not in unknown
    ]
    assert missing == []
    known = [text for text in unknown if place_of(Line(text, "", ""), patterns) is not None]
    assert known == []


def test_a_sample_of_each_row_is_matched_by_the_reader() -> None:
    templates = read_templates()
    for row in read_rows():
        unnamed = re.sub(r"\{\w+:(\w+)\}", r"{:\1}", row["template"])
        assert match_template(sample(unnamed), templates) is not None, row["template"]
