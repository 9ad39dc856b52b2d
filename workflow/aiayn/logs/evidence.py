"""Joins the logs of a folder into evidence: each training, and each translation with its training
and its average.

A translation belongs to the training that saved into the folder of its checkpoint, or to the only
training whose log is in the same folder. The BLEU of fairseq-generate is called `bleu_as_given`:
fairseq's arithmetic on the tokens as given, whatever they are. The BLEU of `--eval-bleu` is
sacreBLEU's on detokenised tokens.

This module states what the logs say. `paper_tables.compare` judges it.
"""

import json
import ntpath
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from aiayn.logs.statistics import seconds_between
from aiayn.logs.symbols import Symbols, is_ours, symbols_of_arguments
from aiayn.logs.types import (
    Argument,
    AveragingLog,
    BleuLine,
    GenerationLog,
    LogFile,
    TrainingLog,
    Validation,
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
    def language_pair(self) -> str:
        """`en-de`, from the arguments or from the order of the dictionaries; '' without either."""
        return language_pair_of(self.log)

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
        seconds = _wall_seconds(self.log)
        return (
            seconds * self.log.num_gpus or None
            if seconds is not None and self.log.num_gpus
            else None
        )

    @property
    def value_by_metric(self) -> dict[str, float]:
        """The numbers that its log holds; no perplexity of a training that diverged."""
        values = {"steps": float(self.log.last_update)}
        if self.log.num_parameters is not None:
            values["num_parameters"] = float(self.log.num_parameters)
        final = final_validation(self.log)
        perplexity = None if final is None else perplexity_of(final.nll_bits)
        return values if perplexity is None else values | {PERPLEXITY_METRIC: perplexity}


class Average(msgspec.Struct, frozen=True, kw_only=True):
    """What a decoded checkpoint is an average of: `last5`, or the words that name it.

    `is_by_name`: only the name of the file says so, and no log of the averaging is there.
    """

    name: str
    is_by_name: bool = False


class LoggedGeneration(msgspec.Struct, frozen=True, kw_only=True):
    """A translation that was scored: its log, the path of its training's log ('' if unknown), and
    its average.
    """

    path: str
    log: GenerationLog
    training_path: str
    average: Average

    @property
    def subset(self) -> str:
        """The translated subset, such as `test` or `valid`; '' if the log does not name it."""
        return (
            self.log.bleu.subset
            if self.log.bleu
            else str(self.log.arguments.get("gen_subset") or "")
        )

    @property
    def role(self) -> str:
        """`dev` or `test`, or the subset's own name."""
        return {"valid": "dev", "test": "test"}.get(self.subset, self.subset)


class LoggedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a folder, files by their path below it."""

    file_by_path: dict[str, LogFile]
    trainings: tuple[LoggedTraining, ...]
    generations: tuple[LoggedGeneration, ...]


def join_logs(folder: Path, file_by_path: Mapping[str, LogFile]) -> LoggedFolder:
    """Return the trainings and translations of a folder's logs.

    Raises:
        RecordError: if the attempts.jsonl next to our own log is malformed.
    """
    trainings: list[LoggedTraining] = []
    generations: list[tuple[str, GenerationLog]] = []
    averagings: list[tuple[str, AveragingLog]] = []
    for path, log_file in sorted(
        file_by_path.items(), key=lambda entry: (entry[0].count("/"), entry[0])
    ):
        for name, entry in entries_by_name(path, log_file).items():
            if isinstance(entry, TrainingLog):
                trainings.append(logged_training(name, entry, (folder / path).parent))
            elif isinstance(entry, GenerationLog):
                generations.append((name, entry))
            else:
                averagings.append((name, entry))
    logged = []
    for name, generation in generations:
        training = training_of(name, generation, trainings)
        average = average_of(generation, averagings_near(name, generation, averagings), training)
        logged.append(
            LoggedGeneration(
                path=name,
                log=generation,
                training_path=training.path if training else "",
                average=average,
            )
        )
    for training in trainings:
        logged += _validation_bleu(training)
    return LoggedFolder(
        file_by_path=dict(file_by_path), trainings=tuple(trainings), generations=tuple(logged)
    )


def entries_by_name(
    path: str, log_file: LogFile
) -> dict[str, TrainingLog | GenerationLog | AveragingLog]:
    """Return a file's entries by name: its path, with the first line of each entry if there are
    several.
    """
    is_alone = len(log_file.entries) == 1
    return {path if is_alone else f"{path}@{entry.first_line}": entry for entry in log_file.entries}


def logged_training(name: str, log: TrainingLog, folder: Path) -> LoggedTraining:
    """Return the evidence of a training; `folder` is the folder of its log."""
    has_events = is_ours(log.arguments) and (folder / ATTEMPTS_NAME).exists()
    return LoggedTraining(
        path=name,
        log=log,
        events=read_events(folder) if has_events else None,
        symbols=symbols_of_arguments(log.arguments, log.num_gpus),
    )


def training_of(
    name: str, generation: GenerationLog, trainings: Sequence[LoggedTraining]
) -> LoggedTraining | None:
    """Return the training that made a translation's checkpoint; None if it cannot be told.

    It is the training that saved into the checkpoint's folder, otherwise the only training with a
    log in the translation's folder. If several trainings saved into that folder, the last training
    above the translation in the same file counts, because a job writes them in this order.
    """
    file = _file_of(name, generation)
    above = [
        one
        for one in trainings
        if _file_of(one.path, one.log) == file and one.log.first_line < generation.first_line
    ]
    if not generation.model_path and above:
        return above[-1]
    distinct: list[LoggedTraining] = []
    for training in trainings:
        if all(training.log != other.log for other in distinct):
            distinct.append(training)
    beside = [one for one in distinct if posixpath.dirname(one.path) == posixpath.dirname(name)]
    if generation.model_path:
        model_folder = _folder_of(models_of(generation.model_path)[0])
        saved_above = [one for one in above if _has_saved_into(one, model_folder)]
        if saved_above:
            return saved_above[-1]
        saved = [one for one in distinct if _has_saved_into(one, model_folder)]
        near = [one for one in saved if one in beside]
        if len(saved) == 1 or len(near) == 1:
            return (near or saved)[0]
        if saved:
            return None
    return next((group[0] for group in (above, beside) if len(group) == 1), None)


def models_of(model_path: str) -> list[str]:
    """Return the checkpoints of `--path`: several are separated by colons, but `C:` begins a path
    of Windows.
    """
    return re.split(r"(?<!^[A-Za-z]):|(?<=:[A-Za-z]):(?![\\/])", model_path)


def _folder_of(path: str) -> str:
    has_backslash = "\\" in path and "/" not in path
    folder = ntpath.dirname(path).replace("\\", "/") if has_backslash else posixpath.dirname(path)
    return posixpath.normpath(folder or ".")


def _name_of(path: str) -> str:
    return ntpath.basename(path) if "\\" in path and "/" not in path else posixpath.basename(path)


def _file_of(name: str, log: TrainingLog | GenerationLog | AveragingLog) -> str:
    """Return the file of an entry's name; the name ends in the entry's line if the file holds
    several.
    """
    return name.removesuffix(f"@{log.first_line}")


def _has_saved_into(training: LoggedTraining, model_folder: str) -> bool:
    return is_same_place(_folder_of(f"{training.log.arguments.get('save_dir')}/x"), model_folder)


def is_same_place(first: str, second: str) -> bool:
    """Return whether a path is the other or its end: the paths in a log are relative to where its
    command started.
    """
    if "." in (first, second):
        return first == second
    return first == second or first.endswith(f"/{second}") or second.endswith(f"/{first}")


def averagings_near(
    name: str, generation: GenerationLog, averagings: Sequence[tuple[str, AveragingLog]]
) -> list[AveragingLog]:
    """Return the averagings that may have made a translation's checkpoint.

    It is the last such averaging above the translation in the same file. If there is no such
    averaging, it is those in files of the same folder, and otherwise all of them.
    """
    made = [
        (at, one) for at, one in averagings if is_same_place(one.output_path, generation.model_path)
    ]
    file = _file_of(name, generation)
    above = [
        one
        for at, one in made
        if _file_of(at, one) == file and one.first_line < generation.first_line
    ]
    beside = [one for at, one in made if posixpath.dirname(at) == posixpath.dirname(name)]
    return above[-1:] or beside or [one for _, one in made]


def average_of(
    generation: GenerationLog, averagings: Sequence[AveragingLog], training: LoggedTraining | None
) -> Average:
    """Return `last5` and so on, from the log of the averaging or the checkpoint's name; else words
    on the checkpoint.

    An average of other checkpoints than the last is named by them.
    """
    name = _name_of(generation.model_path)
    exact = [one for one in averagings if one.output_path == generation.model_path]
    made = exact or averagings
    if len({one.input_paths for one in made}) == 1:
        return Average(name=_average_of_inputs(made[0].input_paths, training))
    number = _CHECKPOINT_NUMBER.fullmatch(name)
    if name == "checkpoint_last.pt":
        return Average(name="last1")
    if number is not None and training is not None and training.log.epochs:
        return Average(name="last1" if _is_newest(name, training) else name)
    if "best" not in name and (found := _AVERAGE_IN_NAME.search(name)):
        return Average(name=f"last{found[1] or found[2]}", is_by_name=True)
    return Average(name=name or "unknown")


def _average_of_inputs(input_paths: Sequence[str], training: LoggedTraining | None) -> str:
    names = [_name_of(path) for path in input_paths]
    if training is None or any(_is_newest(name, training) for name in names):
        return f"last{len(names)}"
    newest = max(names, key=lambda name: [int(number) for number in re.findall(r"\d{1,12}", name)])
    return f"{len(names)} checkpoints up to {newest}"


def _is_newest(name: str, training: LoggedTraining) -> bool:
    """Return whether a checkpoint is the last of a training, by its epoch or its update."""
    number = _CHECKPOINT_NUMBER.fullmatch(name)
    if number is None:
        return name == "checkpoint_last.pt"
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
    arguments, name = log.arguments, "BLEU4" if log.bleu is None else log.bleu.name
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


def _validation_bleu(training: LoggedTraining) -> Iterator[LoggedGeneration]:
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
    beam, alpha = search.get("beam", 1), search.get("lenpen", 1.0)
    keys = ("eval_bleu_detok", "eval_tokenized_bleu")
    bleu = BleuLine(
        line=final.line,
        subset="valid",
        beam_size=beam if isinstance(beam, int) else 1,
        name=VALIDATION_BLEU,
        value=final.bleu,
    )
    search = {"lenpen": alpha, "remove_bpe": arguments["eval_bleu_remove_bpe"]}
    log = GenerationLog(
        first_line=final.line,
        last_line=final.line,
        arguments={key: arguments.get(key) for key in keys} | search,
        bleu=bleu,
    )
    yield LoggedGeneration(
        path=training.path, log=log, training_path=training.path, average=Average(name="last1")
    )


def language_pair_of(training: TrainingLog) -> str:
    """Return `en-de`, from the arguments or from the order of the dictionaries; '' without
    either.
    """
    source, target = training.arguments.get("source_lang"), training.arguments.get("target_lang")
    if source and target:
        return f"{source}-{target}"
    return "-".join(training.languages[:2]) if len(training.languages) >= 2 else ""


def dev_subset(training: TrainingLog) -> str:
    """Return the subset whose perplexity counts: the first of `--valid-subset`."""
    return str(training.arguments.get("valid_subset") or "valid").split(",")[0]


def final_validation(training: TrainingLog) -> Validation | None:
    """Return the validation of the weights that the training ended with."""
    subset = dev_subset(training)
    validations = [
        v for v in training.validations if v.subset == subset and v.update == training.last_update
    ]
    return validations[-1] if validations else None


def diverged_after(training: TrainingLog) -> int | None:
    """Return the update of the last possible loss of a validation, if the final loss is impossible.

    Returns None if the final loss is possible.
    """
    subset = dev_subset(training)
    validations = [v for v in training.validations if v.subset == subset and v.nll_bits is not None]
    if not validations or perplexity_of(validations[-1].nll_bits) is not None:
        return None
    good = [v.update for v in validations if perplexity_of(v.nll_bits) is not None]
    return good[-1] if good else 0


def whole_number(value: Argument) -> int | None:
    """Return an argument that is a whole number, None for any other."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


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
