"""The tutorial's six sentence pairs, trained for real: `workflow/config/toy_en_es.yaml` with one
seed.
"""

from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.data.text.lines import read_shipped
from aiayn.spec.system import CONFIG_FOLDER, ShippedSource, read_corpus

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
    ["tables", "--configfile", str(CONFIG_FOLDER / "toy_en_es.yaml"), "--config", "only=seed_waynestalk:1"],
)  # fmt: skip


@pytest.mark.slow
def test_six_pairs_are_learned_by_heart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        assert main(command) == 0, command
    source = read_corpus(CORPUS).source
    assert isinstance(source, ShippedSource)
    pairs_by_split = read_shipped(source)
    lines = Path(DECODED).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    output_by_sentence = dict(zip(dict(pairs_by_split[TESTSET]), lines, strict=True))
    trained = dict(pairs_by_split["train"])
    assert len(trained) == 6
    assert {sentence: output_by_sentence[sentence] for sentence in trained} == trained
