"""Logs of every version and format, whole and in every way broken: what is read, and with which
line it is refused.
"""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from aiayn.facts.statistics import parse_statistics
from aiayn.logs.arguments import parse_arguments
from aiayn.logs.reader import read_log
from aiayn.logs.types import GenerationLog, LogFile, TrainingLog
from tests.logs.factory import BASE, GenerationText, TrainingText, namespace

FORMS = ("print", "namespace", "config")
FORMATS = ("simple", "tqdm", "json")


def read(tmp_path: Path, text: str | bytes) -> LogFile:
    path = tmp_path / "train.log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return read_log(path)


def read_training(tmp_path: Path, text: str | bytes) -> TrainingLog:
    log_file = read(tmp_path, text)
    assert log_file.refusal is None
    (training,) = log_file.entries
    assert isinstance(training, TrainingLog)
    return training


def read_generation(tmp_path: Path, text: str) -> GenerationLog:
    (entry,) = read(tmp_path, text).entries
    assert isinstance(entry, GenerationLog)
    return entry


def summary(training: TrainingLog) -> tuple[object, ...]:
    """What the numbers of a training are, whichever way its log was printed."""
    return (
        [(v.epoch, v.update, v.subset, v.loss_bits, v.nll_bits) for v in training.validations],
        [
            (e.epoch, e.update, e.nll_bits, e.target_tokens_per_update, e.wall_seconds)
            for e in training.epochs
        ],
        training.last_update,
        training.num_parameters,
        training.num_gpus,
        training.languages,
        training.is_done,
        training.arguments,
        training.num_pairs_by_split,
        training.damaged_lines,
        training.truncated_line,
    )


@pytest.mark.parametrize("log_format", FORMATS)
@pytest.mark.parametrize("form", FORMS)
def test_every_version_and_format_says_the_same(tmp_path: Path, form: str, log_format: str) -> None:
    text = TrainingText(form=form, log_format=log_format)  # type: ignore[arg-type]
    training = read_training(tmp_path, text.text())
    expected = read_training(tmp_path, TrainingText().text())
    both_arguments = {key: training.arguments[key] for key in expected.arguments}
    assert both_arguments == expected.arguments
    assert summary(training)[:7] == summary(expected)[:7]
    assert training.form == form
    assert [v.update for v in training.validations] == [25_000, 50_000, 75_000, 100_000]
    assert [v.nll_bits for v in training.validations] == [3.5, 3.0, 2.5, 2.0]
    assert training.starts[0].done_seconds == 43_200.0
    assert training.epochs[-1].wall_seconds == 43_200.0


def test_a_log_on_cpu_has_no_gpu(tmp_path: Path) -> None:
    assert read_training(tmp_path, TrainingText().changed(cpu=True).text()).num_gpus == 0


def test_carriage_returns_colours_and_rank_labels_change_nothing(tmp_path: Path) -> None:
    text = TrainingText()
    expected = summary(read_training(tmp_path, text.text()))
    crlf = text.text().replace("\n", "\r\n")
    coloured = text.text().replace("INFO", "\x1b[32mINFO\x1b[0m")
    labelled = "".join(f"{rank}: {line}\n" for line in text.lines() for rank in (0, 1))
    for changed in (crlf, coloured, labelled):
        assert summary(read_training(tmp_path, changed)) == expected


def test_a_bar_that_is_rewritten_for_hours_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiayn.facts.text.MAX_LINE_BYTES", 10_000)
    bar = "".join(
        f"\repoch 001:  {n:3d}/1000 [00:05<00:05, loss=8, num_updates={n}]" for n in range(1, 1000)
    )
    lines = TrainingText(lines_per_epoch=0).lines()
    index = next(number for number, line in enumerate(lines) if "loading train data" in line)
    training = read_training(
        tmp_path, "\n".join([*lines[: index + 1], bar, *lines[index + 1 :]]) + "\n"
    )
    assert training.last_update == 100_000
    assert training.validations[0].line == index + 4  # the bar is one line


def test_a_whole_last_line_needs_no_line_feed(tmp_path: Path) -> None:
    training = read_training(tmp_path, TrainingText().text().removesuffix("\n"))
    assert (training.truncated_line, training.is_done) == (None, True)
    generation = read_generation(tmp_path, GenerationText().text().removesuffix("\n"))
    assert generation.truncated_line is None


def test_eight_ranks_in_one_file_count_once(tmp_path: Path) -> None:
    text = TrainingText(form="config", log_format="json")
    by_rank = [text.changed(distributed_rank=rank, device_id=rank).lines() for rank in range(8)]
    interleaved = "".join(
        f"{line}\n" for together in zip(*by_rank, strict=True) for line in together
    )
    training = read_training(tmp_path, interleaved)
    assert [v.nll_bits for v in training.validations] == [3.5, 3.0, 2.5, 2.0]
    assert training.conflict is None
    assert (
        training.num_repeated_lines == 7 * 8
    )  # seven ranks repeat four validations and four ends of epochs
    assert training.starts[0].num_ranks == 8


def resumed(update: int, epoch: int) -> TrainingText:
    """Return a log that goes on from a checkpoint."""
    loaded = (
        f"loaded checkpoint checkpoints/base/checkpoint_last.pt (epoch {epoch} @ {update} updates)"
    )
    return replace(TrainingText(), first_epoch=epoch, num_epochs=5 - epoch, loaded=loaded)


def test_a_resumed_training_is_one_and_the_later_part_stands(tmp_path: Path) -> None:
    killed = replace(TrainingText(final_nll_bits=2.75), is_done=False).lines()
    later = replace(resumed(50_000, 3), num_train_pairs=4_500_967).lines()
    training = read_training(tmp_path, "\n".join([*killed, *later]) + "\n")
    assert [(v.update, v.nll_bits) for v in training.validations] == [
        (25_000, 4.25),
        (50_000, 3.75),
        (75_000, 2.5),
        (100_000, 2.0),
    ]
    assert training.num_pairs_by_split["train"] == 4_500_967
    assert [e.epoch for e in training.epochs] == [1, 2, 3, 4]
    assert training.validations[2].line > len(killed)
    assert [start.resumed_update for start in training.starts] == [0, 50_000]
    assert training.starts[1].line == len(killed) + 1


def test_a_start_from_nothing_after_a_crash_forgets_what_came_before(tmp_path: Path) -> None:
    crashed = replace(TrainingText(final_nll_bits=2.75), is_done=False).lines()[:-4]
    training = read_training(tmp_path, "\n".join([*crashed, *TrainingText().lines()]) + "\n")
    assert [v.nll_bits for v in training.validations] == [3.5, 3.0, 2.5, 2.0]
    assert training.last_update == 100_000
    assert len(training.starts) == 2


def test_a_start_that_died_before_it_loaded_anything_changes_nothing(tmp_path: Path) -> None:
    died = TrainingText().start_lines()[:5]
    training = read_training(tmp_path, "\n".join([*TrainingText().lines(), *died]) + "\n")
    assert training.last_update == 100_000
    assert training.is_done is False  # the last start did not end well


def test_the_same_training_twice_in_one_file_is_two(tmp_path: Path) -> None:
    assert len(read(tmp_path, TrainingText().text() * 2).entries) == 2


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiayn.facts.text.MAX_LINE_BYTES", 1000)
    log_file = read(tmp_path, "a\n" + "b" * 300_000)
    assert log_file.refusal is not None
    assert (log_file.refusal.line, log_file.refusal.text) == (
        2,
        "a line of more than 1,000 bytes: no log",
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_generation_is_read(tmp_path: Path, form: str) -> None:
    text = replace(GenerationText(), form=form, num_printed=3).text()  # type: ignore[type-var]
    assert text.count(": BLEU4 = ") == 1
    broken = text.replace(
        ": BLEU4 = ", ":\nBLEU4 = "
    )  # as a terminal, or a paste into a thread, breaks the last line
    for printed in (text, broken):
        found = read_generation(tmp_path, printed)
        assert (found.num_sentences, found.num_hypotheses, found.has_piece_marks) == (
            3003,
            3,
            False,
        )
        assert (found.model_path, found.arguments["lenpen"]) == (
            "checkpoints/base/averaged.pt",
            0.6,
        )
        assert (found.bleu, found.bleu_name, found.beam_size) == (27.31, "BLEU4", 4)
        assert found.subset == "test"
        assert (found.brevity_penalty, found.hypothesis_length, found.reference_length) == (
            1.0,
            66501,
            64512,
        )


def test_sacrebleus_form_of_the_last_line_is_read(tmp_path: Path) -> None:
    score = (
        "BLEU = {value} 58.2/32.5/20.5/13.4 (BP = 1.000 ratio = 1.013 hyp_len = 64100 ref_len ="
        " 63300)"
    )
    found = read_generation(tmp_path, replace(GenerationText(), score=score, value="26.12").text())
    assert (found.bleu_name, found.bleu, found.hypothesis_length) == ("BLEU", 26.12, 64100)


def test_of_several_hypotheses_of_a_sentence_the_best_counts(tmp_path: Path) -> None:
    lines = replace(GenerationText(), num_printed=2).lines()
    doubled = [line for line in lines for _ in range(2 if line.startswith("H-") else 1)]
    assert read_generation(tmp_path, "\n".join(doubled) + "\n").num_hypotheses == 2


def test_results_files_one_after_the_other_are_apart(tmp_path: Path) -> None:
    text = replace(GenerationText(), has_start=False, num_printed=2).text()
    assert len(read(tmp_path, text * 2).entries) == 2


def test_an_averaging_that_says_nothing_is_none(tmp_path: Path) -> None:
    text = "averaging checkpoints:  [broken\nFinished writing averaged checkpoint to b.pt\n"
    assert read(tmp_path, text).entries == ()


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    line = TrainingText().epoch_lines(1)[0].encode() + b"\n"
    path.write_bytes(line * (10_000_000 // len(line)))
    tracemalloc.start()
    read_log(path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 3_000_000  # a block, and the lines in it, of ten megabytes


def test_hydras_nested_model_is_flattened() -> None:
    text = (
        "{'_name': None, 'common': {'_name': None, 'seed': 3}, 'model': {'_name': 'transformer',"
        " 'dropout': 0.1, 'encoder': {'_name': None, 'embed_dim': 512, 'layers': 6}, 'decoder':"
        " {'_name': None, 'embed_dim': 512}}, 'optimization': {'lr': [0.1, 0.2], 'device':"
        " device(type='cuda')}}"
    )
    parsed = parse_arguments(text)
    assert (parsed["seed"], parsed["arch"], parsed["dropout"]) == (3, "transformer", 0.1)
    assert (parsed["encoder_embed_dim"], parsed["encoder_layers"], parsed["decoder_embed_dim"]) == (
        512,
        6,
        512,
    )
    assert parsed["lr"] == "[0.1, 0.2]"


def test_the_digest_forgets_places_and_ranks_but_no_value() -> None:
    digest = parse_arguments(namespace(BASE)).digest
    assert (
        parse_arguments(namespace(BASE | {"save_dir": "elsewhere", "distributed_rank": 3})).digest
        == digest
    )
    assert parse_arguments(namespace(BASE | {"dropout": 0.3})).digest != digest


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
