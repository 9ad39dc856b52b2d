"""Prints what trainings take: a row for each system and corpus, sums, and the assumptions behind
them.

Assumptions that do not vary from plan to plan are in docs/cluster.md.
"""

import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple

from aiayn.cost import SOURCE_TOKENS_PER_SENTENCE
from aiayn.plan.machine import Machine
from aiayn.plan.prediction import (
    CPU_SHARE,
    FP32_PRODUCT_SHARE,
    HOST_SECONDS_PER_KERNEL,
    HOST_SECONDS_PER_WAIT,
    LINK_SHARE,
    MEMORY_SHARE,
    TENSOR_CORE_SHARE,
    Bounds,
    Speed,
)
from aiayn.spec.hardware import CPU, WHO_HAS_TENSOR_CORES, SourcedValue
from aiayn.terminal import command_lines, entries, listed, sections, table, titled, wrapped
from analysis.price.data import PlannedCorpus
from analysis.price.machines import PRICE_FLAG
from analysis.price.plan import NUM_NODE_GPUS, Plan, Row
from analysis.price.system_plan import SystemPlan

INDENT = "  "
MAX_RUNS = 3  # trainings named as the basis of a prediction
NAME_BY_BASIS = {"measured": "runs", "fraction": "others", "assumed": "formula", "asked": "yours"}
FROM = (
    "time",
    "from",
)  # this column is shown only if the times have different bases


class Column(NamedTuple):
    """A column of a plan: its heading from top to bottom, and its cell of one row, or of all where
    `is_summed`.
    """

    heading: tuple[str, str]
    cell: Callable[[Sequence[Row]], str]
    is_summed: bool = True


def number(value: float | None) -> str:
    """Return a quantity with two or three digits, or all before the point; a dash where it is not
    known.
    """
    if value is None:
        return "-"
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def duration(hours: float) -> str:
    """Return hours with a unit; short times are in minutes or seconds."""
    if hours >= 1:
        return f"{number(hours)} h"
    return f"{60 * hours:.2g} min" if 60 * hours >= 1 else f"{3600 * hours:.2g} s"


def hours_range(speed: Speed) -> str:
    """Return the hours of a training from least to most, in one unit."""
    least, most = duration(speed.least_hours), duration(speed.most_hours)
    if least == most:
        return most
    unit = most.split(" ")[1]
    per_hour = {"h": 1, "min": 60, "s": 3600}[unit]
    ends = (per_hour * speed.least_hours, per_hour * speed.most_hours)
    decimals = 1 if ends[1] < 20 else 0
    return f"{ends[0]:,.{decimals}f}-{ends[1]:,.{decimals}f} {unit}"


def power_of_ten(value: float, decimals: int = 1) -> str:
    """Return a cost as the paper prints it: 3.3e18."""
    mantissa, exponent = f"{value:.{decimals}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def gigabytes(num_bytes: float) -> str:
    """Return bytes in GB of 10^9."""
    return number(num_bytes / 1e9)


def _total(rows: Sequence[Row], key: str) -> float | None:
    """Return the sum of a cost of rows; None if a row's cost is not known."""
    values: list[float | None] = [getattr(row.cost, key) for row in rows]
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def columns(machine: Machine) -> list[Column]:
    """Return the columns of a row; the money column only for GPUs, as the price of a core is not
    known.
    """
    money, memory, whose = [], "node_memory_bytes", "node"
    if machine.gpu:
        money = [Column(("US$", "in all"), lambda rows: number(_total(rows, "dollars")))]
        memory, whose = "device_memory_bytes", "GPU"
    return [
        Column(("", "system"), lambda rows: rows[0].system, is_summed=False),
        Column(("", "corpus"), lambda rows: rows[0].corpus, is_summed=False),
        Column(("", "seeds"), lambda rows: str(sum(len(row.seeds) for row in rows))),
        Column(("updates", "a run"), lambda rows: f"{rows[0].updates:,}", is_summed=False),
        Column(("time", "a run"), lambda rows: hours_range(rows[0].speed), is_summed=False),
        Column(FROM, lambda rows: NAME_BY_BASIS[rows[0].speed.basis], is_summed=False),
        Column(
            (f"{machine.device}-h", "in all"), lambda rows: number(_total(rows, "device_hours"))
        ),
        *money,
        Column(("disk GB", "in all"), lambda rows: gigabytes(sum(row.disk_bytes for row in rows))),
        Column(
            ("GB a", whose),
            lambda rows: gigabytes(max((getattr(row, memory) for row in rows), default=0)),
        ),
    ]


def render_plan(plan: Plan) -> str:
    """Return the whole plan, each line ended by LF."""
    num_trainings = sum(len(row.seeds) for row in plan.trainings)
    words = (
        f"{num_trainings} trainings, each on {plan.machine.words},"
        f" {sum(plan.num_jobs_by_rule.values())} jobs"
    )
    shown = columns(plan.machine)
    if len({row.speed.basis for row in plan.trainings}) < 2:
        shown = [column for column in shown if column.heading != FROM]
    rows: list[Sequence[str]] = list(zip(*(column.heading for column in shown), strict=True))
    for row in plan.trainings:
        rows.append([column.cell([row]) for column in shown])
    sums = [column.cell(plan.trainings) if column.is_summed else "" for column in shown[1:]]
    rows.append(["all", *sums])
    right = [index for index in range(2, len(shown)) if shown[index].heading != FROM]
    return sections(
        ("", titled(f"Plan of {plan.scale}: {words}")),
        ("", table(rows, right=right, num_headings=2, num_totals=1)),
        ("", _trained_lines(plan)),
        ("", _precision_lines(plan)),
        ("", _sharing_lines(plan)),
        ("", entries(_summary(plan))),
        ("Stands on", entries(_bases(plan), INDENT)),
        ("To look at", listed(_warnings(plan))),
    )


def _trained_lines(plan: Plan) -> list[str]:
    """Return what trainings took so far and what was predicted when they began."""
    rows = [
        (
            "trained so far",
            "finished",
            "time a run",
            "as predicted",
            f"{plan.machine.device}-hours so far",
        )
    ]
    for row in plan.trainings:
        if (actual := row.actual) is not None:
            spent = (
                actual.gpu_hours
                if plan.machine.gpu
                else actual.total_hours * plan.machine.num_devices
            )
            taken, predicted = (
                "-" if hours is None else duration(hours)
                for hours in (actual.hours, actual.predicted_hours)
            )
            finished = f"{actual.num_finished} of {len(row.seeds)}"
            rows.append((f"{row.system} {row.corpus}", finished, taken, predicted, number(spent)))
    return table(rows, right=range(1, 5), num_headings=1) if len(rows) > 1 else []


def _precision_lines(plan: Plan) -> list[str]:
    """Return time, device-hours, money and energy in each precision, and why a precision is
    missing.
    """
    if not plan.trainings:
        return []
    longest = max(range(len(plan.trainings)), key=lambda index: plan.trainings[index].hours)
    names = {index: f"time a run, {plan.trainings[index].system}" for index in (0, longest)}
    names |= {-1: "all, one by one", -2: f"{plan.machine.device}-hours"}
    names |= {-3: "US$", -4: "kWh"} if plan.machine.gpu else {}
    cells = [list(names.values())]
    for planned in plan.precisions:
        cost = planned.cost
        in_words = f"{cost.hours / 24:,.1f} days" if cost.hours >= 48 else duration(cost.hours)
        sums = {-1: in_words, -2: number(cost.device_hours), -3: number(cost.dollars)}
        sums[-4] = number(cost.kilowatt_hours)
        values = {
            index: sums.get(index) or hours_range(planned.speeds[index])
            for index in names
            if planned.speeds
        }
        cells.append([values.get(index, "-") for index in names])
    heading = ("in each precision", *(planned.precision for planned in plan.precisions))
    taken = ", ".join(dict.fromkeys(row.speed.precision for row in plan.trainings))
    text = f"The plan assumes {taken}; `--config precision=...` takes another for all systems."
    if missing := [planned.precision for planned in plan.precisions if planned.refusal]:
        device = f"a {plan.machine.gpu}" if plan.machine.gpu else CPU
        text += f" A dash: {device} has no {' and no '.join(missing)} ({WHO_HAS_TENSOR_CORES})."
    return [
        *table([heading, *zip(*cells, strict=True)], right=range(1, len(heading)), num_headings=1),
        *wrapped(text),
    ]


def _sharing_lines(plan: Plan) -> list[str]:
    """Return when all trainings are done on one node, by the number of GPUs a training."""
    compared = [planned for planned in plan.precisions if planned.hours_by_gpus]
    if not compared or not plan.trainings:
        return []
    heading = f"all trainings on a node of {NUM_NODE_GPUS} {plan.machine.gpu}"
    rows = [(heading, *(planned.precision for planned in compared))]
    for num_gpus in compared[0].hours_by_gpus:
        what = "GPU" if num_gpus == 1 else "GPUs"
        name = f"{NUM_NODE_GPUS // num_gpus} at a time, {num_gpus} {what} each"
        rows.append((name, *(duration(planned.hours_by_gpus[num_gpus]) for planned in compared)))
    ratios = [
        planned.hours_by_gpus[NUM_NODE_GPUS] / planned.hours_by_gpus[1] for planned in compared
    ]
    rows.append(("1 GPU each, times as fast", *(f"{ratio:.2f}" for ratio in ratios)))
    return table(rows, right=range(1, len(rows[0])), num_headings=1)


def _summary(plan: Plan) -> list[tuple[str, str]]:
    chain = "; ".join(f"{link.what} {duration(link.hours)}" for link in plan.longest_chain)
    longest, limits = (
        max(plan.trainings, key=lambda row: row.hours, default=None),
        plan.machine.job_limits,
    )
    in_turn = ""
    if limits is not None and longest is not None and not plan.overrun:
        in_turn = f"{limits.count_jobs(longest.hours)} in turn for {longest.system}, each of "
        in_turn += (
            f"{limits.training_minutes:,g} minutes (time_limit_minutes less signal_seconds); "
        )
        in_turn += f"{limits.max_num_jobs} are allowed"
    bytes_by_name = {
        "runs": plan.runs_bytes,
        "averages": plan.averages_bytes,
        "archives": plan.archives_bytes,
        "text": plan.text_bytes,
        "data-bins": plan.data_bin_bytes,
    }
    parts = ", ".join(f"{name} {gigabytes(size)}" for name, size in bytes_by_name.items())
    node_bytes = max((row.node_memory_bytes for row in plan.trainings), default=0)
    return [
        ("jobs", ", ".join(f"{count} {rule}" for rule, count in plan.num_jobs_by_rule.items())),
        (
            "longest chain",
            (
                f"{duration(sum(link.hours for link in plan.longest_chain))} on any number of"
                f" nodes: {chain}"
            ),
        ),
        ("Slurm jobs", in_turn),
        ("disk", f"{gigabytes(sum(bytes_by_name.values()))} GB at most: {parts}"),
        (
            "memory of a node",
            f"{gigabytes(node_bytes)} GB at most, without its GPUs' memory"
            if plan.machine.gpu
            else "",
        ),
    ]


def _bases(plan: Plan) -> list[tuple[str, str]]:
    """Return the basis of each figure of the plan, with its source and how to change it."""
    machine, speeds = plan.machine, [row.speed for row in plan.trainings]
    texts = {}
    for basis in dict.fromkeys(speed.basis for speed in speeds):
        runs = dict.fromkeys(run for speed in speeds if speed.basis == basis for run in speed.runs)
        named = _named(list(runs))
        texts[NAME_BY_BASIS[basis]] = {
            "measured": (
                "as trainings of the system took on such devices, in proportion to updates:"
                f" {named}"
            ),
            "fraction": (
                f"the formula, scaled as other trainings on such devices differed from it: {named}"
            ),
            "assumed": _formula(machine),
            "asked": (
                "operations of all updates, every batch full, sentences of"
                f" {SOURCE_TOKENS_PER_SENTENCE:g} tokens, at your --utilisation of the rate"
            ),
        }[basis]
    rates = []
    for precision in dict.fromkeys(speed.precision for speed in speeds):
        rate = machine.rate_by_precision[precision]
        teraflops = number(rate.value / 1e12)
        rates.append(f"{precision} {teraflops} TFLOP/s a {machine.device} ({_source(rate)})")
    systems_by_counts: dict[str, dict[str, None]] = {}
    for row in plan.trainings:
        if row.speed.counted_on:
            systems_by_counts.setdefault(row.speed.counted_on, {})[row.system] = None
    counts = [(other, _named(list(systems))) for other, systems in systems_by_counts.items()]
    bound = {row.system: None for row in plan.trainings if row.speed.is_launch_bound}
    unchecked = ""
    if bound:
        unchecked = (
            f"updates that wait for launches ({_named(list(bound))}): no published"
            " training with fused operators checks them; stock fairseq, which fuses nothing, took"
            " up to 4.2 times as long as this formula predicts for small batches (docs/checks.md)"
        )
    return [
        (
            "machine",
            (
                f"{machine.words} a training: {machine.chosen_by}; change it by --launcher,"
                " --cluster, --gpu, --num-gpus"
            ),
        ),
        *texts.items(),
        ("rate", "; ".join(rates)),
        ("kernels", "; ".join(f"{systems}: counted on {other}" for other, systems in counts)),
        ("not checked", unchecked),
        *(_prices(machine) if machine.gpu else []),
        ("vocabulary", "; ".join(corpus.vocabulary_source for corpus in plan.corpora)),
        ("all else", 'docs/cluster.md, "What a plan assumes"'),
    ]


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MAX_RUNS} more" if len(names) > MAX_RUNS else ""
    return ", ".join(names[:MAX_RUNS]) + more


def _formula(machine: Machine) -> str:
    """Return the terms of the formula with their assumed constants, the worst and the best."""
    batches = f"every batch full, sentences of {SOURCE_TOKENS_PER_SENTENCE:g} tokens"
    if not machine.gpu:
        return f"operations of all updates, {batches}, at {CPU_SHARE:.0%} of the rate (assumption)"

    def percent(share: Bounds) -> str:
        return f"{100 * share.worst:.0f} to {100 * share.best:.0f} %"

    def microseconds(seconds: Bounds) -> str:
        return f"{1e6 * seconds.best:.0f} to {1e6 * seconds.worst:.0f} us"

    return (
        f"a sum of terms, {batches}; assumed are products at {percent(FP32_PRODUCT_SHARE)} of the"
        f" rate in fp32 and {percent(TENSOR_CORE_SHARE)} on tensor cores, {percent(MEMORY_SHARE)}"
        f" of the memory's speed, {percent(LINK_SHARE)} of the link's, and"
        f" {microseconds(HOST_SECONDS_PER_KERNEL)} of the host a kernel and"
        f" {microseconds(HOST_SECONDS_PER_WAIT)} a wait; kernels and waits are counted"
    )


def _prices(machine: Machine) -> list[tuple[str, str]]:
    price, watts = machine.dollars_per_hour, machine.watts
    yours = f"{PRICE_FLAG}, or dollars_per_hour of {machine.gpu} in workflow/config/hardware.yaml"
    text = f"US$ {price.value:g} a GPU-hour ({_source(price)})" if price else "not known"
    if price is None or PRICE_FLAG not in price.source:
        text += f"; yours: {yours}"
    energy = f"{watts.value:g} W a GPU all the time ({_source(watts)})" if watts else "not known"
    return [("price", text), ("energy", energy)]


def _source(value: SourcedValue) -> str:
    return f"{value.kind}: {value.source}"


def _warnings(plan: Plan) -> list[str]:
    systems_by_reason: dict[str, dict[str, None]] = {}
    for row in plan.trainings:
        if reason := row.refusal.removeprefix(f"{row.system}: "):
            systems_by_reason.setdefault(reason, {})[row.system] = None
    return [
        *(f"{', '.join(systems)}: {reason}" for reason, systems in systems_by_reason.items()),
        *plan.machine.assumptions,
        *([plan.overrun] if plan.overrun else []),
        *(
            f"{name}: its size is not published; text and data-bin are not counted"
            for name in plan.unsized_corpora
        ),
        *(
            f"{path}: cannot be read as the record of a training; omitted"
            for path in plan.unreadable_records
        ),
    ]


def render_system_plan(system_plan: SystemPlan) -> str:
    """Return the plan of one system with its size and command lines, each line ended by LF."""
    rows = system_plan.plan.trainings
    parts: list[tuple[str, Sequence[str]]] = []
    for row, corpus in zip(rows, system_plan.plan.corpora, strict=True):
        parts.append(
            (f"Size on {row.corpus}", table(_sizes(row, corpus), right=[1], indent=INDENT))
        )
    for corpus_name, command in system_plan.command_by_corpus.items():
        heading = (
            f"Command line on {corpus_name}, one device (`aiayn train` gives fairseq the same)"
        )
        parts.append((heading, command_lines([shlex.quote(word) for word in command])))
    if system_plan.refusal:
        parts.append(("No fairseq-train command line", wrapped(system_plan.refusal, INDENT)))
    return render_plan(system_plan.plan) + "\n" + sections(*parts)


def _sizes(row: Row, corpus: PlannedCorpus) -> list[tuple[str, str, str]]:
    dictionaries = "one vocabulary" if corpus.is_joint else "either vocabulary"
    updates = (
        f"{row.updates:,} updates of {row.target_tokens_per_update:,} target tokens, every batch"
        " full"
    )
    sentence = f"forward and backward, sentences of {SOURCE_TOKENS_PER_SENTENCE:g} tokens"
    return [
        ("V", f"{corpus.vocabulary_size:,}", f"entries of {dictionaries}"),
        ("parameters", f"{row.num_parameters:,}", f"{row.num_parameters / 1e6:.2f} x 10^6"),
        ("operations a target token", power_of_ten(row.flops_per_token, 2), sentence),
        ("operations counted", power_of_ten(row.counted_flops), updates),
    ]
