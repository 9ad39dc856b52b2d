"""Joins the logs of a folder into evidence: each training, and each translation with its training
and its average.

A translation belongs to the training that saved into the folder of its checkpoint, or to the only
training whose log is in the same folder. The BLEU of fairseq-generate is called `bleu_as_given`:
fairseq's arithmetic on the tokens as given, whatever they are. The BLEU of `--eval-bleu` is
sacreBLEU's on detokenised tokens.

This module states what the logs say. `paper_tables.compare` judges it. A logged BLEU has four types
on its way to a table: `GenerationLog` (the log states it, and this module finds its training and
its average), `JudgedGeneration` (its quantities are compared with a system), `Number` (over seeds),
and `Line` (in a table).
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import msgspec

from aiayn.facts.statistics import seconds_between
from aiayn.facts.symbols import Symbols, is_ours, symbols_of_arguments
from aiayn.logs.types import (
    Argument,
    AveragingLog,
    GenerationLog,
    LogFile,
    Measured,
    TrainingLog,
    perplexity_of,
)
from aiayn.printed import PERPLEXITY_METRIC
from aiayn.runs.attempts import ATTEMPTS_NAME, Event, Started, read_events, summarise_attempts

VERSION_BY_FORM = {
    "print": "fairseq 0.9 or before",
    "namespace": "fairseq 0.10",
    "config": "fairseq 1.0.0a0 to 0.12",
    "": "fairseq, version unknown",
}
LAST_CHECKPOINT = "checkpoint_last.pt"
VALIDATION_BLEU = "validation BLEU"  # the name of a BLEU that --eval-bleu printed
_CHECKPOINT_NUMBER = re.compile(r"checkpoint_?(\d{1,9})(?:_(\d{1,12}))?\.pt")
_AVERAGE_IN_NAME = re.compile(
    r"(?:avg|average|averaged)[._-]?(?:last)?[._-]?(\d{1,4})|last[._-]?(\d{1,4})"
)


class LoggedTraining(msgspec.Struct, frozen=True, kw_only=True):
    """A training: its log and the symbols of its arguments.

    `events` come from the attempts.jsonl in the folder of our own log; None for other logs.
    """

    path: str
    log: TrainingLog
    events: list[Event] | None
    symbols: Symbols

    @property
    def first_line(self) -> int:
        """The line that it begins with."""
        return self.log.first_line

    @property
    def language_pair(self) -> str:
        """`en-de`, from the arguments or from the order of the dictionaries; '' without either."""
        stated = [self.log.arguments.get(key) for key in ("source_lang", "target_lang")]
        languages = stated if all(stated) else self.log.languages[:2]
        return "-".join(map(str, languages)) if len(languages) == 2 else ""

    @property
    def seed(self) -> int | None:
        """The seed, None if the arguments state none."""
        return whole_number(self.log.arguments.get("seed"))

    @property
    def commits(self) -> tuple[str, ...] | None:
        """The commits of a run of ours, in their order; None for other logs."""
        if self.events is None:
            return None
        return tuple(
            dict.fromkeys(event.commit for event in self.events if isinstance(event, Started))
        )

    @property
    def version(self) -> str:
        """Our commit, or fairseq's version as far as the log shows it."""
        if self.commits and is_ours(self.log.arguments):
            commit, plus, dirty = self.commits[-1].partition("+")
            return f"commit {commit[:12]}{plus}{dirty}"
        return VERSION_BY_FORM[self.log.form]

    @property
    def identity(self) -> str | None:
        """A text that all logs of one training have in common; None without two validations."""
        if len(self.log.validations) < 2:
            return None
        first, second = self.log.validations[:2]
        return f"{self.log.arguments_digest} {first.update} {first.loss_bits} {second.update} {second.loss_bits}"  # noqa: E501

    @property
    def gpu_seconds(self) -> float | None:
        """GPU seconds of all starts; None where the log does not hold them all, or names no GPU."""
        if self.events is not None:
            return summarise_attempts(self.events).gpu_seconds or None
        seconds = _wall_seconds(self.log) or 0.0
        return seconds * (self.log.num_gpus or 0) or None

    @property
    def value_by_metric(self) -> dict[str, float]:
        """The numbers that its log holds; no perplexity of a training that diverged."""
        values = {"steps": float(self.log.last_update)}
        if self.log.num_parameters is not None:
            values["num_parameters"] = float(self.log.num_parameters)
        final = final_validation(self.log)
        perplexity = None if final is None else perplexity_of(final.nll_bits)
        return values if perplexity is None else values | {PERPLEXITY_METRIC: perplexity}


_Entry = LoggedTraining | GenerationLog | AveragingLog
_AnyEntry = TypeVar("_AnyEntry", bound=_Entry)


class LoggedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a folder, files by their path below it."""

    file_by_path: dict[str, LogFile]
    trainings: tuple[LoggedTraining, ...]
    generations: tuple[GenerationLog, ...]


def join_logs(folder: Path, file_by_path: Mapping[str, LogFile]) -> LoggedFolder:
    """Return the trainings and translations of a folder's logs.

    Raises:
        RecordError: if the attempts.jsonl next to our own log is malformed.
    """
    trainings: list[LoggedTraining] = []
    generations: list[GenerationLog] = []
    averagings: list[AveragingLog] = []
    for path, log_file in sorted(
        file_by_path.items(), key=lambda entry: (entry[0].count("/"), entry[0])
    ):
        for name, entry in entries_by_name(path, log_file).items():
            if isinstance(entry, TrainingLog):
                trainings.append(
                    LoggedTraining(
                        path=name,
                        log=entry,
                        events=_events(entry, (folder / path).parent),
                        symbols=symbols_of_arguments(entry.arguments, entry.num_gpus),
                    )
                )
            elif isinstance(entry, GenerationLog):
                generations.append(msgspec.structs.replace(entry, path=name))
            else:
                averagings.append(msgspec.structs.replace(entry, path=name))
    for generation in generations:
        training = _training_of(generation, trainings)
        generation.training_path = training.path if training else ""
        generation.average, generation.is_by_name = _average_of(generation, averagings, training)
    for training in trainings:
        generations += _validation_bleu(training)
    return LoggedFolder(
        file_by_path=dict(file_by_path), trainings=tuple(trainings), generations=tuple(generations)
    )


def entries_by_name(
    path: str, log_file: LogFile
) -> dict[str, TrainingLog | GenerationLog | AveragingLog]:
    """Return a file's entries by name: its path, with the first line of each entry if there are
    several.
    """
    is_alone = len(log_file.entries) == 1
    return {path if is_alone else f"{path}@{entry.first_line}": entry for entry in log_file.entries}


def file_of(entry: _Entry) -> str:
    """Return the file of an entry; the entry's path ends in its line if the file holds several."""
    return entry.path.removesuffix(f"@{entry.first_line}")


def _events(log: TrainingLog, folder: Path) -> list[Event] | None:
    has_events = is_ours(log.arguments) and (folder / ATTEMPTS_NAME).exists()
    return read_events(folder) if has_events else None


def _above(generation: GenerationLog, entries: Sequence[_AnyEntry]) -> list[_AnyEntry]:
    """Return the entries above a translation in its file: a job writes them in this order."""
    file, line = file_of(generation), generation.first_line
    return [one for one in entries if file_of(one) == file and one.first_line < line]


def _beside(generation: GenerationLog, entries: Sequence[_AnyEntry]) -> list[_AnyEntry]:
    """Return the entries of files in a translation's folder."""
    folder = posixpath.dirname(generation.path)
    return [one for one in entries if posixpath.dirname(one.path) == folder]


def _nearest(generation: GenerationLog, entries: Sequence[_AnyEntry]) -> Sequence[_AnyEntry]:
    """Return the last entry above a translation; without any, those in its folder, or else all."""
    return _above(generation, entries)[-1:] or _beside(generation, entries) or entries


def _training_of(
    generation: GenerationLog, trainings: Sequence[LoggedTraining]
) -> LoggedTraining | None:
    """Return the training that made a translation's checkpoint; None if it cannot be told.

    It is the nearest training that saved into the checkpoint's folder. Without any, or if the
    checkpoint is not named, it is the training above the translation, or the only training with a
    log in the translation's folder.
    """
    model_folder = _folder_of(models_of(generation.model_path)[0])
    saved = [
        one for one in trainings if generation.model_path and _has_saved_into(one, model_folder)
    ]
    above = _above(generation, trainings)
    if saved:
        candidates = _nearest(generation, saved)
    elif len(above) == 1 or (above and not generation.model_path):
        candidates = above[-1:]
    else:
        candidates = _beside(generation, trainings)
    distinct: list[LoggedTraining] = []
    for training in candidates:
        if all(training.log != other.log for other in distinct):
            distinct.append(training)
    return distinct[0] if len(distinct) == 1 else None


def models_of(model_path: str) -> list[str]:
    """Return the checkpoints of `--path`: several are separated by colons, but `C:` begins a path
    of Windows.
    """
    return re.split(r"(?<!^[A-Za-z]):|(?<=:[A-Za-z]):(?![\\/])", model_path)


def _with_slashes(path: str) -> str:
    """Return a path of Windows with slashes, any other path as it is."""
    return path if "/" in path else path.replace("\\", "/")


def _folder_of(path: str) -> str:
    return posixpath.normpath(posixpath.dirname(_with_slashes(path)) or ".")


def _name_of(path: str) -> str:
    return posixpath.basename(_with_slashes(path))


def _has_saved_into(training: LoggedTraining, model_folder: str) -> bool:
    save_folder = posixpath.normpath(_with_slashes(str(training.log.arguments.get("save_dir"))))
    return is_same_place(save_folder, model_folder)


def is_same_place(first: str, second: str) -> bool:
    """Return whether a path is the other or its end: the paths in a log are relative to where its
    command started.
    """
    if "." in (first, second):
        return first == second
    return first == second or first.endswith(f"/{second}") or second.endswith(f"/{first}")


def _average_of(
    generation: GenerationLog, averagings: Sequence[AveragingLog], training: LoggedTraining | None
) -> tuple[str, bool]:
    """Return what a checkpoint is an average of, and whether only its name says so.

    An average of other checkpoints than the last is named by them.
    """
    made = [one for one in averagings if is_same_place(one.output_path, generation.model_path)]
    near = _nearest(generation, made)
    exact = [one for one in near if one.output_path == generation.model_path] or near
    if len({one.input_paths for one in exact}) == 1:
        return _average_of_inputs(exact[0].input_paths, training), False
    name = _name_of(generation.model_path)
    has_epochs = training is not None and bool(training.log.epochs)
    place = _other_place([generation.model_path], training)
    if name == LAST_CHECKPOINT or (training and has_epochs and _is_newest(name, training)):
        return f"last1{place}", False
    if "best" not in name and (found := _AVERAGE_IN_NAME.search(name)):
        return f"last{found[1] or found[2]}{place}", True
    return name or "unknown", False


def _average_of_inputs(input_paths: Sequence[str], training: LoggedTraining | None) -> str:
    names = [_name_of(path) for path in input_paths]
    if training is None:
        return f"last{len(names)}"
    if place := _other_place(input_paths, training):
        return f"{len(names)} checkpoints{place}"
    if any(_is_newest(name, training) for name in names) and _is_in_a_row(names, training):
        return f"last{len(names)}"
    newest = max(names, key=lambda name: [int(number) for number in re.findall(r"\d{1,12}", name)])
    return f"{len(names)} checkpoints up to {newest}"


def _other_place(paths: Sequence[str], training: LoggedTraining | None) -> str:
    """Return ` of FOLDER` for the first checkpoint that is in another folder than its training
    saved into, '' without any.
    """
    if training is None or not training.log.arguments.get("save_dir"):
        return ""
    folders = [_folder_of(path) for path in paths if path]
    others = [one for one in folders if one != "." and not _has_saved_into(training, one)]
    return f" of {others[0]}" if others else ""


def _is_in_a_row(names: Sequence[str], training: LoggedTraining) -> bool:
    """Return whether no checkpoint between the first and the last is left out or counted twice."""
    found = [_CHECKPOINT_NUMBER.fullmatch(name) for name in names]
    numbers = [(int(one[1]), int(one[2] or 0)) for one in found if one]
    if len(numbers) < len(names):
        return len(names) == 1  # `checkpoint_last.pt` repeats the last epoch
    is_by_update = all(update for _, update in numbers)
    ordered = sorted(update if is_by_update else epoch for epoch, update in numbers)
    steps = {after - before for before, after in pairwise(ordered)}
    key = "save_interval_updates" if is_by_update else "save_interval"
    interval = training.log.arguments.get(key)
    if interval:
        return steps <= {interval}
    return len(steps) <= 1 and 0 not in steps


def _is_newest(name: str, training: LoggedTraining) -> bool:
    """Return whether a checkpoint is the last of a training, by its epoch or its update."""
    number = _CHECKPOINT_NUMBER.fullmatch(name)
    if number is None:
        return name == LAST_CHECKPOINT
    log = training.log
    if number[2]:
        return int(number[2]) == log.last_update
    return int(number[1]) in (
        log.epochs[-1].epoch if log.epochs else log.last_update,
        log.last_update,
    )


def metric_of_generation(log: GenerationLog) -> str:
    """Return the definition of a translation's BLEU.

    `bleu_as_given` is fairseq's arithmetic on the tokens of the data. `bleu_sacre_13a` is
    sacreBLEU's on detokenised text, and `bleu_sacre_on_tokens` on text that may still be tokens.
    `bleu_mlperf` is the uncased BLEU of MLPerf's submissions.
    """
    arguments, name = log.arguments, log.bleu_name or "BLEU4"
    if name == "bleu_score":
        return "bleu_mlperf"
    if name == "BLEU4":
        return "bleu_as_given"
    if name == VALIDATION_BLEU:
        is_joined = arguments.get("eval_bleu_detok") not in (None, "space")
        is_joined = is_joined and not arguments.get("eval_tokenized_bleu")
        return "bleu_sacre_13a_of_detokenised" if is_joined else "bleu_sacre_on_tokens"
    is_joined = bool(arguments.get("tokenizer")) or arguments.get("bpe") in (
        "sentencepiece",
        "gpt2",
    )
    is_13a = arguments.get("sacrebleu_tokenizer") in (None, "13a") and not arguments.get(
        "sacrebleu_lowercase"
    )
    return "bleu_sacre_13a" if is_joined and is_13a else "bleu_sacre_on_tokens"


def _validation_bleu(training: LoggedTraining) -> Iterator[GenerationLog]:
    """Yield the BLEU of `--eval-bleu` at the last update as a translation of the dev set, unless it
    is of pieces.
    """
    arguments, final = training.log.arguments, final_validation(training.log)
    if final is None or final.bleu is None or not arguments.get("eval_bleu_remove_bpe"):
        return
    try:
        search = json.loads(str(arguments.get("eval_bleu_args") or "{}"))
    except ValueError:
        search = {}
    beam = search.get("beam", 1)
    keys = ("eval_bleu_detok", "eval_tokenized_bleu")
    stated = {"lenpen": search.get("lenpen", 1.0), "remove_bpe": arguments["eval_bleu_remove_bpe"]}
    yield GenerationLog(
        first_line=final.line,
        last_line=final.line,
        arguments={key: arguments.get(key) for key in keys} | stated,
        subset="valid",
        bleu_line=final.line,
        bleu=final.bleu,
        bleu_name=VALIDATION_BLEU,
        beam_size=beam if isinstance(beam, int) else 1,
        path=training.path,
        training_path=training.path,
        average="last1",
    )


def dev_subset(training: TrainingLog) -> str:
    """Return the subset whose perplexity counts: the first of `--valid-subset`."""
    return str(training.arguments.get("valid_subset") or "valid").split(",")[0]


def dev_validations(training: TrainingLog) -> list[Measured]:
    """Return the validations of the dev set, in the order of their updates."""
    subset = dev_subset(training)
    return [one for one in training.validations if one.subset == subset]


def final_validation(training: TrainingLog) -> Measured | None:
    """Return the validation of the weights that the training ended with."""
    for newest in dev_validations(training)[-1:]:
        if newest.update == training.last_update:
            return newest
    return None


def diverged_after(training: TrainingLog) -> int | None:
    """Return the update of the last possible loss of a validation, if the final loss is impossible.

    Returns None if the final loss is possible.
    """
    validations = [one for one in dev_validations(training) if one.nll_bits is not None]
    good = [one.update for one in validations if perplexity_of(one.nll_bits) is not None]
    if not validations or perplexity_of(validations[-1].nll_bits) is not None:
        return None
    return good[-1] if good else 0


def whole_number(value: Argument) -> int | None:
    """Return an argument that is a whole number, None for any other."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def real_number(value: Argument) -> float | None:
    """Return an argument that is a number, None for any other."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]


def _wall_seconds(training: TrainingLog) -> float | None:
    """Return the seconds of all starts; None if a start does not state its own."""
    if training.first_update:
        return None  # what came before is in another log
    total = 0.0
    for start in training.starts:
        seconds = start.done_seconds
        if seconds is None:
            seconds = seconds_between(start.first_text, start.last_text)
        if seconds is None:
            walls = [epoch.wall_seconds for epoch in training.epochs if epoch.wall_seconds]
            return walls[-1] if walls and len(training.starts) == 1 else None
        total += seconds
    return total
