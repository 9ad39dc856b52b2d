"""Renders a plan for a terminal: a row a system, totals, the longest chain, and every assumption with its source."""

import textwrap
from collections.abc import Sequence

from aiayn.cost import SOURCE_TOKENS_PER_SENTENCE, UTILISATION_FRACTION
from aiayn.hardware import SourcedValue
from aiayn.plan.data import (
    DOWNLOAD_BYTES_PER_SECOND,
    MOSES_PAIRS_PER_SECOND,
    NUM_TEXT_COPIES,
    PAIRS_PER_SECOND_BY_VERB,
)
from aiayn.plan.plan import DECODING_FLOPS_PER_SECOND, Plan, PlannedTraining, total_actual

WIDTH = 118
UNKNOWN = "-"
MARK_BY_BASIS = {"measured": "m", "fraction": "f", "assumed": " "}
NUM_LABELS = 2  # columns that are words
NUM_ACTUAL = 2  # columns that stand only where trainings have begun


def render_plan(plan: Plan) -> str:
    """Return the whole plan, each line ended by LF."""
    num_trainings = sum(len(one.seeds) for one in plan.trainings)
    num_jobs = sum(plan.num_jobs_by_rule.values())
    title = f"Plan of {plan.scale}: {num_trainings} trainings, each on {plan.machine.words}, {num_jobs} jobs in all"
    rows = [*_headings(plan), *(_cells(one, plan) for one in plan.trainings), _total_cells(plan)]
    if not total_actual(plan.trainings)["num_begun"]:
        rows = [row[:-NUM_ACTUAL] for row in rows]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = [_aligned(row, widths) for row in rows]
    rule = "-" * max(len(line) for line in lines)
    lines = [*lines[:2], rule, *lines[2:-1], rule, lines[-1]]
    parts = [[title, "=" * len(title)], lines, _summary_lines(plan), _assumption_lines(plan), _warning_lines(plan)]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _headings(plan: Plan) -> list[tuple[str, ...]]:
    devices = "GPU-hours" if plan.machine.gpu else "core-hours"
    return [
        ("", "", "", "", "updates", "hours", devices, "US$", "kWh", "disk GB", "GB of", "actual", "actual"),
        (
            "system",
            "corpus",
            "seeds",
            "x10^6",
            "a run",
            "a run",
            "all",
            "all",
            "all",
            "all",
            "memory",
            "hours",
            "GPU-h",
        ),
    ]


def _memory_bytes(one: PlannedTraining, plan: Plan) -> int:
    """Return the memory of a GPU, or of a machine without GPUs."""
    return one.device_memory_bytes + (0 if plan.machine.gpu else one.host_memory_bytes)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        text.ljust(width) if index < NUM_LABELS else text.rjust(width)
        for index, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _cells(one: PlannedTraining, plan: Plan) -> tuple[str, ...]:
    actual = ("", "")
    if one.actual is not None:
        done = f" ({one.actual.num_finished}/{len(one.seeds)})" if one.actual.num_finished < len(one.seeds) else ""
        hours = UNKNOWN if one.actual.hours is None else _number(one.actual.hours)
        actual = (f"{hours}{done}", _number(one.actual.gpu_hours))
    return (
        one.system,
        one.corpus,
        str(len(one.seeds)),
        f"{one.num_parameters / 1e6:.1f}",
        f"{one.updates:,}",
        f"{_number(one.speed.hours)}{MARK_BY_BASIS[one.speed.basis]}",
        _number(one.total_device_hours),
        _number_or_unknown(one.total_dollars),
        _number_or_unknown(one.total_kilowatt_hours),
        _gigabytes(len(one.seeds) * (one.run_bytes + one.averages_bytes)),
        _gigabytes(_memory_bytes(one, plan)),
        *actual,
    )


def _total_cells(plan: Plan) -> tuple[str, ...]:
    rows = plan.trainings
    actual = total_actual(rows)
    found = ("", "")
    if actual["num_begun"]:
        found = (_number(actual["total_hours"]), _number(actual["gpu_hours"]))
    return (
        "all", "", str(sum(len(one.seeds) for one in rows)), "", "",
        f"{_number(sum(len(one.seeds) * one.speed.hours for one in rows))} ",
        _number(sum(one.total_device_hours for one in rows)),
        _number_or_unknown(_total(one.total_dollars for one in rows)),
        _number_or_unknown(_total(one.total_kilowatt_hours for one in rows)),
        _gigabytes(plan.runs_bytes + plan.averages_bytes),
        _gigabytes(max((_memory_bytes(one, plan) for one in rows), default=0)),
        *found,
    )  # fmt: skip


def _total(values: object) -> float | None:
    listed = list(values)  # type: ignore[call-overload]
    return None if None in listed else float(sum(listed))


def _number(value: float) -> str:
    """Return a quantity with about three digits."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def _number_or_unknown(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}" if value >= 10 else _number(value)


def _gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:,.1f}" if num_bytes >= 1e8 else f"{num_bytes / 1e9:.3f}"


def _summary_lines(plan: Plan) -> list[str]:
    jobs = ", ".join(f"{number} {rule}" for rule, number in plan.num_jobs_by_rule.items())
    chain = "; ".join(f"{link.what} {_number(link.hours)}" for link in plan.longest_chain)
    hours = sum(link.hours for link in plan.longest_chain)
    host_bytes = max((one.host_memory_bytes for one in plan.trainings), default=0)
    disk = (
        f"runs {_gigabytes(plan.runs_bytes)}, averages {_gigabytes(plan.averages_bytes)}, archives "
        f"{_gigabytes(plan.archives_bytes)}, text {_gigabytes(plan.text_bytes)}, data-bins "
        f"{_gigabytes(plan.data_bin_bytes)} GB"
    )
    entries = [
        ("jobs", jobs),
        ("longest chain", f"{_number(hours)} hours, however many nodes there are: {chain}"),
        ("one at a time", f"{sum(len(o.seeds) * o.speed.hours for o in plan.trainings) / 24:,.1f} days of training"),
        ("disk", f"{_gigabytes(plan.runs_bytes + plan.results_bytes + plan.archives_bytes)} GB at most: {disk}"),
        ("memory of a node", f"{_gigabytes(host_bytes)} GB at most, beside its GPUs'"),
    ]
    return [line for name, text in entries for line in _wrapped(name, text)]


def _wrapped(name: str, text: str) -> list[str]:
    indent = 18
    return textwrap.wrap(text, WIDTH, initial_indent=f"{name:<{indent}}", subsequent_indent=" " * indent)


def _assumption_lines(plan: Plan) -> list[str]:
    machine, bases = plan.machine, {one.speed.basis for one in plan.trainings}
    texts = [f"{machine.words} a training: {machine.chosen_by}"]
    texts += [f"{_rate(machine.flops_per_second)} of one, single precision ({_source(machine.flops_per_second)})"]
    texts += [text for basis, text in _basis_texts(plan).items() if basis in bases]
    if machine.dollars_per_hour is not None:
        texts.append(f"US$ {machine.dollars_per_hour.value:g} a GPU-hour ({_source(machine.dollars_per_hour)})")
    if machine.watts is not None:
        texts.append(f"{machine.watts.value:g} W a GPU all the time, the node beside it not counted "
                     f"({_source(machine.watts)})")  # fmt: skip
    texts += [f"vocabulary of {corpus.vocabulary_source}" for corpus in plan.corpora]
    texts += [
        "disk: the models that the longest average takes and two full checkpoints, with one of each being written; "
        f"text {NUM_TEXT_COPIES} times (raw, clean, a stage at work); archives as published; logs not counted",
        "memory: 16 bytes a parameter, and what a full batch leaves for the backward pass: an estimate by formula "
        "(aiayn.plan.sizes)",
        f"data stages, where not measured: {DOWNLOAD_BYTES_PER_SECOND / 1e6:g} MB/s downloaded, "
        + ", ".join(f"{verb} {rate:,} pairs/s" for verb, rate in PAIRS_PER_SECOND_BY_VERB.items())
        + f", clean with Moses' scripts {MOSES_PAIRS_PER_SECOND:,}, one core; decoding "
        f"{DECODING_FLOPS_PER_SECOND / 1e9:g} GFLOP/s on one core",
    ]
    lines = ["Assumptions"]
    for text in texts:
        lines += textwrap.wrap(text, WIDTH, initial_indent="- ", subsequent_indent="  ")
    return lines


def _basis_texts(plan: Plan) -> dict[str, str]:
    """Return what hours are made of, by their basis."""
    fractions = [one.speed for one in plan.trainings if one.speed.basis == "fraction"]
    others = ", ".join(fractions[0].runs[:3]) if fractions else ""
    share = f"{fractions[0].utilisation_fraction:.3f}" if fractions else ""
    measured = sorted({run for one in plan.trainings if one.speed.basis == "measured" for run in one.speed.runs})
    more = f" and {len(measured) - 3} more" if len(measured) > 3 else ""
    return {
        "measured": "hours marked m: as trainings of the system took on this kind of machine, in proportion to updates "
        f"and devices: {', '.join(measured[:3])}{more}",
        "fraction": f"hours marked f: {share} of that rate, as other trainings on this kind of machine reached: "
        f"{others}",
        "assumed": "hours without mark: operations of all updates (sentences of "
        f"{SOURCE_TOKENS_PER_SENTENCE:g} tokens, every batch full) at {UTILISATION_FRACTION:.0%} of that rate "
        "(counted so, the paper's own base came to 30 % on 8 P100, its big to 44 %)",
    }


def _rate(value: SourcedValue) -> str:
    return f"{value.value / 1e12:.3g} TFLOP/s" if value.value >= 1e12 else f"{value.value / 1e9:.3g} GFLOP/s"


def _source(value: SourcedValue) -> str:
    return f"{value.kind}: {value.source}"


def _warning_lines(plan: Plan) -> list[str]:
    systems_of: dict[str, list[str]] = {}
    for one in plan.trainings:
        reason = one.refusal.removeprefix(f"{one.system}: ")
        if reason and one.system not in systems_of.setdefault(reason, []):
            systems_of[reason].append(one.system)
    texts = [f"{', '.join(systems)}: {reason}" for reason, systems in systems_of.items()]
    texts += [
        f"{name}: nobody published its size: its text and data-bin are not counted" for name in plan.unsized_corpora
    ]
    texts += [f"{path}: no record of a training that can be read; left out" for path in plan.unreadable_records]
    lines = ["To look at"] if texts else []
    for text in texts:
        lines += textwrap.wrap(text, WIDTH, initial_indent="- ", subsequent_indent="  ")
    return lines
