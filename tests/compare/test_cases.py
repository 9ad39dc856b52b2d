"""What stands in other people's folders: each case once filled a row, or took all others down with
it.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from aiayn.__main__ import main
from paper_tables.compare.lines import AveragedLine, JudgedFolder, average_trainings
from paper_tables.compare.systems import read_systems
from tests.logs.factory import GenerationText, TrainingText, averaging_text, judged, write

SYSTEMS = read_systems(["paper"])
PLACE = "checkpoints/base"
AVERAGED = f"{PLACE}/checkpoint.avg5.pt"
BASE = replace(TrainingText(), num_epochs=20)
GENERATION = GenerationText().changed(path=AVERAGED)
AVERAGING = averaging_text(
    [f"{PLACE}/checkpoint{epoch}.pt" for epoch in range(20, 15, -1)], AVERAGED
)
FIRST_CHECKPOINT, LAST_WHOLE = 11, 10

GLUON = (
    "INFO:root:Namespace(average_checkpoint=False, batch_size=2700, bleu='13a', epochs=30, lr=2.0,"
    " optimizer='adam', save_dir='transformer_en_de_u512', warmup_steps=4000)\n[Epoch 29] test"
    " bleu=27.05\n"
)
PREPROCESS = (
    "Namespace(bpe=None, criterion='cross_entropy', destdir='data-bin', joined_dictionary=True,"
    " lr_scheduler='fixed', source_lang='en', target_lang='de', task='translation',"
    " trainpref='x/train', validpref='x/valid', workers=20)\n"
)
QUIET = (
    "2024-03-02 12:00:00 | INFO | fairseq.tasks.translation | [de] dictionary: 8848"
    " types\n2024-03-02 12:00:00 | INFO | fairseq.tasks.translation | [en] dictionary: 6632"
    " types\n2024-03-02 12:00:00 | INFO | fairseq_cli.generate | loading model(s) from"
    " x.pt\n2024-03-02 12:00:00 | INFO | fairseq_cli.generate | Translated 6750 sentences (1"
    " tokens) in 1.0s\nGenerate test with beam=5: BLEU4 = 35.44, 69.1/43.6/29.6/20.5 (BP=0.969,"
    " ratio=0.970, syslen=127000, reflen=131000)\n"
)


def lines_of(folder: JudgedFolder) -> list[AveragedLine]:
    return average_trainings(folder.trainings)[0]


def labels(folder: JudgedFolder, name: str = "a.log") -> tuple[str, ...]:
    """Return what sets a training apart, of its settings and of its generations."""
    training = next(one for one in folder.trainings if one.path.startswith(name))
    return training.labels + tuple(label for one in training.generations for label in one.labels)


def of(folder: Path, **texts: str) -> JudgedFolder:
    """Return the judged folder of a base training `a`, its average `av` and its generation `g`,
    some of them given.
    """
    written = {"a": BASE.text(), "av": AVERAGING, "g": GENERATION.text()} | texts
    return judged(
        write(folder, {f"{name}.log": text for name, text in written.items() if text}), SYSTEMS
    )


def without(lines: list[str], pattern: str) -> str:
    return "\n".join(line for line in lines if not re.search(pattern, line)) + "\n"


def test_a_training_that_diverges_is_set_apart_and_the_others_fill(tmp_path: Path) -> None:
    text = BASE.text()
    for epoch in range(12, 21):
        text = re.sub(
            rf"(epoch 0{epoch} \| valid on 'valid' subset \| loss )[\d.]+( \| nll_loss )[\d.]+( \|"
            r" ppl )[\d.]+",
            r"\g<1>1612.402\g<2>1611.987\g<3>inf",
            text,
        )
    folder = of(tmp_path, bad=text, a=BASE.changed(seed=2).text(), av="", g="")
    assert labels(folder, "bad") == ("diverged after update 55,000",)
    configurations = {one.configuration for one in lines_of(folder)}
    assert configurations == {(), ("diverged after update 55,000",)}


def test_a_number_of_five_thousand_digits_is_a_torn_line(tmp_path: Path) -> None:
    text = BASE.text().replace("num_updates 100000", "num_updates " + "9" * 5000)
    folder = of(tmp_path, a=text, b=BASE.changed(seed=2, save_dir="b").text(), av="", g="")
    assert [one.trainings for one in lines_of(folder)]  # the rest goes on


@pytest.mark.parametrize(("text", "told"), [
    (PREPROCESS, "no training log"), (GLUON, "another toolkit"),
])  # fmt: skip
def test_what_is_no_log_of_a_fairseq_training_is_not_judged(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path, {"preprocess.log": text})
    assert judged(folder, SYSTEMS).trainings == ()
    assert main(["doctor", str(folder), "--system", "base", "--corpus", "wmt14_en_de"]) == 1
    captured = capsys.readouterr()
    assert told in captured.err
    assert "No difference" not in captured.out


def test_the_output_of_preprocess_train_and_generate_has_one_training(tmp_path: Path) -> None:
    folder = of(tmp_path, a=PREPROCESS + BASE.text() + AVERAGING + GENERATION.text(), av="", g="")
    (line,) = lines_of(folder)
    assert (line.configuration, len(line.trainings), line.scored("test") != {}) == ((), 1, True)


@pytest.mark.parametrize("prefix", [
    "0: ", " 0: ", "[default0]:", "2024-03-01T12:00:00.123456789Z ", "Mar 01 12:00:00 ", "    ", "> ",
    "worker_1  | ", "\t",
])  # fmt: skip
def test_a_prefix_of_every_line_changes_nothing(prefix: str, tmp_path: Path) -> None:
    prefixed = {
        name: "".join(f"{prefix}{line}\n" for line in text.lines())
        for name, text in (("a", BASE), ("g", replace(GENERATION, num_printed=3003)))
    }
    (line,) = lines_of(of(tmp_path, **prefixed))
    assert line.configuration == ()
    assert line.scored("test")


def test_an_indented_last_line_is_the_score(tmp_path: Path) -> None:
    text = GENERATION.lines()
    (line,) = lines_of(of(tmp_path, g="\n".join(text[:-1]) + f"\n    {text[-1]}\n"))
    assert line.scored("test")


def test_several_decodings_of_one_checkpoint_are_one_seed_each_named(tmp_path: Path) -> None:
    others = {
        name: (
            replace(GENERATION, value=value, score=GENERATION.score.replace("66501", length)).text()
        )
        for name, value, length in (("g2", "27.05", "66400"), ("g3", "27.20", "66300"))
    }
    (line,) = lines_of(of(tmp_path, **others))
    assert len(line.trainings) == 1
    assert {name: len(values) for name, values in line.scored("test").items()} == {
        ((), "bleu_as_given", f"the translation of {name}.log"): 1 for name in ("g", "g2", "g3")
    }


def test_train1_is_read_as_part_of_the_corpus(tmp_path: Path) -> None:
    text = BASE.text()
    loaded = next(line for line in text.split("\n") if "loaded 4500966 examples" in line)
    more = loaded.replace("4500966", "24000000").replace("train.", "train1.")
    assert labels(of(tmp_path, a=text.replace(loaded, f"{loaded}\n{more}"), g="")) == (
        "train_pairs 28,500,966",
    )


@pytest.mark.parametrize(("changed", "expected"), [
    ({"dropout": 0.3}, ("p_drop 0.3",)),
    ({"num_workers": 3, "log_interval": 7}, ()),
])  # fmt: skip
def test_the_first_half_of_a_resumed_training_counts(
    changed: dict[str, float], expected: tuple[str, ...], tmp_path: Path
) -> None:
    first = without(replace(BASE, is_done=False).changed(**changed).lines(), r"epoch 0(1[1-9]|20)")
    loaded = (
        f"loaded checkpoint {PLACE}/checkpoint_last.pt (epoch {FIRST_CHECKPOINT} @ 50000 updates)"
    )
    second = replace(BASE, first_epoch=FIRST_CHECKPOINT, num_epochs=LAST_WHOLE, loaded=loaded)
    assert labels(of(tmp_path, a=first + second.text(), g="")) == expected


@pytest.mark.parametrize(("inputs", "expected"), [
    ([f"checkpoint{epoch}.pt" for epoch in (20, 18, 16, 14, 12)], "average 5 checkpoints up to checkpoint20.pt"),
    (["checkpoint20.pt"] * 5, "average 5 checkpoints up to checkpoint20.pt"),
    (["checkpoint_last.pt", "checkpoint20.pt"], "average 2 checkpoints up to checkpoint20.pt"),
    ([f"../other/checkpoint{epoch}.pt" for epoch in range(16, 21)], "average 5 checkpoints of checkpoints/other"),
])  # fmt: skip
def test_an_average_of_others_is_not_the_last_five(
    inputs: list[str], expected: str, tmp_path: Path
) -> None:
    averaging = averaging_text([f"{PLACE}/{name}" for name in inputs], AVERAGED)
    assert labels(of(tmp_path, av=averaging)) == (expected,)


def test_updates_are_in_a_row_by_the_interval_of_saving(tmp_path: Path) -> None:
    training = BASE.changed(save_interval_updates=1000).text()
    paths = [f"{PLACE}/checkpoint_20_{update}.pt" for update in range(100_000, 95_000, -1000)]
    assert labels(of(tmp_path, a=training, av=averaging_text(paths, AVERAGED))) == ()
    paths[1:2] = []
    (label,) = labels(of(tmp_path, a=training, av=averaging_text(paths, AVERAGED)))
    assert label == "average 4 checkpoints up to checkpoint_20_100000.pt"


@pytest.mark.parametrize(("path", "expected"), [
    (f"/scratch/me/{AVERAGED}", ()),
    ("checkpoints/big/checkpoint.avg5.pt", ("average last5 of checkpoints/big",)),
])  # fmt: skip
def test_a_checkpoint_of_another_folder_is_named(
    path: str, expected: tuple[str, ...], tmp_path: Path
) -> None:
    assert labels(of(tmp_path, av="", g=GENERATION.changed(path=path).text())) == expected


def test_a_second_score_below_one_start_line_is_another_generation(tmp_path: Path) -> None:
    text = GENERATION.text()
    last = text.splitlines()[-1]
    (line,) = (one for one in lines_of(of(tmp_path, g=f"{text}{last}\n")) if not one.configuration)
    assert len(line.scored("test")) == 1  # the same line twice
    folder = of(tmp_path, g=text + last.replace("27.31", "29.99") + "\n")
    assert labels(folder) == ("num_sentences not stated",)


@pytest.mark.parametrize(("path", "inputs", "expected"), [
    (AVERAGED, range(10, 5, -1), ("average 5 checkpoints up to checkpoint10.pt",)),
    (f"{PLACE}/checkpoint_best_avg5.pt", (), ("average checkpoint_best_avg5.pt",)),
    ("C:\\\\ck\\\\base\\\\checkpoint.avg5.pt", (), ()),
])  # fmt: skip
def test_last5_is_this_trainings_last_five(
    path: str, inputs: range, expected: tuple[str, ...], tmp_path: Path
) -> None:
    averaging = (
        averaging_text([f"{PLACE}/checkpoint{epoch}.pt" for epoch in inputs], path)
        if inputs
        else ""
    )
    training = BASE.changed(save_dir="C:\\\\ck\\\\base") if "C:" in path else BASE
    folder = of(tmp_path, a=training.text(), av=averaging, g=GENERATION.changed(path=path).text())
    assert labels(folder) == expected


@pytest.mark.parametrize(
    "hypothesis", ["Der Hu ##nd .", "\u0120Der \u0120Hu nd", "\u2581Der \u2581Hu nd", "Hu@@ nd"]
)
def test_hypotheses_in_pieces_do_not_fill(hypothesis: str, tmp_path: Path) -> None:
    text = replace(
        GENERATION.changed(remove_bpe=None), num_printed=3003, hypothesis=hypothesis
    ).text()
    assert labels(of(tmp_path, g=text)) == ("unit pieces",)


def test_a_negative_loss_sets_the_perplexity_apart(tmp_path: Path) -> None:
    text = BASE.text().replace("nll_loss 2.000", "nll_loss -2.000")
    (training,) = of(tmp_path, a=text, av="", g="").trainings
    assert training.perplexity_labels == ("nll_loss -2",)


@pytest.mark.parametrize("value", ["nan", "-3.00"])
def test_an_impossible_bleu_fills_nothing(value: str, tmp_path: Path) -> None:
    (line,) = (
        one
        for one in lines_of(of(tmp_path, g=replace(GENERATION, value=value).text()))
        if not one.configuration
    )
    assert not any(
        one.value is not None for values in line.scored("test").values() for one in values
    )


def test_a_quiet_log_of_another_test_set_is_subtracted_from_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path, {"g.log": QUIET})
    assert main(["doctor", str(folder), "--system", "base", "--corpus", "wmt14_en_de"]) == 1
    told = capsys.readouterr().out
    assert "6,750; expected 3,003" in told
    assert "Another test set" in told
    assert "Missing" not in told
    assert "Nothing is missing" not in told


@pytest.mark.parametrize(("name", "content", "told"), [
    ("a.log", BASE.text().encode("utf-16"), "UTF-16"),
    ("a.log.zst", b"\x28\xb5\x2f\xfd", "zst"),
    ("a.log", BASE.text().replace("wpb", "w\0b").encode(), "zero byte"),
])  # fmt: skip
def test_doctor_says_why_a_log_is_not_read(
    name: str, content: bytes, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert main(["doctor", str(tmp_path), "--system", "base", "--corpus", "wmt14_en_de"]) == 1
    assert told in capsys.readouterr().err
