"""Decides which numbers in a folder of training logs are entered in which row of the tables, and
which trainings are averaged.

One training has one seed. Trainings of the same row and the same code version are averaged if their
seeds differ. A generation is a run of fairseq-generate, which translates a test set with a trained
model. The BLEU of a generation fills a row (is entered in the row) only if the training of its
model fits the row without problems.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from aiayn.facts.trainings import ANY, Generation, JoinedLogs, Target, Training
from aiayn.facts.types import perplexity_of, real, whole
from aiayn.known_good.judge import OF_GENERATIONS, OF_TRAININGS, find_row, judge
from aiayn.packed import is_file
from aiayn.printed import PAPER_SCALE, PERPLEXITY_METRIC
from aiayn.runs.attempts import ATTEMPTS_NAME, Event, Started, read_events, sum_seconds
from aiayn.speeds import PRECISION_BY_NAME, published_range

# The published model with which the speed of a system is compared. No other sizes are published.
MODEL_BY_SYSTEM = {"base": "base", "big": "big", "big_enfr": "big"}
# By the style in which a log prints the arguments. It changed with these versions.
VERSION_BY_FORM = {
    "print": "fairseq 0.9 or before",
    "namespace": "fairseq 0.10",
    "config": "fairseq 1.0.0a0 to 0.12",
    "": "fairseq, version unknown",
}
_Judged = TypeVar("_Judged", Training, Generation)


def judge_logs(
    logs: JoinedLogs,
    targets: Sequence[Target],
    root: Path | None = None,
    *,
    is_claimed: bool = False,
) -> JoinedLogs:
    """Compare the logs of a folder with the table rows. For each log, set its table row, its
    problems and the numbers that the tables use. Return the logs.

    `root` is the folder of the logs, which may contain the attempts.jsonl of our own runs. With
    `is_claimed`, every training is compared with all rows, including rows of smaller scales.

    Raises:
        RecordError: if an attempts.jsonl is malformed.
    """
    for training in logs.trainings:
        ours = training.last.is_ours
        is_compared = ours or is_claimed
        # Smaller scales are only for our own trainings. The demo's systems have common small sizes,
        # so a log of somebody else could fit their rows by chance.
        rows = [row for row in targets if is_compared or row.scale == PAPER_SCALE]
        _add_numbers(training, None if root is None or not ours else _events(training, root))
        training.target, training.has_row = find_row(training.facts, rows)
        _judge_training(training)
    # Only trainings with numbers in a row are compared, because only these enter a mean.
    _compare_seeds([training for training in logs.trainings if "train" in training.filled])
    for generation in logs.generations:
        training_of_model = generation.training
        # Without a known training, the score is left out for that reason, whatever the target is.
        generation.target = next(iter(targets), None)
        if training_of_model is not None:
            generation.target = training_of_model.target
        _judge_generation(generation)
    _compare_generations(logs.generations)
    return logs


def _events(training: Training, root: Path) -> list[Event] | None:
    folder = (root / training.last.path).parent
    return read_events(folder) if is_file(folder / ATTEMPTS_NAME) else None


def _add_numbers(training: Training, events: list[Event] | None) -> None:
    """Add the code version and the numbers of a training. `events` are the recorded attempts of a
    run of this project, or None if the folder of the log has no record of attempts. The git commits
    of these attempts become facts.
    """
    last, facts = training.last, training.facts
    training.version = VERSION_BY_FORM[last.form]
    started = [event.commit for event in events or () if isinstance(event, Started)]
    # The version of our code is its commit. `+dirty` after a commit marks local changes.
    if commits := list(dict.fromkeys(started)):
        commit, plus, dirty = commits[-1].partition("+")
        training.version = f"commit {commit[:12]}{plus}{dirty}"
        facts.append(last.fact("num_commits", len(commits)))
        dirty_commits = [commit for commit in commits if commit.endswith("+dirty")]
        facts += [last.fact("dirty_commit", commit) for commit in dirty_commits]
    # Different kinds of GPUs have different rates, so the training cost needs a single kind.
    gpus = {str(fact.value).strip() for fact in facts if fact.quantity == "gpu"}
    training.gpu = gpus.pop() if len(gpus) == 1 else ""
    # Later facts replace earlier facts, so that the last start counts.
    newest = {fact.quantity: real(fact.value) for fact in facts}
    values = {
        "steps": newest.get("updates") or 0.0,
        "num_parameters": newest.get("model_parameters"),
        PERPLEXITY_METRIC: perplexity_of(newest.get("final_nll_bits")),
    }
    training.stated = {metric: value for metric, value in values.items() if value is not None}
    # The recorded attempts include killed jobs, which a log does not.
    if events is not None:
        training.gpu_seconds = sum_seconds(events)[1] or None
    elif last.arguments.get("cpu") is not True:
        training.gpu_seconds = newest.get("gpu_seconds")


def _judge_training(training: Training) -> None:
    """Find the problems and notes of a training, and which of its numbers are entered in its table
    row.
    """
    speeds = _published_speeds(training) or (ANY, ANY)
    values = {} if training.target is None else dict(training.target.values)
    values |= zip(("slowest_speed", "fastest_speed"), speeds, strict=True)
    training.problems = judge(training.facts, values, OF_TRAININGS)
    kept_out = {number for problem in training.problems for number in problem.keeps_out}
    training.filled = set()
    # A problem of the row or of the training keeps out all numbers, other problems only their own.
    if training.has_row and not kept_out & {"row", "train"}:
        training.filled = {"train", "ppl", "cost"} - kept_out
    training.value_by_metric = dict(training.stated) if training.filled else {}
    if "ppl" not in training.filled:
        training.value_by_metric.pop(PERPLEXITY_METRIC, None)


def _published_speeds(training: Training) -> tuple[float, float] | None:
    """Return the slowest and the fastest published speed of the target's model on the GPU of a
    training, at the training's precision and batch size. Return None if no speed is published for
    this model, GPU, precision and batch size.
    """
    # A published speed is for a card, a precision, a model and a batch size together.
    section = training.last
    num_gpus = section.whole("num_gpus")
    tokens = whole(section.arguments.get("max_tokens"))
    precision = PRECISION_BY_NAME.get(str(section.symbols.get("precision")))
    model = "" if training.target is None else MODEL_BY_SYSTEM.get(training.target.system, "")
    if not training.gpu or not num_gpus or not tokens or not model or not precision:
        return None
    return published_range(
        training.gpu, num_gpus=num_gpus, precision=precision, model=model, tokens_per_gpu=tokens
    )


def _judge_generation(generation: Generation) -> None:
    """Find the problems and notes of a generation, including the problems of its training."""
    target, training = generation.target, generation.training
    values = {} if target is None else target.values_of_role(generation.role)
    problems = judge(generation.facts, values, OF_GENERATIONS)
    if training is not None:
        for problem in training.problems:
            # BLEU measures the weights, so a problem of their training is a problem of the BLEU.
            if {"row", "train"} & {*problem.keeps_out} and problem not in problems:
                problems.append(problem)
    generation.problems = problems
    is_kept_out = any(problem.keeps_out for problem in problems)
    has_row = training is not None and training.has_row
    generation.value = generation.bleu if has_row and not is_kept_out else None


# Several seeds


def _compare_seeds(trainings: Sequence[Training]) -> None:
    """Add a fact to each training that has the same seed or the same losses as a different
    training.
    """

    def seed_of(training: Training) -> object:
        target, seed = training.target, training.seed
        return None if seed is None or target is None else (target.name, training.version, seed)

    def losses_of(training: Training) -> object:
        # One equal loss may be chance. If several losses are all equal, one log is a copy of the
        # other, perhaps with an edited seed.
        losses = tuple(line.losses for line in training.validations)
        return losses if len(losses) > 1 else None

    # Each new fact may be a problem, so these trainings are judged again.
    for quantity, key in (("same_seed", seed_of), ("same_losses", losses_of)):
        for group in _equal_groups(trainings, key):
            for training in group:
                training.facts.append(training.last.fact(quantity, _others(group, training)))
                _judge_training(training)


def _equal_groups(
    members: Iterable[_Judged], key: Callable[[_Judged], object]
) -> list[list[_Judged]]:
    """Return the groups of two or more items with equal keys. Items whose key is None
    are ignored.
    """
    groups: dict[object, list[_Judged]] = {}
    for judged in members:
        if (value := key(judged)) is not None:
            groups.setdefault(value, []).append(judged)
    return [group for group in groups.values() if len(group) > 1]


def _others(group: Sequence[_Judged], judged: _Judged) -> str:
    return ", ".join(other.name for other in group if other is not judged)


def _compare_generations(generations: Sequence[Generation]) -> None:
    """Add a fact to generations of different trainings whose scores are the same: one is a copy."""
    # BLEU alone may be equal by chance. The counts that it is computed from are not.
    names = ("bleu", "precisions", "hypothesis_tokens", "reference_tokens", "brevity_penalty")

    def score_of(generation: Generation) -> object:
        section = generation.section
        if generation.value is None or section.value("precisions") is None:
            return None
        return tuple(map(section.value, names))

    for group in _equal_groups(generations, score_of):
        # Two scores of the same training are two decodings, which `scored` lists separately.
        if len({id(generation.training) for generation in group}) > 1:
            for generation in group:
                others = _others(group, generation)
                generation.facts.append(generation.section.fact("same_translation", others))
                _judge_generation(generation)


def rows_of(trainings: Iterable[Training]) -> list[tuple[Target, list[Training]]]:
    """Return each table row that has numbers of these trainings, with its trainings. A row appears
    once for each code version, in the order of the logs.
    """
    groups: dict[tuple[str, str], tuple[Target, list[Training]]] = {}
    for training in trainings:
        if training.target is not None and "train" in training.filled:
            key = training.target.name, training.version
            groups.setdefault(key, (training.target, []))[1].append(training)
    return list(groups.values())


def scored(
    trainings: Iterable[Training], role: str
) -> dict[tuple[str, str], dict[str, Generation]]:
    """Return the generations (runs of fairseq-generate) on the dev or test set that the tables use,
    by metric and mark, and by the name of their training.

    The mark of a generation is the text of the notes that a reader must see next to its score. If
    several generations of a training have the same metric and mark, the name of each generation is
    added to its mark.
    """
    groups: dict[tuple[str, str], dict[str, Generation]] = {}
    for training in trainings:
        filling: dict[tuple[str, str], list[Generation]] = {}
        for generation in training.generations:
            if generation.role == role and generation.value is not None:
                key = generation.metric, _mark(generation)
                filling.setdefault(key, []).append(generation)
        for (metric, mark), members in filling.items():
            for member in members:
                # Several decodings of the same checkpoint are not seeds, so each has its own line.
                name = f"the translation of {member.name}" if len(members) > 1 else ""
                key = metric, "; ".join(filter(None, (mark, name)))
                groups.setdefault(key, {})[training.name] = member
    return groups


def _mark(generation: Generation) -> str:
    mark_by_quantity = {"average_known_by": "average by name", "time_unknown": "time unknown"}
    marks = {
        mark_by_quantity[note.quantity]
        for note in generation.problems
        if note.quantity in mark_by_quantity
    }
    return "; ".join(sorted(marks))
