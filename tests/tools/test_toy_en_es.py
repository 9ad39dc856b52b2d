"""The tutorial's six sentence pairs, trained for real: `workflow/config/toy_en_es.yaml` with one
seed.
"""

import csv
from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.spec.system import CONFIG_FOLDER

CORPUS, SYSTEM, TESTSET = "toy_en_es", "seed_waynestalk", "toy_eight"
PLACE = f"{CORPUS}/{SYSTEM}/seed1"
FETCHED = f"results/demo/fetch/{CORPUS}/record.json"
BINARIZED = f"results/demo/binarize/{CORPUS}/record.json"
TRAINED = f"results/demo/train/{PLACE}.json"
AVERAGED = f"results/demo/average/{PLACE}/last1.json"
DECODED = f"results/demo/decode/{PLACE}/last1/{TESTSET}.json"
SCORED = f"results/demo/score/{PLACE}/last1/{TESTSET}.json"
SYSTEM_FLAGS = ["--scale", "demo", "--system", SYSTEM]
COMMANDS = (
    ["fetch", "--corpus", CORPUS, "--mirror=", "--record", FETCHED],
    ["binarize", "--corpus", CORPUS, "--text", FETCHED, "--record", BINARIZED],
    ["train", *SYSTEM_FLAGS, "--corpus", CORPUS, "--seed", "1", "--binarized", BINARIZED,
     "--launcher", "debug", "--record", TRAINED],
    ["average", "--train", TRAINED, "--last", "1", "--record", AVERAGED],
    ["decode", *SYSTEM_FLAGS, "--checkpoint", AVERAGED, "--binarized", BINARIZED,
     "--testset", TESTSET, "--record", DECODED],
    ["score", "--decoded", DECODED, "--raw", FETCHED, "--record", SCORED],
    ["tables", "--configfile", str(CONFIG_FOLDER / "toy_en_es.yaml"), "--config", "seeds=[1]"],
)  # fmt: skip


@pytest.mark.slow
def test_six_pairs_are_learned_by_heart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        assert main(command) == 0, command
    with Path("results/demo/tables/toy_en_es.csv").open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    trained = [row for row in rows if row["trained_on"] == "yes"]
    assert len(trained) == 6
    assert [row["seed1"].removesuffix(" [\u2020]") for row in trained] == [
        row["reference"] for row in trained
    ]
