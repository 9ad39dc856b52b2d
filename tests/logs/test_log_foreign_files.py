"""Other people's folders and files: nothing is left out in silence, and nothing that is read is lost or misjudged."""

import bz2
import csv
import gzip
import lzma
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiayn.__main__ import main
from analysis.findings import Finding
from analysis.logs.folder import judge_folder
from analysis.logs.listing import list_folder
from analysis.logs.logged import LoggedFolder
from analysis.logs.reader import read_log
from analysis.logs.types import AveragingLog, GenerationLog, TrainingLog
from paper_tables.logs.from_logs import read_rows
from paper_tables.render.from_logs import make_tables_from_logs
from tests.logs.factory import Form, GenerationText, TrainingText, averaging_text, read_folder, write

ROWS = read_rows(["paper"])
ONE = TrainingText()
AVERAGED = [f"checkpoints/base/checkpoint{number}.pt" for number in range(5)]
AVERAGING = averaging_text(AVERAGED, "checkpoints/base/model.pt")
GENERATION = GenerationText().changed(path="checkpoints/base/model.pt")
FRENCH = replace(ONE, num_train_pairs=36_000_000).changed(target_lang="fr")


def judged(folder: Path) -> LoggedFolder:
    return judge_folder(folder, read_folder(folder), ROWS)


def tables_of(folder: Path) -> dict[str, list[dict[str, str]]]:
    """Return the lines of every table, by column."""
    output = folder.parent / f"{folder.name}-tables"
    make_tables_from_logs([folder], output)
    found = {}
    for name in ("table2", "table3", "logs"):
        with (output / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
            found[name] = list(csv.DictReader(lines))
    with (output / "findings.tsv").open(encoding="utf-8", newline="") as lines:
        found["findings"] = list(csv.DictReader(lines, delimiter="\t"))
    return found


def rows_of_logs(folder: Path) -> dict[str, dict[str, str]]:
    return {row["file"]: row for row in tables_of(folder)["logs"]}


def line_of(folder: Path, table: str) -> dict[str, str]:
    (row,) = [row for row in tables_of(folder)[table] if next(iter(row.values())).startswith("logs: ")]
    return row


def rules_of(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.check for finding in findings]


# Several things in one file


def test_a_slurm_output_with_all_three_steps_keeps_each(tmp_path: Path) -> None:
    text = "srun: job 4711 started\n" + ONE.text() + AVERAGING + GENERATION.text()
    folder = write(tmp_path / "logs", {"slurm-4711.out": text})
    kinds = [type(entry) for entry in read_log(folder / "slurm-4711.out").entries]
    assert kinds == [TrainingLog, AveragingLog, GenerationLog]
    found = judged(folder)
    assert [one.path for one in found.trainings] == ["slurm-4711.out@2"]
    assert found.trainings[0].row is not None
    (generation,) = found.generations
    assert generation.training.path == "slurm-4711.out@2"
    assert [one.settings for one in found.trainings[0].evaluations] == [""]
    assert len([name for name in rows_of_logs(folder) if name.startswith("slurm-4711.out@")]) == 3
    row = line_of(folder, "table2")
    assert (row["bleu_en_de_ours"], row["bleu_en_de_definition"]) == ("27.31 (n=1)", "bleu_as_given")


def test_the_steps_of_two_jobs_that_wrote_to_the_same_relative_paths_are_not_mixed(tmp_path: Path) -> None:
    two = averaging_text(AVERAGED[:2], "checkpoints/base/model.pt")
    second = replace(ONE, final_nll_bits=3.0).changed(seed=2).text() + two + replace(GENERATION, value="26.00").text()
    folder = write(tmp_path / "logs", {"a.out": ONE.text() + AVERAGING + GENERATION.text(), "b.out": second})
    found = judged(folder)
    evaluations = [(one.path, [(e.value, e.settings) for e in one.evaluations]) for one in found.trainings]
    assert evaluations == [("a.out@1", [(27.31, "")]), ("b.out@1", [(26.0, "average last2")])]


def test_of_two_trainings_in_a_file_the_generation_is_of_the_one_before_it(tmp_path: Path) -> None:
    second = replace(ONE, final_nll_bits=3.0).changed(seed=2)
    text = ONE.text() + GENERATION.text() + second.text() + replace(GENERATION, value="26.00").text()
    found = judged(write(tmp_path, {"both.out": text}))
    assert [[e.value for e in one.evaluations] for one in found.trainings] == [[27.31], [26.0]]


def test_a_generation_without_its_arguments_after_a_training_names_its_model(tmp_path: Path) -> None:
    lines = [line for line in GENERATION.lines() if "Namespace(" not in line]
    folder = write(tmp_path, {"a.out": ONE.text() + "\n".join(lines) + "\n"})
    training, generation = read_log(folder / "a.out").entries
    assert isinstance(training, TrainingLog)
    assert isinstance(generation, GenerationLog)
    assert generation.model_path == "checkpoints/base/model.pt"


def test_a_save_folder_named_for_an_average_is_no_averaging(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a.log": ONE.changed(save_dir="runs/averaged").text()})
    (training,) = read_log(folder / "a.log").entries
    assert isinstance(training, TrainingLog)
    assert training.starts[0].resumed_update == 0


def test_a_training_that_translates_before_its_end_has_ended(tmp_path: Path) -> None:
    lines = replace(ONE, form="print").lines()
    translated = "| Translated 445 sentences (12340 tokens) in 2.0s (220.00 sentences/s, 6170.00 tokens/s)"
    folder = write(tmp_path / "logs", {"a.log": "\n".join([*lines[:-1], translated, lines[-1]]) + "\n"})
    found = judged(folder)
    assert found.trainings[0].log.is_done
    (generation,) = found.generations
    assert "test-set-size" not in rules_of(generation.findings)  # nothing says which set it is


def test_a_copy_of_a_generation_counts_once_and_is_named(tmp_path: Path) -> None:
    files = {"a.log": ONE.text(), "average.log": AVERAGING, "g.log": GENERATION.text(), "h.log": GENERATION.text()}
    folder = write(tmp_path / "logs", files)
    assert line_of(folder, "table2")["bleu_en_de_ours"] == "27.31 (n=1)"
    assert "the same as g.log" in rows_of_logs(folder)["h.log"]["why_not"]


def test_two_evaluations_of_unnamed_checkpoints_are_not_called_the_same(tmp_path: Path) -> None:
    """Without a score and a checkpoint's name nothing says that they are of one checkpoint."""
    lines = [line for line in GENERATION.lines() if "with beam=" not in line]
    text = "\n".join(lines).replace("checkpoints/base/model.pt", "") + "\n"
    files = {"a.log": ONE.text(), "g.log": text, "h.log": text}
    rows = rows_of_logs(write(tmp_path / "logs", files))
    assert "no line `Generate" in rows["h.log"]["why_not"]
    assert "the same" not in rows["h.log"]["why_not"]


# Names and packers


def test_a_log_is_read_whatever_its_name(tmp_path: Path) -> None:
    names = ["train.log.1", "train.log-20240301", "train.log.old", "TRAIN.LOG", "slurm.OUT", "log.json", "job.o4711",
             "train.log.1.gz", "train.log.2.xz", "TRAIN.LOG.GZ", "train.gz.log"]  # fmt: skip
    folder = tmp_path / "logs"
    folder.mkdir()
    for seed, name in enumerate(names):
        content = ONE.changed(seed=seed).text().encode()
        content = gzip.compress(content) if "gz" in name.lower() else content
        (folder / name).write_bytes(lzma.compress(content) if name.endswith(".xz") else content)
    rows = rows_of_logs(folder)
    assert {name: rows[name]["row"] for name in names} == dict.fromkeys(names, "base (en-de, paper)")


def test_files_that_are_no_logs_are_counted_and_archives_named(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "logs", {"a.log": ONE.text(), "step.py": "def f(num_updates=0): ...\n", "b.PY": "", ".x": ""}
    )
    (folder / "checkpoint_best.pt").write_bytes(b"PK\3\4\0\0")
    (folder / "old.log.bz2").write_bytes(bz2.compress(ONE.text().encode()))
    (folder / "logs.zip").write_bytes(b"PK\3\4")
    (folder / ".hidden").mkdir()
    rows = rows_of_logs(folder)
    assert "not looked into" in rows["logs.zip"]["why_not"]
    assert "bzip2" in rows["old.log.bz2"]["why_not"]
    (others,) = [row for name, row in rows.items() if row["what"] == "3 files"]
    assert (
        others["why_not"] == "no logs by name or beginning (documents and code are not looked into): .py (2), .pt (1)"
    )
    assert [row["why_not"] for row in rows.values() if row["what"] == "2 files and folders"] == [
        "hidden, as their names begin with a point: not read"
    ]


def test_a_linked_folder_is_read_and_a_loop_is_named(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", {"deep/a.log": ONE.text()})
    folder = write(tmp_path / "logs", {"b.log": ONE.changed(seed=2).text()})
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "loop").symlink_to(folder)
    (folder / "dangling.log").symlink_to(tmp_path / "nowhere")
    rows = rows_of_logs(folder)
    assert rows["linked/deep/a.log"]["row"] == "base (en-de, paper)"
    assert rows["loop"]["why_not"] == f"loop: a link to {folder.resolve()}, which is read there"
    assert "leads nowhere" in rows["dangling.log"]["why_not"]


def test_an_unreadable_file_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "logs", {"a.log": ONE.text(), "closed.log": "x\n"})
    opened = open_refusing(monkeypatch, "closed.log")
    arguments = ["--output", str(tmp_path / "out")]
    for _ in range(2):  # from the files, and with a cache
        assert main(["tables", "--from-logs", str(folder), *arguments]) == 0
        printed = capsys.readouterr().err
        assert "closed.log" in printed
        assert "Permission denied" in printed
    assert "closed.log" in opened
    rows = rows_of_logs(folder)
    assert rows["a.log"]["row"] == "base (en-de, paper)"
    assert "closed.log: cannot be read (Permission denied)" in rows["closed.log"]["why_not"]
    assert [row["rule"] for row in tables_of(folder)["findings"] if row["path"] == "closed.log"] == ["readable"]


def open_refusing(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Make files of a name unreadable, for the user who runs the tests may be allowed to read all."""
    opened: list[str] = []
    opening = Path.open

    def opens(self: Path, *args: object, **keywords: object) -> object:
        opened.append(self.name)
        if self.name == name:
            raise PermissionError(13, "Permission denied", str(self))
        return opening(self, *args, **keywords)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", opens)
    return opened


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that opens and cannot be read")
def test_a_file_that_opens_and_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "logs", {"a.log": ONE.text()})
    (folder / "b.log").symlink_to("/proc/self/mem")
    rows = rows_of_logs(folder)
    assert rows["a.log"]["row"] == "base (en-de, paper)"
    assert "b.log: cannot be read (" in rows["b.log"]["why_not"]


def test_an_unreadable_folder_is_named_and_the_others_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "logs", {"a.log": ONE.text(), "closed/b.log": ONE.text()})
    scandir = os.scandir

    def scans(path: str) -> Iterator[os.DirEntry[str]]:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scans)
    rows = rows_of_logs(folder)
    assert rows["a.log"]["row"] == "base (en-de, paper)"
    assert rows["closed"]["why_not"] == "closed: this folder cannot be read (Permission denied); make it readable"


def test_a_pipe_is_named_and_not_waited_for(tmp_path: Path) -> None:
    folder = write(tmp_path / "logs", {"a.log": ONE.text()})
    os.mkfifo(folder / "pipe.log")
    assert "no regular file" in rows_of_logs(folder)["pipe.log"]["why_not"]


def test_a_run_of_ours_without_its_log_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "logs", {"ours/attempts.jsonl": "", "ours/submitit/1_0_log.out": ONE.text()})
    assert [one.path for one in list_folder(folder).left_out] == ["ours"]


def test_a_file_instead_of_a_folder_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {"a.log": ONE.text()})
    assert main(["tables", "--from-logs", str(tmp_path / "a.log"), "--output", str(tmp_path / "out")]) == 1
    assert f"a.log: is a file; name its folder, {tmp_path}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# Bytes


BAD_FILES = {
    "empty.log": (b"", "is empty"),
    "utf-16.log": (ONE.text().encode("utf-16"), ":1: UTF-16, as PowerShell writes it; convert it: iconv -f UTF-16"),
    "utf-16-without-mark.log": (ONE.text().encode("utf-16-le"), ":1: holds a zero byte: no text"),
    "binary.log": (b"PK\3\4\0\0", ":1: holds a zero byte: no text"),
    "cut.log": (ONE.text().encode()[:400] + b"\n", ":1: the arguments are cut"),
    "cut-line.log": (ONE.text().encode()[:-30], ":32: the log ends inside a line"),
    "zeros.log": (ONE.text().encode() + b"\0\0\0\n", ":33: holds a zero byte"),
    "noise.log": (b"\x9d\x86\xff\x10 neither text nor a log\n", ":1: bytes that are no UTF-8"),
    "latin-1.log": (ONE.text().encode() + "Grüße\n".encode("latin-1"), ":33: bytes that are no UTF-8"),
    "text.log": (b"Grandmother's letters\n", "no log of fairseq's"),
    "cut.log.xz": (lzma.compress(ONE.text().encode())[:-30], "cannot be unpacked on from here"),
    "cut.log.gz": (gzip.compress(os.urandom(2000).hex().encode())[:-900], "cannot be unpacked on from here"),
    "no-gzip.log.gz": (b"no gzip at all", "cannot be unpacked on from here"),
}  # fmt: skip


def test_each_bad_file_has_its_message_and_the_others_are_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "logs", {"good.log": ONE.changed(seed=2).text()})
    for name, (content, _) in BAD_FILES.items():
        (folder / name).write_bytes(content)
    rows = rows_of_logs(folder)
    assert {name for name, (_, message) in BAD_FILES.items() if message not in rows[name]["why_not"]} == set()
    assert rows["good.log"]["row"] == "base (en-de, paper)"


def test_other_letters_and_a_mark_at_the_beginning_change_no_number(tmp_path: Path) -> None:
    text = replace(GENERATION, num_sentences=3, num_printed=3, hypothesis="Grüße").text()
    (tmp_path / "latin.log").write_bytes(text.encode("latin-1"))
    (tmp_path / "mark.log").write_bytes(replace(GENERATION, has_start=False, num_printed=3).text().encode("utf-8-sig"))
    latin, marked = read_log(tmp_path / "latin.log"), read_log(tmp_path / "mark.log")
    for log_file in (latin, marked):
        (entry,) = log_file.entries
        assert isinstance(entry, GenerationLog)
        assert entry.num_hypotheses == 3
        assert entry.bleu is not None
        assert entry.bleu.value == 27.31
    assert latin.not_utf8_line == 5
    assert marked.not_utf8_line == 0


def test_one_hypothesis_more_keeps_the_bleu_out_and_says_so(tmp_path: Path) -> None:
    text = replace(GENERATION, num_sentences=3, num_printed=3).text()
    more = text.replace("Generate test", "H-3\t-0.25\tnoch einer\nGenerate test")
    folder = write(tmp_path / "logs", {"a.log": ONE.text(), "g.log": more})
    assert "4 hypotheses are in the log, 3 sentences were translated" in rows_of_logs(folder)["g.log"]["why_not"]
    assert rows_of_logs(folder)["g.log"]["fills"] == "\u2013"


# What the rules know


def test_seed_0_is_a_seed(tmp_path: Path) -> None:
    forms: tuple[Form, ...] = ("print", "namespace", "config")
    texts = {f"{form}.log": replace(ONE, form=form).changed(seed=0).text() for form in forms}
    folder = write(tmp_path / "logs", texts)
    assert [(one.seed, rules_of(one.findings)) for one in judged(folder).trainings] == [(0, [])] * 3
    assert all(", seed 0, " in row["what"] for row in rows_of_logs(folder).values())


def old_log(*, with_start: bool = True, **changes: Any) -> str:
    """Return a log as fairseq wrote it before 0.9: no word on a checkpoint, the first number of updates an epoch's."""
    text = replace(ONE, form="print", **{"lines_per_epoch": 0} | changes)
    lines = [line for line in text.lines() if "existing checkpoint" not in line]
    return "\n".join(lines if with_start else lines[len(text.start_lines()) - 1 :]) + "\n"


@pytest.mark.parametrize("lines_per_epoch", [0, 2])
@pytest.mark.parametrize("log_format", ["simple", "json"])
def test_an_old_log_that_begins_at_epoch_1_begins_at_update_0(
    tmp_path: Path, lines_per_epoch: int, log_format: str
) -> None:
    old = old_log(lines_per_epoch=lines_per_epoch, log_format=log_format)
    folder = write(tmp_path / "logs", {"old.log": old})
    (training,) = judged(folder).trainings
    assert training.log.first_update == 0
    assert rules_of(training.findings) == []
    assert training.gpu_seconds == 43_200 * 8


def test_an_old_log_that_begins_later_says_where(tmp_path: Path) -> None:
    folder = write(tmp_path / "logs", {"old.log": old_log(first_epoch=3), "pasted.log": old_log(with_start=False)})
    by_path = {one.path: one for one in judged(folder).trainings}
    assert "whole-history" in rules_of(by_path["old.log"].findings)
    assert "whole-history" not in rules_of(by_path["pasted.log"].findings)


def test_rules_of_en_de_are_not_applied_to_en_fr(tmp_path: Path) -> None:
    french = replace(FRENCH, num_valid_pairs=6000)
    dev = replace(GENERATION, subset="valid", num_sentences=6000).changed(gen_subset="valid")
    short = replace(GENERATION, num_sentences=2737)
    folder = write(
        tmp_path, {"a.log": french.text(), "average.log": AVERAGING, "dev.log": dev.text(), "test.log": short.text()}
    )
    found = judged(folder)
    assert rules_of(found.trainings[0].findings) == []
    findings = {one.path: one.findings for one in found.generations}
    assert rules_of(findings["dev.log"]) == []
    (size,) = findings["test.log"]
    assert size.check == "test-set-size"
    assert "2,737" in size.title
    assert "2,737" not in size.fix


def test_smoothing_under_an_unknown_criterion_is_unknown(tmp_path: Path) -> None:
    text = ONE.changed(criterion="label_smoothed_cross_entropy_with_ctc").text()
    row = rows_of_logs(write(tmp_path / "logs", {"a.log": text}))["a.log"]["row"]
    assert row == (
        "none; nearest base (paper): eps_ls unknown (label_smoothing 0.1 of criterion "
        "label_smoothed_cross_entropy_with_ctc, whose use of it is not known here), the row has 0.1"
    )


def test_settings_that_the_log_does_not_state_are_noted(tmp_path: Path) -> None:
    arguments = {
        key: value for key, value in ONE.arguments.items() if key not in ("distributed_world_size", "adam_eps")
    }
    text = replace(ONE, arguments=arguments, num_train_pairs=0).text()
    kept = [line for line in text.split("\n") if "training on" not in line and "examples from: data-bin" not in line]
    bare = replace(GENERATION, has_start=False, num_printed=3003).text()
    folder = write(tmp_path / "logs", {"a.log": "\n".join(kept), "generate-test.txt": bare})
    found = judged(folder)
    (note,) = [one for one in found.trainings[0].findings if one.check == "not-stated"]
    assert note.severity == "note"
    for name in ("adam_epsilon", "tokens_per_update", "num_training_pairs", "num_dev_pairs"):
        assert name in note.title
    (note,) = [one for one in found.generations[0].findings if one.check == "not-stated"]
    assert "length_penalty_alpha" in note.title


def test_a_generation_whose_lines_are_indented_or_cut_is_not_said_to_have_no_sentences(tmp_path: Path) -> None:
    score = "Generate test with beam=5: BLEU4 = 23.77, 81.5/31.7/16.7/7.4 (BP=1.000, ratio=1.030, syslen=9, reflen=9)"
    translated = "  INFO | fairseq_cli.generate | Translated 996 sentences (11,752 tokens) in 1.5s (683.80 sentences/s)"
    rows = rows_of_logs(write(tmp_path / "logs", {"cut.log": f"{score}\n", "indented.log": f"{translated}\n{score}\n"}))
    assert rows["cut.log"]["what"] == "generation, sentences not counted, model not named"
    assert rows["indented.log"]["what"] == "generation, 996 sentences, model not named"


def test_a_training_resumed_from_a_folder_that_was_moved_is_this_training(tmp_path: Path) -> None:
    loaded = "Loaded checkpoint /old/disk/base/checkpoint_last.pt (epoch 3 @ 50000 updates)"
    moved = ONE.changed(save_dir="/new/disk/base", restore_file="/old/disk/base/checkpoint_last.pt")
    alone = replace(moved, first_epoch=3, num_epochs=2, loaded=loaded)
    renamed = replace(alone, loaded=loaded.replace("/base/", "/first-try/"))
    before = replace(ONE.changed(save_dir="/old/disk/first-try"), num_epochs=4, is_done=False)
    cut = "".join(
        line for line in before.text().splitlines(keepends=True) if "epoch 003" not in line and "epoch 004" not in line
    )
    write(tmp_path, {"alone.log": alone.text(), "renamed.log": renamed.text(), "whole.log": cut + renamed.text()})
    found = {one.path: rules_of(one.findings) for one in judged(tmp_path).trainings}
    assert "own-beginning" not in found["alone.log"]
    assert "own-beginning" in found["renamed.log"]  # what came before is not there, and lay under another name
    assert "own-beginning" not in found["whole.log"]  # it stands above, up to the update that was loaded
