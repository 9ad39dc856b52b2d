"""Derives facts about a training that follow from several lines of its logs.

A *start* of a training is one run of fairseq-train. A training that was interrupted has several
starts. A derived fact has the file and line number of the line that it depends on most. A
contradiction between two lines of a log, a *conflict*, is also a derived fact.
"""

import functools
import math
import posixpath
import re
import statistics
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

import msgspec

from aiayn.cost import num_parameters
from aiayn.facts.statistics import Statistics
from aiayn.facts.trainings import Training
from aiayn.facts.types import (
    Fact,
    Section,
    Value,
    is_same_place,
    models_of,
    normal_path,
    real,
    whole,
)
from aiayn.spec.system import TrainingSpec, read_system

LAST_CHECKPOINT = "checkpoint_last.pt"
NEVER = 10**6  # a larger interval means never. `aiayn train` passes 10^9
SIZES = ("num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v")
RATE_TOLERANCE = 0.05
# The length of an epoch is computed from two lines at least this share of an epoch apart, because
# JSON prints the progress with three decimals only.
MIN_PROGRESS = 0.02
NUM_NEAR = 5  # number of lines within epochs: their mean batch is compared with the epochs'
CLOCK_SECONDS = 120.0  # fairseq's lines before and after the measured time
# fairseq's prepare-wmt14en2de.sh without --icml17 reads WMT17's text. The number is its output.
WMT17_PAIRS = 3_961_179
_YEAR = re.compile(r"wmt[_-]?(?:20)?(\d\d)(?!\d)", re.IGNORECASE)


def facts_of_training(training: Training) -> list[Fact]:
    """Return all facts of a training: its arguments, the facts stated in its logs, and the derived
    facts.
    """
    facts = [fact for section in training.sections for fact in section.facts]
    names = {name for section in training.sections for name in section.symbols}
    for section in training.sections:
        facts += [section.fact(*pair) for pair in section.symbols.items()]
        # If one start states a symbol, each start must state it. Otherwise its value here is None.
        missing = names - section.symbols.keys()
        facts += [section.fact(name, None) for name in sorted(missing) if section.arguments]
    # First facts about the whole training, then facts about each start.
    for derive in (_history, _checkpoints, _end, _batches, _speed):
        facts += derive(training)
    for section in training.sections:
        facts += facts_of_section(section)
        for derive_of_start in (_corpus, _samples, _rates, _model_of_start, _costs):
            facts += derive_of_start(section)
    return facts


def facts_of_section(section: Section) -> Iterator[Fact]:
    """Yield the derived facts that apply to runs of fairseq-train and of fairseq-generate alike."""
    yield from _code_of_user(section)
    yield from _conflicts(section)
    yield from _folders(section)


def _code_of_user(section: Section) -> Iterator[Fact]:
    """Yield the name of each folder that was given to fairseq's option --user-dir. The Python code
    in a folder of --user-dir may change fairseq.
    """
    for fact in section.facts:
        # The line that the log prints about the folder is read as well, because the argument in a
        # config may be relative to a different folder.
        is_stated = fact.quantity in ("user_dir", "train.user_dir", "generate.user_dir")
        if is_stated and fact.value:
            name = posixpath.basename(normal_path(fact.value))
            yield fact._replace(quantity="code_of_user", value=name)


def _conflicts(section: Section) -> Iterator[Fact]:
    """Yield a conflict for each line of a log that contradicts the arguments or an earlier line
    about the same quantity.
    """
    # A quantity without an argument is compared with the first line that states it.
    arguments = section.arguments
    expected: dict[str, Value] = {
        "model_name": arguments.get("arch"),
        "num_gpus": arguments.get("distributed_world_size"),
        "printed_max_tokens": arguments.get("max_tokens"),
        "num_parameters": None,
        "num_trained": None,
        "subset": arguments.get("gen_subset"),
        "printed_beam": arguments.get("beam"),
        "model_path": arguments.get("path"),
        "num_sentences": section.num_hypotheses or None,
    }
    for fact in section.facts:
        if fact.quantity not in expected:
            continue
        first, second = expected[fact.quantity], fact.value
        if first is None:
            expected[fact.quantity] = second
        elif str(first) != str(second):
            text = f"{fact.quantity} is {first} and {second}"
            yield fact._replace(quantity="conflict", value=text)


def _folders(section: Section) -> Iterator[Fact]:
    """Yield a conflict if fairseq loaded text from a folder other than the data-bin in its
    arguments.
    """
    folders = [
        normal_path(folder) for folder in models_of(str(section.arguments.get("data") or ""))
    ]
    for fact in section.facts:
        if fact.quantity == "data_path" and section.arguments.get("data"):
            # fairseq prints a folder in some lines and a file in the folder in others.
            path = normal_path(fact.value)
            places = (path, posixpath.dirname(path))
            if not any(is_same_place(folder, parent) for folder in folders for parent in places):
                yield fact._replace(quantity="conflict", value=f"{path} is not in `data`")
                return


def _history(training: Training) -> list[Fact]:
    """Return facts about where the weights of a training come from. If each start of the training
    began with random weights or from a checkpoint of this training, the result has a fact `history`
    with the value `whole`. For each start that began with any other weights, the result has a fact
    `history` that describes these weights. The result also contains the seed.
    """
    last, home = training.last, posixpath.basename(training.last.save_folder)
    faults: list[Fact] = []
    reached, begun = 0, ""
    for section in training.sections:
        updates = section.whole("resumed_updates")
        loaded = normal_path(section.value("loaded_path") or "")
        restored = str(section.arguments.get("restore_file") or LAST_CHECKPOINT)
        folder = posixpath.basename(posixpath.dirname(loaded))
        # A folder that was moved keeps its name. A different name is the training's own if the log
        # has reached this update already.
        is_own = bool(updates) and (folder == home or (updates or 0) <= reached)
        text = ""
        # Some logs do not say which checkpoint was loaded. A start that does not begin at epoch 1
        # must have loaded one.
        if updates is None and section.first_epoch not in (None, 1):
            text = "not stated"
        elif (updates or 0) > reached:
            text = f"update {updates:,} of a log that is not here"
        # A job that was requeued starts after the job that saved its checkpoint.
        elif section.first_time and section.first_time < begun:
            text = f"a start of {section.first_time} goes on with one of {begun}"
        elif loaded != "." and not is_own:
            text = f"the weights of {loaded}"
        # --restore-file with a checkpoint of a different folder is a pretrained model.
        elif loaded == "." and restored != LAST_CHECKPOINT and not _is_in(restored, home):
            text = f"the weights of {restored}"
        if text:
            faults.append(section.fact("history", text, section.line_of("resumed_updates")))
        reached, begun = section.reach, section.first_time or begun
    # fairseq prints the best loss of the whole history, also of logs that are not here.
    best = math.inf
    for validation in training.validations:
        best = min(best, validation.loss_bits or best)
        best_loss = validation.value_by_name.get("best_loss", best)
        if not faults and best_loss < best - 0.0051:
            text = f"a best loss of {best_loss}, which no validation here has"
            faults.append(last.fact("history", text, validation.line))
    if not faults and training.first.arguments:
        first = training.first
        faults = [first.fact("history", "whole", first.line_of("resumed_updates"))]
    # Starts that read different data-bins are not one training, however their updates continue.
    folders = {
        normal_path(section.arguments.get("data"))
        for section in training.sections
        if section.arguments
    }
    if len(folders) > 1:
        faults.append(last.fact("data_of_starts", " then ".join(sorted(folders))))
    if training.seed is not None:
        faults.append(last.fact("seed", training.seed))
    return faults


def _checkpoints(training: Training) -> Iterator[Fact]:
    """Yield a conflict for each saved checkpoint if its folder, name or score contradicts other
    lines of the training's log.
    """
    validation_by_update = {validation.update: validation for validation in training.validations}
    for section in training.sections:
        home = section.save_folder
        # A line about a checkpoint states its path, update and score. They become separate facts.
        saved_by_line: dict[int, dict[str, Value]] = {}
        for fact in section.facts:
            if fact.quantity.startswith("saved_"):
                saved_by_line.setdefault(fact.line, {})[fact.quantity] = fact.value
        for line, saved in saved_by_line.items():
            folder, name = posixpath.split(normal_path(saved.get("saved_path")))
            update, score = saved.get("saved_updates"), saved.get("saved_score")
            in_name = re.fullmatch(r"checkpoint_\d+_(\d+)\.pt", name)
            if not is_same_place(folder or ".", home):
                text = f"a checkpoint is saved in {folder}, not in {home}"
                yield section.fact("conflict", text, line)
            if in_name and update is not None and int(in_name[1]) != update:
                yield section.fact("conflict", f"{name} is of update {update}", line)
            validation = validation_by_update.get(whole(update) or 0)
            # The score is the best-checkpoint metric, rounded to fewer digits than the validation.
            is_number = re.fullmatch(r"-?\d+\.?\d*", str(score))
            if validation is None or not is_number:
                continue  # without a score, nothing was validated
            metric = section.arguments.get("best_checkpoint_metric") or "loss"
            printed = {
                "loss": validation.loss_bits,
                "bleu": validation.value_by_name.get("bleu"),
            }.get(str(metric))
            if printed is not None and f"{printed:.2f}" != f"{float(str(score)):.2f}":
                text = f"{name} has score {score}, its validation {printed}"
                yield section.fact("conflict", text, line)


def _is_in(path: str, home: str) -> bool:
    return posixpath.basename(posixpath.dirname(normal_path(path))) in (home, "")


def _end(training: Training) -> Iterator[Fact]:
    """Yield facts about the end of a training and its validations: the last update, the number of
    missing validations, the negative log-likelihood and BLEU of the validation at the last update,
    whether the loss was label-smoothed, and how much the batches of validations differ.
    """
    last, line, final = training.last, training.last.last_line, training.final_validation
    if training.last.last_update:
        yield last.fact("updates", training.last.last_update, line)
    yield last.fact("missing_validations", len(_missing_validations(training)), line)
    # With smoothing the two losses differ in each line. If all are equal, nothing was smoothed.
    smoothed = [
        validation
        for validation in training.validations
        if validation.loss_bits and validation.nll_bits
    ]
    is_unsmoothed = smoothed and all(
        validation.loss_bits == validation.nll_bits for validation in smoothed
    )
    if is_unsmoothed and (real(last.symbols.get("eps_ls")) or 0.0) > 0:
        yield last.fact("unsmoothed_loss", smoothed[-1].loss_bits, smoothed[-1].line)
    if final is not None:
        yield last.fact("final_nll_bits", final.nll_bits, final.line)
        # A BLEU of --eval-bleu belongs to weights that are not averaged, so it is a note.
        if "bleu" in final.value_by_name:
            yield last.fact("validation_bleu", final.value_by_name["bleu"], final.line)
            if training.last.arguments.get("eval_bleu") is False:
                yield last.fact("conflict", "a BLEU although eval_bleu is False", final.line)
    # The dev set is the same in each validation, so the batches must be, too.
    sizes = [
        validation.target_tokens for validation in training.validations if validation.target_tokens
    ]
    if sizes:
        yield last.fact("spread_of_validations", max(sizes) / min(sizes), line)


def _missing_validations(training: Training) -> list[int]:
    """Return the update numbers at which fairseq should have validated, but the log has no
    validation.
    """
    arguments = training.last.arguments
    if arguments.get("disable_validation") is True or not training.validations:
        return []
    validated = {line.update for line in training.validations}
    # fairseq validates at the ends of epochs and at both intervals of updates.
    begin = whole(arguments.get("validate_after_updates")) or 0
    due: set[int] = set()
    for key in ("validate_interval_updates", "save_interval_updates"):
        interval = whole(arguments.get(key)) or 0
        if 0 < interval < NEVER:
            due |= set(range(interval, training.last.last_update + 1, interval))
    every = whole(arguments.get("validate_interval")) or 1
    due |= {line.update for line in training.epochs if line.epoch % every == 0}
    return sorted(update for update in due - validated if update >= begin)


def _corpus(section: Section) -> Iterator[Fact]:
    """Yield facts about the corpus of a training: the language pair, the numbers of sentence pairs
    in the training and dev sets, and the number of dictionaries.
    """
    if section.language_pair:
        yield section.fact("language_pair", section.language_pair)
    pairs = _train_pairs(section)
    if pairs is not None:
        yield pairs
        yield from _year(section, pairs)
    # The dev set has the name of --valid-subset, which is not always `valid`.
    dev = section.find(f"pairs_{section.dev_subset}")
    if dev is not None:
        yield dev._replace(quantity="dev_pairs")
    # A joint dictionary is printed twice, with one size.
    sizes = section.values("num_types")
    if len(sizes) >= 2:
        number = len(set(sizes[:2]))
        yield section.fact("num_dictionaries", number, section.line_of("num_types"))
    # fairseq takes several data-bins, separated by colons, one for each epoch in turn. `C:\` is a
    # drive of Windows.
    data = str(section.arguments.get("data") or "").replace(":\\", "")
    if data:
        yield section.fact("num_data_folders", data.count(":") + 1)


def _train_pairs(section: Section) -> Fact | None:
    """Return the number of sentence pairs in the training set, None if no line states it."""
    # fairseq reads train, train1, ... as one corpus. If several lines state the size of a part, the
    # largest size counts.
    parts: dict[str, Fact] = {}
    for fact in section.facts:
        earlier = parts.get(fact.quantity, fact)
        is_more = (real(fact.value) or 0) >= (real(earlier.value) or 0)
        if re.fullmatch(r"pairs_train\d*", fact.quantity) and is_more:
            parts[fact.quantity] = fact
    if not parts:
        return None
    number = sum(whole(part.value) or 0 for part in parts.values())
    newest = list(parts.values())[-1]
    return newest._replace(quantity="train_pairs", value=number)


def _year(section: Section, pairs: Fact) -> Iterator[Fact]:
    """Yield the year of the WMT corpus, if a path in the log contains the year, or if the number of
    training pairs is that of WMT17.
    """
    # The name of a folder often contains the year of its text, such as wmt17_en_de.
    texts = [str(section.arguments.get("data") or ""), *map(str, section.values("data_path"))]
    years = {int(match[1]) for text in texts for match in _YEAR.finditer(text)}
    if pairs.value == WMT17_PAIRS:
        years.add(17)
    for year in sorted(years):
        yield pairs._replace(quantity="wmt_year", value=year)


def _batches(training: Training) -> Iterator[Fact]:
    """Yield facts about the batches of a training: the mean number of target tokens in an update,
    how much this number differs between epochs, and the share of the corpus that an epoch read.
    """
    last, ends = training.last, [epoch for epoch in training.epochs if epoch.target_tokens]
    if not ends:
        return
    # An epoch's mean is weighted by its updates, because the last epoch may be short.
    updates = [max(1, after.update - before.update) for before, after in pairwise(ends)]
    updates = [max(1, ends[0].update), *updates]
    tokens, pairs, line = 0.0, 0.0, ends[-1].line
    for end, number in zip(ends, updates, strict=True):
        tokens += end.target_tokens * number
        pairs += end.value_by_name.get("bsz", 0.0) * number
    yield last.fact("target_tokens", tokens / sum(updates), line)
    # The last epoch is left out, because --max-update may end it with unusual batches.
    sizes = [end.target_tokens for end in ends[:-1]] or [tokens]
    yield last.fact("spread_of_batches", max(sizes) / min(sizes), line)
    loaded = _train_pairs(last)
    # If the log lacks the first epoch, the first entry covers more than one epoch.
    lengths = updates if ends[0].epoch == 1 else updates[1:]
    if pairs and loaded is not None and loaded.value and len(ends) > 1:
        share = pairs / sum(updates) * max(lengths) / (real(loaded.value) or 1)
        yield last.fact("pairs_of_an_epoch", share, line)


def _samples(section: Section) -> Iterator[Fact]:
    """Yield facts from the kept statistics within epochs (not all lines are kept): whether all
    epochs have the same length, whether batches keep their size, and the share of updates with a
    gradient norm of 0.
    """
    lengths: list[float] = []
    sizes: list[float] = []
    before: Statistics | None = None
    for sample in section.samples:
        if sample.progress is None:
            continue
        # A line within an epoch has the mean since the line before it. The line at the end of the
        # epoch has the mean of the whole epoch.
        epoch = section.epochs.get(math.ceil(sample.progress))
        if epoch and epoch.target_tokens and sample.target_tokens:
            sizes.append(sample.target_tokens / epoch.target_tokens)
        # The updates between two lines, divided by the share of an epoch between them, is the
        # length of an epoch.
        passed = math.inf if before is None else sample.progress - (before.progress or 0.0)
        if before is not None and passed > MIN_PROGRESS:
            lengths.append((sample.update - before.update) / passed)
        if passed > MIN_PROGRESS:
            before = sample
    if section.samples:
        line = section.samples[-1].line
        # A gradient norm of 0 means that an update changed nothing.
        num_still = sum(sample.value_by_name.get("gnorm") == 0 for sample in section.samples)
        yield section.fact("still_updates", num_still / len(section.samples), line)
        if lengths:
            yield section.fact("spread_of_epochs", max(lengths) / max(1e-9, min(lengths)), line)
        # Single lines vary with the order of batches, so means of neighbours are compared.
        begins = range(len(sizes) - NUM_NEAR + 1)
        means = [statistics.fmean(sizes[begin : begin + NUM_NEAR]) for begin in begins]
        if means:
            farthest = max(means, key=lambda mean: abs(mean - 1))
            yield section.fact("batches_within_epoch", farthest, line)


def _rates(section: Section) -> Iterator[Fact]:
    """Yield the share of the learning rates in a log that differ from the schedule in the
    arguments.
    """
    symbols = section.symbols
    peak, warmup = real(symbols.get("peak_learning_rate")), whole(symbols.get("warmup_steps"))
    rates = [sample for sample in section.samples if "lr" in sample.value_by_name]
    if symbols.get("schedule") != "inverse_sqrt" or warmup is None or not peak or not rates:
        return
    # fairseq's default is -1, which means 0 for inverse_sqrt with a warm-up.
    first = max(0.0, real(section.arguments.get("warmup_init_lr")) or 0.0)
    wrong = []
    for sample in rates:
        # fairseq's inverse_sqrt prints the rate for this number of updates. The schedule equation_3
        # of this project prints the rate for one update more.
        expected = [_rate(peak, warmup, first, sample.update + more) for more in (0, 1)]
        errors = [abs(sample.value_by_name["lr"] / rate - 1) for rate in expected]
        if min(errors) > RATE_TOLERANCE:
            wrong.append(sample)
    yield section.fact("wrong_rates", len(wrong) / len(rates), (wrong or rates)[0].line)


def _rate(peak: float, warmup: int, first: float, update: int) -> float:
    """Return the learning rate of fairseq's schedule inverse_sqrt at an update."""
    if update < warmup:
        return first + (peak - first) * update / warmup
    return peak * math.sqrt(max(warmup, 1) / update)


@functools.cache
def _base() -> TrainingSpec:
    return read_system("base", "paper").training


def counted_parameters(section: Section) -> int | None:
    """Return the number of parameters of fairseq's transformer, computed from the arguments and the
    sizes of the dictionaries. Return None if sizes of the model or the dictionaries are not known.
    """
    symbols = section.symbols
    sizes: dict[str, Any] = {name: whole(symbols.get(name)) for name in SIZES}
    types = [whole(value) or 0 for value in section.values("num_types")[:2]]
    if symbols.get("architecture") != "transformer" or None in sizes.values() or len(types) < 2:
        return None
    # The paper's spec with the sizes of the log, so that one function counts the parameters of
    # both.
    tied = symbols.get("tied_embeddings")
    sizes |= {name: symbols.get(name) for name in ("norm_order", "positions")}
    training = msgspec.structs.replace(
        _base(),
        architecture="fairseq_transformer",
        attention="scaled",
        attention_biases=True,
        tied_embeddings=bool(tied),
        **sizes,
    )
    return num_parameters(training, types[0], tied is True, types[1])


def _twice(section: Section) -> int:
    """Return the number of parameters that fairseq 0.12.2 counts twice. The encoder layers of
    fairseq 0.12.2 contain the weights of attention and feed-forward a second time, for a faster
    kernel.
    """
    symbols = section.symbols
    sizes = [whole(symbols.get(name)) or 0 for name in ("d_model", "d_ff", "num_layers")]
    d_model, d_ff, layers = sizes
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    return layers * (attention + feed_forward)


def _parameters_once(section: Section, printed: int, counted: int | None) -> int:
    """Return the number of the model's parameters, without what fairseq 0.12.2 counts twice."""
    # Only fairseq 0.12.2, which prints a config, counts the second copy.
    if counted and section.form == "config":
        once = printed - _twice(section)
        if math.isclose(once, counted, rel_tol=0.005):
            return once
    return printed


def _model_of_start(section: Section) -> Iterator[Fact]:
    """Yield facts about the model that a training printed: the number of parameters, its ratio to
    the number computed from the arguments, the number of frozen parameters, and the matrices and
    layers that do not fit the arguments.
    """
    line = section.line_of("num_parameters")
    printed, counted = section.whole("num_parameters"), counted_parameters(section)
    trained = section.whole("num_trained")
    if printed:
        once = _parameters_once(section, printed, counted)
        yield section.fact("model_parameters", once, line)
        if counted:
            yield section.fact("parameters_of_arguments", once / counted, line)
    if printed and trained is not None:
        yield section.fact("frozen_parameters", printed - trained, line)
    symbols = section.symbols
    d_model, d_ff = symbols.get("d_model"), symbols.get("d_ff")
    if d_model is None or d_ff is None or section.is_ours:
        return
    # These are all matrices that a transformer of these sizes can print.
    types = set(section.values("num_types"))
    # 3 x d_model: attention with one matrix for queries, keys and values.
    allowed = {f"Linear {d_model} x {size}" for size in (d_model, d_ff, f"{3 * d_model}", *types)}
    allowed |= {f"Linear {d_ff} x {d_model}", *(f"Embedding {size} x {d_model}" for size in types)}
    is_learned = symbols.get("positions") == "learned"
    for fact in section.facts:
        is_positions = is_learned and str(fact.value).startswith("Embedding")
        if fact.quantity == "matrix" and fact.value not in allowed and not is_positions:
            yield fact._replace(quantity="other_matrix")
    # PyTorch prints equal layers as `(0-5): 6 x TransformerEncoderLayer`, or one by one.
    for side in ("encoder", "decoder"):
        number = sum(whole(value) or 0 for value in section.values(f"layer_{side}"))
        if number and number != symbols.get("num_layers"):
            text = f"{number} layers of the {side}"
            yield section.fact("other_layers", text, section.line_of(f"layer_{side}"))


def _clock_seconds(section: Section) -> float:
    """Return the seconds between the first and the last clock time in a section (one start) of a
    log, 0 if its lines have no clock times.
    """
    if not section.first_time or not section.last_time:
        return 0.0
    begin, end = map(datetime.fromisoformat, (section.first_time, section.last_time))
    return (end - begin).total_seconds()


def _costs(section: Section) -> Iterator[Fact]:
    """Yield whether the duration that fairseq prints at the end of a training contradicts the clock
    times of the log's lines.
    """
    done, clock = section.find("done_seconds"), _clock_seconds(section)
    if done is None or not clock:
        return
    if not section.value("resumed_updates"):  # a later start adds to the time of the earlier starts
        clock = max(clock, _largest_wall(section))
    is_wrong = abs(clock - (real(done.value) or 0.0)) > CLOCK_SECONDS + 0.05 * clock
    yield done._replace(quantity="wrong_clock", value=is_wrong)


def _speed(training: Training) -> Iterator[Fact]:
    """Yield facts about the speed of a training: the GPU time of all its starts, the number of
    different GPU models, and the target tokens a second of all GPUs together.

    The tokens a second are the median over the epochs of the last start, which include validation
    and saving, or the median over its lines of statistics if no epoch has ended.
    """
    last = training.last
    # A later start may have more or fewer GPUs.
    gpu_seconds = [_wall_seconds(section) * _num_gpus(section) for section in training.sections]
    if all(gpu_seconds):
        yield last.fact("gpu_seconds", sum(gpu_seconds), last.last_line)
    # fairseq pads the names of GPUs to one width.
    names = {str(gpu).strip() for section in training.sections for gpu in section.values("gpu")}
    if names:
        yield last.fact("gpu_kinds", len(names), last.line_of("gpu"))
    # A training that has not finished an epoch still has a speed.
    printed = list(last.epochs.values()) or last.samples
    speeds = [line.value_by_name["wps"] for line in printed if line.value_by_name.get("wps")]
    if speeds:
        yield last.fact("speed", statistics.median(speeds), last.last_line)


def _num_gpus(section: Section) -> int:
    """Return the number of GPUs of a start, 0 if it is not known. A start that failed early printed
    only its arguments.
    """
    asked = whole(section.arguments.get("distributed_world_size"))
    return section.whole("num_gpus") or asked or 0


def _wall_seconds(section: Section) -> float:
    """Return the duration in seconds of a start (one run of fairseq-train): the number that fairseq
    prints at the end, or else the time between the first and last line, or else the largest `wall`
    in the statistics. Return 0 if the log states no time.
    """
    return section.real("done_seconds") or _clock_seconds(section) or _largest_wall(section)


def _largest_wall(section: Section) -> float:
    # `wall` counts from the start of the training, and is 0 in some versions after a resume. A
    # start that was killed within an epoch has lines after its last whole epoch.
    lines = [*section.epochs.values(), *section.samples]
    return max((line.value_by_name.get("wall", 0.0) for line in lines), default=0.0)
