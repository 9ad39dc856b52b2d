"""Checks logs by rules: which are complete, which settings are the paper's, which logs may be averaged.

Each function reads one log, or the trainings of one line of a table, and yields findings; what a check says and asks
for is in checks.csv. An `error` keeps a number out of the tables, `apart` gives it a line of its own that is averaged
with no other, a `note` is printed beside it. Symbols are compared as symbols.csv has it, with the values of the row's
system.

Trainings of one row, configuration and version that differ only in their seeds are averaged. What is `apart` becomes
part of the configuration, so no mean is over different ones. Each training of a repeated seed has a line of its own.
"""

import math
import posixpath
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from aiayn.logs.arguments import plain_values
from aiayn.logs.findings import Evidence, Finding, Severity
from aiayn.logs.logged import (
    LANGUAGE_PAIRS,
    LoggedEvaluation,
    LoggedGeneration,
    LoggedTraining,
    PaperRow,
    dev_subset,
    final_validation,
    whole_number,
)
from aiayn.logs.symbols import (
    MAX_FIRST_RATE,
    MIN_POSITIONS,
    OURS_ONLY,
    SYMBOL_RULES,
    Symbol,
    Symbols,
    are_equal,
    is_ours,
    symbols_of_arguments,
)
from aiayn.logs.types import Argument, GenerationLog, TrainingLog
from aiayn.printed import read_rows

# Section 5.1: "about 4.5 million sentence pairs" and "36M sentences".
TRAINING_PAIRS_BY_LANGUAGE_PAIR = {"en-de": 4_500_000, "en-fr": 36_000_000}
PAIRS_TOLERANCE = 0.15  # "about"
DEV_PAIRS = 3000  # newstest2013, Table 3's; the paper names no dev set of En-Fr
TEST_PAIRS = 3003  # newstest2014, full
VOCABULARY_BY_LANGUAGE_PAIR = {"en-de": 37_000, "en-fr": 32_000}  # section 5.1, "about"
VOCABULARY_TOLERANCE = 0.4  # of what others call the paper's: fairseq's 32,768 and 44,512 are within
LEAST_FILLED, MOST_FILLED = 0.5, 1.05  # target tokens of a batch by its positions: sentences of WMT14 fill 0.8 to 0.96
MIN_LENGTH_LIMIT = 100  # output tokens; below it full sentences are cut. fairseq's limit is 200, the paper's input + 50
DEFAULT_RESTORED = "checkpoint_last.pt"  # of --restore-file: this training's own
NEVER = 10**6  # an interval at or above it is none: `aiayn train` gives 10^9
MAX_OTHERS = 3  # logs that are named in a message about several
_Rule = Callable[[list[LoggedTraining]], Iterable[tuple[LoggedTraining, Finding]]]


class LogCheck(msgspec.Struct, frozen=True):
    """A rule of logs, its severity, what it says of a log that breaks it, and what to do: templates of the values."""

    name: str
    severity: Severity
    text: str
    fix: str


LOG_CHECKS = {check.name: check for _, check in read_rows(Path(__file__).parent / "checks.csv", LogCheck)}


def broken(
    rule: str, *, check: str = "", line: int = 0, what: str = "", found: Symbol | None = None,
    expected: Symbol | None = None, **values: Any,
) -> Finding:  # fmt: skip
    """Return the finding of a rule, named `check` if not as the rule; the place is a line of the log's own file."""
    said = LOG_CHECKS[rule]
    values |= {"found": found, "expected": expected}
    return _finding(
        check or rule, said.text.format(**values), said.fix.format(**values), said.severity, what=what, found=found,
        expected=expected, line=line,
    )  # fmt: skip


def _finding(
    check: str, title: str, fix: str, severity: Severity, *, what: str, found: Symbol | None, expected: Symbol | None,
    line: int = 0,
) -> Finding:  # fmt: skip
    evidence = Evidence(path="", line=line or None, what=what or check, found=show(found), expected=show(expected))
    return Finding(check=check, title=title, evidence=(evidence,), fix=fix, severity=severity)


def show(value: Symbol | None) -> str:
    """Return a value as it is read: thousands with commas, a rate with three digits."""
    if value is None:
        return "unknown"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if 0 < abs(value) < 0.001 else f"{value:g}"


def training_findings(training: LoggedTraining) -> tuple[Finding, ...]:
    """Return the rules that a training breaks; without a row its settings are not compared."""
    row = training.match.row
    expected = row.symbols if row else {}
    if not is_ours(training.log.arguments):  # which then has no choice of these
        expected = {name: value for name, value in expected.items() if name not in OURS_ONLY}
    pairs = _expected_pairs(training) if row is None or row.scale == "paper" else {}
    found = [
        *_check_completeness(training.log),
        *symbol_findings(training.symbols | _updates_done(training.log), expected),
        *_check_beginning(training.log),
        *_check_plainness(training.log.arguments, "training"),
        *_check_batches(training.log, expected.get("tokens_per_update")),
        *(_check_vocabulary(training) if row is None or row.scale == "paper" else ()),
        *_check_languages(training),
        *(finding for split, number in pairs.items() for finding in _check_pairs(training.log, split, number)),
        *_check_making(training),
    ]
    if row is None:
        return tuple(finding for finding in found if finding.severity != "apart")
    splits = {"num_training_pairs": "train", "num_dev_pairs": dev_subset(training.log)}
    known = training.log.num_pairs_by_split
    unstated = [name for name, split in splits.items() if split in pairs and split not in known]
    return (*found, *_unstated(training.symbols, expected, unstated))


def _check_completeness(log: TrainingLog) -> Iterator[Finding]:
    """Yield the parts of a complete training's log that this log lacks."""
    if not log.arguments:
        yield broken("start-line", line=log.first_line)
    if log.conflict is not None:
        yield broken("one-training", line=log.conflict.line, text=log.conflict.text)
    if log.truncated_line is not None:
        yield broken("whole-last-line", line=log.truncated_line)
    if log.damaged_lines:
        yield broken("whole-lines", line=log.damaged_lines[0], number=len(log.damaged_lines))
    if not log.last_update:
        yield broken("updates-begun", line=log.last_line)
    else:
        yield from _check_end(log)
    if missing := _missing_epochs(log):
        yield broken("every-epoch", number=len(missing), first=missing[0])
    if missing := _missing_validations(log):
        yield broken("every-validation", number=len(missing), first=missing[0])
    if log.first_update:
        yield broken("whole-history", update=log.first_update)
    if log.arguments and not log.num_parameters:
        yield broken("parameters-line")
    if log.num_repeated_lines:
        yield broken("repeated-lines", number=log.num_repeated_lines)


def _check_end(log: TrainingLog) -> Iterator[Finding]:
    """Yield what a whole training ends with and this one lacks, Table 3's perplexity among it."""
    max_update = _max_update(log)
    if max_update is not None and log.last_update < max_update:
        yield broken("last-update", line=log.last_line, update=log.last_update, max_update=max_update)
    if not log.is_done:
        yield broken("done-line", line=log.last_line)
    final = final_validation(log)
    if final is None:
        newest = log.validations[-1].update if log.validations else 0
        yield broken("final-validation", subset=dev_subset(log), update=log.last_update, newest=newest)
    elif final.nll_bits is None:
        yield broken("dev-nll")
    elif not math.isfinite(final.nll_bits):
        yield broken("finite-loss")


def _updates_done(log: TrainingLog) -> Symbols:
    """Return the updates of a training that ended before the number that its arguments name, or that have none.

    `--max-epoch`, `--patience` and others end a training, too.
    """
    is_short = log.last_update < (whole_number(log.arguments.get("max_update")) or NEVER)
    return {"updates": log.last_update} if log.is_done and log.last_update and is_short else {}


def _check_beginning(log: TrainingLog) -> Iterator[Finding]:
    """Yield the start whose weights are of another training; a resumed start of this one is none, wherever it lay.

    A checkpoint is of this training if it lies where this one saves, or in a folder of that name (a folder that was
    moved), or if the start before it in this log had reached its update; and if its optimiser was kept.
    """
    is_reset = log.arguments.get("reset_optimizer") is True
    home = posixpath.basename(posixpath.normpath(str(log.arguments.get("save_dir") or "checkpoints")))
    reached = 0
    for start in log.starts:
        path = start.loaded_path
        if start.resumed_update is None and is_reset:  # its lines are not there: what was asked for is taken
            path = str(log.arguments.get("restore_file") or DEFAULT_RESTORED).replace(DEFAULT_RESTORED, "")
        folder = posixpath.basename(posixpath.dirname(path))
        is_of_this = folder == home or 0 < (start.resumed_update or 0) <= reached
        if path and (is_reset or not start.resumed_update or not is_of_this):
            why = " with a new optimiser" if is_reset or not start.resumed_update else ", which is not of this training"
            yield broken("own-beginning", line=start.line, what="began from", found=posixpath.basename(path),
                         path=path, update=show(start.resumed_update), why=why)  # fmt: skip
            return
        reached = max(reached, start.last_update)


def _check_plainness(arguments: Mapping[str, Argument], changes: str) -> Iterator[Finding]:
    """Yield the arguments that make a training or search another than the paper's, and have no symbol."""
    check = f"plain-{changes}"
    for key, values in plain_values(changes).items():
        if key in arguments and arguments[key] not in values:
            value, expected = arguments[key], values[0]
            yield broken("plain", check=check, what=key, found=value, expected=expected, flag=_flag(key))
    for key in ("max_source_positions", "max_target_positions"):
        number = whole_number(arguments.get(key))
        if number is not None and number < MIN_POSITIONS:
            yield broken("long-enough", check=check, what=key, found=number, expected=1024, flag=_flag(key))
    rate = arguments.get("warmup_init_lr")
    if isinstance(rate, int | float) and rate > MAX_FIRST_RATE:
        yield broken("low-first-rate", check=check, what="warmup_init_lr", found=rate, shown=show(rate))


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _check_batches(log: TrainingLog, expected: Symbol | None) -> Iterator[Finding]:
    """Yield a difference of the target tokens an update (fairseq's wpb) from the positions that were asked for."""
    filled = [epoch.target_tokens_per_update for epoch in log.epochs if epoch.target_tokens_per_update]
    asked = symbols_of_arguments(log.arguments, log.num_gpus).get("tokens_per_update", expected)
    if not filled or not isinstance(asked, int | float):
        return
    tokens = statistics.median(filled)
    if not LEAST_FILLED <= tokens / asked <= MOST_FILLED:
        yield broken("filled-batches", what="tokens an update", found=round(tokens), expected=asked)


def _check_vocabulary(training: LoggedTraining) -> Iterator[Finding]:
    expected = VOCABULARY_BY_LANGUAGE_PAIR.get(training.language_pair)
    for size in dict.fromkeys(training.log.vocabulary_sizes):
        if expected is not None and not are_equal(size, expected, VOCABULARY_TOLERANCE):
            yield broken("vocabulary", found=size, expected=expected)
            return


def symbol_findings(found: Symbols, expected: Symbols) -> Iterator[Finding]:
    """Yield the symbols that are not those of the row's system."""
    for symbol, rule in SYMBOL_RULES.items():
        value, of_row = found.get(symbol), expected.get(symbol)
        if value is not None and of_row is not None and not are_equal(value, of_row, rule.tolerance):
            title = f"{rule.words} {show(value)}, the row's {show(of_row)} ({rule.source})"
            check, fix = symbol.removesuffix("_alpha").replace("_", "-"), rule.flags.format(show(of_row))
            yield _finding(check, title, fix, rule.severity, what=symbol, found=value, expected=of_row)


def _unstated(found: Symbols, expected: Symbols, others: Sequence[str]) -> Iterator[Finding]:
    """Yield the note on symbols that the log lacks, so that their rules could not be checked."""
    names = [*(name for name in SYMBOL_RULES if name in expected and name not in found), *others]
    if names:
        yield broken("not-stated", names=", ".join(names))


def _check_languages(training: LoggedTraining) -> Iterator[Finding]:
    pair = training.language_pair
    if pair and pair not in LANGUAGE_PAIRS:
        yield broken("language-pair", pair=pair)
    elif not pair and training.log.arguments:
        yield broken("language-pair-known")


def _expected_pairs(training: LoggedTraining) -> dict[str, int]:
    """Return how many pairs the paper's corpus has, by split."""
    pair = training.language_pair
    expected = {"train": TRAINING_PAIRS_BY_LANGUAGE_PAIR.get(pair), dev_subset(training.log): DEV_PAIRS}
    if pair != "en-de":
        del expected[dev_subset(training.log)]
    return {split: number for split, number in expected.items() if number is not None}


def _check_pairs(log: TrainingLog, split: str, expected: int) -> Iterator[Finding]:
    number = log.num_pairs_by_split.get(split)
    tolerance = PAIRS_TOLERANCE if split == "train" else 0.0
    if number is not None and not are_equal(number, expected, tolerance):
        yield broken(
            "training-pairs" if split == "train" else "dev-pairs", found=number, expected=expected, split=split
        )


def _check_making(training: LoggedTraining) -> Iterator[Finding]:
    """Yield what prevents a repetition of the training: commits, and the seed."""
    commits = training.commits
    if dirty := ", ".join(commit for commit in commits or () if commit.endswith("+dirty")):
        yield broken("clean-commit", found=False, expected=True, commits=dirty)
    if commits is not None and len(commits) != 1:
        yield broken("one-commit", found=len(commits), expected=1, commits=", ".join(commits))
    if training.seed is None and training.log.arguments:
        yield broken("seed-known")


def _max_update(training: TrainingLog) -> int | None:
    """Return the number of updates at which the training was to end; None if something else was to end it, and did."""
    max_update = whole_number(training.arguments.get("max_update"))
    last_epoch = whole_number(training.arguments.get("max_epoch"))
    if training.is_stopped_early or not max_update:
        return None
    has_all_epochs = bool(last_epoch) and any(epoch.epoch >= (last_epoch or 0) for epoch in training.epochs)
    return None if has_all_epochs else max_update


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
        interval = whole_number(arguments.get(key)) or 0
        if 0 < interval < NEVER:
            begin = training.first_update // interval + 1
            due += [interval * index for index in range(begin, training.last_update // interval + 1)]
    every = whole_number(arguments.get("validate_interval")) or 1
    if every < NEVER:
        due += [epoch.update for epoch in training.epochs if epoch.epoch % every == 0]
    return sorted({update for update in due if update not in updates})


def generation_findings(generation: LoggedGeneration) -> tuple[Finding, ...]:
    """Return the rules that a generation breaks; without a training its settings are not compared."""
    training = generation.training
    row = training.match.row if training else None
    found, expected = _search_of(generation), {}
    if row is not None:
        role = "dev" if generation.subset == "valid" else "test"
        average = row.decoding.get(f"average_{role}_{training_pair(generation)}")
        expected = row.decoding | ({} if average is None else {"average": average})
    num_expected = _expected_sentences(generation) if row is None or row.scale == "paper" else None
    num_scored = generation.log.num_sentences or generation.log.num_hypotheses or None
    ranks = training.log.num_gpus or 1 if training and not generation.log.model_path else 1
    num_scored = None if ranks > 1 else num_scored  # of an evaluation within a training each rank counts its own part
    findings = [*_check_generation(generation), *_check_sentences(generation, num_scored, num_expected)]
    findings += symbol_findings(found, expected)
    if training is None:
        return tuple(finding for finding in findings if finding.severity == "error")
    if row is not None:
        findings += _unstated(found, expected, ["num_scored"] if num_expected and num_scored is None else [])
    return tuple(findings)


def _check_generation(generation: LoggedGeneration) -> Iterator[Finding]:
    """Yield the parts of a complete log of fairseq-generate, of one model, that this log lacks."""
    log = generation.log
    if log.bleu is None:
        yield broken("bleu-line", line=log.last_line)
    if log.truncated_line is not None:
        yield broken("whole-generation", line=log.truncated_line)
    if generation.training is None:
        yield broken("known-training", model=log.model_path or "a checkpoint that it does not name")
    if num_others := log.model_path.count(":"):
        yield broken("one-model", number=num_others + 1)
    if str(log.arguments.get("model_overrides") or "{}") != "{}":
        yield broken("plain-model", found=False, expected=True)
    yield from _check_plainness(log.arguments, "search")
    by_input, fixed = (log.arguments.get(key) for key in ("max_len_a", "max_len_b"))
    has_factor = isinstance(by_input, int | float) and by_input >= 1
    if isinstance(fixed, int | float) and fixed < MIN_LENGTH_LIMIT and not has_factor:
        yield broken("length-limit", what="max_len_b", found=fixed, expected=50, by_input=by_input or 0)
    if log.bleu is not None and not log.has_piece_marks and not _counts_words(log):
        yield broken("words-or-pieces", line=log.bleu.line, what="of words or pieces:")
    if log.has_piece_marks:
        yield broken("words-not-pieces", line=log.bleu.line if log.bleu else log.last_line)
    if log.num_hypotheses and log.num_sentences is not None and log.num_hypotheses != log.num_sentences:
        yield broken("every-sentence", line=log.last_line, number=log.num_hypotheses, translated=log.num_sentences)


def _counts_words(log: GenerationLog) -> bool:
    """Return whether the arguments or the hypotheses printed show that BLEU was counted on words.

    Pieces are joined by `--remove-bpe` or `--post-process`; sacreBLEU's strings also by `--bpe`. Else hypotheses
    that hold no mark of a piece are of words.
    """
    arguments = log.arguments
    is_joined = any(arguments.get(key) not in (None, False, "", "none") for key in ("remove_bpe", "post_process"))
    is_decoded = arguments.get("bpe") is not None and log.bleu is not None and log.bleu.name != "BLEU4"
    return is_joined or is_decoded or log.num_hypotheses > 0


def _check_sentences(generation: LoggedGeneration, number: int | None, expected: int | None) -> Iterator[Finding]:
    if number is not None and expected is not None and number != expected:
        is_german = training_pair(generation) == "en-de"  # En-Fr's is the full one
        filtered = "; 2,737 sentences are the filtered newstest2014" if is_german else ""
        yield broken("test-set-size", found=number, expected=expected, subset=generation.subset, filtered=filtered)


def training_pair(generation: LoggedGeneration) -> str:
    """Return the language pair of the training that a generation is of, '' if it is of none."""
    return generation.training.language_pair if generation.training else ""


def _expected_sentences(generation: LoggedGeneration) -> int | None:
    pair = training_pair(generation)
    if generation.subset == "valid":
        return DEV_PAIRS if pair == "en-de" else None
    return TEST_PAIRS if pair in LANGUAGE_PAIRS and generation.subset else None


def _search_of(generation: LoggedGeneration) -> Symbols:
    found: Symbols = {"average": generation.average}
    if generation.log.bleu is not None:
        found["beam_size"] = generation.log.bleu.beam_size
    alpha = generation.log.arguments.get("lenpen")
    if isinstance(alpha, int | float):
        found["length_penalty_alpha"] = float(alpha)
    return found


def copies(members: Sequence[LoggedTraining]) -> Iterator[tuple[LoggedTraining, Finding]]:
    """Yield the trainings of a line that are copies of an earlier one, each with its finding."""
    for same in _by_value(members, "identity").values():
        for training in same[1:]:
            yield training, broken("one-log-a-training", others=_named(same, training))


def mixed_versions(members: Sequence[LoggedTraining]) -> Iterator[tuple[LoggedTraining, Finding]]:
    """Yield all trainings of a line if they were made with several versions, each with its finding."""
    by_version = _by_value(members, "version")
    for version, same in by_version.items() if len(by_version) > 1 else ():
        others = [one for one in members if one.version != version]
        for training in same:
            yield training, broken("one-version", what="version", found=str(version), others=_named(others))


def repeated_seeds(members: Sequence[LoggedTraining]) -> Iterator[tuple[LoggedTraining, Finding]]:
    """Yield the trainings of a line whose seed another has too, each with its finding."""
    for seed, same in _by_value(members, "seed").items():
        for training in same if len(same) > 1 else ():
            others = _named(same, training)
            yield training, broken("distinct-seeds", what="seed", found=seed, seed=show(seed), others=others)


def _by_value(members: Sequence[LoggedTraining], name: str) -> dict[str | int, list[LoggedTraining]]:
    """Return the trainings by value, in order; those without one are omitted."""
    groups: dict[str | int, list[LoggedTraining]] = {}
    for training in members:
        if (value := getattr(training, name)) is not None:
            groups.setdefault(value, []).append(training)
    return groups


def _named(members: Sequence[LoggedTraining], without: LoggedTraining | None = None) -> str:
    """Return the first few paths in words."""
    paths = [one.path for one in members if one is not without]
    return ", ".join(paths[:MAX_OTHERS]) + (" and others" if len(paths) > MAX_OTHERS else "")


class AveragedLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a table: trainings that may be averaged, and in words how they differ from the row."""

    row: PaperRow
    language_pair: str
    configuration: tuple[str, ...]
    trainings: tuple[LoggedTraining, ...]

    def evaluations(self, role: str) -> dict[tuple[str, str], list[LoggedEvaluation]]:
        """Return the evaluations of a role by (metric, settings): each is averaged by itself."""
        found: dict[tuple[str, str], list[LoggedEvaluation]] = {}
        for training in self.trainings:
            for evaluation in training.evaluations:
                if evaluation.role == role:
                    found.setdefault((evaluation.metric, evaluation.settings), []).append(evaluation)
        return found


def average_trainings(trainings: Sequence[LoggedTraining]) -> tuple[list[AveragedLine], dict[str, list[Finding]]]:
    """Return the lines of all trainings that fill a row, and what rules of a whole line found, by path."""
    groups: dict[tuple[str, str, str, tuple[str, ...]], list[LoggedTraining]] = {}
    for training in trainings:
        if (row := training.row) is not None:
            labels = tuple(finding.label for finding in training.findings if finding.severity == "apart")
            groups.setdefault((row.scale, row.system, training.language_pair, labels), []).append(training)
    lines: list[AveragedLine] = []
    findings: dict[str, list[Finding]] = {}
    for (*_, labels), members in groups.items():
        for configuration, averaged in _taken_apart(members, labels, findings):
            row, pair = averaged[0].match.row, averaged[0].language_pair
            if row is not None:
                lines.append(AveragedLine(
                    row=row, language_pair=pair, configuration=configuration, trainings=tuple(averaged)
                ))  # fmt: skip
    return lines, findings


def _taken_apart(
    members: list[LoggedTraining], labels: tuple[str, ...], findings: dict[str, list[Finding]]
) -> Iterator[tuple[tuple[str, ...], list[LoggedTraining]]]:
    """Yield the groups that may be averaged; notes what each rule found by path."""

    def found_by(rule: _Rule, group: list[LoggedTraining]) -> dict[str, Finding]:
        found = {training.path: finding for training, finding in rule(group)}
        for path, finding in found.items():
            findings.setdefault(path, []).append(finding)
        return found

    copied = found_by(copies, members)
    once = [one for one in members if one.path not in copied]
    mixed = found_by(mixed_versions, once)
    groups: dict[tuple[str, ...], list[LoggedTraining]] = {}
    for one in once:
        configuration = (*labels, mixed[one.path].label) if one.path in mixed else labels
        groups.setdefault(configuration, []).append(one)
    for configuration, group in groups.items():
        by_path = {one.path: one for one in group}
        repeated = found_by(repeated_seeds, group)
        if whole := [one for one in group if one.path not in repeated]:
            yield configuration, whole
        for path, finding in repeated.items():
            yield (*configuration, f"{finding.label} of {path}"), [by_path[path]]
