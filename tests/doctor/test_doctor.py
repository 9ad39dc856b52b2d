"""`aiayn doctor` as it is called: on a run of a results folder, on any other folder; its text, its refusals."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aiayn.__main__ import main
from aiayn.data.text.tokenize_moses import Tokenizer
from aiayn.records import write_record
from aiayn.terminal import WIDTH
from analysis.findings import Cost
from analysis.scoring.score import score_hypotheses
from paper_tables.doctor.costs import published_system
from paper_tables.doctor.text import words_of_cost
from tests.doctor.fixtures import assemble
from tests.records_factory import BINARIZED

CLAIM = ("--scale", "demo", "--system", "base", "--corpus", "demo_en_de")
RUN = "demo_en_de-base-seed1-61ce8b30"
LOGS = Path(__file__).parents[1] / "logs"


def results_of(name: str, folder: Path) -> Path:
    """Lay a fixture out as the pipeline would have, and return the results folder."""
    made = assemble(name, folder / "made")
    scale = folder / "results" / "demo"
    for verb, source, target in (
        ("average", "last5.json", "last5.json"),
        ("decode", "demo_test.json", "last5/demo_test.json"),
        ("decode", "demo_test.txt", "last5/demo_test.txt"),
        ("decode", "demo_test.pieces.txt", "last5/demo_test.pieces.txt"),
        ("score", "scores.json", "last5/demo_test.json"),
    ):
        path = scale / verb / "demo_en_de/base/seed1" / target
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made / source, path)
    write_record(BINARIZED, scale / "binarize/demo_en_de/record.json")
    record = json.loads((made / "last5.json").read_bytes())
    train = {
        "record": "TrainRecord", "provenance": record["provenance"], "schema_version": record["schema_version"],
        "run": record["run"], "corpus": "demo_en_de", "system": "base", "seed": 1, "updates": 500, "wall_seconds": 1.0,
        "gpu_seconds": 0.0, "tokens": 1, "num_attempts": 1, "num_parameters": 1, "run_folder": "", "models": [],
        "log_path": str(made / "train.log"), "tensors_sha256": "", "training_json": "{}",
        "hardware": {"device": "cpu", "cpu": "", "gpu": "", "num_gpus": 0, "num_ranks": 1, "threads_per_rank": 1},
    }  # fmt: skip
    path = scale / "train/demo_en_de/base/seed1.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(train), encoding="utf-8")
    return folder / "results"


def test_a_run_is_found_by_the_beginning_of_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = results_of("clean", tmp_path)
    assert main(["doctor", RUN[:20], "--results", str(results)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{RUN}: is it system base of scale demo, corpus demo_en_de?")
    assert "No difference from the claim is found" in text
    assert "aiayn explain" in text


def test_a_run_is_found_by_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, folder = results_of("clean", tmp_path), tmp_path / "runs" / RUN
    folder.mkdir(parents=True)
    (folder / "attempts.jsonl").touch()
    assert main(["doctor", str(folder), "--results", str(results)]) == 0
    assert capsys.readouterr().out.startswith(f"{RUN}: is it system base of scale demo, corpus demo_en_de?")


def test_without_a_name_it_is_the_newest_run_and_its_fault_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = results_of("smoothing_zero", tmp_path)
    assert main(["doctor", "--results", str(results)]) == 1
    captured = capsys.readouterr()
    assert "1. Another label smoothing" in captured.out
    assert f"{tmp_path / 'made' / 'train.log'}:1" in captured.out
    assert "label smoothing: 0; expected 0.1" in captured.out
    assert "Found: 1 cause" in captured.err


def test_lines_are_no_wider_than_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assemble("warmup_tenfold", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    main(["doctor", "run", *CLAIM])
    lines = capsys.readouterr().out.split("\n")
    assert max(map(len, lines)) <= WIDTH
    assert any("warm-up: 3000; expected 300" in line for line in lines)


def test_a_folder_must_say_what_it_claims_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path)]) == 2
    assert "--system: is missing" in capsys.readouterr().err


def test_an_empty_folder_is_no_clean_bill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path), *CLAIM]) == 1
    assert "no training log, no data-bin of en-de and no translations" in capsys.readouterr().err


def test_an_unknown_run_is_refused_with_the_candidates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = results_of("clean", tmp_path)
    assert main(["doctor", "wmt14", "--results", str(results)]) == 1
    assert RUN in capsys.readouterr().err
    assert main(["doctor", "wmt14", "--results", str(tmp_path / "nowhere")]) == 1
    assert main(["doctor", RUN, "--results", str(results), "--system", "big"]) == 2


def test_a_foreign_log_is_compared_with_the_paper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copyfile(LOGS / "fairseq06_big_enfr.log", tmp_path / "train.log")
    claim = ("--system", "big_enfr", "--corpus", "wmt14_en_fr", "--json")
    assert main(["doctor", str(tmp_path), *claim]) == 1
    diagnosis = json.loads(capsys.readouterr().out)
    found = {one["check"]: one for one in diagnosis["findings"]}
    assert {"schedule", "updates"} <= found.keys()  # the rates that it prints are not those of its arguments
    assert {"dropout", "model"} & found.keys() == set()
    assert [one["what"] for one in diagnosis["harmless"]] == ["adam_epsilon", "precision_fp16"]  # as had 43.2
    assert {"path", "line", "what", "found", "expected"} == found["schedule"]["evidence"][0].keys()


def test_generations_are_put_into_the_order_of_the_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for number in (2, 0, 1):  # fairseq writes by length
        words = ["ein Haus", "der Fluss", "im Wald"][number]
        lines += [f"S-{number}\tsource", f"T-{number}\t{words} .", f"H-{number}\t-0.5\t{words} ."]
    bleu = "BLEU4 = 27.30, 58.3/32.1/20.0/12.9 (BP=1.000, ratio=1.000, syslen=9, reflen=9)"
    lines.append(f"Generate test with beam=5: {bleu}")
    (tmp_path / "generate-test.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    assert main(["doctor", str(tmp_path), "--system", "base", "--corpus", "wmt14_en_de", "--json"]) == 1
    found = {one["check"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert found["search"]["title"] == "Another search than the paper's: beam_size 5"
    assert "reference_order" not in found
    assert found["testset"]["evidence"][0]["expected"] == "3003"


def test_a_score_without_its_lines_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bleu = "BLEU4 = 24.10, 58.3/32.1/20.0/12.9 (BP=1.000, ratio=1.000, syslen=9, reflen=9)"
    for line, value, metric in (
        (f"Generate test with beam=4: {bleu}", 24.1, "bleu_as_given"),
        ("| Generate test with beam=4: bleu_score=20.3488", 20.3488, "bleu_mlperf"),
    ):
        (tmp_path / "gen.out").write_text(f"| Translated 3003 sentences (9 tokens) in 5.0s\n{line}\n", encoding="utf-8")
        main(["doctor", str(tmp_path), "--system", "base", "--corpus", "wmt14_en_de", "--json"])
        diagnosis = json.loads(capsys.readouterr().out)
        assert (diagnosis["scores"], diagnosis["metrics"]) == ({"test": value}, {"test": metric})
        assert diagnosis["missing"]["low"] == pytest.approx(27.3 - value, abs=0.01)
        assert "definition" in {one["check"] for one in diagnosis["findings"]}


def test_nothing_is_a_cause_where_nothing_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "BLEU4 = 43.10, 70.0/50.0/37.0/28.0 (BP=1.000, ratio=1.000, syslen=9, reflen=9)"
    shutil.copyfile(LOGS / "fairseq06_big_enfr.log", tmp_path / "train.log")
    (tmp_path / "gen.out").write_text(f"| Generate test with beam=5: {line}\n", encoding="utf-8")
    assert main(["doctor", str(tmp_path), "--system", "big_enfr", "--corpus", "wmt14_en_fr"]) == 1
    text = capsys.readouterr()
    assert " cause" not in text.err
    assert "Nothing is missing: 41.8 printed" in text.out


def test_plain_files_and_sacrebleus_own_json_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "".join(f"Das ist die Zeile {number} von vielen.\n" for number in range(40))
    (tmp_path / "output.de").write_text(text, encoding="utf-8")
    (tmp_path / "references.de").write_text(text, encoding="utf-8")
    score = {"name": "BLEU", "score": 100.0, "signature": "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:2.6.0"}
    (tmp_path / "bleu.json").write_text(json.dumps(score), encoding="utf-8")
    assert main(["doctor", str(tmp_path), *CLAIM, "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["check"] == "definition"
    assert finding["evidence"][0]["found"] == "lc"


NOUNS = ("Der Mann", "Die alte Frau", "Ein Kind", "Unser Nachbar", "Das kleine Haus", "Jeder Fluss")
PLAIN = [
    f'{noun} sieht, wie {number} Schiffe "vor der Stadt" auf dem Wasser sind.'
    for number in range(1, 9)
    for noun in NOUNS
]
SOURCE = [
    f'{noun} sees how {number} ships "before the town" are on the water.'
    for number in range(1, 9)
    for noun in ("The man", "The old woman", "A child", "Our neighbour", "The small house", "Each river")
]
OTHER = [line.replace("wie 3 Schiffe", "wie drei Schiffe") for line in PLAIN]
TOKENS = [Tokenizer("de").tokenize(line).rstrip() for line in OTHER]
WMT14 = ("--system", "base", "--corpus", "wmt14_en_de", "--json")


def in_pieces(lines: Sequence[str]) -> list[str]:
    return [" ".join(f"{word[:3]}@@ {word[3:]}" if len(word) > 4 else word for word in line.split()) for line in lines]


def write_pair(folder: Path, hypotheses: Sequence[str], references: Sequence[str] = PLAIN) -> Path:
    folder.mkdir()
    (folder / "hyp.de").write_text("\n".join([*hypotheses, ""]), encoding="utf-8")
    (folder / "ref.de").write_text("\n".join([*references, ""]), encoding="utf-8")
    return folder


def write_generation(folder: Path, hypotheses: Sequence[str], references: Sequence[str], value: float) -> Path:
    folder.mkdir()
    lines = ["2020-03-26 23:20:42 | INFO | fairseq_cli.generate | loading model(s) from avg.pt"]
    for number in reversed(range(len(references))):
        lines += [f"S-{number}\t{SOURCE[number]}", f"T-{number}\t{references[number]}"]
        lines += [f"H-{number}\t-0.5\t{hypotheses[number]}"] if hypotheses else []
    bleu = f"BLEU4 = {value:.2f}, 58.3/32.1/20.0/12.9 (BP=0.950, ratio=0.951, syslen=951, reflen=1000)"
    lines.append(f"Generate test with beam=4: {bleu}")
    (folder / "gen.out").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return folder


def findings(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    """Return what is found of a folder, without the size of the test set, by title."""
    main(["doctor", str(folder), *WMT14, *arguments])
    found = json.loads(capsys.readouterr().out)["findings"]
    return {one["title"]: one for one in found if one["check"] not in ("testset", "average", "search")}


def value_of(metric: str, hypotheses: Sequence[str], references: Sequence[str]) -> float:
    (score,) = score_hypotheses(
        hypotheses, references, metrics=[metric], target_language="de", hypotheses_sha256="", testset=""
    )
    return score.value


def test_tokens_beside_plain_references_cost_what_detokenising_gives_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = findings(write_pair(tmp_path / "a", TOKENS), capsys)
    (title,) = found
    assert title == "One side is tokens, the other is not"
    metric = "bleu_tok_compound_split"
    lost = value_of(metric, OTHER, PLAIN) - value_of(metric, TOKENS, PLAIN)
    (cost,) = found[title]["costs"]
    assert lost > 1
    assert cost["low"] == cost["high"] == pytest.approx(lost)
    turned = findings(write_pair(tmp_path / "b", OTHER, [Tokenizer("de").tokenize(line) for line in PLAIN]), capsys)
    assert turned[title]["evidence"][0]["path"].endswith("ref.de")


def test_plain_text_raises_no_alarm_nor_do_tokens_in_both_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert findings(write_pair(tmp_path / "a", OTHER), capsys) == {}
    references = [Tokenizer("de").tokenize(line).rstrip() for line in PLAIN]
    value = value_of("bleu_as_given", TOKENS, references)
    assert findings(write_generation(tmp_path / "b", TOKENS, references, value), capsys) == {}


def test_what_is_missing_of_tokens_is_by_their_plain_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    references = [Tokenizer("de").tokenize(line).rstrip() for line in PLAIN]
    folder = write_generation(tmp_path / "a", TOKENS, references, value_of("bleu_as_given", TOKENS, references))
    main(["doctor", str(folder), *WMT14])
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert scores["test"] == pytest.approx(value_of("bleu_tok_compound_split", OTHER, PLAIN))


def test_a_form_that_was_measured_adds_no_published_gain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", str(write_pair(tmp_path / "a", TOKENS)), *WMT14])
    missing = json.loads(capsys.readouterr().out)["missing"]
    assert "raises" not in missing["words"]


def test_a_logged_bleu_that_its_own_lines_do_not_have_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    references = [Tokenizer("de").tokenize(line).rstrip() for line in PLAIN]
    found = findings(write_generation(tmp_path / "a", TOKENS, references, 11.0), capsys)
    assert found["A score does not match its name"]["evidence"][0]["what"] == "bleu_as_given"


def test_a_generate_log_in_pieces_is_judged_by_its_own_line_and_by_its_lines_joined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    references = [Tokenizer("de").tokenize(line).rstrip() for line in PLAIN]
    logged = value_of("bleu_as_given", in_pieces(TOKENS), in_pieces(references))
    joined_value = value_of("bleu_as_given", TOKENS, references)
    folder = write_generation(tmp_path / "a", in_pieces(TOKENS), in_pieces(references), logged)
    for arguments in ((), ("--hypotheses", str(folder / "gen.out"))):
        found = findings(folder, capsys, *arguments)
        assert list(found) == ["Translations are left in pieces"]  # and not: too long
        (cost,) = found["Translations are left in pieces"]["costs"]
        assert cost["low"] == pytest.approx(joined_value - logged, abs=0.01)
        assert f"{logged:.2f}" in cost["source"]
        assert f"gen.out:{len((folder / 'gen.out').read_text().splitlines())} has " in cost["source"]


def test_pieces_beside_plain_references_are_not_called_too_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(findings(write_pair(tmp_path / "a", in_pieces(OTHER)), capsys)) == ["Translations are left in pieces"]


def test_a_quiet_generate_log_has_its_lengths_and_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_generation(tmp_path / "a", (), PLAIN, 27.3)
    path = folder / "gen.out"
    path.write_text("".join(line for line in path.open() if line[:2] not in ("S-", "T-")), encoding="utf-8")
    main(["doctor", str(folder), *WMT14])
    seen = {one["check"]: one for one in json.loads(capsys.readouterr().out)["outcomes"]}
    assert "length ratio 0.951, brevity penalty 0.950" in seen["lengths"]["seen"]
    assert seen["pieces"]["missing"]
    path.write_text(path.read_text().replace("ratio=0.951, syslen=951", "ratio=1.138, syslen=1138"), encoding="utf-8")
    found = {one["check"]: one["is_symptom"] for one in findings(folder, capsys).values()}
    assert found == {"definition": False, "lengths": True}  # there are no lines to be scored as the paper's were


def test_unknown_words_and_copied_translations_are_distinguished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = [line.replace("Schiffe", "<unk>") for line in OTHER]
    cases = {"unknown": unknown, "language of the references": SOURCE}
    for words, lines in cases.items():
        found = findings(write_pair(tmp_path / words, lines), capsys)
        causes = [title for title, one in found.items() if not one["is_symptom"]]
        assert len(causes) == 1, causes
        assert words in causes[0]
    copied = findings(write_generation(tmp_path / "copied", SOURCE, PLAIN, 2.0), capsys)
    (title,) = [title for title in copied if "language of the references" in title]
    assert copied[title]["evidence"][0]["what"] == "sentences that are their source"


def test_hypotheses_that_are_no_text_are_refused_with_their_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_pair(tmp_path / "a", OTHER)
    (folder / "hyp.de").write_bytes("Gr\u00fcn\n".encode("latin-1"))
    assert main(["doctor", str(folder), *WMT14]) == 1
    assert "hyp.de" in capsys.readouterr().err


def test_several_trainings_in_a_folder_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("first.log", "second.log"):
        shutil.copyfile(LOGS / "fairseq06_big_enfr.log", tmp_path / name)
    assert main(["doctor", str(tmp_path), "--system", "big", "--corpus", "wmt14_en_fr"]) == 2
    assert "2 logs of trainings (first.log, second.log)" in capsys.readouterr().err


def test_a_cost_is_shown_with_its_direction_and_source() -> None:
    assert words_of_cost(Cost(low=1.0, high=1.1, words="", source="NeurST")) == "1.0 to 1.1 BLEU: NeurST"
    assert words_of_cost(Cost(low=-0.9, high=0.0, words="", source="fairseq")) == "adds 0.0 to 0.9 BLEU: fairseq"
    assert words_of_cost(Cost(low=10.0, high=None, words="", source="t2t")) == "10.0 to all BLEU: t2t"
    assert words_of_cost(Cost(low=None, high=None, words="not known", source="")) == "not known"


def test_published_costs_are_those_of_the_nearest_published_system() -> None:
    assert [published_system(name) for name in ("base", "table3_c_n2", "big_enfr")] == ["base", "base", "big"]
