"""A log becomes facts: every version and format says the same, and what is not a log is left out
with one sentence.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.facts.arguments import parse_arguments
from aiayn.facts.reader import MAX_SAMPLES, read_log
from aiayn.facts.templates import compile_template, match_template, read_templates
from aiayn.facts.types import MAX_MENTIONED, Section, Value
from tests.logs.factory import BASE as ARGUMENTS
from tests.logs.factory import Form, LogFormat, TrainingText, namespace, write

HEAD = "2024-03-01 12:00:00 | INFO | fairseq.trainer | "


def section_of(folder: Path, text: str) -> Section:
    (section,) = read_log(write(folder, {"a.log": text}) / "a.log").sections
    return section


@pytest.mark.parametrize("log_format", ["simple", "json", "tqdm"])
@pytest.mark.parametrize("form", ["print", "namespace", "config"])
def test_every_version_and_format_states_the_same(
    form: Form, log_format: LogFormat, tmp_path: Path
) -> None:
    text = TrainingText(form=form, log_format=log_format)
    section = section_of(tmp_path, text.text())
    assert (section.form, section.last_update, len(section.epochs)) == (form, 100_000, 4)
    assert [one.nll_bits for one in section.validations.values()] == [3.5, 3.0, 2.5, 2.0]
    assert section.value("num_gpus") == 8
    assert section.value("num_parameters") == section.value("num_trained") == 63_102_976
    assert section.values("num_types") == [37_000, 37_000]
    assert (section.value("pairs_train"), section.value("pairs_valid")) == (4_500_966, 3000)
    assert (section.value("resumed_updates"), section.value("done_seconds")) == (0, 43_200.0)
    assert len(section.samples) == 8
    assert section.mentioned == {}


@pytest.mark.parametrize(("printed", "value"), [
    ("PosixPath('x/y')", "PosixPath('x/y')"), ("inf", float("inf")), ("-1e-05", -1e-05),
    ("torch.float32", "torch.float32"), ("<Choices.c10d: 'c10d'>", "<Choices.c10d: 'c10d'>"),
    ("???", "???"), ("[0.0007]", 0.0007), ("'True'", True), ("None", None), ("(0.9, 0.98)", "(0.9, 0.98)"),
    ("'a=(1, {2'", "a=(1, {2"),
])  # fmt: skip
def test_every_printed_value_is_kept(printed: str, value: Value) -> None:
    arguments = parse_arguments(f"Namespace(arch='transformer', task='translation', x={printed})")
    assert arguments.by_key()["x"] == value
    config = (
        f"{{'_name': None, 'model': Namespace(arch='transformer'), 'task': {{'x': {printed}}}}}"
    )
    assert parse_arguments(config).by_key()["x"] == value


@pytest.mark.parametrize("text", ["Namespace(a=1", "Namespace(" + "(" * 999])
def test_cut_arguments_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cut"):
        parse_arguments(text)


def test_a_value_that_two_groups_state_differently_is_kept_twice() -> None:
    config = "{'_name': None, 'optimization': {'lr': [0.1]}, 'model': Namespace(arch='transformer', lr=[0.2], task='x')}"
    pairs = parse_arguments(config).pairs
    assert [value for key, value in pairs if key == "lr"] == [0.1, 0.2]


@pytest.mark.parametrize(("template", "message", "fields"), [
    ("num. {n:int} of {m:int}", "num. 1,024 of 7", {"n": 1024, "m": 7}),
    ("num. {n:int}", "num. 1,024 of 7", None), ("num. {n:int}", "num. many", None),
    ("took {s:float} seconds", "took 1.5e-05 seconds", {"s": 1.5e-05}),
    ("took {s:float} seconds", "took 1.5.2 seconds", None),
    ("loaded {p:path} (epoch {:int})", "loaded a b.pt (epoch 3)", {"p": "a b.pt"}),
    ("{w:word} ends", "one two ends", None), ("a   b", "a b", {}), ("{{x}} {n:int}", "{x} 1", {"n": 1}),
])  # fmt: skip
def test_a_template_matches_a_whole_message_with_typed_fields(
    template: str, message: str, fields: dict[str, Value] | None
) -> None:
    match = match_template(message, [compile_template(template, "read")])
    assert match == (None if fields is None else ("read", fields))


def test_every_template_has_a_known_kind_and_types() -> None:
    assert read_templates() is not None
    with pytest.raises(ValueError, match="is not a type"):
        compile_template("x {n:number}", "read")


@pytest.mark.parametrize(("line", "is_serious"), [
    (HEAD + "restoring the moving average of the weights", True), (HEAD + "hello", False),
    ("2024-03-01 12:00:00 | WARNING | root | hello", True), ("Loading cuda/11.0", False),
    ("/usr/lib/python3.8/site.py:1: UserWarning: deprecated", False), ("freezing 3 layers", True),
    ("[2024-03-01 12:00:00,123][fairseq.trainer][ERROR] - hello", True), ("WARNING:root:hello", True),
])  # fmt: skip
def test_an_unknown_line_is_serious_or_not(line: str, is_serious: bool, tmp_path: Path) -> None:
    text = TrainingText().text().replace("\n", f"\n{line}\n", 1)
    section = section_of(tmp_path, text)
    (quantity,) = section.mentioned
    fact = section.find(quantity)
    assert fact is not None
    assert (fact.line, quantity == "unknown_line") == (2, is_serious)


def test_what_repeats_is_a_summary(tmp_path: Path) -> None:
    text = replace(TrainingText(), lines_per_epoch=2000).text()
    noise = "".join(f"something {chr(97 + number % 26) * number}\n" for number in range(1, 200))
    section = section_of(tmp_path, text + noise)
    assert section.num_inner == 8000
    assert len(section.samples) < MAX_SAMPLES
    assert section.mentioned.keys() == {"other_lines"}
    assert len(section.values("other_lines")) < MAX_MENTIONED


@pytest.mark.parametrize(("text", "words"), [
    ("{'loss': 2.31, 'learning_rate': 5e-05, 'epoch': 0.1}\n", "Hugging Face"),
    ("***** Running training *****\n", "Hugging Face"),
    ("Epoch 3: 100%|#####| 10/10 [00:01<00:00, 9.1it/s, loss=2.1, v_num=0]\n", "Lightning"),
    ("wandb: Run summary:\n", "Weights & Biases"), ("epoch 3 loss 2.5 bleu 27.0\n", "own training loop"),
    ("| epoch 001 | train loss 5.21 | train ppl 37.1\n", "before 0.6"),
    ('{"step": 100, "loss": 4.1}\n', "JSON lines"), (":::MLLOG {}\n", "MLPerf"),
])  # fmt: skip
def test_the_log_of_a_different_trainer_says_which_form_was_seen(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "logs", {"a.log": text})
    assert (
        main(["tables", "--from-logs", str(tmp_path / "logs"), "--output", str(tmp_path / "o")])
        == 1
    )
    (sentence,) = capsys.readouterr().err.strip().split("\n")
    assert words in sentence
    assert "aiayn explain" in sentence


def test_what_cannot_be_read_is_left_out_with_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = '{"epoch": ' + "[" * 20_000 + ', "num_updates": 1}\n'
    folder = write(
        tmp_path / "logs", {"good.log": TrainingText(num_epochs=20).text(), "deep.log": deep}
    )
    os.mkfifo(folder / "pipe.log")
    (folder / "link.log").symlink_to("nowhere")
    assert main(["tables", "--from-logs", str(folder), "--output", str(tmp_path / "o")]) == 0
    told = capsys.readouterr().err.strip().split("\n")
    for name in ("pipe.log", "link.log"):
        assert sum(name in line for line in told) == 1
    rows = (tmp_path / "o" / "tables" / "logs.csv").read_text(encoding="utf-8")
    assert "deep.log: not a log of fairseq" in rows
    assert "steps 100,000" in rows


def test_arguments_that_a_terminal_wrapped_are_read(tmp_path: Path) -> None:
    line = namespace(ARGUMENTS)
    wrapped = "\n".join(line[begin : begin + 80] for begin in range(0, len(line), 80))
    section = section_of(tmp_path, f"{wrapped}\n{HEAD}no existing checkpoint found x\n")
    assert section.arguments["dropout"] == ARGUMENTS["dropout"]
    assert section.value("resumed_updates") == 0
