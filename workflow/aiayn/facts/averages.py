"""Finds which checkpoints the model of a translation averages: the last n saved checkpoints, or
others.
"""

import posixpath
import re
from collections.abc import Sequence

from aiayn.facts.jobs import (
    LAST_CHECKPOINT,
    Training,
    Translation,
    inputs_of,
    is_same_place,
)
from aiayn.facts.types import normal_path, whole

NEVER = 10**6
_CHECKPOINT = re.compile(r"checkpoint_?(\d{1,9})(?:_(\d{1,12}))?\.pt")
_AVERAGE_IN_NAME = re.compile(
    r"(?:avg|average|averaged)[._-]?(?:last)?[._-]?(\d{1,4})|last[._-]?(\d{1,4})"
)


def average_of(translation: Translation, training: Training) -> tuple[str, str]:
    """Return what a model is an average of, such as `last5`, and what shows it: `log`, `name` of
    the file, or `nothing`.

    An average of other checkpoints than the last is described by them.
    """
    path = translation.model_path
    inputs = {tuple(inputs_of(averaging)) for averaging in translation.averagings}
    if len(inputs) > 1:
        return "unknown: several averagings wrote it", "nothing"
    if inputs:
        return _describe(list(inputs.pop()), training), "log"
    name = posixpath.basename(path)
    place = _other_place([path], training)
    if name == LAST_CHECKPOINT or (_CHECKPOINT.fullmatch(name) and _are_last([name], training)):
        return f"last1{place}", "log"
    if "best" not in name and (found := _AVERAGE_IN_NAME.search(name)):
        return f"last{found[1] or found[2]}{place}", "name"
    return name or "unknown", "nothing"


def _describe(paths: Sequence[str], training: Training) -> str:
    names = [posixpath.basename(path) for path in paths]
    if not names:
        return "unknown"
    if place := _other_place(paths, training):
        return f"{len(names)} checkpoints{place}"
    if names == [LAST_CHECKPOINT] or _are_last(names, training):
        return f"last{len(names)}"
    newest = max(names, key=lambda name: [int(digits) for digits in re.findall(r"\d{1,12}", name)])
    return f"{len(names)} checkpoints up to {newest}"


def _other_place(paths: Sequence[str], training: Training) -> str:
    """Return ` of FOLDER` for the first checkpoint that is not in the folder that its training
    saved into, '' without any.
    """
    save_folders = {save_folder for _, save_folder in training.places}
    for path in paths:
        folder = posixpath.dirname(path) or "."
        if folder != "." and not any(is_same_place(one, folder) for one in save_folders):
            return f" of {folder}"
    return ""


def _are_last(names: Sequence[str], training: Training) -> bool:
    """Return whether the checkpoints are distinct and are the last checkpoints that a training
    saved.
    """
    found = [_CHECKPOINT.fullmatch(name) for name in names]
    numbers = [(int(one[1]), int(one[2] or 0)) for one in found if one]
    if len(numbers) < len(names) or len(set(names)) < len(names):
        return False
    is_by_update = all(update for _, update in numbers)
    chosen = sorted(update if is_by_update else epoch for epoch, update in numbers)
    saved = _saved_updates(training) if is_by_update else _saved_epochs(training)
    return chosen == saved[-len(chosen) :]


def _saved(training: Training) -> list[tuple[int, int]]:
    """Return epoch and update (0 for the end of an epoch) of the checkpoints that lines state."""
    paths = [str(fact.value) for fact in training.facts if fact.quantity == "saved_path"]
    found = [_CHECKPOINT.fullmatch(posixpath.basename(normal_path(path))) for path in paths]
    return [(int(one[1]), int(one[2] or 0)) for one in found if one]


def _saved_epochs(training: Training) -> list[int]:
    """Return the epochs with a saved checkpoint.

    fairseq saves such a checkpoint only if the epoch is complete. But it also prints statistics at
    the end of a last epoch that --max-update cuts short. If the log lacks lines about checkpoints,
    a last epoch that is shorter than the others counts as not saved.
    """
    stated = sorted({epoch for epoch, update in _saved(training) if not update})
    if stated:
        return stated
    ends = {one.epoch: one.update for one in training.epochs}
    every = whole(training.arguments.get("save_interval")) or 1
    whole_epochs = sorted(ends)
    if len(whole_epochs) >= 3:
        lengths = {number: ends[number] - ends.get(number - 1, 0) for number in whole_epochs}
        last = whole_epochs[-1]
        earlier = [lengths[number] for number in whole_epochs[1:-1] if number - 1 in ends]
        if earlier and lengths[last] < min(earlier):
            whole_epochs = whole_epochs[:-1]
    return [number for number in whole_epochs if number % every == 0]


def _saved_updates(training: Training) -> list[int]:
    """Return the updates within an epoch at which a checkpoint was saved."""
    stated = sorted({update for _, update in _saved(training) if update})
    if stated:
        return stated
    interval = whole(training.arguments.get("save_interval_updates")) or 0
    if not 0 < interval < NEVER:
        return []
    return list(range(interval, training.last_update + 1, interval))
