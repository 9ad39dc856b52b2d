"""What the rules of `rules/` are asked about: facts of one training or generation, some with a line.

A fact that the log does not tell is None; a rule about it does not apply, unless it asks that it be there.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from aiayn.runs.attempts import ATTEMPTS_NAME, Event, Started, read_events, summarise_attempts
from analysis.logs.rows import LANGUAGE_PAIRS
from analysis.logs.symbols import is_ours
from analysis.logs.types import Argument, GenerationLog, TrainingLog, Validation

Fact = bool | int | float | str | None
NEVER = 10**6  # an interval at or above it is none: `aiayn train` says 10^9
VERSION_BY_FORM = {
    "print": "fairseq 0.9 or before",
    "namespace": "fairseq 0.10",
    "config": "fairseq 1.0.0a0 to 0.12",
    "": "fairseq, version unknown",
}
# Section 5.1: "about 4.5 million sentence pairs" and "36M sentences".
TRAINING_PAIRS_BY_LANGUAGE_PAIR = {"en-de": 4_500_000, "en-fr": 36_000_000}
DEV_PAIRS = 3000  # newstest2013
TEST_PAIRS = 3003  # newstest2014, full
DEV_PAIRS_BY_LANGUAGE_PAIR = {"en-de": DEV_PAIRS}  # Table 3's; the paper names no dev set of En-Fr
TEST_PAIRS_BY_LANGUAGE_PAIR = {"en-de": TEST_PAIRS, "en-fr": TEST_PAIRS}
FILTERED_SET_BY_LANGUAGE_PAIR = {"en-de": "; 2,737 sentences are the filtered newstest2014"}  # En-Fr's is the full one


class Facts(NamedTuple):
    """Values by name, and the line in which a fact stands."""

    value_by_name: dict[str, Fact]
    line_by_name: dict[str, int]


class OurAttempts(NamedTuple):
    """What attempts.jsonl beside a training's log adds: commits, and seconds summed over attempts."""

    commits: tuple[str, ...]
    num_attempts: int
    wall_seconds: float
    gpu_seconds: float


def read_attempts(log_path: Path) -> OurAttempts | None:
    """Return what lies in attempts.jsonl beside a log; None without one.

    Raises:
        RecordError: if a line of it is no event.
    """
    if not (log_path.parent / ATTEMPTS_NAME).exists():
        return None
    events: list[Event] = read_events(log_path.parent)
    summary = summarise_attempts(events)
    commits = dict.fromkeys(event.commit for event in events if isinstance(event, Started))
    return OurAttempts(tuple(commits), summary.num_attempts, summary.wall_seconds, summary.gpu_seconds)


def language_pair_of(training: TrainingLog) -> str:
    """Return `en-de`, from the arguments or from the order of the dictionaries; '' if neither says."""
    source, target = training.arguments.get("source_lang"), training.arguments.get("target_lang")
    if source and target:
        return f"{source}-{target}"
    return "-".join(training.languages[:2]) if len(training.languages) >= 2 else ""


def dev_subset(training: TrainingLog) -> str:
    """Return the subset that perplexity is taken of: the first of `--valid-subset`."""
    return str(training.arguments.get("valid_subset") or "valid").split(",")[0]


def final_validation(training: TrainingLog) -> Validation | None:
    """Return the validation of the weights that the training ended with."""
    subset = dev_subset(training)
    found = [v for v in training.validations if v.subset == subset and v.update == training.last_update]
    return found[-1] if found else None


def facts_of_training(training: TrainingLog, attempts: OurAttempts | None) -> Facts:
    """Return all that rules may ask of a training."""
    lines = {
        "is_one_training": training.conflict.line if training.conflict else 0,
        "is_whole": training.truncated_line or 0,
        "num_damaged_lines": training.damaged_lines[0] if training.damaged_lines else 0,
        "is_done": training.last_line,
        "last_update": training.last_line,
        "has_arguments": training.first_line,
    }
    values = _facts_of_lines(training) | _facts_of_data(training) | _facts_of_making(training, attempts)
    return Facts(values, {name: line for name, line in lines.items() if line})


def _facts_of_lines(training: TrainingLog) -> dict[str, Fact]:
    """Return whether the log is whole: its lines, epochs and validations."""
    final = final_validation(training)
    missing_epochs, missing_validations = _missing_epochs(training), _missing_validations(training)
    return {
        "has_arguments": bool(training.arguments),
        "is_one_training": training.conflict is None,
        "conflict": training.conflict.text if training.conflict else "",
        "is_whole": training.truncated_line is None,
        "num_damaged_lines": len(training.damaged_lines),
        "num_repeated_lines": training.num_repeated_lines,
        "last_update": training.last_update,
        "first_update": training.first_update,
        "updates_asked": _updates_asked(training),
        "is_done": training.is_done,
        "num_missing_epochs": len(missing_epochs),
        "first_missing_epoch": missing_epochs[0] if missing_epochs else None,
        "num_missing_validations": len(missing_validations),
        "first_missing_validation": missing_validations[0] if missing_validations else None,
        "dev_subset": dev_subset(training),
        "has_final_validation": final is not None,
        "last_validation_update": training.validations[-1].update if training.validations else 0,
        "has_dev_nll": final is not None and final.nll_bits is not None,
        "is_dev_nll_finite": None if final is None or final.nll_bits is None else math.isfinite(final.nll_bits),
        "num_parameters": training.num_parameters,
    }


def _facts_of_data(training: TrainingLog) -> dict[str, Fact]:
    """Return what was trained on, beside the paper's."""
    pair = language_pair_of(training)
    return {
        "language_pair": pair or None,
        "is_language_pair_printed": None if not pair else pair in LANGUAGE_PAIRS,
        "num_training_pairs": training.num_pairs_by_split.get("train"),
        "expected_training_pairs": TRAINING_PAIRS_BY_LANGUAGE_PAIR.get(pair),
        "num_dev_pairs": training.num_pairs_by_split.get(dev_subset(training)),
        "expected_dev_pairs": DEV_PAIRS_BY_LANGUAGE_PAIR.get(pair),
    }


def _facts_of_making(training: TrainingLog, attempts: OurAttempts | None) -> dict[str, Fact]:
    """Return seed, commits and versions, and what two logs of one training share."""
    dirty = [commit for commit in attempts.commits if commit.endswith("+dirty")] if attempts else []
    return {
        "seed": _whole(training.arguments.get("seed")),
        "is_commit_clean": not dirty,
        "commit": ", ".join(dirty) or None,
        "num_versions": len(attempts.commits) if attempts else 1,
        "versions": ", ".join(attempts.commits) if attempts else None,
        "version": version_of(training, attempts),
        "identity": _identity(training),
        "one": 1,
    }


def version_of(training: TrainingLog, attempts: OurAttempts | None) -> str:
    """Return what a training was made with: our commit, or fairseq's version as far as its log tells."""
    if attempts is not None and attempts.commits and is_ours(training.arguments):
        commit, plus, dirty = attempts.commits[-1].partition("+")
        return f"commit {commit[:12]}{plus}{dirty}"
    return VERSION_BY_FORM[training.form]


def seconds_of(training: TrainingLog, attempts: OurAttempts | None) -> float | None:
    """Return the wall seconds of all starts; None where the log does not hold them all."""
    if attempts is not None:
        return attempts.wall_seconds
    if training.first_update:
        return None  # what came before is in another log
    seconds = [start.done_seconds if start.done_seconds is not None else start.seconds for start in training.starts]
    if all(value is not None for value in seconds) and seconds:
        return sum(value for value in seconds if value is not None)
    walls = [epoch.wall_seconds for epoch in training.epochs if epoch.wall_seconds]
    return walls[-1] if walls and len(training.starts) == 1 else None


def _identity(training: TrainingLog) -> str | None:
    """Return what two logs of one training share, whatever else is in them; None without two validations."""
    if len(training.validations) < 2:
        return None
    first, second = training.validations[:2]
    return f"{training.arguments_digest} {first.update} {first.loss_bits} {second.update} {second.loss_bits}"


def _whole(value: Argument) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _updates_asked(training: TrainingLog) -> int | None:
    """Return how many updates the training was to have; None if something else was to end it, and did."""
    asked = _whole(training.arguments.get("max_update"))
    last_epoch = _whole(training.arguments.get("max_epoch"))
    if training.is_stopped_early or not asked:
        return None
    has_all_epochs = bool(last_epoch) and any(epoch.epoch >= (last_epoch or 0) for epoch in training.epochs)
    return None if has_all_epochs else asked


def _missing_epochs(training: TrainingLog) -> list[int]:
    """Return the epochs without their last line, from the first that the log can have to the last that it has."""
    numbers = {epoch.epoch for epoch in training.epochs}
    if not numbers:
        return []
    first = 1 if not training.first_update else min(numbers)
    return [number for number in range(first, max(numbers)) if number not in numbers]


def _missing_validations(training: TrainingLog) -> list[int]:
    """Return the updates (or ends of epochs, by their update) at which a validation was due and is not in the log."""
    arguments = training.arguments
    if arguments.get("disable_validation") is True or not training.validations:
        return []
    subset = dev_subset(training)
    updates = {validation.update for validation in training.validations if validation.subset == subset}
    due: list[int] = []
    for key in ("validate_interval_updates", "save_interval_updates"):
        interval = _whole(arguments.get(key)) or 0
        if 0 < interval < NEVER:
            begin = training.first_update // interval + 1
            due += [interval * index for index in range(begin, training.last_update // interval + 1)]
    every = _whole(arguments.get("validate_interval")) or 1
    if every < NEVER:
        due += [epoch.update for epoch in training.epochs if epoch.epoch % every == 0]
    return sorted({update for update in due if update not in updates})


def subset_of(generation: GenerationLog) -> str:
    """Return what was translated: `test`, `valid`, or another subset; '' if the log does not say."""
    return generation.bleu.subset if generation.bleu else str(generation.arguments.get("gen_subset") or "")


def facts_of_generation(generation: GenerationLog, average: str, has_training: bool, language_pair: str) -> Facts:
    """Return all that rules may ask of a generation; `average` is `last5`, or what else its checkpoint's name says."""
    expected = DEV_PAIRS_BY_LANGUAGE_PAIR if subset_of(generation) == "valid" else TEST_PAIRS_BY_LANGUAGE_PAIR
    bleu = generation.bleu
    arguments: Mapping[str, Argument] = generation.arguments
    values: dict[str, Fact] = {
        "is_ended": bleu is not None,
        "is_whole": generation.truncated_line is None,
        "has_training": has_training,
        "model_path": generation.model_path or "a checkpoint that it does not name",
        "num_models": generation.model_path.count(":") + 1,
        "has_words": not generation.has_piece_marks,
        "is_plain_model": str(arguments.get("model_overrides") or "{}") == "{}",
        "num_sentences": generation.num_sentences,
        "num_hypotheses": generation.num_hypotheses or None,
        "num_scored": generation.num_sentences or generation.num_hypotheses or None,
        "expected_sentences": expected.get(language_pair) if subset_of(generation) else None,
        "filtered_set": FILTERED_SET_BY_LANGUAGE_PAIR.get(language_pair, ""),
        "subset": subset_of(generation),
        "average": average,
        "one": 1,
    }
    lines = {
        "is_whole": generation.truncated_line or 0,
        "is_ended": generation.last_line,
        "num_hypotheses": generation.last_line,
        "has_words": bleu.line if bleu else generation.last_line,
    }
    return Facts(values, {name: line for name, line in lines.items() if line})
