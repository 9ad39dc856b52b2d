"""Derives facts about a generation (a run of fairseq-generate): the settings of its beam search,
whether its BLEU counts words or subwords, and which checkpoints of which training were averaged for
its model.
"""

import math
import posixpath
import re
import statistics
from collections.abc import Iterator, Sequence

from aiayn.facts.derived import LAST_CHECKPOINT, NEVER, facts_of_section
from aiayn.facts.trainings import Generation, Training
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

MIN_PIECE_SHARE = 0.05  # of the hypotheses. Normal text contains fewer of these marks
# `checkpoint3.pt` is the end of epoch 3, `checkpoint_3_500.pt` is update 500 in epoch 3.
_CHECKPOINT = re.compile(r"checkpoint_?(\d{1,9})(?:_(\d{1,12}))?\.pt")
# Examples: `model.avg5.pt`, `averaged_last_10.pt`, `last20.pt`.
_AVERAGE_IN_NAME = re.compile(
    r"(?:avg|average|averaged)[._-]?(?:last)?[._-]?(\d{1,4})|last[._-]?(\d{1,4})"
)


def facts_of_generation(generation: Generation) -> list[Fact]:
    """Return all facts of a generation (a run of fairseq-generate), without the facts of its
    training.
    """
    section, facts = generation.section, list(generation.section.facts)
    for derive in (facts_of_section, _search, _score):
        facts += derive(section)
    return [*facts, *_origin(generation)]


def metric_of(section: Section) -> str:
    """Return how the BLEU in an output of fairseq-generate was computed.

    The result is `bleu_as_given` if fairseq computed BLEU on the tokens of the data. If sacreBLEU
    computed BLEU, the result is `bleu_sacre_13a` for detokenised text, and `bleu_sacre_on_tokens`
    for text that may still be tokens.
    """
    arguments, name = section.arguments, section.value("bleu_name") or "BLEU4"
    if name == "BLEU4":
        return "bleu_as_given"
    # sacreBLEU's tokenizer expects plain text. The output is plain text only if fairseq was given a
    # tokenizer or a bpe that it can undo.
    is_joined = bool(arguments.get("tokenizer")) or arguments.get("bpe") in (
        "sentencepiece",
        "gpt2",
    )
    is_13a = arguments.get("sacrebleu_tokenizer") in (None, "13a")
    is_13a = is_13a and not arguments.get("sacrebleu_lowercase")
    return "bleu_sacre_13a" if is_joined and is_13a else "bleu_sacre_on_tokens"


def _search(section: Section) -> Iterator[Fact]:
    arguments, printed = section.arguments, section.find("printed_beam")
    # The line of the score states the beam that was used. The argument is a second source.
    if printed is not None:
        yield printed._replace(quantity="beam_size")
    elif (beam := whole(arguments.get("beam"))) is not None:
        yield section.fact("beam_size", beam)
    for fact in section.facts:
        if fact.quantity == "generate.lenpen":
            yield fact._replace(quantity="length_penalty_alpha")
    # For a short and a long sentence: the limit is linear, so two points show both of its numbers.
    for num_tokens in (20, 100) if arguments else ():
        limit = _length_limit(arguments, num_tokens)
        yield section.fact(f"limit_of_{num_tokens}_tokens", limit)
    # Several checkpoints in one --path are an ensemble.
    for model_path in (section.value("model_path"), arguments.get("path")):
        if model_path:
            yield section.fact("num_models", len(models_of(str(model_path))))


def _length_limit(arguments: dict[str, Value], num_tokens: int) -> float:
    """Return the maximum number of tokens in a translation of a source sentence of `num_tokens`
    tokens. Longer translations are cut. The paper's limit is the input length + 50.
    """
    by_input, fixed = real(arguments.get("max_len_a")), real(arguments.get("max_len_b"))
    return (by_input or 0.0) * num_tokens + (200.0 if fixed is None else fixed)


def _score(section: Section) -> Iterator[Fact]:
    """Yield facts about the BLEU in a log: how far it is from the BLEU that its own precisions
    give, the unit that it counts (such as words), and the number of sentences.
    """
    bleu = section.find("bleu")
    if bleu is None:
        return
    yield bleu._replace(quantity="bleu_error", value=_bleu_error(section))
    yield bleu._replace(quantity="counts", value=_unit(section))
    number = section.value("num_sentences") or section.num_hypotheses
    if number:
        yield bleu._replace(quantity="num_scored", value=number)


def _bleu_error(section: Section) -> float:
    """Return the distance of the BLEU in a log from the range that the precisions, brevity penalty
    and lengths in the same line allow. The precisions allow a range, and not a single BLEU, because
    they are rounded in the log. Return infinity if the line does not have four precisions.
    """
    # The templates of the two lines with a BLEU have all of these fields.
    names = ("bleu", "brevity_penalty", "hypothesis_tokens", "reference_tokens", "length_ratio")
    bleu, penalty, hypothesis, reference, ratio = (section.real(name) or 0.0 for name in names)
    precisions = [float(text) for text in re.findall(r"\d+\.\d+", str(section.value("precisions")))]
    if len(precisions) != 4:
        return math.inf
    # Precisions have one decimal, the penalty three, BLEU two. The range covers their rounding.
    lows = [max(1e-9, precision - 0.0501) for precision in precisions]
    highs = [precision + 0.0501 for precision in precisions]
    least = statistics.geometric_mean(lows) * (penalty - 0.00051)
    most = statistics.geometric_mean(highs) * (penalty + 0.00051)
    error = max(0.0, least - bleu - 0.0051, bleu - most - 0.0051)
    # Lengths are whole numbers, so that penalty and ratio follow from them exactly.
    if hypothesis and reference:
        penalty_error = abs(min(1.0, math.exp(1 - reference / hypothesis)) - penalty)
        ratio_error = abs(hypothesis / reference - ratio)
        error = max(error, 100 * (max(penalty_error, ratio_error) - 0.00051))
    return round(error, 4)


def _unit(section: Section) -> str:
    """Return the unit of the text whose n-grams BLEU counts: words, pieces (subwords), plain text,
    or not stated.
    """
    arguments = section.arguments
    name = str(section.value("bleu_name"))
    # Marks of subwords in the output mean that --remove-bpe was not given.
    if section.num_marked > MIN_PIECE_SHARE * section.num_hypotheses:
        return "pieces"
    if name == "BLEU4" and arguments.get("tokenizer") == "moses":
        return "plain text, not tokens"  # fairseq undoes the tokens of both sides
    # In configs, the argument --remove-bpe is called post_process.
    keys = ("remove_bpe", "post_process")
    is_joined = any(arguments.get(key) not in (None, False, "", "none") for key in keys)
    is_decoded = arguments.get("bpe") is not None and name != "BLEU4"
    return "words" if is_joined or is_decoded or section.num_hypotheses else "not stated"


def _origin(generation: Generation) -> Iterator[Fact]:
    """Yield facts about the training that made the checkpoint of a generation (a run of
    fairseq-generate): the name of the training, the averaged checkpoints, the order in time, and
    whether training and generation have the same language pair and dictionaries.
    """
    section, training = generation.section, generation.training
    if training is None:
        return
    yield section.fact("training", training.name)
    text, source = average_of(generation, training)
    yield section.fact("average", text)
    yield section.fact("average_known_by", source)
    if not generation.averagings:
        yield from _order_of_time(generation, training)
    if section.language_pair:
        # The last start decides, as for all arguments.
        pairs = [start.language_pair for start in training.sections if start.language_pair]
        yield section.fact("translates", section.language_pair in pairs[-1:])
    printed, trained = _types_by_language(section), _types_by_language(training.last)
    # A model reads the numbers of its own dictionary. Other sizes show a different data-bin.
    for language, size in printed.items():
        if trained and trained.get(language) != size:
            yield section.fact("other_dictionary", f"[{language}] {size:,} types")


def _types_by_language(section: Section) -> dict[Value, Value]:
    return dict(zip(section.values("language"), section.values("num_types"), strict=False))


def _order_of_time(generation: Generation, training: Training) -> Iterator[Fact]:
    """Yield whether a generation (a run of fairseq-generate) began after the end of its training.

    The order in time matters only if the name of the checkpoint file does not contain the update,
    as with `checkpoint_best.pt`. The clocks of two hosts may differ, so the order is unknown if the
    logs state several hosts.
    """
    section, last = generation.section, training.last
    name = posixpath.basename(generation.model_path)
    # In one file, the order of the lines is the order in time.
    if re.search(r"\d", name) or section.path == last.path:
        return
    hosts = {fact.value for fact in (*training.facts, *section.facts) if fact.quantity == "host"}
    if section.first_time and last.last_time and len(hosts) <= 1:
        yield section.fact("decoded_after_training", section.first_time >= last.last_time)
    else:
        yield section.fact("time_unknown", "unknown: no two clocks of one host")


# Averages


def average_of(generation: Generation, training: Training) -> tuple[str, str]:
    """Return which checkpoints were averaged for a model, such as `last5` for the last five, and
    the evidence for this: the log (`log`), the name of the checkpoint file (`name`) or `nothing`.

    If the averaged checkpoints are not the last checkpoints of the training, the result describes
    them in words, such as `5 checkpoints up to checkpoint9.pt`.
    """
    path = generation.model_path
    # Several averagings with equal inputs are copies of one log.
    inputs = {tuple(averaging.averaged_paths) for averaging in generation.averagings}
    if len(inputs) > 1:
        return "unknown: several averagings wrote it", "nothing"
    if inputs:
        return _describe(list(inputs.pop()), training), "log"
    name = posixpath.basename(path)
    suffix = _other_place([path], training)
    # checkpoint_last.pt, or the file with the same weights and its own name.
    if name == LAST_CHECKPOINT or (_CHECKPOINT.fullmatch(name) and _are_last([name], training)):
        return f"last1{suffix}", "log"
    # `avg5_best.pt` is an average of the best checkpoints, and not of the last.
    if "best" not in name and (match := _AVERAGE_IN_NAME.search(name)):
        return f"last{match[1] or match[2]}{suffix}", "name"
    return name or "unknown", "nothing"


def _describe(paths: Sequence[str], training: Training) -> str:
    names = [posixpath.basename(path) for path in paths]
    if not names:
        return "unknown"
    if suffix := _other_place(paths, training):
        return f"{len(names)} checkpoints{suffix}"
    if names == [LAST_CHECKPOINT] or _are_last(names, training):
        return f"last{len(names)}"
    # The numbers in a name are compared, because `9` sorts after `10` as text.
    newest = max(names, key=lambda name: [int(digits) for digits in re.findall(r"\d{1,12}", name)])
    return f"{len(names)} checkpoints up to {newest}"


def _other_place(paths: Sequence[str], training: Training) -> str:
    """If one of several checkpoints is not in the folder into which its training saved, return its
    folder in the form ` of FOLDER`. Return '' if all checkpoints are in the folder of the training.
    """
    save_folders = {save_folder for _, save_folder in training.places}
    for path in paths:
        folder = posixpath.dirname(path) or "."
        if folder != "." and not any(
            is_same_place(save_folder, folder) for save_folder in save_folders
        ):
            return f" of {folder}"
    return ""


def _are_last(names: Sequence[str], training: Training) -> bool:
    """Return whether a list of checkpoint names consists of the last checkpoints that a training
    saved, without repetition.
    """
    matches = [_CHECKPOINT.fullmatch(name) for name in names]
    numbers = [(int(match[1]), int(match[2] or 0)) for match in matches if match]
    if len(numbers) < len(names) or len(set(names)) < len(names):
        return False
    # checkpoint_3_500.pt was saved within an epoch, checkpoint3.pt at its end. The two are not
    # mixed.
    is_by_update = all(update for _, update in numbers)
    chosen = sorted(update if is_by_update else epoch for epoch, update in numbers)
    saved = _saved_updates(training) if is_by_update else _saved_epochs(training)
    return chosen == saved[-len(chosen) :]


def _saved(training: Training) -> list[tuple[int, int]]:
    """Return epoch and update of each checkpoint that the training's log lists as saved. The update
    is 0 for a checkpoint at the end of an epoch.
    """
    paths = [str(fact.value) for fact in training.facts if fact.quantity == "saved_path"]
    matches = [_CHECKPOINT.fullmatch(posixpath.basename(normal_path(path))) for path in paths]
    return [(int(match[1]), int(match[2] or 0)) for match in matches if match]


def _saved_epochs(training: Training) -> list[int]:
    """Return the epochs at whose end the training saved a checkpoint.

    fairseq saves a checkpoint for an epoch only if the epoch is complete. fairseq also prints
    statistics at the end of an incomplete last epoch, which --max-update cuts short. If the log has
    no lines about checkpoints, a last epoch that is shorter than the other epochs counts as not
    saved.
    """
    printed = sorted({epoch for epoch, update in _saved(training) if not update})
    if printed:
        return printed
    # Without lines about checkpoints, the ends of epochs stand for them.
    ends = {line.epoch: line.update for line in training.epochs}
    every = whole(training.last.arguments.get("save_interval")) or 1
    whole_epochs = sorted(ends)
    if len(whole_epochs) >= 3:
        lengths = {number: ends[number] - ends.get(number - 1, 0) for number in whole_epochs}
        last = whole_epochs[-1]
        earlier = [lengths[number] for number in whole_epochs[1:-1] if number - 1 in ends]
        if earlier and lengths[last] < min(earlier):
            whole_epochs = whole_epochs[:-1]
    return [number for number in whole_epochs if number % every == 0]


def _saved_updates(training: Training) -> list[int]:
    """Return the update numbers within epochs at which the training saved a checkpoint."""
    printed = sorted({update for _, update in _saved(training) if update})
    if printed:
        return printed
    interval = whole(training.last.arguments.get("save_interval_updates")) or 0
    if not 0 < interval < NEVER:
        return []
    return list(range(interval, training.last.last_update + 1, interval))
