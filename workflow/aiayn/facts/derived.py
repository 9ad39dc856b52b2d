"""Derives facts that follow from several others: of a training, and of a translation.

Each derived fact has the file and line of the statement that it depends on most. A statement that
contradicts a different statement is a derived fact, too: `bleu_error` is the difference between a
printed BLEU and the BLEU of the precisions next to it.
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
from aiayn.facts.averages import average_of
from aiayn.facts.jobs import (
    LAST_CHECKPOINT,
    Training,
    Translation,
    gpu_names,
    is_same_place,
    language_pair_of,
    models_of,
    reach_of,
    wall_seconds,
)
from aiayn.facts.statistics import Statistics
from aiayn.facts.symbols import OURS_ONLY, is_ours, symbols_of_arguments
from aiayn.facts.types import (
    Fact,
    Section,
    Value,
    normal_path,
    real,
    whole,
)
from aiayn.spec.system import TrainingSpec, read_system

NEVER = 10**6  # an interval of so many updates or more never comes: `aiayn train` gives 10^9
SIZES = ("num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v")
RATE_TOLERANCE = 0.05
MIN_PROGRESS = (
    0.02  # of an epoch between two lines that say how long it is: JSON has three decimals
)
NUM_NEAR = 5  # lines within epochs whose mean batch is compared with that of their epochs
CLOCK_SECONDS = 120.0  # fairseq's lines before and after the measured time
MIN_PIECE_SHARE = 0.05  # of the hypotheses: more marks than in a text about such marks
# fairseq's prepare-wmt14en2de.sh without --icml17 reads WMT17's text; the number is its output.
WMT17_PAIRS = 3_961_179
_YEAR = re.compile(r"wmt[_-]?(?:20)?(\d\d)(?!\d)", re.IGNORECASE)


def facts_of_training(training: Training) -> list[Fact]:
    """Return all facts of a training: stated, printed, and derived."""
    return [*training.facts, *_derived_of_training(training)]


def facts_of_translation(translation: Translation) -> list[Fact]:
    """Return all facts of a translation, without those of its training."""
    return [*translation.section.facts, *_derived_of_translation(translation)]


def _derived_of_training(training: Training) -> Iterator[Fact]:
    names = {fact.quantity for section in training.sections for fact in symbols_of(section)}
    for section in training.sections:
        symbols = symbols_of(section)
        yield from symbols
        # What one start states, each start has to state.
        missing = names - {fact.quantity for fact in symbols}
        for name in sorted(missing if section.arguments else ()):
            yield Fact(name, None, section.path, section.line)
        yield from _code_of_user(section)
        yield from _conflicts(section)
        yield from _folders(section)
    yield from _history(training)
    yield from _checkpoints(training)
    yield from _end(training)
    yield from _corpus(training)
    yield from _batches(training)
    yield from _samples(training)
    yield from _rates(training)
    yield from _parameters(training)
    yield from _matrices(training)
    yield from _costs(training)
    yield from _speed(training)


def _place(section: Section, quantity: str) -> tuple[str, int]:
    """Return the file and line of a fact, or those of the section's beginning."""
    fact = section.find(quantity)
    return (section.path, section.line) if fact is None else (fact.path, fact.line)


def symbols_of(section: Section) -> list[Fact]:
    """Return the paper's symbols of the arguments of one start, which are worked out once."""
    if section.symbols is None:
        section.symbols = list(_symbols(section))
    return section.symbols


def _symbols(section: Section) -> Iterator[Fact]:
    """Yield the paper's symbols of the arguments of one start."""
    if not section.arguments:
        return
    arguments = dict(section.arguments)
    gpus = whole(section.value("num_gpus"))
    stated = whole(arguments.get("distributed_world_size"))
    if gpus is not None:
        arguments["distributed_world_size"] = gpus
    has_gpus = gpus is not None or stated is not None
    symbols = list(symbols_of_arguments(arguments, gpus).items())
    # Two groups of a config may state different values: each counts.
    last = arguments | {
        fact.quantity.removeprefix("train."): fact.value
        for fact in section.facts
        if fact.quantity.startswith("train.") and fact.quantity != "train.distributed_world_size"
    }
    symbols += [pair for pair in symbols_of_arguments(last, gpus).items() if pair not in symbols]
    for symbol, value in symbols:
        is_other = symbol in OURS_ONLY and not is_ours(arguments)
        is_other = is_other or symbol in ("updates", "precision")
        if not is_other and (has_gpus or symbol != "tokens_per_update"):
            yield Fact(symbol, value, section.path, section.line)


def _code_of_user(section: Section) -> Iterator[Fact]:
    """Yield the folder of each `--user-dir`, whose code changes fairseq."""
    for fact in section.facts:
        is_stated = fact.quantity in ("user_dir", "train.user_dir", "generate.user_dir")
        if is_stated and fact.value:
            name = posixpath.basename(normal_path(fact.value))
            yield Fact("code_of_user", name, fact.path, fact.line)


def _conflicts(section: Section) -> Iterator[Fact]:
    """Yield each line that states another value of a quantity than the arguments, or than an
    earlier line.
    """
    arguments = section.arguments
    known: dict[str, Value] = {
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
        if fact.quantity not in known:
            continue
        first, second = known[fact.quantity], fact.value
        if fact.quantity == "model_path" and first is not None:
            first, second = normal_path(first), normal_path(second)
        if first is None:
            known[fact.quantity] = second
        elif str(first) != str(second):
            text = f"{fact.quantity} is {first} and {second}"
            yield Fact("conflict", text, fact.path, fact.line)


def _folders(section: Section) -> Iterator[Fact]:
    """Yield text that is loaded from another folder than `data`."""
    folders = [normal_path(one) for one in models_of(str(section.arguments.get("data") or ""))]
    for fact in section.facts:
        if fact.quantity == "data_path" and section.arguments.get("data"):
            path = normal_path(fact.value)
            places = (path, posixpath.dirname(path))
            if not any(is_same_place(one, place) for one in folders for place in places):
                yield Fact("conflict", f"{path} is not in `data`", fact.path, fact.line)
                return


def _history(training: Training) -> Iterator[Fact]:
    """Yield where each start began: nothing, its own checkpoint, or weights that are not known."""
    if training.seed is not None:
        yield Fact("seed", training.seed, training.last.path, training.last.line)
    home = posixpath.basename(training.last.save_folder)
    faults: list[Fact] = []
    reached, begun = 0, ""
    for section in training.sections:
        path, line = _place(section, "resumed_updates")
        updates = whole(section.value("resumed_updates"))
        loaded = normal_path(section.value("loaded_path") or "")
        restored = str(section.arguments.get("restore_file") or LAST_CHECKPOINT)
        folder = posixpath.basename(posixpath.dirname(loaded))
        is_own = folder == home or 0 < (updates or 0) <= reached
        text = ""
        if updates is None and section.first_epoch not in (None, 1):
            text = "not stated"
        elif (updates or 0) > reached:
            text = f"update {updates:,} of a log that is not here"
        elif section.first_time and section.first_time < begun:
            text = f"a start of {section.first_time} goes on with one of {begun}"
        elif loaded != "." and not (is_own and updates):
            text = f"the weights of {loaded}"
        elif loaded == "." and restored != LAST_CHECKPOINT and not _is_in(restored, home):
            text = f"the weights of {restored}"
        if text:
            faults.append(Fact("history", text, path, line))
        reached, begun = reach_of(section), section.first_time or begun
    best = math.inf
    for one in training.dev_validations:
        best = min(best, one.loss_bits or math.inf)
        known = one.value_by_name.get("best_loss", math.inf)
        if not faults and known < best - 0.0051:
            text = f"a best loss of {known}, which no validation here has"
            faults.append(Fact("history", text, training.last.path, one.line))
    yield from faults
    if not faults and training.first.arguments:
        path, line = _place(training.first, "resumed_updates")
        yield Fact("history", "whole", path, line)
    folders = {normal_path(one.arguments.get("data")) for one in training.sections if one.arguments}
    if len(folders) > 1:
        text = " then ".join(sorted(folders))
        yield Fact("data_of_starts", text, training.last.path, training.last.line)


def _checkpoints(training: Training) -> Iterator[Fact]:
    """Yield saved checkpoints whose folder, name or score is not that of the training."""
    validation_by_update = {one.update: one for one in training.dev_validations}
    for section in training.sections:
        home = section.save_folder
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
                yield Fact("conflict", text, section.path, line)
            if in_name and update is not None and int(in_name[1]) != update:
                yield Fact("conflict", f"{name} is of update {update}", section.path, line)
            validation = validation_by_update.get(whole(update) or 0)
            is_number = re.fullmatch(r"-?\d+\.?\d*", str(score))
            if validation is None or not is_number:
                continue  # None: nothing was validated
            metric = section.arguments.get("best_checkpoint_metric") or "loss"
            printed = {
                "loss": validation.loss_bits,
                "bleu": validation.value_by_name.get("bleu"),
            }.get(str(metric))
            if printed is not None and f"{printed:.2f}" != f"{float(str(score)):.2f}":
                text = f"{name} has score {score}, its validation {printed}"
                yield Fact("conflict", text, section.path, line)


def _is_in(path: str, home: str) -> bool:
    return posixpath.basename(posixpath.dirname(normal_path(path))) in (home, "")


def _end(training: Training) -> Iterator[Fact]:
    """Yield how far the training went, and which epochs and validations are missing."""
    last = training.last
    path, line = last.path, last.last_line
    if training.last_update:
        yield Fact("updates", training.last_update, path, line)
    if last.cut_line is not None:
        yield Fact("cut_line", last.cut_line, path, last.cut_line)
    epochs = {one.epoch for one in training.epochs}
    missing = [number for number in range(1, max(epochs, default=0)) if number not in epochs]
    yield Fact("missing_epochs", len(missing), path, line)
    due = _missing_validations(training)
    yield Fact("missing_validations", len(due), path, line)
    final = training.final_validation
    yield Fact("validated_last_update", final is not None, path, final.line if final else line)
    smoothed = [one for one in training.validations if one.loss_bits and one.nll_bits]
    is_unsmoothed = smoothed and all(one.loss_bits == one.nll_bits for one in smoothed)
    if is_unsmoothed and (real(dict_of_symbols(last).get("eps_ls")) or 0.0) > 0:
        yield Fact("unsmoothed_loss", smoothed[-1].loss_bits, path, smoothed[-1].line)
    if final is not None:
        yield Fact("final_nll_bits", final.nll_bits, path, final.line)
    sizes = [one.target_tokens for one in training.dev_validations if one.target_tokens]
    if sizes:
        yield Fact("spread_of_validations", max(sizes) / min(sizes), path, line)


def _missing_validations(training: Training) -> list[int]:
    """Return the updates at which a validation was due and is not in the log."""
    arguments = training.arguments
    if arguments.get("disable_validation") is True or not training.validations:
        return []
    made = {one.update for one in training.dev_validations}
    begin = whole(arguments.get("validate_after_updates")) or 0
    due: set[int] = set()
    for key in ("validate_interval_updates", "save_interval_updates"):
        interval = whole(arguments.get(key)) or 0
        if 0 < interval < NEVER:
            due |= set(range(interval, training.last_update + 1, interval))
    every = whole(arguments.get("validate_interval")) or 1
    if every < NEVER:
        due |= {one.update for one in training.epochs if one.epoch % every == 0}
    return sorted(update for update in due - made if update >= begin)


def _corpus(training: Training) -> Iterator[Fact]:
    """Yield languages, pairs and dictionaries."""
    last = training.last
    if training.language_pair:
        yield Fact("language_pair", training.language_pair, last.path, last.line)
    for section in training.sections:
        # The newest line of each part counts: fairseq reads train, train1, ... as one corpus.
        pairs: dict[str, Fact] = {}
        for fact in section.facts:
            name = fact.quantity.removeprefix("pairs_")
            if name != fact.quantity and name.rstrip("0123456789") == "train":
                known = pairs.get(name)
                if known is None or (real(fact.value) or 0) >= (real(known.value) or 0):
                    pairs[name] = fact
        if pairs:
            number = sum(whole(fact.value) or 0 for fact in pairs.values())
            newest = list(pairs.values())[-1]
            yield Fact("train_pairs", number, newest.path, newest.line)
            yield from _year(section, number, newest)
        dev = section.find(f"pairs_{training.dev_subset}")
        if dev is not None:
            yield Fact("dev_pairs", dev.value, dev.path, dev.line)
        sizes = section.values("num_types")
        if len(sizes) >= 2:
            path, line = _place(section, "num_types")
            yield Fact("num_dictionaries", len(set(sizes[:2])), path, line)
        data = str(section.arguments.get("data") or "").replace(":\\", "")
        if data:
            yield Fact("num_data_folders", data.count(":") + 1, section.path, section.line)


def _year(section: Section, number: int, newest: Fact) -> Iterator[Fact]:
    """Yield the year of WMT that paths state, or that a published number of pairs shows."""
    texts = [str(section.arguments.get("data") or ""), *map(str, section.values("data_path"))]
    years = {int(found[1]) for text in texts for found in _YEAR.finditer(text)}
    if number == WMT17_PAIRS:
        years.add(17)
    for year in sorted(years):
        yield Fact("wmt_year", year, newest.path, newest.line)


def _batches(training: Training) -> Iterator[Fact]:
    """Yield the printed size of a batch, against the arguments and against the corpus."""
    ends = [one for one in training.epochs if one.target_tokens]
    if not ends:
        return
    previous, tokens, pairs, num_updates = 0, 0.0, 0.0, 0
    for end in ends:
        updates = max(1, end.update - previous)
        tokens += end.target_tokens * updates
        pairs += end.value_by_name.get("bsz", 0.0) * updates
        num_updates += updates
        previous = end.update
    path, line = training.last.path, ends[-1].line
    yield Fact("target_tokens", tokens / num_updates, path, line)
    whole_epochs = [end.target_tokens for end in ends[:-1]] or [tokens]
    spread = max(whole_epochs) / max(1e-9, min(whole_epochs))
    yield Fact("spread_of_batches", spread, path, line)
    section = training.last
    positions = dict_of_symbols(section).get("tokens_per_update")
    if isinstance(positions, int) and positions:
        yield Fact("batch_fill", tokens / num_updates / positions, path, line)
    if pairs:
        yield Fact("tokens_per_pair", tokens / pairs, path, line)
    total = sum(
        whole(section.value(f"pairs_{name}")) or 0
        for name in ("train", "train1", "train2", "train3")
    )
    first = [ends[0].update] if ends[0].epoch == 1 else []
    lengths = [after.update - before.update for before, after in pairwise(ends)]
    if pairs and total and lengths:
        read = pairs / num_updates * max([*first, *lengths])
        yield Fact("pairs_of_an_epoch", read / total, path, line)


def _samples(training: Training) -> Iterator[Fact]:
    """Yield what lines within epochs show of all epochs: their length, the size of batches, and
    whether gradients flow.
    """
    tokens_by_epoch = {one.epoch: one.target_tokens for one in training.epochs}
    for section in training.sections:
        lengths: list[float] = []
        sizes: list[float] = []
        num_still = 0
        before: Statistics | None = None
        for sample in section.samples:
            values = sample.value_by_name
            num_still += values.get("gnorm") == 0
            if sample.progress is None:
                continue
            whole_epoch = tokens_by_epoch.get(math.ceil(sample.progress))
            if whole_epoch and "wpb" in values:
                sizes.append(values["wpb"] / whole_epoch)
            if before is None or before.progress is None:
                before = sample
            elif sample.progress - before.progress > MIN_PROGRESS:
                passed = sample.progress - before.progress
                lengths.append((sample.update - before.update) / passed)
                before = sample
        if not section.samples:
            continue
        path, line = section.path, section.samples[-1].line
        yield Fact("still_updates", num_still / len(section.samples), path, line)
        if lengths:
            spread = max(lengths) / max(1e-9, min(lengths))
            yield Fact("spread_of_epochs", spread, path, line)
        means = [
            statistics.fmean(sizes[first : first + NUM_NEAR])
            for first in range(len(sizes) - NUM_NEAR + 1)
        ]
        if means:
            farthest = max(means, key=lambda mean: abs(mean - 1))
            yield Fact("batches_within_epoch", farthest, path, line)


def dict_of_symbols(section: Section) -> dict[str, Value]:
    """Return the symbols of one start by name."""
    return {fact.quantity: fact.value for fact in reversed(symbols_of(section))}


def _rates(training: Training) -> Iterator[Fact]:
    """Yield the share of the printed learning rates that are not those of the arguments."""
    for section in training.sections:
        symbols = dict_of_symbols(section)
        peak = real(symbols.get("peak_learning_rate")) or 0.0
        warmup = whole(symbols.get("warmup_steps"))
        if symbols.get("schedule") != "inverse_sqrt" or warmup is None or peak <= 0:
            continue
        first = max(0.0, real(section.arguments.get("warmup_init_lr")) or 0.0)
        rates = [one for one in section.samples if "lr" in one.value_by_name]
        wrong = []
        for sample in rates:
            # fairseq's versions print the rate of this update or of the next update.
            expected = [_rate(peak, warmup, first, sample.update + more) for more in (0, 1)]
            errors = [abs(sample.value_by_name["lr"] / one - 1) for one in expected]
            if min(errors) > RATE_TOLERANCE:
                wrong.append(sample)
        if rates:
            line = (wrong or rates)[0].line
            yield Fact("wrong_rates", len(wrong) / len(rates), section.path, line)


def _rate(peak: float, warmup: int, first: float, update: int) -> float:
    """Return the rate of inverse_sqrt at an update."""
    if update < warmup:
        return first + (peak - first) * update / warmup
    return peak * math.sqrt(max(warmup, 1) / update)


@functools.cache
def _base() -> TrainingSpec:
    return read_system("base", "paper").training


def counted_parameters(section: Section) -> int | None:
    """Return the parameters of fairseq's transformer by arguments and dictionaries; None if its
    sizes are not known.
    """
    symbols = dict_of_symbols(section)
    sizes: dict[str, Any] = {name: whole(symbols.get(name)) for name in SIZES}
    types = [whole(value) or 0 for value in section.values("num_types")[:2]]
    if symbols.get("architecture") != "transformer" or None in sizes.values() or len(types) < 2:
        return None
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
    """Return the parameters that fairseq 0.12.2 counts twice: its encoder layers hold attention and
    feed-forward a second time, for a faster kernel.
    """
    symbols = dict_of_symbols(section)
    sizes = [whole(symbols.get(name)) or 0 for name in ("d_model", "d_ff", "num_layers")]
    d_model, d_ff, layers = sizes
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    return layers * (attention + feed_forward)


def model_parameters(training: Training) -> int | None:
    """Return the number of the model's parameters, each once; None if no line states it."""
    return _parameters_once(training.last)


def _parameters_once(section: Section) -> int | None:
    printed, counted = whole(section.value("num_parameters")), counted_parameters(section)
    if printed and counted and section.form == "config":
        once = printed - _twice(section)
        if math.isclose(once, counted, rel_tol=0.005):
            return once
    return printed


def _parameters(training: Training) -> Iterator[Fact]:
    """Yield the printed number of parameters against the arguments, and how many are frozen."""
    for section in training.sections:
        path, line = _place(section, "num_parameters")
        printed, counted = whole(section.value("num_parameters")), counted_parameters(section)
        trained = whole(section.value("num_trained"))
        if printed and counted:
            ratio = (_parameters_once(section) or 0) / counted
            yield Fact("parameters_of_arguments", ratio, path, line)
        if printed and trained is not None:
            yield Fact("frozen_parameters", printed - trained, path, line)


def _matrices(training: Training) -> Iterator[Fact]:
    """Yield printed matrices and layers that the arguments do not make."""
    for section in training.sections:
        symbols = dict_of_symbols(section)
        d_model, d_ff = whole(symbols.get("d_model")), whole(symbols.get("d_ff"))
        types = set(section.values("num_types"))
        if d_model is None or d_ff is None or is_ours(section.arguments):
            continue
        allowed = {f"Linear {d_model} x {d_model}", f"Linear {d_model} x {d_ff}"}
        allowed |= {f"Linear {d_ff} x {d_model}", f"Linear {d_model} x {3 * d_model}"}
        allowed |= {f"Linear {d_model} x {size}" for size in types}
        allowed |= {f"Embedding {size} x {d_model}" for size in types}
        for fact in section.facts:
            if fact.quantity == "matrix" and fact.value not in allowed:
                is_positions = str(fact.value).startswith("Embedding") and (
                    symbols.get("positions") == "learned"
                )
                if not is_positions:
                    yield Fact("other_matrix", fact.value, fact.path, fact.line)
        for side in ("encoder", "decoder"):
            printed = sum(whole(value) or 0 for value in section.values(f"layer_{side}"))
            if printed and printed != symbols.get("num_layers"):
                path, line = _place(section, f"layer_{side}")
                yield Fact("other_layers", f"{printed} layers of the {side}", path, line)


def _costs(training: Training) -> Iterator[Fact]:
    """Yield what a cost needs: seconds that agree with the clock, and one kind of GPU."""
    last = training.last
    names = gpu_names(training)
    if names:
        path, line = _place(last, "gpu")
        yield Fact("gpu_kinds", len(names), path, line)
    for section in training.sections:
        done = section.find("done_seconds")
        if done is None or not section.first_time or not section.last_time:
            continue
        passed = seconds_between(section.first_time, section.last_time)
        walls = [one.value_by_name.get("wall", 0.0) for one in section.epochs.values()]
        clock = max(passed, max(walls, default=0.0) if len(training.sections) == 1 else 0.0)
        stated = real(done.value) or 0.0
        if clock:
            slack = CLOCK_SECONDS + 0.05 * clock
            yield Fact("wrong_clock", abs(clock - stated) > slack, done.path, done.line)
    if wall_seconds(training) is not None:
        yield Fact("wall_seconds", wall_seconds(training), last.path, last.last_line)


def _speed(training: Training) -> Iterator[Fact]:
    """Yield the target tokens a second of all GPUs: the median of the last start's epochs, which
    include validation and saving, or of its lines if no epoch has ended.
    """
    last = training.last
    printed = list(last.epochs.values()) or last.samples
    speeds = [one.value_by_name["wps"] for one in printed if one.value_by_name.get("wps")]
    if speeds:
        yield Fact("speed", statistics.median(speeds), last.path, last.last_line)


def seconds_between(first: str, second: str) -> float:
    """Return the seconds from one ISO time to a later time."""
    passed = datetime.fromisoformat(second) - datetime.fromisoformat(first)
    return passed.total_seconds()


# Translations


def _derived_of_translation(translation: Translation) -> Iterator[Fact]:
    section = translation.section
    yield from _code_of_user(section)
    yield from _conflicts(section)
    yield from _folders(section)
    if section.cut_line is not None and section.value("bleu") is None:
        yield Fact("cut_line", section.cut_line, section.path, section.cut_line)
    if translation.repeats:
        yield Fact("repeats", translation.repeats, section.path, section.line)
    yield from _search(translation)
    yield from _score(section)
    yield from _model(translation)


def _search(translation: Translation) -> Iterator[Fact]:
    section, arguments = translation.section, translation.section.arguments
    path, line = section.path, section.line
    printed, stated = section.find("printed_beam"), whole(arguments.get("beam"))
    beam = stated if printed is None else whole(printed.value)
    if beam is not None:
        yield Fact("beam_size", beam, path, printed.line if printed else line)
    for fact in section.facts:
        if fact.quantity == "generate.lenpen":
            yield fact._replace(quantity="length_penalty_alpha")
    if arguments:
        yield Fact("limit_of_20_tokens", _length_limit(arguments, 20), path, line)
        yield Fact("limit_of_100_tokens", _length_limit(arguments, 100), path, line)
    paths = [str(path) for path in (section.value("model_path"), arguments.get("path")) if path]
    for model_path in paths:
        yield Fact("num_models", len(models_of(model_path)), path, line)


def _length_limit(arguments: dict[str, Value], num_tokens: int) -> float:
    """Return the most output tokens for a source of so many tokens: longer sentences are cut. The
    paper's limit is input + 50.
    """
    by_input, fixed = real(arguments.get("max_len_a")), real(arguments.get("max_len_b"))
    return (by_input or 0.0) * num_tokens + (200.0 if fixed is None else fixed)


def _score(section: Section) -> Iterator[Fact]:
    """Yield what a line of BLEU shows: its arithmetic, whether it counts words, and how many
    sentences.
    """
    bleu = section.find("bleu")
    if bleu is None:
        return
    error = bleu_error(section)
    if error is not None:
        yield Fact("bleu_error", error, bleu.path, bleu.line)
    yield Fact("counts", _unit(section), bleu.path, bleu.line)
    number = section.value("num_sentences") or section.num_hypotheses or None
    if number is not None:
        yield Fact("num_scored", number, bleu.path, bleu.line)


def bleu_error(section: Section) -> float | None:
    """Return by how much a printed BLEU leaves the range that its precisions, brevity penalty and
    lengths allow, which are printed with few digits; None if they are not stated.
    """
    bleu = real(section.value("bleu"))
    try:
        precisions = [float(text) for text in str(section.value("precisions")).split("/")]
    except ValueError:
        return None
    penalty = real(section.value("brevity_penalty"))
    if bleu is None or penalty is None or len(precisions) != 4:
        return None
    low = high = 0.0
    for precision in precisions:
        low += math.log(max(1e-9, precision - 0.0501)) / 4
        high += math.log(precision + 0.0501) / 4
    least, most = math.exp(low) * (penalty - 0.00051), math.exp(high) * (penalty + 0.00051)
    error = max(0.0, least - bleu - 0.0051, bleu - most - 0.0051)
    hypothesis, reference = (
        real(section.value(name)) for name in ("hypothesis_tokens", "reference_tokens")
    )
    if hypothesis and reference:
        expected = min(1.0, math.exp(1 - reference / hypothesis))
        error = max(error, 100 * max(0.0, abs(expected - penalty) - 0.00051))
        ratio = real(section.value("length_ratio"))
        if ratio is not None:
            error = max(error, 100 * max(0.0, abs(hypothesis / reference - ratio) - 0.00051))
    return round(error, 4)


def _unit(section: Section) -> str:
    """Return what BLEU counts: words, pieces, plain text, or not stated."""
    arguments = section.arguments
    name = str(section.value("bleu_name"))
    if section.num_marked > MIN_PIECE_SHARE * section.num_hypotheses:
        return "pieces"
    if name == "BLEU4" and arguments.get("tokenizer") == "moses":
        return "plain text, not tokens"  # fairseq undoes the tokens of both sides
    keys = ("remove_bpe", "post_process")
    is_joined = any(arguments.get(key) not in (None, False, "", "none") for key in keys)
    is_decoded = arguments.get("bpe") is not None and name != "BLEU4"
    return "words" if is_joined or is_decoded or section.num_hypotheses else "not stated"


def _model(translation: Translation) -> Iterator[Fact]:
    """Yield which training made the checkpoint, when, and whether data and dictionaries are its."""
    section, training = translation.section, translation.training
    path, line = section.path, section.line
    if training is None:
        return
    yield Fact("training", training.name, path, line)
    text, source = average_of(translation, training)
    yield Fact("average", text, path, line)
    yield Fact("average_known_by", source, path, line)
    if not translation.averagings:
        yield from _order_of_time(translation, training)
    pair = language_pair_of([section])
    if pair:
        yield Fact("translates", pair == training.language_pair, path, line)
    printed, trained = (
        dict(zip(one.values("language"), one.values("num_types"), strict=False))
        for one in (section, training.last)
    )
    for language, size in printed.items():
        if trained and trained.get(language) != size:
            text = f"[{language}] {size:,} types" if isinstance(size, int) else str(language)
            yield Fact("other_dictionary", text, path, line)


def _order_of_time(translation: Translation, training: Training) -> Iterator[Fact]:
    """Yield whether a checkpoint whose name does not say its update is that of the whole training.

    Clocks of two hosts may differ, so that the order is known only where no host is stated, or one.
    """
    name = posixpath.basename(normal_path(translation.model_path))
    if re.search(r"\d", name):
        return
    section = translation.section
    begin, end = section.first_time, training.last.last_time
    hosts = {
        str(fact.value) for fact in (*training.facts, *section.facts) if fact.quantity == "host"
    }
    if section.path == training.last.path:
        return
    if begin and end and len(hosts) <= 1:
        is_later = begin >= end
        yield Fact("decoded_after_training", is_later, section.path, section.line)
    else:
        yield Fact("time_unknown", "no two clocks of one host", section.path, section.line)
