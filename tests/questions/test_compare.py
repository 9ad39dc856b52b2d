"""`aiayn compare`: two files or two runs against their references, and what is refused."""

import json
from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.packed import packed_bytes
from aiayn.paths import Evaluation, corpus_record, evaluation_record
from aiayn.provenance import file_sha256
from aiayn.records import Hypotheses, RawCorpus, TextPair, write_record
from tests.records_factory import PROVENANCE

REFERENCE = [f"the cat number {index} sits on a mat and looks at the {index} dogs outside" for index in range(30)]
BASELINE = [line.replace("sits on", "was at").replace("dogs", "dog") for line in REFERENCE]
SYSTEM = [line.replace("dogs", "dog") if index % 3 else line for index, line in enumerate(REFERENCE)]
QUICK = ("--resamples", "100")


def write(lines: list[str], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("base.de", BASELINE), ("big.de", SYSTEM), ("ref.de", REFERENCE)):
        write(lines, tmp_path / name)
    return tmp_path


def compare(*arguments: str) -> int:
    return main(["compare", *arguments])


def write_decoded(
    folder: Path, run: str, lines: list[str], *, testset: str = "demo_test", average: str = "last5"
) -> None:
    """Write the record of decode and its translations for a run of demo_en_de."""
    evaluation = Evaluation(
        corpus="demo_en_de", system=run.split("-")[1], seed=1, average=average, testset=testset, role="test",
        language_pair="en-de",
    )  # fmt: skip
    record_path = evaluation_record(folder, "demo", "decode", evaluation)
    path = write(lines, record_path.with_suffix(".txt"))
    record = Hypotheses(
        provenance=PROVENANCE, run=run, average=average, testset=testset, path=path, pieces_path=Path(),
        num_lines=len(lines), hypotheses_sha256=file_sha256(path), beam_size=4,
        length_penalty_alpha=0.6, length_penalty_form="gnmt", stop="fairseq", signature="beam:4",
        sentences_per_second=1.0,
    )  # fmt: skip
    write_record(record, record_path)


def write_raw(folder: Path) -> None:
    path = write(REFERENCE, folder / "text" / "demo_test.de")
    pair = TextPair(path_by_language={"en": path, "de": path}, num_lines=30, sha256_by_language={})
    raw = RawCorpus(provenance=PROVENANCE, corpus="demo_en_de", pair_by_split={"demo_test": pair, "demo_dev": pair})
    write_record(raw, corpus_record(folder, "demo", "fetch", "demo_en_de"))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    write_raw(folder)
    write_decoded(folder, "demo_en_de-base-seed1-0a1b2c3d", BASELINE)
    write_decoded(folder, "demo_en_de-big-seed1-0a1b2c3d", SYSTEM, average="last20")
    return folder


def test_two_files_are_compared_and_the_answer_is_to_be_read(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("--baseline", "base.de", "--system", "big.de", "--references", "ref.de", *QUICK) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("bleu_sacre_13a: ref.de, 30 segments\n===")
    assert "difference  system - baseline  +" in printed
    assert "p = 0.010: paired bootstrap resampling, two-sided, 100 resamples, seed 12345" in printed  # 1 / 101
    assert "The system is better than the baseline" in printed
    assert "nrefs:1|bs:100|seed:12345|test:ref.de|case:mixed|eff:no|tok:13a" in printed
    assert max(len(line) for line in printed.split("\n") if "signature" not in line) <= 100


def test_a_file_compared_with_itself_does_not_differ(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--baseline", "base.de", "--system", "base.de", "--references", "ref.de", *QUICK)
    assert compare(*arguments, "--method", "randomisation") == 0
    printed = capsys.readouterr().out
    assert "p = 1.000: approximate randomisation" in printed
    assert "0 of 30 segments " in printed


def test_json_names_both_files_by_their_digest(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--baseline", "base.de", "--system", "big.de", "--references", "ref.de", *QUICK, "--json")
    assert compare(*arguments, "--metric", "bleu_tok_moses", "--seed", "3") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["baseline_sha256"] == file_sha256(files / "base.de")
    assert answer["comparison"]["metric"] == "bleu_tok_moses"
    assert answer["comparison"]["seed"] == 3
    assert "tok:moses-pre2018" in answer["comparison"]["signature"]


def test_two_runs_are_compared_against_their_corpus_by_the_beginning_of_their_names(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    systems = ("--baseline", "demo_en_de-base", "--system", "demo_en_de-big")
    assert compare(*systems, "--results", str(results), *QUICK) == 0
    printed = capsys.readouterr().out
    assert "demo_en_de-base-seed1-0a1b2c3d, last5" in printed
    assert "demo_en_de-big-seed1-0a1b2c3d, last20" in printed
    assert "baseline by beam:4" in printed


def test_packed_translations_of_runs_are_compared_with_references_that_are_given(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in [*results.glob("demo/decode/**/*.txt")]:
        path.with_name(f"{path.name}.xz").write_bytes(packed_bytes(path.read_bytes()))
        path.unlink()
    references = (results / "text" / "demo_test.de").rename(results / "elsewhere.de")
    systems = ("--baseline", "demo_en_de-base", "--system", "demo_en_de-big", "--results", str(results))
    message = refused(capsys, 1, *systems)
    assert "demo_test.de: no such file" in message
    assert "or give --references FILE" in message
    assert compare(*systems, "--references", str(references), *QUICK) == 0
    assert "The system is better than the baseline" in capsys.readouterr().out
    packed_path = next(results.glob("demo/decode/demo_en_de/base/**/*.txt.xz"))
    packed_path.write_bytes(packed_path.read_bytes()[:-30])
    assert f"{packed_path}: " in refused(capsys, 1, *systems, "--references", str(references))
    packed_path.unlink()
    assert "no such file, the translations of demo_en_de-base-seed1-0a1b2c3d; rerun `decode`" in refused(
        capsys, 1, *systems, "--references", str(references)
    )


def refused(capsys: pytest.CaptureFixture[str], exit_code: int, *arguments: str) -> str:
    assert compare(*arguments) == exit_code
    return capsys.readouterr().err


def test_files_of_different_length_are_refused_with_counts(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(SYSTEM[:-1], files / "short.de")
    message = refused(capsys, 1, "--baseline", "base.de", "--system", "short.de", "--references", "ref.de")
    assert "short.de: 29 lines, ref.de has 30; expected one line a segment" in message


def test_two_files_without_references_are_a_mistake_of_usage(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "need --references FILE" in refused(capsys, 2, "--baseline", "base.de", "--system", "big.de")


def test_what_is_neither_a_file_nor_a_run_is_answered_with_the_runs(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ("--system", "demo_en_de-big", "--results", str(results))
    message = refused(capsys, 1, "--baseline", "demo_en_fr", *there)
    assert "is neither a file nor a decoded run" in message
    assert "demo_en_de-base-seed1-0a1b2c3d\n  demo_en_de-big-seed1-0a1b2c3d" in message
    assert "is the beginning of more than one run" in refused(capsys, 1, "--baseline", "demo_en_de", *there)


def test_a_run_decoded_on_two_test_sets_needs_a_flag(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_decoded(results, "demo_en_de-base-seed1-0a1b2c3d", BASELINE, testset="demo_dev", average="last1")
    systems = ("--baseline", "demo_en_de-base", "--system", "demo_en_de-big", "--results", str(results))
    message = refused(capsys, 1, *systems)
    assert "decoded on demo_dev (last1), demo_test (last5); choose one with --testset" in message
    assert compare(*systems, "--testset", "demo_test", *QUICK) == 0


def test_translations_that_are_not_those_of_their_record_are_refused(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    next(results.glob("demo/decode/demo_en_de/base/**/*.txt")).write_text("other\n", encoding="utf-8")
    systems = ("--baseline", "demo_en_de-base", "--system", "demo_en_de-big", "--results", str(results))
    assert "its record says" in refused(capsys, 1, *systems)


def test_runs_on_different_test_sets_are_refused(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_decoded(results, "demo_en_de-dev_only-seed1-0a1b2c3d", BASELINE, testset="demo_dev")
    systems = ("--baseline", "demo_en_de-base", "--system", "demo_en_de-dev_only", "--results", str(results))
    assert "expected the same sentences" in refused(capsys, 1, *systems)


def in_pieces(lines: list[str]) -> list[str]:
    return [" ".join(f"\u2581{word}" for word in line.split()) for line in lines]


def test_a_side_in_another_form_is_no_difference_of_systems(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(in_pieces(SYSTEM), files / "pieces.de")
    assert compare("--baseline", "base.de", "--system", "pieces.de", "--references", "ref.de", *QUICK) == 1
    printed = capsys.readouterr().err
    assert "pieces.de: pieces" in printed
    assert "--join-pieces" in printed


def test_the_rule_score_warns_of_translations_in_another_form_and_scores_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, run = tmp_path / "results", "demo_en_de-base-seed1-0a1b2c3d"
    write_raw(folder)
    for lines, is_warned in ((BASELINE, False), (in_pieces(BASELINE), True)):
        caplog.clear()
        write_decoded(folder, run, lines)
        (decoded,) = folder.glob("demo/decode/**/demo_test.json")
        raw, record = corpus_record(folder, "demo", "fetch", "demo_en_de"), tmp_path / "score.json"
        assert main(["score", "--decoded", str(decoded), "--raw", str(raw), "--record", str(record)]) == 0
        assert ("differ in kind" in caplog.text) == is_warned
        assert record.exists()
