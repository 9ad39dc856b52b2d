"""Folders of logs for the tests of the judge: a complete training of base, its average and its
translation, what of them fills, and edits of them.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiayn.facts.join import join_logs
from aiayn.facts.listing import list_folder
from aiayn.facts.reader import read_log
from aiayn.facts.trainings import Generation, JoinedLogs, Target, Training
from aiayn.known_good.rows import judge_logs
from aiayn.known_good.targets import read_targets
from tests.logs.factory import (
    OURS,
    GenerationText,
    TrainingText,
    attempts,
    averaging_text,
    write,
)

TARGETS = read_targets(["paper", "demo"])
PLACE = "checkpoints/base"
AVERAGED = f"{PLACE}/checkpoint.avg5.pt"
BASE = replace(TrainingText(), num_epochs=20)
GENERATION = GenerationText().changed(path=AVERAGED)
AVERAGING = averaging_text(
    [f"{PLACE}/checkpoint{epoch}.pt" for epoch in range(20, 15, -1)], AVERAGED
)
SECOND = replace(BASE, final_nll_bits=2.5).changed(seed=2, save_dir="checkpoints/second")
OUR_TRAINING = TrainingText(
    form="config", log_format="json", arguments=OURS, num_train_pairs=36_000_000, num_epochs=4
)
# The clean folder that the edits of edits.toml change.
CLEAN_TEXTS = {
    "first.log": BASE.text(),
    "second.log": SECOND.text(),
    "average.log": AVERAGING,
    "generation.log": GENERATION.text(),
    "ours/train.log": OUR_TRAINING.text(),
    "ours/attempts.jsonl": attempts(("0123456789abcdef",)),
}
EDITS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("edits.toml").read_text(encoding="utf-8")
)["edit"]


def judge(folder: Path, targets: Sequence[Target] = TARGETS) -> JoinedLogs:
    """Return the logs below a folder, compared with the paper's rows, or with other targets."""
    files = [read_log(folder / path, path) for path in list_folder(folder).log_paths]
    return judge_logs(join_logs(files), targets, folder)


def judge_texts(folder: Path, texts: Mapping[str, str]) -> JoinedLogs:
    """Write texts by file name, and return the judged folder."""
    return judge(write(folder, texts))


def judge_base(folder: Path, **texts: str) -> JoinedLogs:
    """Return the judged folder of base's training `a`, its average `av` and its translation `g`.

    `texts` replace them, or add further logs. An empty text leaves a log out.
    """
    written = {"a": BASE.text(), "av": AVERAGING, "g": GENERATION.text()} | texts
    named = {f"{name}.log": text for name, text in written.items() if text}
    return judge_texts(folder, named)


def edited_texts(edit: Mapping[str, Any]) -> dict[str, str]:
    """Return the logs of the clean folder with an edit, by file name."""
    texts = dict(CLEAN_TEXTS)
    for change in edit["changes"]:
        text = texts[change["file"]]
        changed = re.sub(change["find"], change["replace"], text, flags=re.MULTILINE)
        assert changed != text, change
        texts[change["file"]] = changed
    return texts


def training(judged: JoinedLogs, name: str = "a.log") -> Training:
    """Return the training whose log is called so."""
    return next(one for one in judged.trainings if one.name.startswith(name))


def generation(judged: JoinedLogs, name: str = "g.log") -> Generation:
    """Return the translation whose log is called so."""
    return next(one for one in judged.generations if one.name.startswith(name))


def kept_out_by(judged: Training | Generation) -> set[str]:
    """Return the quantities that keep a number out of its row, without notes."""
    return {problem.quantity for problem in judged.problems if problem.keeps_out}


def noted(judged: Training | Generation) -> set[str]:
    """Return the quantities of the notes."""
    return {problem.quantity for problem in judged.problems if not problem.keeps_out}


def problems_of(judged: JoinedLogs, name: str) -> set[str]:
    """Return the quantities that keep the numbers of a log out of their row; `nothing` stands for
    a log without problems that has no row.
    """
    for one in judged.trainings:
        if one.name.startswith(name):
            return kept_out_by(one)
    return kept_out_by(generation(judged, name))


def filled(judged: JoinedLogs) -> dict[str, list[str]]:
    """Return which numbers of each log fill a row."""
    numbers: dict[str, list[str]] = {}
    for one in judged.trainings:
        names = [
            *one.value_by_metric,
            *(["cost"] if "cost" in one.filled and one.gpu_seconds else []),
        ]
        numbers.setdefault(one.name, []).extend(names)
    for judged_translation in judged.generations:
        if judged_translation.value is not None:
            numbers.setdefault(judged_translation.name, []).append("bleu")
    return numbers


WHOLE = ["steps", "num_parameters", "ppl_per_subword", "cost"]
