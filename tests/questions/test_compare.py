"""`aiayn compare`: what its transcript does not show: JSON, packed translations; and the like warning of `score`."""

import json
from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.packed import packed_bytes
from aiayn.paths import corpus_record
from aiayn.provenance import file_sha256
from aiayn.records import Hypotheses, write_record
from analysis.questions.outputs import find_decoded
from tests.records_factory import PROVENANCE
from tests.scenes import BASELINE, make_translations, write_lines

RUNS = ("--baseline", "demo_en_de-base", "--system", "demo_en_de-big")
QUICK = ("--resamples", "100")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with translations and results."""
    monkeypatch.chdir(tmp_path)
    make_translations(tmp_path, monkeypatch)
    return tmp_path


def test_json_names_both_files_by_their_digest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ("--baseline", "base.de", "--system", "big.de", "--references", "ref.de")
    assert main(["compare", *files, *QUICK, "--json", "--metric", "bleu_tok_moses", "--seed", "3"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["baseline_sha256"] == file_sha256(folder / "base.de")
    assert (answer["comparison"]["metric"], answer["comparison"]["seed"]) == ("bleu_tok_moses", 3)


def test_packed_translations_are_read_and_torn_or_missing_ones_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in [*folder.glob("results/demo/decode/**/*.txt")]:
        path.with_name(f"{path.name}.xz").write_bytes(packed_bytes(path.read_bytes()))
        path.unlink()
    assert main(["compare", *RUNS, *QUICK]) == 0
    assert "The system is better than the baseline" in capsys.readouterr().out
    packed_path = next(Path("results").glob("demo/decode/demo_en_de/base/**/*.txt.xz"))
    packed_path.write_bytes(packed_path.read_bytes()[:-30])
    assert main(["compare", *RUNS]) == 1
    assert f"{packed_path}: " in capsys.readouterr().err
    packed_path.unlink()
    assert main(["compare", *RUNS]) == 1
    assert "no such file, the translations of demo_en_de-base-seed1-0a1b2c3d; rerun" in capsys.readouterr().err


@pytest.mark.parametrize("is_in_pieces", [False, True])
def test_the_rule_score_warns_of_translations_in_another_form_and_scores_them(
    is_in_pieces: bool, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (decoded,) = folder.glob("results/demo/decode/demo_en_de/base/**/demo_test.json")
    if is_in_pieces:
        lines = [" ".join(f"\u2581{word}" for word in line.split()) for line in BASELINE]
        digest = file_sha256(decoded.with_suffix(".txt"))
        path = write_lines(lines, decoded.with_suffix(".txt"))
        decoded.write_text(decoded.read_text(encoding="utf-8").replace(digest, file_sha256(path)), encoding="utf-8")
    raw, record = corpus_record(Path("results"), "demo", "fetch", "demo_en_de"), folder / "score.json"
    assert main(["score", "--decoded", str(decoded), "--raw", str(raw), "--record", str(record)]) == 0
    assert ("differ in kind" in caplog.text) == is_in_pieces
    assert record.exists()


def test_translations_by_another_alpha_are_not_taken_for_the_runs_own(tmp_path: Path) -> None:
    folder = tmp_path / "demo/decode/demo_en_de/base/seed1/last1"
    for name, alpha in (("demo_dev", 0.6), ("demo_dev-alpha1.4", 1.4)):
        record = Hypotheses(
            provenance=PROVENANCE, run="demo_en_de-base-seed1-aaaa0001", average="last1", testset="demo_dev",
            path=folder / f"{name}.txt", pieces_path=folder / f"{name}.pieces.txt", num_lines=1, hypotheses_sha256="",
            beam_size=4, length_penalty_alpha=alpha, length_penalty_form="gnmt", stop="tensor2tensor", signature="",
            sentences_per_second=1.0,
        )  # fmt: skip
        write_record(record, folder / f"{name}.json")
    found = find_decoded(tmp_path, "demo_en_de-base-seed1", testset="demo_dev", average=None)
    assert found.hypotheses.length_penalty_alpha == 0.6
