"""Logs that were changed so that a number is wrong: none of them fills its row without a word.

Each attack changes the clean logs of base. `training` changes the training's log, `translation` the
log of fairseq-generate, and `averaging` that of average_checkpoints.py.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.known_good.folders import (
    AVERAGED,
    AVERAGING,
    BASE,
    GENERATION,
    PLACE,
    filled,
    judge_base,
)
from tests.logs.factory import averaging_text

Change = Callable[[str], str]
HEAD = "2024-03-01 12:00:00 | INFO | "


def replaced(old: str, new: str) -> Change:
    """Return a change of every place of a pattern."""

    def change(text: str) -> str:
        assert re.search(old, text), old
        return re.sub(old, new, text)

    return change


def below_start(line: str) -> Change:
    """Return a change that puts a line below the first line."""
    return lambda text: text.replace("\n", f"\n{line}\n", 1)


def from_epoch(first: int, old: str, new: str) -> Change:
    """Return a change of a pattern in the lines of an epoch and of all later epochs."""

    def change(text: str) -> str:
        lines = []
        for line in text.split("\n"):
            found = re.search(r"epoch (\d{3})", line)
            is_late = found is not None and int(found[1]) >= first
            lines.append(re.sub(old, new, line) if is_late else line)
        return "\n".join(lines)

    return change


def without(pattern: str) -> Change:
    """Return a change that drops the lines with a pattern."""
    return lambda text: "\n".join(line for line in text.split("\n") if not re.search(pattern, line))


def twice(pattern: str, old: str, new: str) -> Change:
    """Return a change that adds after each line with a pattern the same line, changed."""

    def change(text: str) -> str:
        lines = []
        for line in text.split("\n"):
            lines.append(line)
            if re.search(pattern, line):
                lines.append(line.replace(old, new))
        return "\n".join(lines)

    return change


TRAININGS: dict[str, Change] = {
    "a GPU is lost in epoch 15": from_epoch(15, r"wpb [\d.]+", "wpb 18000.0"),
    "the rate stays at its peak from epoch 11": from_epoch(11, r"lr=[\d.e-]+", "lr=0.0007"),
    "an epoch of the middle is missing": without("epoch 008"),
    "a validation of the middle is missing": without(r"epoch 008 \| valid"),
    "the last validation is missing": without(r"epoch 020 \| valid"),
    "two ranks with different losses": twice(r"\| train \| epoch 0", "loss 3.500", "loss 3.700"),
    "updates that go back": twice(r"epoch 020: .*num_updates", "num_updates=", "num_updates=1"),
    "loss without smoothing": replaced(r"\| loss [\d.]+ \| nll_loss ([\d.]+)", r"| loss \1 | nll_loss \1"),
    "a model of a different name": below_start(HEAD + "fairseq_cli.train | model: transformer_iwslt_de_en (TransformerModel)"),
    "a task of a different class": below_start(HEAD + "fairseq_cli.train | task: translation (TranslationFromPretrainedBARTTask)"),
    "a criterion of a different class": below_start(HEAD + "fairseq_cli.train | criterion: label_smoothed_cross_entropy (RDropCriterion)"),
    "code of a user": below_start(HEAD + "fairseq.utils | --user-dir=/home/me/my_transformer has already been imported."),
    "an argument for code of a user": replaced(r"Namespace\(", "Namespace(user_dir='/home/me/my_transformer', "),
    "experts": below_start(HEAD + "fairseq_cli.train | num. expert model params: 12,000,000 (num. trained: 12,000,000)"),
    "a matrix of a different size": replaced(r"\(dropout_module\): FairseqDropout\(\)", "(fc1): Linear(in_features=512, out_features=4096, bias=True)"),
    "a layer more": replaced(r"\(dropout_module\): FairseqDropout\(\)", "(layers): ModuleList(\n      (0-6): 7 x TransformerEncoderLayer(\n      )\n    )"),
    "weights of BERT, printed by a fork": below_start("Initialized encoder from BERT"),
    "a loaded teacher": below_start(HEAD + "root | teacher restored from teacher.pt"),
    "a warning that nobody knows": below_start("2024-03-01 12:00:00 | WARNING | my_plugin | something is odd"),
    "samples are dropped by a fork": below_start(HEAD + "fairseq.data.data_utils | 900000 samples filtered by ratio"),
    "half of the pairs are skipped": below_start("2024-03-01 12:00:00 | WARNING | fairseq.tasks.fairseq_task | 2,250,000 samples have invalid sizes and will be skipped, max_positions=(64, 64), first few sample ids=[1, 2]"),
    "an epoch reads half of the corpus": replaced(r"bsz [\d.]+", "bsz 450.0"),
    "batches of very long pairs": replaced(r"wpb [\d.]+ \| bsz [\d.]+", "wpb 34000.0 | bsz 400.0"),
    "an argument is stated twice": replaced(r"dropout=0\.1,", "dropout=0.1, dropout=0.3,"),
    "arguments that are cut": replaced(r"Namespace\(.*\)", "Namespace(arch='transformer_wmt_en_de'"),
    "parts of two days in the wrong order": replaced("2024-03-01 12:00:00 . INFO . fairseq_cli.train . done", "2024-02-20 12:00:00 | INFO | fairseq_cli.train | done"),
    "dictionaries that are not joint": replaced(r"\[de\] dictionary: 37000", "[de] dictionary: 36000"),
    "fewer parameters": replaced("63102976", "61102976"),
    "a torn line of statistics": replaced(r"(epoch 009 \| valid.*) \| ppl [\d.]+", r"\1 | ppl 5"+"."+"6.6"),
    "a number of GPUs that contradicts the arguments": replaced("training on 8", "training on 1"),
    "weights of a different folder": replaced("no existing checkpoint found .*", "loaded checkpoint /models/other/checkpoint_best.pt (epoch 9 @ 0 updates)"),
}  # fmt: skip
TRANSLATIONS: dict[str, Change] = {
    "a further test set": replaced("Generate test", "Generate test1"),
    "a ratio of different lengths": replaced("ratio=1.031", "ratio=0.990"),
    "a longer score line": replaced(r"(BLEU4 = .*)", r"\1 after reranking"),
    "an ensemble": replaced(r"path='[^']*'", f"path='{AVERAGED}:{PLACE}/checkpoint20.pt'"),
    "a beam of a different size is printed": replaced("beam=4: BLEU4", "beam=8: BLEU4"),
    "a part of the sentences": replaced("Translated 3003", "Translated 1500"),
    "a reranker": below_start("2024-03-02 12:00:00 | INFO | fairseq_cli.generate | reranking with model noisy_channel"),
    "constrained search": below_start("2024-03-02 12:00:00 | WARNING | my.search | lexical hints on"),
}  # fmt: skip
AVERAGINGS: dict[str, str] = {
    "an average that was written twice": AVERAGING
    + averaging_text([f"{PLACE}/checkpoint{epoch}.pt" for epoch in range(10, 5, -1)], AVERAGED),
    "the best checkpoints": averaging_text(
        [f"{PLACE}/checkpoint.best_loss_{loss}.pt" for loss in ("3.6", "3.7", "3.8")], AVERAGED
    ),
    "an average of an average": averaging_text([f"{PLACE}/avg10.pt"], AVERAGED),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_a_changed_training_does_not_fill(name: str, tmp_path: Path) -> None:
    text = TRAININGS[name](BASE.text())
    assert text != BASE.text()
    judged = judge_base(tmp_path, a=text)
    numbers = filled(judged)
    perplexity = {"ppl_per_subword"} & {one for listed in numbers.values() for one in listed}
    assert not perplexity
    if "validation" not in name:
        assert not any("bleu" in listed for listed in numbers.values())


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_a_changed_translation_does_not_fill(name: str, tmp_path: Path) -> None:
    text = TRANSLATIONS[name](GENERATION.text())
    assert text != GENERATION.text()
    assert "g.log" not in filled(judge_base(tmp_path, g=text))


@pytest.mark.parametrize("name", AVERAGINGS)
def test_a_changed_average_does_not_fill(name: str, tmp_path: Path) -> None:
    assert "g.log" not in filled(judge_base(tmp_path, av=AVERAGINGS[name]))
