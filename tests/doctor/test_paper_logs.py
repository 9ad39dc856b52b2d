"""At the paper's scale: one fault a log; its cause alone is found, with its published cost and
source.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aiayn.__main__ import main
from aiayn.cost import num_parameters
from aiayn.printed import read_table
from aiayn.spec.system import read_system
from analysis.doctor.costs import read_costs
from tests.logs.factory import BASE, TrainingText

BIG = BASE | {
    "arch": "transformer_vaswani_wmt_en_de_big", "dropout": 0.3, "lr": [0.000494], "max_update": 300_000,
    **{f"{side}_embed_dim": 1024 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_embed_dim": 4096 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 16 for side in ("encoder", "decoder")},
}  # fmt: skip
ROWS = tomllib.loads(Path(__file__).with_name("paper_logs.toml").read_text(encoding="utf-8"))["log"]


def log_of(row: dict[str, Any]) -> str:
    """Return the log of a row of paper_logs.toml."""
    arguments = (BIG if row["system"] == "big" else BASE) | row.get("changes", {})
    asked = arguments["max_update"]
    last = row.get("last_update", asked)
    system = read_system(row["system"], "paper").training
    sizes = row.get("sizes", {})
    system = replace(system, architecture="fairseq_transformer", **sizes)
    number = num_parameters(system, 37_000, True, 37_000)
    form = TrainingText(
        arguments=arguments | {"max_update": last}, num_epochs=20, num_parameters=number
    )
    text = form.text().replace(f"max_update={last},", f"max_update={asked},")
    for old, new in (*row.get("replaced", {}).items(), ("24900.5", row.get("tokens", "24900.5"))):
        assert old in text
        text = text.replace(old, new)
    # The pairs of a batch follow from the pairs of the corpus, which a row may change.
    return re.sub(r" \| bsz [\d.]+|, bsz=[\d.]+", "", text)


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_findings_of_a_log_and_their_published_costs(
    row: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.log").write_text(log_of(row), encoding="utf-8")
    claim = ["--system", row["system"], "--corpus", "wmt14_en_de"]
    assert main(["doctor", str(tmp_path), *claim, "--json"]) == 1  # its search is not stated
    diagnosis = json.loads(capsys.readouterr().out)
    assert diagnosis["not_judged"] == ["a translation of the test set"]
    expected = row["found"]
    assert [one["cause"] for one in diagnosis["findings"]] == [one["cause"] for one in expected]
    for finding, known in zip(diagnosis["findings"], expected, strict=True):
        cost = finding["cost"]
        stated = finding | cost
        assert {key: stated[key] for key in known} == pytest.approx(known)
        assert bool(cost["source"]) == (cost["low"] is not None)


def test_every_published_cost_is_of_a_corpus_that_it_names_and_has_its_source() -> None:
    costs = read_costs()
    known = {"wmt14_en_de", "wmt14_en_fr", "iwslt14_de_en", "demo_en_de"}
    assert all(
        set(cost.corpora.split()) <= known and cost.evidence and cost.source for cost in costs
    )


def test_costs_of_the_papers_variations_are_the_differences_of_its_table() -> None:
    printed = {cell.value for cell in read_table(3)}
    rows = [cost for cost in read_costs() if cost.source.startswith("the paper, Table 3")]
    assert len(rows) == 18
    for cost in rows:
        row, _, base, *_ = cost.evidence.split()
        assert {row, base} <= printed
        lost = float(cost.cost_low) * (1 if cost.direction == "lowers" else -1)
        assert lost == pytest.approx(float(base) - float(row))
