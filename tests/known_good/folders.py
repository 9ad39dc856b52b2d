"""Folders of logs for the tests of the judge: a complete training of base, its average and its
translation, and what of them fills.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from aiayn.facts.jobs import join_jobs
from aiayn.facts.listing import list_folder
from aiayn.facts.reader import read_log
from aiayn.facts.trainings import Jobs, Target, Training, Translation
from aiayn.known_good.rows import judge_jobs
from aiayn.known_good.targets import read_targets
from tests.logs.factory import GenerationText, TrainingText, averaging_text, write

TARGETS = read_targets(["paper", "demo"])
PLACE = "checkpoints/base"
AVERAGED = f"{PLACE}/checkpoint.avg5.pt"
BASE = replace(TrainingText(), num_epochs=20)
GENERATION = GenerationText().changed(path=AVERAGED)
AVERAGING = averaging_text(
    [f"{PLACE}/checkpoint{epoch}.pt" for epoch in range(20, 15, -1)], AVERAGED
)


def judge(folder: Path, targets: Sequence[Target] = TARGETS) -> Jobs:
    """Return the jobs below a folder, compared with the paper's rows, or with other targets."""
    files = [read_log(folder / path, path) for path in list_folder(folder).log_paths]
    return judge_jobs(join_jobs(files), targets, folder)


def judge_texts(folder: Path, texts: Mapping[str, str]) -> Jobs:
    """Write texts by file name, and return the judged folder."""
    return judge(write(folder, texts))


def judge_base(folder: Path, **texts: str) -> Jobs:
    """Return the judged folder of base's training `a`, its average `av` and its translation `g`.

    `texts` replace them, or add further logs. An empty text leaves a log out.
    """
    written = {"a": BASE.text(), "av": AVERAGING, "g": GENERATION.text()} | texts
    named = {f"{name}.log": text for name, text in written.items() if text}
    return judge_texts(folder, named)


def training(judged: Jobs, name: str = "a.log") -> Training:
    """Return the training whose log is called so."""
    return next(one for one in judged.trainings if one.name.startswith(name))


def translation(judged: Jobs, name: str = "g.log") -> Translation:
    """Return the translation whose log is called so."""
    return next(one for one in judged.translations if one.name.startswith(name))


def kept_out_by(judged: Training | Translation) -> set[str]:
    """Return the quantities that keep a number out of its row, without notes."""
    return {problem.quantity for problem in judged.problems if problem.keeps_out}


def noted(judged: Training | Translation) -> set[str]:
    """Return the quantities of the notes."""
    return {problem.quantity for problem in judged.problems if not problem.keeps_out}


def problems_of(judged: Jobs, name: str) -> set[str]:
    """Return the quantities that keep the numbers of a log out of their row; `nothing` stands for
    a log without problems that has no row.
    """
    for one in judged.trainings:
        if one.name.startswith(name):
            return kept_out_by(one)
    return kept_out_by(translation(judged, name))


def filled(judged: Jobs) -> dict[str, list[str]]:
    """Return which numbers of each log fill a row."""
    numbers: dict[str, list[str]] = {}
    for one in judged.trainings:
        names = [
            *one.value_by_metric,
            *(["cost"] if "cost" in one.filled and one.gpu_seconds else []),
        ]
        numbers.setdefault(one.name, []).extend(names)
    for judged_translation in judged.translations:
        if judged_translation.value is not None:
            numbers.setdefault(judged_translation.name, []).append("bleu")
    return numbers


WHOLE = ["steps", "num_parameters", "ppl_per_subword", "cost"]
