"""Every rule of aiayn/logs/rules.py broken once by changing one key of a clean log, with what the user then sees."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from aiayn.logs.folder import judge_folder
from aiayn.logs.rules import LOG_CHECKS, average_trainings, show, symbol_findings
from aiayn.logs.symbols import ROW_SYMBOLS, SYMBOL_RULES
from aiayn.runs.attempts import Ended, Started
from paper_tables.logs.from_logs import read_rows
from tests.logs.factory import BASE, GenerationText, TrainingText, averaging_text, read_folder, write

ROWS = read_rows(["paper", "demo"])
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
    """A folder of clean logs: a training, its copy with another seed, a generation of the first; ours."""

    first: TrainingText = TrainingText()
    second: TrainingText = TrainingText(final_nll_bits=2.5).changed(seed=2, save_dir="checkpoints/second")
    generation: GenerationText = GenerationText()
    ours: TrainingText = TrainingText(form="config", log_format="json", arguments=OURS, num_train_pairs=36_000_000)
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
    judged = judge_folder(folder, read_folder(folder), ROWS)
    _, findings_by_path = average_trainings(judged.trainings)
    found = [(one.path, finding) for one in (*judged.trainings, *judged.generations) for finding in one.findings]
    found += [(path, finding) for path, findings in findings_by_path.items() for finding in findings]
    return {finding.check: finding.text(path) for path, finding in found}


def attempts(commits: tuple[str, ...]) -> str:
    """Return attempts.jsonl with an attempt a commit, each of an hour."""
    events: list[Started | Ended] = []
    for number, commit in enumerate(commits, start=1):
        begin, end = f"2024-03-0{number}T12:00:00+00:00", f"2024-03-0{number}T13:00:00+00:00"
        events.append(Started(attempt=number, time=begin, job="1", host="h", device="cuda", num_gpus=8,
                              threads_per_rank=1, commit=commit, update=0))  # fmt: skip
        events.append(Ended(attempt=number, time=end, update=0, outcome="stopped", reason="", log_tail=[]))
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
LAST_VALID = "epoch 004 | valid on 'valid' subset | loss 3.600 | nll_loss 2.000"
# Rule: the scene with one key changed, an edit of the first log, and parts of what the user sees: place, values.
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
        CLEAN._replace(first=CLEAN.first.changed(max_update=100_004)),
        with_change("num_updates 100004", "num_updates 100003"),
        "first.log:32: ends at update 100,003, was to reach 100,004 [last-update]; resume the training",
    ),
    "done-line": (
        CLEAN._replace(first=replace(CLEAN.first, is_done=False)), str,
        "first.log:31: no line `done training` at its end [done-line]; resume the training",
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
        "first.log: no validation on `valid` at the last update, 100,000; the newest is at 75,000 [final-validation]",
    ),
    "dev-nll": (
        CLEAN, with_change("nll_loss 2.000 | ", ""),
        "first.log: the last validation prints no nll_loss, and a smoothed loss is no perplexity [dev-nll]",
    ),
    "finite-loss": (
        CLEAN, with_change("nll_loss 2.000", "nll_loss nan"),
        "first.log: the last validation's nll_loss is no finite number: the training diverged [finite-loss]",
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
        "first.log: 1 line(s) repeat another (several ranks, or one handler more an epoch)",
    ),
    "norm-epsilon": (
        CLEAN._replace(ours=CLEAN.ours.changed(norm_epsilon=1e-05)), str,
        "ours/train.log: ", "1e-05, the row's 1e-06 (",
    ),
    "tokens-per-update": (
        CLEAN._replace(first=CLEAN.first.changed(distributed_world_size=1)), str,
        "first.log: ", "3,250, the row's 26,000 (",
    ),
    "language-pair": (
        CLEAN._replace(first=CLEAN.first.changed(target_lang="ro")), str,
        "first.log: trained on en-ro: the paper's tables are of en-de and en-fr [language-pair]; take it out",
    ),
    "language-pair-known": (
        CLEAN._replace(first=CLEAN.first.changed(source_lang=None)), without("] dictionary:"),
        "first.log: no line names its languages [language-pair-known]",
    ),
    "training-pairs": (
        CLEAN._replace(first=replace(CLEAN.first, num_train_pairs=160_239)), str,
        "first.log: trained on 160,239 pairs, the paper on about 4,500,000 (section 5.1): another corpus",
    ),
    "dev-pairs": (
        CLEAN._replace(first=replace(CLEAN.first, num_valid_pairs=39_414)), str,
        "first.log: `valid` holds 39,414 pairs, newstest2013 3,000: another dev set than Table 3's [dev-pairs]",
    ),
    "own-beginning": (
        CLEAN._replace(
            first=replace(CLEAN.first, loaded="Loaded checkpoint pretrained/big.pt (epoch 16 @ 0 updates)")
        ),
        str, "first.log:1: began from the weights of pretrained/big.pt, update 0 with a new optimiser [own-beginning]",
    ),
    "plain-training": (
        CLEAN._replace(first=CLEAN.first.changed(sentence_avg=True)), str,
        "first.log: --sentence-avg True: the paper's has False [plain-training]; leave it out",
    ),
    "filled-batches": (
        CLEAN, with_change("24900.5", "3100.5"),
        "first.log: 3,100 target tokens an update by its wpb, of 26,000 positions asked for: another batch",
    ),
    "vocabulary": (
        CLEAN._replace(first=replace(CLEAN.first, vocabulary_size=8_000)), str,
        "first.log: a dictionary of 8,000 types, the paper's about 37,000 (section 5.1): another segmentation",
    ),
    "plain-search": (
        CLEAN._replace(generation=CLEAN.generation.changed(sampling=True)), str,
        "generation.log: --sampling True: the paper's has False [plain-search]; leave it out",
    ),
    "length-limit": (
        CLEAN._replace(generation=CLEAN.generation.changed(max_len_a=0, max_len_b=50)), str,
        "generation.log: output is cut at 0 x input + 50 tokens, the paper's at input + 50 (section 6.1)",
    ),
    "words-or-pieces": (
        CLEAN._replace(generation=CLEAN.generation.changed(remove_bpe=None)), str,
        "generation.log:4: whether its BLEU is of words or of pieces is not known: it prints no hypotheses",
    ),
    "bleu-line": (
        CLEAN._replace(generation=replace(CLEAN.generation, score="none")), str,
        "generation.log:4: no line `Generate ... with beam=...: BLEU4 = ...` [bleu-line]",
    ),
    "whole-generation": (
        CLEAN._replace(num_cut=20), str,
        "generation.log:4: the log ends inside a line [whole-generation]; copy it again",
    ),
    "known-training": (
        CLEAN._replace(generation=CLEAN.generation.changed(path="elsewhere/averaged.pt")), str,
        "generation.log: of elsewhere/averaged.pt: not one training log here (none, or several) saved into that folder",
    ),
    "one-model": (
        CLEAN._replace(generation=CLEAN.generation.changed(path="checkpoints/base/a.pt:checkpoints/base/b.pt")), str,
        "generation.log: an ensemble of 2 models: the tables' rows are of one [one-model]",
    ),
    "plain-model": (
        CLEAN._replace(generation=CLEAN.generation.changed(model_overrides="{'dropout': 0.2}")), str,
        "generation.log: decoded with --model-overrides: another model than was trained [plain-model]",
    ),
    "words-not-pieces": (
        CLEAN._replace(generation=replace(CLEAN.generation, num_printed=3003, hypothesis="das ist ein Sa@@ tz .")), str,
        "generation.log:15019: the hypotheses still hold marks of subwords: the BLEU is one of pieces",
    ),
    "every-sentence": (
        CLEAN._replace(generation=replace(CLEAN.generation, num_printed=3002)), str,
        "generation.log:15014: 3,002 hypotheses are in the log, 3,003 sentences were translated [every-sentence]",
    ),
    "test-set-size": (
        CLEAN._replace(generation=replace(CLEAN.generation, num_sentences=2737)), str,
        "generation.log: `test` holds 2,737 sentences, the paper's set 3,003 (newstest2013: 3,000;",
        "2,737 sentences are the filtered newstest2014",
    ),
    "beam-size": (
        CLEAN._replace(generation=replace(CLEAN.generation, beam_size=5)), str,
        "generation.log: ", "5, the row's 4 (",
    ),
    "length-penalty": (
        CLEAN._replace(generation=CLEAN.generation.changed(lenpen=1.0)), str,
        "generation.log: ", "1, the row's 0.6 (",
    ),
    "average": (
        CLEAN._replace(generation=CLEAN.generation.changed(path="checkpoints/base/checkpoint_best.pt")), str,
        "generation.log: ", "checkpoint_best.pt, the row's last5 (",
    ),
    "clean-commit": (
        CLEAN._replace(commits=("0123456789abcdef+dirty",)), str,
        "ours/train.log: trained at 0123456789abcdef+dirty: files differed from the commit",
    ),
    "one-commit": (
        CLEAN._replace(commits=("0123456789abcdef", "fedcba9876543210")), str,
        "ours/train.log: its attempts are of 2 commits (0123456789abcdef, fedcba9876543210): mixed versions",
    ),
    "seed-known": (CLEAN, with_change("seed=1, ", ""), "first.log: no seed in its arguments [seed-known]"),
    "one-log-a-training": (
        CLEAN._replace(second=CLEAN.first), str,
        "second.log: the same training as first.log: it counts once [one-log-a-training]",
    ),
    "one-version": (
        CLEAN._replace(second=replace(CLEAN.second, form="config")), str,
        "second.log: made with fairseq 1.0.0a0 to 0.12; first.log of the same configuration",
    ),
    "distinct-seeds": (
        CLEAN._replace(second=CLEAN.second.changed(seed=1)), str,
        "second.log: seed 1 again, as in first.log: two trainings of one seed are not two samples [distinct-seeds]",
    ),
}  # fmt: skip


# Rules that another test breaks, or that are broken under the name of what they keep plain.
ELSEWHERE = {"plain", "long-enough", "low-first-rate", "not-stated", "one-log-a-generation", "log-and-record-agree"}


def test_every_rule_but_those_of_single_symbols_is_broken_below() -> None:
    assert LOG_CHECKS.keys() - BREAKS.keys() == ELSEWHERE


# By ROW_SYMBOLS a log finds its row: there they never differ.
@pytest.mark.parametrize("symbol", [symbol for symbol in SYMBOL_RULES if symbol not in ROW_SYMBOLS])
def test_a_symbol_that_is_not_the_rows_breaks_its_own_rule(symbol: str) -> None:
    base = next(row for row in ROWS if row.system == "base")
    expected = {symbol: (base.symbols | base.decoding | {"average": "last5"})[symbol]}
    value = expected[symbol]
    other = not value if isinstance(value, bool) else "other" if isinstance(value, str) else 2 * value + 1
    (finding,) = symbol_findings({symbol: other}, expected)
    evidence = finding.evidence[0]
    assert (evidence.what, evidence.found, evidence.expected) == (symbol, show(other), show(value))
    assert finding.severity == ("note" if symbol == "precision" else "apart")
    assert list(symbol_findings(expected, expected)) == []


def test_a_clean_folder_breaks_no_rule(tmp_path: Path) -> None:
    assert broken(CLEAN, tmp_path) == {}


@pytest.mark.parametrize("rule", BREAKS)
def test_a_log_with_one_key_changed_breaks_its_rule_and_says_so(rule: str, tmp_path: Path) -> None:
    scene, edit, *seen = BREAKS[rule]
    messages = broken(scene, tmp_path, edit)
    assert [part for part in seen if part not in messages[rule]] == []
    assert f"[{rule}]; " in messages[rule]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "unknown"), (True, "True"), (100000, "100,000"), (0.1, "0.1"), (1e-09, "1e-09"), (0.0007, "0.0007"),
     ("pre", "pre"), (0.0006987, "0.000699")],
)  # fmt: skip
def test_values_are_shown_as_they_are_read(value: object, shown: str) -> None:
    assert show(value) == shown  # type: ignore[arg-type]
