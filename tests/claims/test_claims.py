"""The claims as data: every one is there and says what decides it, and the rule judges as it says."""

import ast
import math
import re
from pathlib import Path

import pytest

from aiayn.errors import TableError
from aiayn.experiment import expand_trainings
from aiayn.printed import read_sentences
from aiayn.spec.system import CONFIG_FOLDER, read_scale
from paper_tables.claims.layout import Expectation, judge_number, parse_expectation, read_claims

CHECKOUT = Path(__file__).resolve().parents[2]
HEADER = "id,part,source,kind,statement,decided_by,evidence,expected,finding,config,note"
CLAIMS = read_claims()
CLAIM = "V-01,,a blog,claim,it is so,measurement,x,> 0,,,"
IDS = [f"V-{number:02d}" for number in range(1, 75)] + [f"X-{number}" for number in range(1, 9)]
NAME, CELL = r"[a-z0-9_.]+", r"table[1-4]:\w+:\w+(?:@neurips2017|@arxiv)?"
METRICS = "ppl_per_subword|bleu_tok_compound_split|bleu_sacre_13a|wall_seconds|num_parameters"
EVIDENCE_BY_DECIDER = {
    "test": r"tests/\w+/test_\w+\.py::test_\w+(?: tests/\w+/test_\w+\.py::test_\w+)*",
    "measurement": NAME,
    "comparison": rf"{NAME} {NAME} (?:{METRICS})",
    "printed": rf"{CELL}(?: [-/] {CELL})?",
    "reproduction": CELL,
    "sentences": r"\w+ (?:trained|unseen)",
    "nothing": "",
}


def functions_of(path: Path) -> set[str]:
    """Return the test functions of a file; none if there is no such file."""
    if not path.exists():
        return set()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def trained_by(config: str) -> set[str]:
    """Return the En-De systems that a config trains with two seeds or more."""
    scale = read_scale(CONFIG_FOLDER / f"{config}.yaml")
    runs = [run for run in expand_trainings(scale) if run.corpus == scale.en_de_corpus]
    return {one.system for one in runs if sum(one.system == other.system for other in runs) > 1}


def test_every_claim_has_a_line() -> None:
    assert list(dict.fromkeys(claim.id for claim in CLAIMS)) == IDS
    names = [claim.name for claim in CLAIMS]
    assert names == sorted(set(names))
    for number in IDS:
        parts = [claim.part for claim in CLAIMS if claim.id == number]
        assert parts in ([""], [chr(ord("a") + index) for index in range(len(parts))]), number


def test_every_claim_names_what_decides_it_and_nothing_else() -> None:
    for claim in CLAIMS:
        by = claim.decided_by
        assert re.fullmatch(EVIDENCE_BY_DECIDER[by], claim.evidence), claim.name
        assert bool(claim.expected) == (by in ("measurement", "comparison", "printed", "sentences")), claim.name
        assert bool(claim.finding) == (by == "test"), claim.name
        assert bool(claim.config) == (by in ("comparison", "reproduction", "sentences")), claim.name
        assert claim.note or by != "nothing", claim.name


def test_every_test_that_decides_a_claim_exists() -> None:
    names = {name for claim in CLAIMS if claim.decided_by == "test" for name in claim.evidence.split()}
    placed = (name.split("::") for name in sorted(names))
    assert [f"{path}::{name}" for path, name in placed if name not in functions_of(CHECKOUT / path)] == []


@pytest.mark.parametrize("config", sorted({claim.config for claim in CLAIMS} - {""}))
def test_a_claims_config_exists_and_trains_what_the_claim_compares(config: str) -> None:
    assert (CONFIG_FOLDER / f"{config}.yaml").exists()
    compared = {
        system
        for claim in CLAIMS
        if (claim.config, claim.decided_by) == (config, "comparison")
        for system in claim.evidence.split()[:2]
    }
    assert compared <= trained_by(config) if compared else True
    rows = {claim.evidence.split()[0] for claim in CLAIMS if (claim.config, claim.decided_by) == (config, "sentences")}
    assert rows <= read_sentences().keys()
    assert rows <= set(read_scale(CONFIG_FOLDER / f"{config}.yaml").replications)


def test_what_claims_yaml_trains_is_what_claims_compare() -> None:
    wanted = ("claims", "comparison")
    claims = [claim for claim in CLAIMS if (claim.config, claim.decided_by) == wanted]
    compared = {system for claim in claims for system in claim.evidence.split()[:2]}
    assert compared == trained_by("claims")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (CLAIM.replace("> 0", "about 1"), "'about 1'"),
        (CLAIM.replace("V-01", "V-1"), "V-1"),
        (CLAIM.replace("claim,", "rumour,"), "'rumour'"),
    ],
)
def test_a_wrong_line_is_refused_with_its_place_and_value(line: str, value: str, tmp_path: Path) -> None:
    (tmp_path / "claims.csv").write_text(f"{HEADER}\n{line}\n", encoding="utf-8")
    with pytest.raises(TableError, match=rf"claims\.csv:2: .*{value}"):
        read_claims(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("> 0", (0.0, math.inf, True)),
        ("< -1.5", (-math.inf, -1.5, True)),
        ("= 28.4", (28.4, 28.4, False)),
        ("-1 to 1", (-1.0, 1.0, False)),
    ],
)
def test_an_expectation_is_read_as_written(text: str, expected: Expectation) -> None:
    assert parse_expectation(text) == expected


@pytest.mark.parametrize("text", ["", "0", ">0", "1 to -1", ">= 0", "nan", "0 to 1e-6"])
def test_another_expectation_is_refused(text: str) -> None:
    with pytest.raises(TableError, match=rf"claims.csv:9: .*{re.escape(repr(text))}"):
        parse_expectation(text, "claims.csv:9")


@pytest.mark.parametrize(
    ("value", "half_width", "expected", "verdict"),
    [
        (2.0, 1.0, "> 0", "settled"),  # 1 to 3
        (2.0, 2.0, "> 0", "not settled"),  # 0 itself is not above 0
        (-2.0, 2.5, "> 0", "not settled"),
        (-2.0, 1.0, "> 0", "contradicted"),
        (0.0, 0.0, "> 0", "contradicted"),  # alike is not better
        (-2.0, 1.0, "< 0", "settled"),
        (2.0, 1.0, "< 0", "contradicted"),
        (0.5, 0.4, "-1 to 1", "settled"),
        (0.5, 0.6, "-1 to 1", "not settled"),
        (2.0, 0.9, "-1 to 1", "contradicted"),
        (1.0, 0.0, "-1 to 1", "settled"),  # the bounds belong to it
        (28.4, 0.0, "= 28.4", "settled"),
        (28.3, 0.0, "= 28.4", "contradicted"),
        (28.4, 0.1, "= 28.4", "not settled"),
        (math.nan, 0.0, "> 0", "not settled"),
        (1.0, math.nan, "-1 to 1", "not settled"),
        (math.inf, math.nan, "< 0", "not settled"),
    ],
)
def test_the_rule_by_hand(value: float, half_width: float, expected: str, verdict: str) -> None:
    assert judge_number(value, half_width, parse_expectation(expected)) == verdict
