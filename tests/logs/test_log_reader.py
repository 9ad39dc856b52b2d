"""Logs in every way broken or interrupted: what is read, and with which line it is refused."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from aiayn.facts.join import join_logs
from aiayn.facts.reader import read_log
from aiayn.facts.statistics import parse_statistics
from aiayn.facts.trainings import Training
from aiayn.facts.types import LogFile, Section
from tests.logs.factory import Form, GenerationText, TrainingText

FORMS = ("print", "namespace", "config")


def read(tmp_path: Path, text: str) -> LogFile:
    path = tmp_path / "train.log"
    path.write_bytes(text.encode("utf-8"))
    return read_log(path, "train.log")


def training_in(tmp_path: Path, text: str) -> Training:
    log_file = read(tmp_path, text)
    assert log_file.refusal is None
    (training,) = join_logs([log_file]).trainings
    return training


def generation_in(tmp_path: Path, text: str) -> Section:
    (section,) = read(tmp_path, text).sections
    assert section.program == "generate"
    return section


def summary(training: Training) -> tuple[object, ...]:
    """Return what the numbers of a training are, whichever way its log was printed."""
    section = training.last
    names = ("num_parameters", "num_gpus", "done_seconds", "pairs_train")
    return (
        [(one.update, one.loss_bits, one.nll_bits) for one in training.validations],
        [(one.epoch, one.update, one.target_tokens) for one in training.epochs],
        [section.value(name) for name in names],
        section.arguments,
        (section.mentioned, section.cut_line),
    )


def test_carriage_returns_colours_and_rank_labels_change_nothing(tmp_path: Path) -> None:
    text = TrainingText()
    expected = summary(training_in(tmp_path, text.text()))
    crlf = text.text().replace("\n", "\r\n")
    coloured = text.text().replace("INFO", "\x1b[32mINFO\x1b[0m")
    labelled = "".join(f"{rank}: {line}\n" for line in text.lines() for rank in (0, 1))
    for changed in (crlf, coloured, labelled):
        assert summary(training_in(tmp_path, changed)) == expected


def test_a_bar_that_is_rewritten_for_hours_is_one_line(tmp_path: Path) -> None:
    bar = "".join(
        f"\repoch 001:  {n:3d}/1000 [00:05<00:05, loss=8, num_updates={n}]" for n in range(1, 1000)
    )
    lines = TrainingText(lines_per_epoch=0).lines()
    index = next(number for number, line in enumerate(lines) if "loading train data" in line)
    text = "\n".join([*lines[: index + 1], bar, *lines[index + 1 :]]) + "\n"
    training = training_in(tmp_path, text)
    assert training.last.last_update == 100_000
    assert training.validations[0].line == index + 4  # the bar is one line


def test_a_whole_last_line_needs_no_line_feed(tmp_path: Path) -> None:
    section = training_in(tmp_path, TrainingText().text().removesuffix("\n")).last
    assert (section.cut_line, section.value("done_seconds")) == (None, 43_200.0)
    generation = generation_in(tmp_path, GenerationText().text().removesuffix("\n"))
    assert generation.value("bleu") == 27.31


def test_a_resumed_training_is_one_and_the_later_part_stands(tmp_path: Path) -> None:
    loaded = "loaded checkpoint checkpoints/base/checkpoint_last.pt (epoch 3 @ 50000 updates)"
    killed = replace(TrainingText(final_nll_bits=2.75), is_done=False).lines()
    later = replace(TrainingText(), first_epoch=3, num_epochs=2, loaded=loaded).lines()
    training = training_in(tmp_path, "\n".join([*killed, *later]) + "\n")
    assert [(one.update, one.nll_bits) for one in training.validations] == [
        (25_000, 4.25),
        (50_000, 3.75),
        (75_000, 2.5),
        (100_000, 2.0),
    ]
    assert [one.epoch for one in training.epochs] == [1, 2, 3, 4]
    assert [section.value("resumed_updates") for section in training.sections] == [0, 50_000]
    assert training.sections[1].line == len(killed) + 1


def test_a_start_from_nothing_after_a_crash_forgets_what_came_before(tmp_path: Path) -> None:
    crashed = replace(TrainingText(final_nll_bits=2.75), is_done=False).lines()[:-4]
    training = training_in(tmp_path, "\n".join([*crashed, *TrainingText().lines()]) + "\n")
    assert [one.nll_bits for one in training.validations] == [3.5, 3.0, 2.5, 2.0]
    assert len(training.sections) == 2


def test_the_same_training_twice_in_one_file_is_two(tmp_path: Path) -> None:
    text = TrainingText().text()
    assert len(join_logs([read(tmp_path, text * 2)]).trainings) == 2


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiayn.facts.text.MAX_LINE_BYTES", 1000)
    refusal = read(tmp_path, "a\n" + "b" * 300_000).refusal
    assert refusal is not None
    assert (refusal.line, refusal.text) == (2, "a line of more than 1,000 bytes: no log")


@pytest.mark.parametrize("form", FORMS)
def test_a_generation_is_read(tmp_path: Path, form: Form) -> None:
    text = replace(GenerationText(), form=form, num_printed=3).text()
    section = generation_in(tmp_path, text)
    assert (section.num_hypotheses, section.num_marked) == (3, 0)
    assert section.arguments["lenpen"] == 0.6
    expected = {
        "num_sentences": 3003,
        "model_path": "checkpoints/base/averaged.pt",
        "bleu": 27.31,
        "bleu_name": "BLEU4",
        "brevity_penalty": 1.0,
        "hypothesis_tokens": 66501,
        "reference_tokens": 64512,
    }
    assert {name: section.value(name) for name in expected} == expected


def test_a_last_line_that_a_terminal_broke_is_an_unknown_line(tmp_path: Path) -> None:
    text = GenerationText().text().replace(": BLEU4 = ", ":\nBLEU4 = ")
    section = generation_in(tmp_path, text)
    assert section.value("bleu") is None
    assert "BLEU4 = 27.31" in str(section.value("unknown_line"))


def test_sacrebleus_form_of_the_last_line_is_read(tmp_path: Path) -> None:
    score = (
        "BLEU = {value} 58.2/32.5/20.5/13.4 (BP = 1.000 ratio = 1.013 hyp_len = 64100 ref_len ="
        " 63300)"
    )
    section = generation_in(tmp_path, replace(GenerationText(), score=score, value="26.12").text())
    names = ("bleu_name", "bleu", "hypothesis_tokens")
    assert [section.value(name) for name in names] == ["BLEU", 26.12, 64100]


def test_of_several_hypotheses_of_a_sentence_one_counts(tmp_path: Path) -> None:
    lines = replace(GenerationText(), num_printed=2).lines()
    doubled = [line for line in lines for _ in range(2 if line.startswith("H-") else 1)]
    assert generation_in(tmp_path, "\n".join(doubled) + "\n").num_hypotheses == 2


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    line = TrainingText().epoch_lines(1)[0].encode() + b"\n"
    path.write_bytes(line * (10_000_000 // len(line)))
    read_log(path, "long.log")  # templates are compiled once
    tracemalloc.start()
    read_log(path, "long.log")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 3_000_000  # a block, and the lines in it, of ten megabytes


def test_a_line_of_hydra_names_its_subset_in_the_keys() -> None:
    found = parse_statistics(
        b'[2022-10-18 12:36:46,598][valid][INFO] - {"epoch": 1, "test1_loss": "2.5",'
        b' "test1_nll_loss": "1.5", "test1_num_updates": "20"}'
    )
    assert found is not None
    assert (found.kind, found.subset, found.update) == ("valid", "test1", 20)
    assert found.value_by_name["nll_loss"] == 1.5


@pytest.mark.parametrize(
    "line", ["epoch 1 is over", '{"epoch": "one", "loss": 2}', '{"epoch": 1, "loss"', "| epoch 001 | ppl 3 | wps 4",
             "| epoch 001 | loss 3 | epoch 002 | loss 3"],
)  # fmt: skip
def test_a_line_without_whole_statistics_is_none(line: str) -> None:
    assert parse_statistics(line.encode()) is None
