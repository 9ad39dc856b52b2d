"""Joins the sections of a folder's log files into trainings, averagings and generations.

A section is the part of a log from one start of a program: fairseq-train, the averaging of
checkpoints, or fairseq-generate (a generation). The sections of a training may be in several files.
A training may be requeued with a new file each time, its log may be copied by the command tee, and
averaging and generation may have separate files. Sections are joined to trainings by their save
folder and update numbers. A relative save folder is compared within the folder of the log, because
most save folders have the same name, checkpoints.
"""

import posixpath
from collections.abc import Iterable, Sequence
from typing import TypeVar

from aiayn.facts.derived import facts_of_training
from aiayn.facts.generations import facts_of_generation, metric_of
from aiayn.facts.statistics import Statistics
from aiayn.facts.trainings import Generation, JoinedLogs, Training
from aiayn.facts.types import LogFile, Section, is_same_place, models_of, normal_path

_Step = TypeVar("_Step", Training, Section)


def join_logs(files: Iterable[LogFile]) -> JoinedLogs:
    """Return the trainings, averagings and generations (runs of fairseq-generate) in log files,
    with all of their facts.
    """
    # Upper folders come first, so that the file in a subfolder counts as the copy.
    file_by_path = {file.path: file for file in sorted(files, key=_depth_and_name)}
    sections_by_program: dict[str, list[Section]] = {"train": [], "average": [], "generate": []}
    for file in file_by_path.values():
        for section in file.sections:
            sections_by_program[section.program].append(section)
    starts = _without_copies(sections_by_program["train"])
    logs = JoinedLogs(
        file_by_path=file_by_path,
        trainings=[_joined(group) for group in _grouped(starts)],
        others=[],
        averagings=sections_by_program["average"],
    )
    earlier: list[Generation] = []
    for section in _with_files_of_results(sections_by_program["generate"]):
        generation = _generation_of(section, logs)
        # Inserted after the section's own facts, because the derived facts begin there.
        if repeated := _repeats(generation, earlier):
            generation.facts.insert(len(section.facts), section.fact("repeats", repeated))
        earlier.append(generation)
        training = generation.training
        (logs.others if training is None else training.generations).append(generation)
    return logs


def _depth_and_name(file: LogFile) -> tuple[int, str]:
    return file.path.count("/"), file.path


# Trainings


def _without_copies(sections: list[Section]) -> list[Section]:
    """Return the sections of logs without duplicates, which arise if the command tee or fairseq's
    --log-file writes a log to a second file. The longest of several equal sections is kept.
    """
    distinct: list[Section] = []
    for section in sorted(sections, key=_incompleteness):
        for earlier in distinct:
            # Two copies have the same arguments, start time and first update. Two seeds differ in
            # the arguments.
            if not _is_same_start(section, earlier):
                continue
            if _is_copy(section, earlier):
                earlier.copied_in.append(section.path)
                break
            # If the same start has other numbers, one of the two files was edited, and it is not
            # known which.
            if section.first_time and earlier.first_time:
                for first, second in ((section, earlier), (earlier, section)):
                    text = f"{second.path} has the same start and other numbers"
                    first.mention("conflict", text, first.line)
        else:
            distinct.append(section)
    order = {id(section): number for number, section in enumerate(sections)}
    return sorted(distinct, key=lambda section: order[id(section)])


def _incompleteness(section: Section) -> tuple[bool, bool, bool, int]:
    """Return a sort key that puts complete sections of logs first, and long sections before short
    sections.
    """
    is_cut = section.cut_line is not None
    is_ended = section.value("done_seconds") is not None
    # fairseq's --log-file lacks the clock times, and the sizes of the data and dictionaries.
    is_timed = section.first_time != ""
    return is_cut, not is_ended, not is_timed, -section.num_inner - len(section.validations)


def _is_same_start(section: Section, other: Section) -> bool:
    """Return whether two sections of logs show the same run of fairseq-train: arguments, start time
    (if both have one) and first update are equal, and the files differ.
    """
    times = {section.first_time, other.first_time} - {""}
    return (
        section.arguments == other.arguments
        and len(times) <= 1
        and section.first_update == other.first_update
        and section.path != other.path
    )


def _is_copy(section: Section, other: Section) -> bool:
    """Return whether two sections of logs about the same run of fairseq-train are copies: the
    validations that both contain are equal. Without common validations, their clocks are equal.
    """
    # A copy may be cut, so only what both have is compared.
    common = section.validations.keys() & other.validations.keys()
    if not common:
        # Only equal clocks show then that two sections are one. A job that was killed before its
        # first validation would otherwise count as a copy of the job that started again.
        return section.first_time != "" and section.last_time <= other.last_time
    return all(section.validations[key].losses == other.validations[key].losses for key in common)


def _grouped(starts: Sequence[Section]) -> list[list[Section]]:
    """Group the starts (runs of fairseq-train) by training. The starts in a group are in the order
    of their updates.
    """
    groups: list[list[Section]] = []
    # A start can only continue what was saved before, so starts are tried by their first update. A
    # job that failed before it saved begins where the next one begins, and slurm-9.out was written
    # before slurm-10.out.
    for start in sorted(starts, key=lambda start: (_begin_update(start), start.first_time)):
        before = [group for group in groups if _continues(start, group[-1])]
        if before:
            before[-1].append(start)
        else:
            groups.append([start])
    order = {id(start): number for number, start in enumerate(starts)}
    return sorted(groups, key=lambda group: order[id(group[0])])


def _begin_update(section: Section) -> int:
    return section.whole("resumed_updates") or 0


def _save_alike(first: Section, second: Section) -> bool:
    """Return whether two runs of fairseq-train save checkpoints into the same folder. If the path
    of the save folder is relative, the logs of both runs must be in the same folder.
    """
    folder = first.save_folder
    if folder != second.save_folder:
        return False
    # `C:\runs` is absolute, too.
    is_absolute = folder.startswith("/") or folder[1:2] == ":"
    return is_absolute or posixpath.dirname(first.path) == posixpath.dirname(second.path)


def _continues(start: Section, before: Section) -> bool:
    """Return whether a start (one run of fairseq-train) continues the training of an earlier start.

    A start continues an earlier start if it resumes from a checkpoint in the same save folder, at
    an update that the earlier start had reached. A start without a checkpoint counts as a
    continuation if it has the same arguments and repeats an earlier start that did not end.
    """
    # Without arguments only the file shows what belongs together.
    if not start.arguments or not before.arguments:
        return not start.arguments and start.path == before.path
    if not _save_alike(start, before):
        return False
    resumed = _begin_update(start)
    if resumed:
        return resumed <= before.reach
    # A job that crashed before its first checkpoint starts again from nothing.
    is_same_file = start.path == before.path and start.line > before.line
    is_later = is_same_file or (
        before.last_time != "" and before.last_time <= start.first_time and before.last_update > 0
    )
    is_same = start.arguments == before.arguments
    return is_same and is_later and before.value("done_seconds") is None


def _joined(sections: list[Section]) -> Training:
    """Join the starts (runs of fairseq-train) of a training. If a later start repeated updates, the
    statistics of these updates are taken from the later start only.
    """
    validations: dict[tuple[str, int], Statistics] = {}
    epochs: dict[int, Statistics] = {}
    for section in sections:
        resumed = section.whole("resumed_updates")
        # Updates after the checkpoint were made again, so the earlier numbers do not count.
        if resumed is not None:
            validations = {key: line for key, line in validations.items() if line.update <= resumed}
            epochs = {number: line for number, line in epochs.items() if line.update <= resumed}
        validations |= section.validations
        epochs |= section.epochs
    last = sections[-1]
    on_dev_set = [line for (subset, _), line in validations.items() if subset == last.dev_subset]
    copies = sorted({path for section in sections for path in section.copied_in})
    paths = [*(section.path for section in sections), *copies]
    training = Training(
        sections=sections,
        validations=sorted(on_dev_set, key=lambda line: (line.update, line.line)),
        epochs=sorted(epochs.values(), key=lambda line: (line.epoch, line.line)),
        copies=copies,
        places={(posixpath.dirname(path), last.save_folder) for path in paths},
    )
    training.facts = facts_of_training(training)
    return training


# Translations


def _generation_of(section: Section, logs: JoinedLogs) -> Generation:
    """Return a generation (a run of fairseq-generate) with its training, the averagings of its
    checkpoints, and its facts.
    """
    # The printed path counts. --path is a second source, which `conflict` compares.
    model_path = section.value("model_path") or section.arguments.get("path") or ""
    model_path = normal_path(model_path) if model_path else ""
    subset = str(section.value("subset") or section.arguments.get("gen_subset") or "")
    generation = Generation(
        section=section,
        model_path=model_path,
        role="dev" if subset == "valid" else subset,
        metric=metric_of(section),
        training=_training_of(section, model_path, logs.trainings),
        averagings=_averagings_of(section, model_path, logs.averagings),
    )
    generation.facts = facts_of_generation(generation)
    return generation


def _training_of(
    section: Section, model_path: str, trainings: Sequence[Training]
) -> Training | None:
    """Return the training that made the checkpoint of a generation (a run of fairseq-generate), or
    None if this is unclear.
    """
    model_folder = posixpath.dirname(models_of(model_path)[0]) or "."
    candidates = []
    for training in trainings:
        is_below = not model_path and _is_below(section, training.sections)
        if is_below or (model_path and _has_saved_into(training, model_folder, section.path)):
            # A copy of the log counts as well as the log that was kept.
            folders = {folder for folder, _ in training.places}
            candidates.append((training, training.sections, folders))
    # Two trainings that are equally near: it is unclear which of them made the checkpoint.
    nearest = _nearest(section, candidates)
    return nearest[0] if len(nearest) == 1 else None


def _averagings_of(
    section: Section, model_path: str, averagings: Sequence[Section]
) -> list[Section]:
    """Return the averagings that wrote the checkpoint of a generation (a run of fairseq-generate).
    If several averagings wrote a file with the checkpoint's name, return the averagings that are
    nearest to the generation in the logs.
    """
    candidates = []
    for averaging in averagings:
        # Some logs have a full stop behind the path.
        output = normal_path(str(averaging.value("output") or "").rstrip("."))
        is_absolute = output.startswith("/")
        is_around = is_absolute or _are_around(*map(_folder_of, (averaging, section)))
        if is_around and is_same_place(output, model_path):
            candidates.append((averaging, [averaging], {_folder_of(averaging)}))
    return _nearest(section, candidates)


def _nearest(
    section: Section, candidates: Sequence[tuple[_Step, list[Section], set[str]]]
) -> list[_Step]:
    """Return the candidates (trainings or averagings) that are nearest to a section of a log. A job
    prints its steps in their order, so the nearest is the last candidate above the section in the
    same file. If the file has no candidate above the section, return all candidates with a log in
    the same folder, or else all candidates.

    For each training or averaging, the argument `candidates` has its sections and the folders of
    its logs.
    """
    above = []
    beside = []
    for candidate, sections, folders in candidates:
        if _is_below(section, sections):
            above.append(candidate)
        if _folder_of(section) in folders:
            beside.append(candidate)
    return above[-1:] or beside or [candidate for candidate, _, _ in candidates]


def _is_below(section: Section, others: Iterable[Section]) -> bool:
    """Return whether a section of a log is below one of several other sections in the same file."""
    return any(other.path == section.path and other.line < section.line for other in others)


def _has_saved_into(training: Training, model_folder: str, path: str) -> bool:
    """Return whether a training saved its checkpoints into the folder from which a run of
    fairseq-generate loaded its checkpoint (`model_folder`).

    Paths in a log may be relative to the folder in which the command was started, so the two paths
    of the same folder may be equal only in their last parts. A relative save folder matches only if
    one of the two logs is in the folder of the other log, or in a folder below it.
    """
    for folder, save_folder in training.places:
        is_absolute = save_folder.startswith("/") and model_folder.startswith("/")
        is_around = is_absolute or _are_around(folder, posixpath.dirname(path))
        if is_around and is_same_place(save_folder, model_folder):
            return True
    return False


def _folder_of(section: Section) -> str:
    return posixpath.dirname(section.path)


def _are_around(first: str, second: str) -> bool:
    """Return whether two folders are equal, or one contains the other."""
    return (
        "" in (first, second)
        or f"{first}/".startswith(f"{second}/")
        or f"{second}/".startswith(f"{first}/")
    )


def _repeats(generation: Generation, earlier: Sequence[Generation]) -> str:
    """Return the name of an earlier generation (a run of fairseq-generate) with the same content,
    as in a copied log. Return '' if no earlier generation has the same content.
    """
    # Lines and files differ between copies, values do not.
    facts = [(fact.quantity, fact.value) for fact in generation.section.facts]
    for other in earlier:
        other_facts = [(fact.quantity, fact.value) for fact in other.section.facts]
        if facts == other_facts and other.training is generation.training:
            return other.name
    return ""


def _with_files_of_results(sections: list[Section]) -> list[Section]:
    """Join each results file of fairseq-generate (generate-test.txt in the folder --results-path)
    to the log of the same run, which has the arguments.

    With --results-path, fairseq 0.12 writes the BLEU to the results file and not to the log.
    """
    joined = []
    for section in sections:
        # Only the log has the arguments, and in 0.12 only the file has the score.
        logs = [other for other in sections if _has_results(other, section)]
        if section.arguments or len(logs) != 1:
            joined.append(section)
            continue
        log = logs[0]
        if log.value("bleu") is None:
            log.facts += section.facts
        log.num_hypotheses = log.num_hypotheses or section.num_hypotheses
        log.num_marked = log.num_marked or section.num_marked
    return joined


def _has_results(log: Section, section: Section) -> bool:
    """Return whether a section comes from the results file of the run of fairseq-generate in a log:
    the file is in the log's --results-path, and has the same score as the log, if the log has a
    score.
    """
    results = log.arguments.get("results_path")
    if not results:
        return False
    folder = posixpath.normpath(posixpath.join(posixpath.dirname(log.path), normal_path(results)))
    results_folder = posixpath.dirname(section.path)
    if not is_same_place(folder, results_folder or "."):
        return False
    # A folder of results may hold the file of an earlier run.
    names = ("subset", "bleu", "precisions", "reference_tokens")
    is_scored = log.value("bleu") is not None
    return not is_scored or all(log.value(name) == section.value(name) for name in names)
