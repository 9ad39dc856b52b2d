"""Checks logs by rules: which are complete, which settings are the paper's, which logs may be averaged.

Each function reads one log, or the trainings of one line of a table, and yields findings. An `error` keeps a number
out of the tables, `apart` gives it a line of its own that is averaged with no other, a `note` is printed beside it.
Symbols are compared by `analysis.logs.symbols.SYMBOL_RULES`, with the values of the row's system.

Trainings of one row, configuration and version that differ only in their seeds are averaged. What is `apart` becomes
part of the configuration, so no mean is over different ones. Each training of a repeated seed has a line of its own.
"""

import math
import posixpath
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from analysis.findings import Evidence, Finding, Severity
from analysis.logs.logged import (
    LANGUAGE_PAIRS,
    LoggedEvaluation,
    LoggedGeneration,
    LoggedTraining,
    PaperRow,
    dev_subset,
    final_validation,
    whole_number,
)
from analysis.logs.symbols import (
    MAX_FIRST_RATE,
    MIN_POSITIONS,
    OURS_ONLY,
    PLAIN_SEARCH,
    PLAIN_TRAINING,
    SYMBOL_RULES,
    Symbol,
    Symbols,
    are_equal,
    is_ours,
    symbols_of_arguments,
)
from analysis.logs.types import Argument, GenerationLog, TrainingLog

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


def broken(
    severity: Severity, check: str, title: str, fix: str, *, line: int = 0, what: str = "", found: Symbol | None = None,
    expected: Symbol | None = None,
) -> Finding:  # fmt: skip
    """Return a finding of a log; the place is a line of its own file."""
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
        *_of_completeness(training.log),
        *symbol_findings(training.symbols | _updates_done(training.log), expected),
        *_of_beginning(training.log),
        *_of_plainness(training.log.arguments, PLAIN_TRAINING, "plain-training"),
        *_of_batches(training.log, expected.get("tokens_per_update")),
        *(_of_vocabulary(training) if row is None or row.scale == "paper" else ()),
        *_of_languages(training),
        *(finding for split, number in pairs.items() for finding in _of_pairs(training.log, split, number)),
        *_of_making(training),
    ]
    if row is None:
        return tuple(finding for finding in found if finding.severity != "apart")
    splits = {"num_training_pairs": "train", "num_dev_pairs": dev_subset(training.log)}
    known = training.log.num_pairs_by_split
    unstated = [name for name, split in splits.items() if split in pairs and split not in known]
    return (*found, *_unstated(training.symbols, expected, unstated))


def _of_completeness(log: TrainingLog) -> Iterator[Finding]:
    """Yield the parts of a complete training's log that this log lacks."""
    if not log.arguments:
        text = "no start line with fairseq's arguments: what was trained is not known"
        fix = "put the beginning of the log back; fairseq prints Namespace(...) or {'_name': None, ...} first"
        yield broken("error", "start-line", text, fix, line=log.first_line)
    if log.conflict is not None:
        fix = "give each training a log of its own"
        yield broken("error", "one-training", log.conflict.text, fix, line=log.conflict.line)
    if log.truncated_line is not None:
        fix = "copy it again once the training has ended"
        yield broken("error", "whole-last-line", "the log ends inside a line", fix, line=log.truncated_line)
    if num_damaged := len(log.damaged_lines):
        text = f"{num_damaged} line(s) of statistics are torn, as when several processes write at once; not read"
        yield broken("note", "whole-lines", text, "let only rank 0 write the log", line=log.damaged_lines[0])
    if not log.last_update:
        fix = "look at the end of the log for what stopped it; fairseq before 0.6 counts none in its lines"
        yield broken("error", "updates-begun", "no line counts an update", fix, line=log.last_line)
    else:
        yield from _of_its_end(log)
    if missing := _missing_epochs(log):
        text = f"the last line of {len(missing)} epoch(s) is missing, first of epoch {missing[0]}"
        yield broken("error", "every-epoch", text, "put the missing part of the log back")
    if missing := _missing_validations(log):
        text = f"{len(missing)} validation(s) that were due are missing, first at update {missing[0]:,}"
        yield broken("error", "every-validation", text, "put the missing part of the log back")
    yield from _of_its_last_validation(log)
    if log.first_update:
        text = f"begins at update {log.first_update:,}: what came before is in another log, so seconds and cost are "
        yield broken("note", "whole-history", f"{text}not known", "put both logs into one file, in order")
    if log.arguments and not log.num_parameters:
        fix = "put the beginning of the log back to have the number of parameters"
        yield broken("note", "parameters-line", "no line `num. model params`", fix)
    if number := log.num_repeated_lines:
        text = f"{number:,} line(s) repeat another (several ranks, or one handler more an epoch); "
        yield broken("note", "repeated-lines", f"{text}counted once", "let only rank 0 write the log")


def _of_its_end(log: TrainingLog) -> Iterator[Finding]:
    max_update = _max_update(log)
    if max_update is not None and log.last_update < max_update:
        text = f"ends at update {log.last_update:,}, was to reach {max_update:,}"
        fix = "resume the training, or add the log that follows"
        yield broken("error", "last-update", text, fix, line=log.last_line)
    if not log.is_done:
        fix = "resume the training, or copy its log again once it has ended"
        yield broken("error", "done-line", "no line `done training` at its end", fix, line=log.last_line)


def _of_its_last_validation(log: TrainingLog) -> Iterator[Finding]:
    """Yield what keeps the last validation from being Table 3's perplexity."""
    final = final_validation(log)
    if final is None and log.last_update:
        newest = log.validations[-1].update if log.validations else 0
        text = f"no validation on `{dev_subset(log)}` at the last update, {log.last_update:,}; the newest is at "
        fix = "validate the last checkpoint (fairseq-validate), and add what it prints"
        yield broken("error", "final-validation", f"{text}{newest:,}", fix)
    elif final is not None and final.nll_bits is None and log.last_update:
        text = "the last validation prints no nll_loss, and a smoothed loss is no perplexity"
        fix = "train with criterion cross_entropy or label_smoothed_cross_entropy, which print it"
        yield broken("error", "dev-nll", text, fix)
    elif final is not None and final.nll_bits is not None and not math.isfinite(final.nll_bits):
        text = "the last validation's nll_loss is no finite number: the training diverged"
        yield broken("error", "finite-loss", text, "find in the log where the loss stops being a number")


def _updates_done(log: TrainingLog) -> Symbols:
    """Return the updates of a training that ended before the number that its arguments name, or that have none.

    `--max-epoch`, `--patience` and others end a training, too.
    """
    is_short = log.last_update < (whole_number(log.arguments.get("max_update")) or NEVER)
    return {"updates": log.last_update} if log.is_done and log.last_update and is_short else {}


def _of_beginning(log: TrainingLog) -> Iterator[Finding]:
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
            text = f"began from the weights of {path}, update {show(start.resumed_update)}"
            why = " with a new optimiser" if is_reset or not start.resumed_update else ", which is not of this training"
            fix = "train from nothing; or put the log of what came before above it, in one file"
            yield broken("apart", "own-beginning", f"{text}{why}", fix, line=start.line, what="began from",
                         found=posixpath.basename(path))  # fmt: skip
            return
        reached = max(reached, start.last_update)


def _of_plainness(
    arguments: Mapping[str, Argument], plain: Mapping[str, tuple[Argument, ...]], check: str
) -> Iterator[Finding]:
    """Yield the arguments that make a result another than the paper's, and have no symbol."""
    for key, values in plain.items():
        if key in arguments and arguments[key] not in values:
            text = f"--{key.replace('_', '-')} {arguments[key]}: the paper's has {values[0]}"
            yield broken("apart", check, text, "leave it out", what=key, found=arguments[key], expected=values[0])
    for key, limit in (("max_source_positions", MIN_POSITIONS), ("max_target_positions", MIN_POSITIONS)):
        number = whole_number(arguments.get(key))
        if number is not None and number < limit:
            text = f"--{key.replace('_', '-')} {number}: longer sentences are left out or cut"
            yield broken("apart", check, text, "leave it out", what=key, found=number, expected=1024)
    first_rate = arguments.get("warmup_init_lr")
    if isinstance(first_rate, int | float) and first_rate > MAX_FIRST_RATE:
        text = f"the warm-up begins at a rate of {show(first_rate)}, the paper's at 0 (equation 3)"
        yield broken("apart", check, text, "leave --warmup-init-lr out", what="warmup_init_lr", found=first_rate)


def _of_batches(log: TrainingLog, expected: Symbol | None) -> Iterator[Finding]:
    """Yield a difference of the target tokens an update (fairseq's wpb) from the positions that were asked for."""
    filled = [epoch.target_tokens_per_update for epoch in log.epochs if epoch.target_tokens_per_update]
    asked = symbols_of_arguments(log.arguments, log.num_gpus).get("tokens_per_update", expected)
    if not filled or not isinstance(asked, int | float):
        return
    tokens = statistics.median(filled)
    if not LEAST_FILLED <= tokens / asked <= MOST_FILLED:
        text = f"{tokens:,.0f} target tokens an update by its wpb, of {asked:,} positions asked for: another batch"
        fix = "find out what the batch was: --update-freq, GPUs, or --batch-size may be other than the arguments say"
        yield broken("apart", "filled-batches", text, fix, what="tokens an update", found=round(tokens), expected=asked)


def _of_vocabulary(training: LoggedTraining) -> Iterator[Finding]:
    expected = VOCABULARY_BY_LANGUAGE_PAIR.get(training.language_pair)
    for size in dict.fromkeys(training.log.vocabulary_sizes):
        if expected is not None and not are_equal(size, expected, VOCABULARY_TOLERANCE):
            text = f"a dictionary of {size:,} types, the paper's about {expected:,} (section 5.1): another segmentation"
            yield broken("apart", "vocabulary", text, "segment as the paper does", found=size, expected=expected)
            return


def symbol_findings(found: Symbols, expected: Symbols) -> Iterator[Finding]:
    """Yield the symbols that are not those of the row's system."""
    for symbol, rule in SYMBOL_RULES.items():
        value, of_row = found.get(symbol), expected.get(symbol)
        if value is not None and of_row is not None and not are_equal(value, of_row, rule.tolerance):
            text = f"{rule.words} {show(value)}, the row's {show(of_row)} ({rule.source})"
            check = symbol.removesuffix("_alpha").replace("_", "-")
            fix = rule.flags.format(show(of_row))
            yield broken(rule.severity, check, text, fix, what=symbol, found=value, expected=of_row)


def _unstated(found: Symbols, expected: Symbols, others: Sequence[str]) -> Iterator[Finding]:
    """Yield the note on symbols that the log lacks, so that their rules could not be checked."""
    names = [*(name for name in SYMBOL_RULES if name in expected and name not in found), *others]
    if names:
        text = f"the log does not state {', '.join(names)}: assumed to be the row's, not checked"
        yield broken("note", "not-stated", text, "look them up elsewhere")


def _of_languages(training: LoggedTraining) -> Iterator[Finding]:
    pair = training.language_pair
    if pair and pair not in LANGUAGE_PAIRS:
        text = f"trained on {pair}: the paper's tables are of en-de and en-fr"
        yield broken("error", "language-pair", text, "take it out of the folder")
    elif not pair and training.log.arguments:
        fix = "put the beginning of the log back; fairseq prints the dictionary of each language"
        yield broken("error", "language-pair-known", "no line names its languages", fix)


def _expected_pairs(training: LoggedTraining) -> dict[str, int]:
    """Return how many pairs the paper's corpus has, by split."""
    pair = training.language_pair
    expected = {"train": TRAINING_PAIRS_BY_LANGUAGE_PAIR.get(pair), dev_subset(training.log): DEV_PAIRS}
    if pair != "en-de":
        del expected[dev_subset(training.log)]
    return {split: number for split, number in expected.items() if number is not None}


def _of_pairs(log: TrainingLog, split: str, expected: int) -> Iterator[Finding]:
    number = log.num_pairs_by_split.get(split)
    if number is None or are_equal(number, expected, PAIRS_TOLERANCE if split == "train" else 0.0):
        return
    if split == "train":
        text = f"trained on {number:,} pairs, the paper on about {expected:,} (section 5.1): another corpus"
        yield broken("apart", "training-pairs", text, "train on WMT14", found=number, expected=expected)
    else:
        text = f"`{split}` holds {number:,} pairs, newstest2013 {expected:,}: another dev set than Table 3's"
        fix = "binarize newstest2013 as --validpref; fairseq's own script splits it off the training text"
        yield broken("apart", "dev-pairs", text, fix, found=number, expected=expected)


def _of_making(training: LoggedTraining) -> Iterator[Finding]:
    """Yield what prevents a repetition of the training: commits, and the seed."""
    commits = training.commits
    if dirty := ", ".join(commit for commit in commits or () if commit.endswith("+dirty")):
        text = f"trained at {dirty}: files differed from the commit, so this code cannot be had again"
        yield broken("apart", "clean-commit", text, "commit, and train again", found=False, expected=True)
    if commits is not None and len(commits) != 1:
        text = f"its attempts are of {len(commits)} commits ({', '.join(commits)}): mixed versions in one training"
        yield broken("apart", "one-commit", text, "train again with one version", found=len(commits), expected=1)
    if training.seed is None and training.log.arguments:
        yield broken("note", "seed-known", "no seed in its arguments", "put the start line back")


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
    findings = [*_of_a_generation(generation), *_of_sentences(generation, num_scored, num_expected)]
    findings += symbol_findings(found, expected)
    if training is None:
        return tuple(finding for finding in findings if finding.severity == "error")
    if row is not None:
        findings += _unstated(found, expected, ["num_scored"] if num_expected and num_scored is None else [])
    return tuple(findings)


def _of_a_generation(generation: LoggedGeneration) -> Iterator[Finding]:
    """Yield the parts of a complete log of fairseq-generate, of one model, that this log lacks."""
    log = generation.log
    if log.bleu is None:
        text = "no line `Generate ... with beam=...: BLEU4 = ...`"
        fix = "run fairseq-generate to its end, with a target side to score against"
        yield broken("error", "bleu-line", text, fix, line=log.last_line)
    if log.truncated_line is not None:
        fix = "copy it again once fairseq-generate has ended"
        yield broken("error", "whole-generation", "the log ends inside a line", fix, line=log.truncated_line)
    if generation.training is None:
        text = f"of {log.model_path or 'a checkpoint that it does not name'}: not one training log here (none, or "
        fix = "put the training's log into the folder, or both logs into a folder of their own"
        yield broken("error", "known-training", f"{text}several) saved into that folder: which system is it?", fix)
    if num_others := log.model_path.count(":"):
        text = f"an ensemble of {num_others + 1} models: the tables' rows are of one"
        yield broken("error", "one-model", text, "decode one (averaged) checkpoint")
    if str(log.arguments.get("model_overrides") or "{}") != "{}":
        text = "decoded with --model-overrides: another model than was trained"
        fix = "decode without --model-overrides"
        yield broken("apart", "plain-model", text, fix, found=False, expected=True)
    yield from _of_plainness(log.arguments, PLAIN_SEARCH, "plain-search")
    yield from _of_length_limit(log)
    if log.bleu is not None and not log.has_piece_marks and not _counts_words(log):
        text = "whether its BLEU is of words or of pieces is not known: it prints no hypotheses, and joined no pieces"
        fix = "run fairseq-generate with --remove-bpe (--post-process subword_nmt or sentencepiece), without --quiet"
        yield broken("apart", "words-or-pieces", text, fix, line=log.bleu.line, what="of words or pieces:")
    if log.has_piece_marks:
        text = "the hypotheses still hold marks of subwords: the BLEU is one of pieces"
        fix = "run fairseq-generate with --remove-bpe (--post-process subword_nmt or sentencepiece)"
        yield broken("error", "words-not-pieces", text, fix, line=log.bleu.line if log.bleu else log.last_line)
    if log.num_hypotheses and log.num_sentences is not None and log.num_hypotheses != log.num_sentences:
        text = f"{log.num_hypotheses:,} hypotheses are in the log, {log.num_sentences:,} sentences were translated"
        yield broken("error", "every-sentence", text, "put the missing part of the log back", line=log.last_line)


def _counts_words(log: GenerationLog) -> bool:
    """Return whether the arguments or the hypotheses printed show that BLEU was counted on words.

    Pieces are joined by `--remove-bpe` or `--post-process`; sacreBLEU's strings also by `--bpe`. Else hypotheses
    that hold no mark of a piece are of words.
    """
    arguments = log.arguments
    is_joined = any(arguments.get(key) not in (None, False, "", "none") for key in ("remove_bpe", "post_process"))
    is_decoded = arguments.get("bpe") is not None and log.bleu is not None and log.bleu.name != "BLEU4"
    return is_joined or is_decoded or log.num_hypotheses > 0


def _of_length_limit(log: GenerationLog) -> Iterator[Finding]:
    by_input, fixed = (log.arguments.get(key) for key in ("max_len_a", "max_len_b"))
    if (
        isinstance(fixed, int | float)
        and not (isinstance(by_input, int | float) and by_input >= 1)
        and (fixed < MIN_LENGTH_LIMIT)
    ):
        text = f"output is cut at {by_input or 0:g} x input + {fixed:g} tokens, the paper's at input + 50 (section 6.1)"
        fix = "decode with --max-len-a 1 --max-len-b 50"
        yield broken("apart", "length-limit", text, fix, what="max_len_b", found=fixed, expected=50)


def _of_sentences(generation: LoggedGeneration, number: int | None, expected: int | None) -> Iterator[Finding]:
    if number is not None and expected is not None and number != expected:
        text = f"`{generation.subset}` holds {number:,} sentences, the paper's set {expected:,} (newstest2013: 3,000; "
        is_german = training_pair(generation) == "en-de"  # En-Fr's is the full one
        fix = f"decode the full set{'; 2,737 sentences are the filtered newstest2014' if is_german else ''}"
        yield broken("apart", "test-set-size", f"{text}newstest2014: 3,003)", fix, found=number, expected=expected)


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
            text = f"the same training as {_named(same, training)}: it counts once"
            yield training, broken("error", "one-log-a-training", text, "nothing; or take the copy out of the folder")


def mixed_versions(members: Sequence[LoggedTraining]) -> Iterator[tuple[LoggedTraining, Finding]]:
    """Yield all trainings of a line if they were made with several versions, each with its finding."""
    by_version = _by_value(members, "version")
    for version, same in by_version.items() if len(by_version) > 1 else ():
        others = [one for one in members if one.version != version]
        for training in same:
            text = f"made with {version}; {_named(others)} of the same configuration with another: mixed versions"
            fix = "train all seeds with one version to have their mean"
            yield training, broken("apart", "one-version", text, fix, what="version", found=str(version))


def repeated_seeds(members: Sequence[LoggedTraining]) -> Iterator[tuple[LoggedTraining, Finding]]:
    """Yield the trainings of a line whose seed another has too, each with its finding."""
    for seed, same in _by_value(members, "seed").items():
        for training in same if len(same) > 1 else ():
            others = _named(same, training)
            text = f"seed {show(seed)} again, as in {others}: two trainings of one seed are not two samples"
            fix = "take out all but one, or train with another seed"
            yield training, broken("apart", "distinct-seeds", text, fix, what="seed", found=seed)


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
