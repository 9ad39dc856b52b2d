"""What was measured of the data stages as a table, what En-Fr would take by it, and whether the goals are met."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from tests.benchmarks.data_steps import OURS, PEER

# (36M of the text are "left" to train on, section 5.1; 40,842,333 pairs are downloaded.)
NUM_EN_FR_PAIRS = 40_842_333
NUM_EN_FR_KEPT_PAIRS = 36_000_000
NUM_GOAL_PAIRS = 4_500_000
MEASURED_AFTER_CLEANING = {"segment", "binarize", "learn", "encode", "preprocess"}
LEARNING_STEP = "segment"  # of ours


class StepCost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measured step, a line of costs.jsonl.

    `is_equal`: the peer's result was ours; None where not compared. `learning_seconds` are those of the step's wall
    seconds in which byte-pair encoding was learnt (of ours, by its record), and `most_learnt_pairs` from how many pairs
    of lines at most; None for all.
    """

    route: str
    side: str
    name: str
    what: str
    num_pairs: int
    num_processes: int
    wall_seconds: float
    cpu_seconds: float
    peak_mib: float
    learning_seconds: float = 0.0
    most_learnt_pairs: int | None = None
    is_equal: bool | None
    commit: str


@dataclass(frozen=True)
class Goal:
    """What a route's steps of ours may cost at NUM_GOAL_PAIRS, together."""

    route: str
    max_minutes: float
    max_mib_outside_learning: float | None = None


GOALS = (Goal("wmt14_en_de", 10.0, 1024.0), Goal("wmt16_en_de_google", 40.0))


def report(costs: Sequence[StepCost]) -> str:
    """Return the whole report as text."""
    if not costs:
        return "nothing is measured yet"
    lines = ["", *_table(costs), "", *_extrapolations(costs), "", *_judgements(costs), ""]
    commits = ", ".join(sorted({cost.commit for cost in costs}))
    lines.append(f"Measured at commit {commits}. Peak: the most memory of all processes of a step at one time.")
    return "\n".join(lines)


def _table(costs: Sequence[StepCost]) -> Iterator[str]:
    for num_pairs, num_processes in sorted({(cost.num_pairs, cost.num_processes) for cost in costs}):
        yield f"{num_pairs:,} pairs, {num_processes} processes"
        yield f"  {'route':<20}{'side':<6}{'step':<46}{'pairs/s':>10}{'wall s':>9}{'CPU-s':>9}{'peak MiB':>10}  equal"
        here = [cost for cost in costs if (cost.num_pairs, cost.num_processes) == (num_pairs, num_processes)]
        for route, side in dict.fromkeys((cost.route, cost.side) for cost in here):
            group = [cost for cost in here if (cost.route, cost.side) == (route, side)]
            for cost in group:
                equal = {True: "yes", False: "NO", None: "-"}[cost.is_equal] if side == PEER else ""
                yield _row(cost, f"{cost.name}: {cost.what}" if side == PEER else cost.what, equal)
            yield _row(_sum(group), "all of them", "")
        yield ""


def _row(cost: StepCost, what: str, equal: str) -> str:
    rate = cost.num_pairs / cost.wall_seconds
    return (
        f"  {cost.route:<20}{cost.side:<6}{what:<46}{rate:>10,.0f}{cost.wall_seconds:>9.1f}{cost.cpu_seconds:>9.1f}"
        f"{cost.peak_mib:>10,.0f}  {equal}".rstrip()
    )


def _sum(costs: Sequence[StepCost]) -> StepCost:
    return msgspec.structs.replace(
        costs[0],
        wall_seconds=sum(cost.wall_seconds for cost in costs),
        cpu_seconds=sum(cost.cpu_seconds for cost in costs),
        peak_mib=max(cost.peak_mib for cost in costs),
    )


def line_through(points: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    """Return the line through the two points furthest right, or through the origin and the only one.

    A slope or beginning below 0 (an uneven machine) is taken for 0. Of points above each other, the last one counts.
    """
    (x, y), *others = sorted(dict(points).items(), reverse=True)
    if not others:
        return lambda at: y * at / x
    before_x, before_y = others[0]
    slope = max(0.0, (y - before_y) / (x - before_x))
    return lambda at: y + slope * (at - x) if slope * x <= y else y * at / x


def _extrapolated(
    costs: Sequence[StepCost], route: str, side: str, target: Callable[[str], int]
) -> dict[str, StepCost]:
    """Return each step's seconds at `target(name)` pairs and its largest peak."""
    found = {}
    group = [cost for cost in costs if (cost.route, cost.side) == (route, side)]
    for name in dict.fromkeys(cost.name for cost in group):
        of_step = sorted((cost for cost in group if cost.name == name), key=lambda cost: cost.num_pairs)
        most = of_step[-1].most_learnt_pairs or math.inf
        learning = line_through([(min(cost.num_pairs, most), cost.learning_seconds) for cost in of_step])
        other = line_through([(cost.num_pairs, cost.wall_seconds - cost.learning_seconds) for cost in of_step])
        learning_seconds = learning(min(target(name), most))
        wall_seconds = learning_seconds + other(target(name))
        found[name] = msgspec.structs.replace(
            of_step[-1],
            num_pairs=target(name),
            wall_seconds=wall_seconds,
            cpu_seconds=wall_seconds * of_step[-1].cpu_seconds / of_step[-1].wall_seconds,
            learning_seconds=learning_seconds,
            peak_mib=max(cost.peak_mib for cost in of_step),
        )
    return found


def _extrapolations(costs: Sequence[StepCost]) -> Iterator[str]:
    sizes = sorted({cost.num_pairs for cost in costs})
    basis = " and ".join(f"{size:,}" for size in sizes[-2:])
    yield (
        f"En-Fr, extrapolated: each step's seconds on the straight line through those of {basis} pairs"
        if len(sizes) > 1
        else f"En-Fr, extrapolated: each step's seconds in proportion to those of {basis} pairs"
    )
    yield f"  to {NUM_EN_FR_PAIRS:,} pairs for cleaning and {NUM_EN_FR_KEPT_PAIRS:,} for later steps; lines as long."
    yield "  Learning from a sample takes no longer once that is full; from all words, it takes less than this says."
    for route, side in dict.fromkeys((cost.route, cost.side) for cost in costs):
        steps = _extrapolated(
            costs,
            route,
            side,
            lambda name: NUM_EN_FR_KEPT_PAIRS if name in MEASURED_AFTER_CLEANING else NUM_EN_FR_PAIRS,
        )
        each = ", ".join(f"{name} {cost.wall_seconds / 3600:.2f}" for name, cost in steps.items())
        hours = sum(cost.wall_seconds for cost in steps.values()) / 3600
        cpu_hours = sum(cost.cpu_seconds for cost in steps.values()) / 3600
        yield f"  {route:<20}{side:<6}{hours:6.1f} h ({each}), {cpu_hours:.1f} CPU-h"


def _judgements(costs: Sequence[StepCost]) -> Iterator[str]:
    yield f"Goals of ours at {NUM_GOAL_PAIRS:,} pairs:"
    for goal in GOALS:
        steps = _extrapolated(costs, goal.route, OURS, lambda name: NUM_GOAL_PAIRS)
        if set(steps) != {"clean", "segment", "binarize"}:
            yield f"  {goal.route}: not judged, as not all of its steps are measured"
            continue
        sizes = {cost.num_pairs for cost in costs if (cost.route, cost.side) == (goal.route, OURS)}
        how = "measured" if NUM_GOAL_PAIRS in sizes else f"extrapolated from {max(sizes):,} pairs"
        minutes = sum(cost.wall_seconds for cost in steps.values()) / 60
        outside = minutes - sum(cost.learning_seconds for cost in steps.values()) / 60
        yield (
            f"  {goal.route}: {goal.max_minutes:g} minutes: {_verdict(minutes <= goal.max_minutes)}, {minutes:.1f} "
            f"({outside:.1f} without BPE learning), {how}"
        )
        if goal.max_mib_outside_learning is not None:
            peak = max(cost.peak_mib for name, cost in steps.items() if name != LEARNING_STEP)
            is_met = peak <= goal.max_mib_outside_learning
            yield (
                f"  {goal.route}: {goal.max_mib_outside_learning:g} MiB outside BPE learning: {_verdict(is_met)}, "
                f"{peak:,.0f}, the most seen at {max(sizes):,} pairs or fewer"
            )


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "NOT MET"
