"""Joins the parts of a log into trainings: a resumed start continues the one before; another training is separate.

Where a resumed part overlaps an earlier one, the later part counts: what was measured after the update that it resumed
from is no longer of this training's weights.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from analysis.logs.training import Part
from analysis.logs.types import EpochEnd, LogNote, TrainingLog, Validation


def join_parts(parts: Sequence[Part], truncated_line: int | None) -> list[TrainingLog]:
    """Return the trainings of a file, in its order; `truncated_line` is the last line if it has no end."""
    trainings: list[list[Part]] = []
    for part in parts:
        if trainings and _continues(part, trainings[-1]):
            trainings[-1].append(part)
        else:
            trainings.append([part])
    logs = []
    for index, members in enumerate(trainings):
        is_last = index == len(trainings) - 1
        logs.append(_joined(members, truncated_line if is_last else None))
    return logs


def _continues(part: Part, earlier: Sequence[Part]) -> bool:
    """Return whether a part is a further start of the same training."""
    before = earlier[-1]
    if part.arguments is None or before.arguments is None:
        return part.arguments is None
    is_same = part.arguments.digest == before.arguments.digest
    save_folder = str(before.arguments.get("save_dir", ""))
    if part.resumed_update:
        return is_same or part.loaded_path.startswith(f"{save_folder}/")
    if part.resumed_update is None and not part.has_statistics:
        return is_same  # it ended before it printed what it loaded
    has_same_place = part.arguments.get("save_dir") == before.arguments.get("save_dir")
    return is_same and has_same_place and before.done_seconds is None


def _joined(parts: Sequence[Part], truncated_line: int | None) -> TrainingLog:
    last = parts[-1]
    validations: dict[tuple[str, int], Validation] = {}
    epochs: dict[int, EpochEnd] = {}
    conflict: LogNote | None = None
    last_update = 0
    for part in parts:
        if part.resumed_update is not None:
            validations = {key: kept for key, kept in validations.items() if key[1] <= part.resumed_update}
            epochs = {number: kept for number, kept in epochs.items() if kept.update <= part.resumed_update}
            last_update = min(last_update, part.resumed_update) if last_update else part.resumed_update
        validations |= part.validation_by_key
        epochs |= part.epoch_by_number
        last_update = max(last_update, part.last_update)
        conflict = conflict or part.conflict
    begins = [part.begin_update for part in parts if part.begin_update is not None]
    has_begun_anew = any(part.resumed_update == 0 for part in parts)
    arguments = next((part.arguments for part in reversed(parts) if part.arguments is not None), None)
    return TrainingLog(
        first_line=parts[0].line,
        last_line=last.last_line,
        form=last.form,
        log_format=next((part.log_format for part in reversed(parts) if part.log_format), ""),
        arguments=dict(arguments or {}),
        arguments_digest="" if arguments is None else arguments.digest,
        starts=tuple(part.as_start() for part in parts),
        validations=tuple(sorted(validations.values(), key=lambda validation: (validation.update, validation.line))),
        epochs=tuple(sorted(epochs.values(), key=lambda epoch: epoch.epoch)),
        last_update=last_update,
        first_update=begins[0] if begins and not has_begun_anew else 0,
        is_done=last.done_seconds is not None,
        is_stopped_early=last.is_stopped_early,
        num_repeated_lines=sum(part.num_repeated_lines for part in parts),
        damaged_lines=tuple(line for part in parts for line in part.damaged_lines),
        truncated_line=truncated_line,
        conflict=conflict,
        notes=tuple(_notes(parts)),
        **_merged_fields(parts),
    )


def _merged_fields(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the values that every start prints, each from the last start that printed it."""
    newest = list(reversed(parts))
    parameters = next((part.num_parameters for part in newest if part.num_parameters), (None, None))
    devices = next((part.num_devices for part in newest if part.num_devices is not None), None)
    is_cpu = any(part.arguments is not None and part.arguments.get("cpu") is True for part in newest)
    vocabularies = next((part.vocabulary_size_by_language for part in newest if part.vocabulary_size_by_language), {})
    return {
        "num_parameters": parameters[0],
        "num_trained_parameters": parameters[1],
        "num_gpus": 0 if is_cpu else devices,
        "gpu": next((part.gpu for part in newest if part.gpu), ""),
        "languages": tuple(vocabularies),
        "vocabulary_sizes": tuple(vocabularies.values()),
        "num_pairs_by_split": next((part.num_pairs_by_split for part in newest if part.num_pairs_by_split), {}),
    }


def _notes(parts: Sequence[Part]) -> list[LogNote]:
    """Return what happened at the starts, in words."""
    notes = []
    for before, part in itertools.pairwise(parts):
        where = "from nothing" if not part.resumed_update else f"from update {part.resumed_update:,}"
        text = f"started again {where}; the log before it reached update {before.last_update:,}"
        digests = {one.arguments.digest for one in (before, part) if one.arguments is not None}
        text += ", with other arguments" if len(digests) > 1 else ""
        notes.append(LogNote(line=part.line, text=text))
    for part in parts:
        if part.num_ranks_printed > 1:
            text = f"{part.num_ranks_printed} ranks wrote into this file; equal lines count once"
            notes.append(LogNote(line=part.line, text=text))
    return notes
