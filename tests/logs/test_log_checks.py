"""Each check of a log, and each quantity that is compared, made wrong once by changing one key of a
clean log.
"""

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from aiayn.logs.completeness import LOG_CHECKS
from aiayn.logs.symbols import ROW_SYMBOLS, SYMBOL_RULES
from aiayn.runs.attempts import Ended, Started
from paper_tables.compare.judgement import show
from paper_tables.compare.lines import average_trainings
from paper_tables.compare.systems import read_systems
from paper_tables.compare.training import judge_symbol
from tests.logs.factory import BASE, GenerationText, TrainingText, averaging_text, judged, write

SYSTEMS = read_systems(["paper", "demo"])
AVERAGED = [f"checkpoints/base/checkpoint_4_{update}.pt" for update in range(94_000, 100_001, 1500)]
OURS = {
    **{key: value for key, value in BASE.items() if not key.startswith(("encoder_", "decoder_", "share_"))},
    "arch": "aiayn_transformer", "task": "aiayn_translation", "criterion": "aiayn_label_smoothing",
    "optimizer": "aiayn_adam", "adam_beta_1": 0.9, "adam_beta_2": 0.98, "adam_epsilon": 1e-09, "num_layers": 6,
    "d_model": 512, "d_ff": 2048, "num_heads": 8, "d_k": 64, "d_v": 64, "norm_order": "post", "norm": "layer",
    "attention": "scaled", "norm_epsilon": 1e-06, "initialisation": "tensor2tensor",
    "attention_biases": True, "positions": "sinusoidal", "embeddings": "d_model", "p_drop": 0.1,
    "p_drop_attention": 0.0, "p_drop_ffn": 0.0, "share_embeddings": "all", "lr_scheduler": "equation_3",
    "schedule_d_model": 512, "precision": "fp32", "target_lang": "fr",
}  # fmt: skip


class Scene(NamedTuple):
    """A folder of clean logs: a training, its copy with another seed, a generation of the first;
    ours.
    """

    first: TrainingText = TrainingText()
    second: TrainingText = TrainingText(final_nll_bits=2.5).changed(
        seed=2, save_dir="checkpoints/second"
    )
    generation: GenerationText = GenerationText()
    ours: TrainingText = TrainingText(
        form="config", log_format="json", arguments=OURS, num_train_pairs=36_000_000
    )
    commits: tuple[str, ...] = ("0123456789abcdef",)
    num_cut: int = 0


def broken(scene: Scene, folder: Path, edit: Callable[[str], str] = str) -> dict[str, str]:
    """Return the messages, by rule; `edit` changes the first training's text."""
    write(
        folder,
        {
            "first.log": edit(scene.first.text()),
            "second.log": scene.second.text(),
            "generation.log": scene.generation.text()[: -scene.num_cut or None],
            "average.log": averaging_text(AVERAGED, "checkpoints/base/averaged.pt"),
            "ours/train.log": scene.ours.text(),
            "ours/attempts.jsonl": attempts(scene.commits),
        },
    )
    found = judged(folder, SYSTEMS)
    _, findings_by_path = average_trainings(found.trainings)
    messages = {}
    for path, findings in findings_by_path.items():
        messages |= {finding.check: finding.text(path) for finding in findings}
    scored = [one for training in found.trainings for one in training.generations]
    for one in (*scored, *found.others):
        messages |= {finding.check: finding.text(one.generation.path) for finding in one.findings}
    for training in found.trainings:
        messages |= {finding.check: finding.text(training.path) for finding in training.findings}
    for one in (*scored, *found.trainings):
        messages |= {
            judged.quantity: judged.text for judged in one.judgements if not judged.is_good
        }
    return messages


def attempts(commits: tuple[str, ...]) -> str:
    """Return attempts.jsonl with an attempt a commit, each of an hour."""
    events: list[Started | Ended] = []
    for number, commit in enumerate(commits, start=1):
        begin, end = f"2024-03-0{number}T12:00:00+00:00", f"2024-03-0{number}T13:00:00+00:00"
        events.append(
            Started(
                attempt=number,
                time=begin,
                job="1",
                host="h",
                device="cuda",
                num_gpus=8,
                threads_per_rank=1,
                commit=commit,
                update=0,
            )
        )
        events.append(
            Ended(attempt=number, time=end, update=0, outcome="stopped", reason="", log_tail=[])
        )
    return "".join(msgspec.json.encode(event).decode() + "\n" for event in events)


def without(word: str) -> Callable[[str], str]:
    """Return an edit that takes out the lines with a word."""
    return lambda text: "".join(line for line in text.splitlines(keepends=True) if word not in line)


def with_change(old: str, new: str, count: int = -1) -> Callable[[str], str]:
    """Return an edit that replaces text, which must be there."""

    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new, count)

    return edit


CLEAN = Scene()


def trained(**arguments: Any) -> Scene:
    """Return the clean scene with other arguments of the first training."""
    return CLEAN._replace(first=CLEAN.first.changed(**arguments))


def first_log(**fields: Any) -> Scene:
    """Return the clean scene with other words in the first training's log."""
    return CLEAN._replace(first=replace(CLEAN.first, **fields))


def decoded(**arguments: Any) -> Scene:
    """Return the clean scene with other arguments of the translation."""
    return CLEAN._replace(generation=CLEAN.generation.changed(**arguments))


def generation_log(**fields: Any) -> Scene:
    """Return the clean scene with other words in the translation's log."""
    return CLEAN._replace(generation=replace(CLEAN.generation, **fields))


LAST_VALID = "epoch 004 | valid on 'valid' subset | loss 3.600 | nll_loss 2.000"
# Check or quantity: the scene with one key changed, an edit of the first log, and parts of what the
# user sees.
BREAKS: dict[str, tuple[Scene, Callable[[str], str], *tuple[str, ...]]] = {
    "start-line": (CLEAN, without("Namespace("), "first.log:15: no start line with fairseq's arguments: "),
    "one-training": (
        CLEAN,
        lambda text: text + next(one for one in text.split("\n") if LAST_VALID in one).replace("2.000", "2.222") + "\n",
        "first.log:33: validation on 'valid' at update 100,000 reads (3.6, 2.222), line 30 has (3.6, 2.0)",
    ),
    "whole-last-line": (CLEAN, lambda text: text[:-30], "first.log:32: the log ends inside a line [whole-last-line]"),
    "whole-lines": (
        CLEAN,
        with_change("epoch 002 | loss", "epoch 2024-03-01 12:00:00 | INFO | train | epoch 002 | loss"),
        "first.log:23: 1 line(s) of statistics are torn, as when several processes write at once",
    ),
    "updates-begun": (CLEAN, without("num_updates"), "first.log:16: no line counts an update [updates-begun]"),
    "last-update": (
        trained(max_update=100_004),
        with_change("num_updates 100004", "num_updates 100003"),
        "first.log:32: ends at update 100,003, was to reach 100,004 [last-update]; resume the training",
    ),
    "every-epoch": (
        CLEAN, without("| train | epoch 002"),
        "first.log: the last line of 1 epoch(s) is missing, first of epoch 2 [every-epoch]; put the missing part",
    ),
    "every-validation": (
        CLEAN, without("epoch 003 | valid on"),
        "first.log: 1 validation(s) that were due are missing, first at update 75,000 [every-validation]",
    ),
    "final-validation": (
        CLEAN, without("epoch 004 | valid on"),
        "first.log: no validation on `valid` at the last update, 100,000; the newest is at 75,000: no perplexity",
    ),
    "dev-nll": (
        CLEAN, with_change("nll_loss 2.000 | ", ""),
        "first.log: the last validation prints no nll_loss, and a smoothed loss is no perplexity [dev-nll]",
    ),
    "diverged": (
        CLEAN, with_change("nll_loss 2.000", "nll_loss nan"),
        "first.log:30: diverged after update 75,000, the system's a finite loss",
    ),
    "whole-history": (
        CLEAN._replace(
            first=replace(
                CLEAN.first, first_epoch=3, num_epochs=2,
                loaded="loaded checkpoint checkpoints/base/checkpoint_last.pt (epoch 3 @ 50000 updates)",
            )
        ),
        str, "first.log: begins at update 50,000: what came before is in another log, so seconds and cost are not",
    ),
    "parameters-line": (CLEAN, without("model params"), "first.log: no line `num. model params` [parameters-line]"),
    "repeated-lines": (
        CLEAN,
        lambda text: "".join(line * (2 if LAST_VALID in line else 1) for line in text.splitlines(keepends=True)),
        "first.log: 1 line(s) repeat another (several ranks, or one more handler each epoch)",
    ),
    "norm_epsilon": (
        CLEAN._replace(ours=CLEAN.ours.changed(norm_epsilon=1e-05)), str,
        "ours/train.log:1: epsilon of the normalisation 1e-05, the system's 1e-06: different",
    ),
    "language-pair-known": (
        trained(source_lang=None), without("] dictionary:"),
        "first.log: no line names its languages [language-pair-known]",
    ),
    "beginning": (
        CLEAN._replace(
            first=replace(CLEAN.first, loaded="Loaded checkpoint pretrained/big.pt (epoch 16 @ 0 updates)")
        ),
        str, "first.log:1: began from the weights of big.pt", "pretrained/big.pt, update 0, with a new optimizer",
    ),
    "num_gpus": (
        CLEAN, with_change("training on 8 devices", "training on 4 devices"),
        "first.log:1: GPUs 8 and 4, the system's stated, and one number: contradictory",
    ),
    "wpb": (
        CLEAN, with_change("24900.5", "3100.5"),
        "first.log:31: target tokens an update, printed, 3,100, the system's 26,000 positions: contradictory",
    ),
    "printed_rates": (
        CLEAN, lambda text: re.sub(r"lr=([\d.e-]+)", lambda found: f"lr={0.3 * float(found[1]):.6g}", text),
        "learning rate printed at update", "8 of 8 printed rates are not those of the arguments",
    ),
    "unit": (
        decoded(remove_bpe=None), str,
        "generation.log:4: BLEU counts is not stated; the system's is words",
    ),
    "reference_tokens": (
        generation_log(score=CLEAN.generation.score.replace("64512", "131022")),
        str, "generation.log:4: tokens of the references 131,022, the system's 60,000 to 72,000: different",
    ),
    "whole-generation": (
        CLEAN._replace(num_cut=20), str,
        "generation.log:4: the log ends inside a line [whole-generation]; copy it again",
    ),
    "clean-commit": (
        CLEAN._replace(commits=("0123456789abcdef+dirty",)), str,
        "ours/train.log: trained at 0123456789abcdef+dirty: files differed from the commit",
    ),
    "one-commit": (
        CLEAN._replace(commits=("0123456789abcdef", "fedcba9876543210")), str,
        "ours/train.log: its attempts have 2 commits (0123456789abcdef, fedcba9876543210): mixed versions",
    ),
    "seed-known": (CLEAN, with_change("seed=1, ", ""), "first.log: no seed in its arguments [seed-known]"),
    "one-log-a-training": (
        CLEAN._replace(second=CLEAN.first), str,
        "second.log: the same training as first.log: it counts once [one-log-a-training]",
    ),
    "one-version": (
        CLEAN._replace(second=replace(CLEAN.second, form="config")), str,
        "second.log: made with fairseq 1.0.0a0 to 0.12; first.log with the same configuration but another version",
    ),
    "distinct-seeds": (
        CLEAN._replace(second=CLEAN.second.changed(seed=1)), str,
        "second.log: seed 1 again, as in first.log: two trainings of one seed are not two samples [distinct-seeds]",
    ),
}  # fmt: skip
SCENES: dict[str, Callable[..., Scene]] = {
    "training arguments": trained,
    "training log": first_log,
    "translation arguments": decoded,
    "translation log": generation_log,
}
ONE_KEY_CHANGED = Path(__file__).parent / "one_key_changed.toml"
for check, case in tomllib.loads(ONE_KEY_CHANGED.read_text(encoding="utf-8")).items():
    BREAKS[check] = (SCENES[case["changes"]](**case["to"]), str, *case["shown"])


ELSEWHERE = {"one-log-a-generation", "log-and-record-agree"}  # which other tests break


def test_every_check_of_a_log_fails_below() -> None:
    assert LOG_CHECKS.keys() - BREAKS.keys() == ELSEWHERE


# ROW_SYMBOLS identify the row of a log: there they never differ.
@pytest.mark.parametrize("symbol", [symbol for symbol in SYMBOL_RULES if symbol not in ROW_SYMBOLS])
def test_a_symbol_that_is_not_the_systems_is_different(symbol: str) -> None:
    base = next(system for system in SYSTEMS if system.system == "base")
    expected = (base.symbols | base.decoding | {"average": "last5"})[symbol]
    other = (
        not expected
        if isinstance(expected, bool)
        else "other"
        if isinstance(expected, str)
        else 2 * expected + 1
    )
    found = judge_symbol(symbol, other, expected, "a.log", 1)
    assert (found.quantity, found.found, found.expected, found.verdict) == (
        symbol,
        show(other),
        show(expected),
        "different",
    )
    assert judge_symbol(symbol, expected, expected, "a.log", 1).verdict == "equal"
    assert judge_symbol(symbol, None, expected, "a.log", 1).verdict == "not stated"


def test_a_clean_folder_has_nothing_wrong(tmp_path: Path) -> None:
    assert broken(CLEAN, tmp_path) == {}


@pytest.mark.parametrize("name", BREAKS)
def test_a_log_with_one_key_changed_says_what_is_wrong(name: str, tmp_path: Path) -> None:
    scene, edit, *seen = BREAKS[name]
    messages = broken(scene, tmp_path, edit)
    assert [part for part in seen if part not in messages[name]] == [], messages[name]
    assert f"[{name}]" in messages[name]
