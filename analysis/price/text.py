"""Prints what trainings take: a row for each system and corpus, sums, and the assumptions behind
them.

Assumptions that do not vary from plan to plan are in docs/cluster.md.
"""

import shlex
from collections.abc import Sequence

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
from analysis.price.limits import count_jobs, training_minutes
from analysis.price.machines import PRICE_FLAG
from analysis.price.plan import NUM_NODE_GPUS, Plan, Row, longest_training
from analysis.price.system_plan import SystemPlan

INDENT = "  "
MAX_NAMED = 3  # trainings or systems in a list
NAME_BY_BASIS = {"measured": "runs", "fraction": "others", "assumed": "formula"}
WORDS_BY_BASIS = {
    "measured": "as trainings of the system took on such devices, in proportion to updates",
    "fraction": "the formula, scaled as other trainings on such devices differed from it",
}


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


def render_plan(plan: Plan) -> str:
    """Return the whole plan, each line ended by LF."""
    num_trainings = sum(len(row.seeds) for row in plan.trainings)
    words = f"{num_trainings} trainings, each on {plan.machine.words}"
    return sections(
        ("", titled(f"Plan of {plan.scale}: {words}")),
        ("", _training_lines(plan, num_trainings)),
        ("", _precision_lines(plan)),
        ("", _sharing_lines(plan)),
        ("", entries(_summary(plan))),
        ("Stands on", entries(_bases(plan), INDENT)),
        ("To look at", listed(_warnings(plan))),
    )


def _training_lines(plan: Plan, num_trainings: int) -> list[str]:
    """Return a row for each system and corpus, and their sums. The price of a core is not known."""
    device, holder = plan.machine.device, "GPU" if plan.machine.gpu else "rank"
    lines = [
        ["", "", "", "updates", "time", f"{device}-h", "US$", "disk GB", "GB a"],
        ["system", "corpus", "seeds", "a run", "a run", "in all", "in all", "in all", holder],
    ]
    device_hours = dollars = disk_bytes = memory_bytes = 0.0
    for row in plan.trainings:
        cells = [row.system, row.corpus, str(len(row.seeds)), f"{row.updates:,}"]
        cells += [hours_range(row.speed), number(row.cost.device_hours), number(row.cost.dollars)]
        lines.append([*cells, gigabytes(row.disk_bytes), gigabytes(row.device_memory_bytes)])
        device_hours += row.cost.device_hours
        dollars += row.cost.dollars or 0.0
        disk_bytes += row.disk_bytes
        memory_bytes = max(memory_bytes, row.device_memory_bytes)
    money = number(dollars if plan.machine.dollars_per_hour else None)
    sums = ["all", "", str(num_trainings), "", "", number(device_hours), money]
    lines.append([*sums, gigabytes(disk_bytes), gigabytes(memory_bytes)])
    return table(lines, right=range(2, 9), num_headings=2, num_totals=1)


def _precision_lines(plan: Plan) -> list[str]:
    """Return time, device-hours, money and energy in each precision, and why a precision is
    missing.
    """
    longest = longest_training(plan.trainings)
    if longest is None:
        return []
    shown = dict.fromkeys((0, plan.trainings.index(longest)))
    names = [f"time a run, {plan.trainings[index].system}" for index in shown]
    names += ["all, one by one", f"{plan.machine.device}-hours", "US$", "kWh"]
    columns, missing = [["in each precision", *names]], []
    for planned in plan.precisions:
        cells, cost = ["-"] * len(names), planned.cost
        if planned.refusal:
            missing.append(planned.precision)
        else:
            in_words = f"{cost.hours / 24:,.1f} days" if cost.hours >= 48 else duration(cost.hours)
            cells = [hours_range(planned.speeds[index]) for index in shown]
            cells += [in_words, number(cost.device_hours)]
            cells += [number(cost.dollars), number(cost.kilowatt_hours)]
        columns.append([planned.precision, *cells])
    taken = ", ".join(dict.fromkeys(row.speed.precision for row in plan.trainings))
    text = f"The plan assumes {taken}; `--config precision=...` takes another for all systems."
    if missing:
        device = f"a {plan.machine.gpu}" if plan.machine.gpu else CPU
        text += f" A dash: {device} has no {' and no '.join(missing)} ({WHO_HAS_TENSOR_CORES})."
    lines = list(zip(*columns, strict=True))
    return [*table(lines, right=range(1, len(columns)), num_headings=1), *wrapped(text)]


def _sharing_lines(plan: Plan) -> list[str]:
    """Return when all trainings are done on one node, by the number of GPUs a training."""
    in_turn = f"1 at a time, {NUM_NODE_GPUS} GPUs each"
    at_once = f"{NUM_NODE_GPUS} at a time, 1 GPU each"
    heading = f"all trainings on a node of {NUM_NODE_GPUS} {plan.machine.gpu}"
    columns = [[heading, in_turn, at_once, "1 GPU each, times as fast"]]
    for planned in plan.precisions:
        if hours_by_gpus := planned.hours_by_gpus:
            of_node, of_one = hours_by_gpus[NUM_NODE_GPUS], hours_by_gpus[1]
            ratio = f"{of_node / of_one:.2f}"
            columns.append([planned.precision, duration(of_node), duration(of_one), ratio])
    if len(columns) == 1:
        return []
    lines = list(zip(*columns, strict=True))
    return table(lines, right=range(1, len(columns)), num_headings=1)


def _summary(plan: Plan) -> list[tuple[str, str]]:
    longest, cluster, in_turn = longest_training(plan.trainings), plan.machine.cluster, ""
    if cluster is not None and longest is not None and not plan.overrun:
        in_turn = (
            f"{count_jobs(cluster, longest.hours)} in turn for {longest.system}, each of"
            f" {training_minutes(cluster):,g} minutes (time_limit_minutes less signal_seconds);"
            f" {cluster.max_num_jobs} are allowed"
        )
    bytes_by_name = {
        "runs": plan.runs_bytes,
        "averages": plan.averages_bytes,
        "archives": plan.archives_bytes,
        "text": plan.text_bytes,
        "data-bins": plan.data_bin_bytes,
    }
    parts = ", ".join(f"{name} {gigabytes(size)}" for name, size in bytes_by_name.items())
    disk = f"{gigabytes(sum(bytes_by_name.values()))} GB at most: {parts}"
    return [("Slurm jobs", in_turn), ("disk", disk)]


def _bases(plan: Plan) -> list[tuple[str, str]]:
    """Return the basis of each figure of the plan, with its source and how to change it."""
    machine = plan.machine
    rows_by_basis: dict[str, list[Row]] = {}
    rate_by_precision: dict[str, str] = {}
    systems_by_counts: dict[str, list[str]] = {}
    launch_bound: list[str] = []
    for row in plan.trainings:
        speed = row.speed
        rows_by_basis.setdefault(speed.basis, []).append(row)
        rate = machine.rate_by_precision[speed.precision]
        teraflops = f"{number(rate.value / 1e12)} TFLOP/s a {machine.device}"
        rate_by_precision[speed.precision] = f"{speed.precision} {teraflops} ({_source(rate)})"
        if speed.counted_on:
            systems_by_counts.setdefault(speed.counted_on, []).append(row.system)
        if speed.is_launch_bound:
            launch_bound.append(row.system)
    counts = []
    for other, systems in systems_by_counts.items():
        counts.append(f"{_named(systems)}: counted on {other}")
    unchecked = ""
    if launch_bound:
        unchecked = (
            f"updates that wait for launches ({_named(launch_bound)}): no published"
            " training with fused operators checks them; stock fairseq, which fuses nothing, took"
            " up to 4.2 times as long as this formula predicts for small batches (docs/checks.md)"
        )
    change = "change it by --launcher, --cluster, --gpu, --num-gpus"
    pairs = [("machine", f"{machine.words} a training: {machine.chosen_by}; {change}")]
    for basis, rows in rows_by_basis.items():
        text = _formula(machine)
        if basis in WORDS_BY_BASIS:
            systems, runs = [], []
            for row in rows:
                systems.append(row.system)
                runs += row.speed.runs
            text = f"{_named(systems)}: {WORDS_BY_BASIS[basis]}: {_named(runs)}"
        pairs.append((NAME_BY_BASIS[basis], text))
    return [
        *pairs,
        ("rate", "; ".join(rate_by_precision.values())),
        ("kernels", "; ".join(counts)),
        ("not checked", unchecked),
        *(_prices(machine) if machine.gpu else []),
        ("vocabulary", "; ".join(corpus.vocabulary_source for corpus in plan.corpora)),
        ("all else", 'docs/cluster.md, "What a plan assumes"'),
    ]


def _named(names: Sequence[str]) -> str:
    """Return names, each once, and how many more there are."""
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - MAX_NAMED} more" if len(different) > MAX_NAMED else ""
    return ", ".join(different[:MAX_NAMED]) + more


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
    systems_by_reason: dict[str, list[str]] = {}
    for row in plan.trainings:
        if reason := row.refusal.removeprefix(f"{row.system}: "):
            systems_by_reason.setdefault(reason, []).append(row.system)
    texts = []
    for reason, systems in systems_by_reason.items():
        texts.append(f"{', '.join(dict.fromkeys(systems))}: {reason}")
    texts += plan.machine.assumptions
    if plan.overrun:
        texts.append(plan.overrun)
    for name in plan.unsized_corpora:
        texts.append(f"{name}: its size is not published; text and data-bin are not counted")
    return texts


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
