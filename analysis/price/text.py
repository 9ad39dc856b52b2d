"""Formats a plan (the predicted costs of trainings) as text: a row for each system and corpus,
sums, and the assumptions.

Assumptions that are the same for all plans are in docs/cluster.md.
"""

import shlex
from collections.abc import Sequence

from aiayn.cost import SOURCE_TOKENS_PER_SENTENCE
from aiayn.plan.machine import Machine
from aiayn.plan.prediction import CPU_SHARE, LAUNCH_ERRORS, Hours
from aiayn.spec.hardware import SourcedValue
from aiayn.terminal import command_lines, entries, listed, sections, table, titled, wrapped
from analysis.price.data import PlannedCorpus
from analysis.price.plan import Plan, PlanRow, TrainingCost
from analysis.price.published import PAPER_HOURS, Anchor
from paper_tables.rounding import rounded

INDENT = "  "
MAX_NAMED = 3  # trainings or systems in a list


def number(value: float | None) -> str:
    """Return a number as text: a whole number from 100 on, one decimal from 1 to 100, and two
    significant digits below 1. Return a dash if the number is None.
    """
    if value is None:
        return "-"
    # More digits than this would promise an accuracy that no prediction has.
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def duration(hours: float) -> str:
    """Return a number of hours as text with its unit."""
    return hours_range(Hours(hours, hours))


def hours_range(hours: Hours | None) -> str:
    """Return the range of predicted hours as text, such as `4.1-7.5 h` or `42-78 min`. The unit is
    minutes or seconds if the shorter end is below an hour. Return a dash if no hours are predicted.
    """
    if hours is None:
        return "-"
    if hours.least >= 1:
        unit = "h"
        ends = [number(hours.least), number(hours.most)]
    else:
        factor, unit = (60, "min") if 60 * hours.least >= 1 else (3600, "s")
        values = (factor * hours.least, factor * hours.most)
        ends = [f"{value:.0f}" if value >= 10 else f"{value:.2g}" for value in values]
    return f"{'-'.join(dict.fromkeys(ends))} {unit}"


def gigabytes(num_bytes: float) -> str:
    """Return a number of bytes as text in GB of 10^9 bytes."""
    return number(num_bytes / 1e9)


def render_plan(plan: Plan) -> str:
    """Return the whole plan (predicted costs of trainings) as text. Each line ends with LF."""
    num_trainings = sum(len(row.seeds) for row in plan.trainings)
    heading = f"{num_trainings} trainings, each on {plan.machine.words}"
    parts: list[tuple[str, Sequence[str]]] = [
        ("", titled(f"Plan of {plan.scale}: {heading}")),
        ("", _training_lines(plan, num_trainings)),
        ("", entries(_summary(plan))),
        (
            "Published speeds near this plan",
            table(_anchor_cells(plan.anchors), num_headings=1, indent=INDENT)
            if plan.anchors
            else [],
        ),
        # `sections` leaves out a part without lines, so most plans do not have all parts.
        ("Stands on", entries(_bases(plan), INDENT)),
        ("To look at", listed(_warnings(plan))),
    ]
    # Only a plan of one system (`--system`) has a size and a command line.
    if plan.command_by_corpus or plan.command_refusal:
        for row, corpus in zip(plan.trainings, plan.corpora, strict=True):
            lines = table(_sizes(row, corpus), right=[1], indent=INDENT)
            parts.append((f"Size on {row.corpus}", lines))
    for corpus_name, command in plan.command_by_corpus.items():
        heading = (
            f"Command line on {corpus_name}, one device (`aiayn train` gives fairseq the same)"
        )
        parts.append((heading, command_lines([shlex.quote(word) for word in command])))
    if plan.command_refusal:
        parts.append(("No fairseq-train command line", wrapped(plan.command_refusal, INDENT)))
    return sections(*parts)


def _training_lines(plan: Plan, num_trainings: int) -> list[str]:
    """Return the lines of the plan's main table: a row for each system and corpus, and the sums."""
    device = plan.machine.device
    holder = "GPU" if plan.machine.gpu else "rank"
    lines = [
        ["", "", "", "updates", "time", f"{device}-h", "US$", "disk GB", "GB a"],
        ["system", "corpus", "seeds", "a run", "a run", "in all", "in all", "in all", holder],
    ]
    for row in plan.trainings:
        cells = [row.system, row.corpus, str(len(row.seeds)), f"{row.updates:,}"]
        cells += [hours_range(row.speed.expected), *_cost_cells(row.cost)]
        lines.append([*cells, gigabytes(row.disk_bytes), gigabytes(row.device_memory_bytes)])
    sums = ["all", "", str(num_trainings), "", "", *_cost_cells(plan.cost)]
    # A device holds one training at a time, so its memory is a maximum and not a sum.
    memory_bytes = max((row.device_memory_bytes for row in plan.trainings), default=0)
    lines.append([*sums, gigabytes(plan.runs_bytes + plan.averages_bytes), gigabytes(memory_bytes)])
    return table(lines, right=range(2, 9), num_headings=2, num_totals=1)


def _cost_cells(cost: TrainingCost | None) -> list[str]:
    """Return the cells of GPU-hours and dollars, with dashes if no hours are predicted."""
    return ["-", "-"] if cost is None else [number(cost.device_hours), number(cost.dollars)]


def _anchor_cells(anchors: Sequence[Anchor]) -> list[list[str]]:
    """Return the cells of the table of published trainings: a heading, and a row for each
    training.
    """
    rows = [
        ["GPUs", "precision", "tokens a GPU", "tokens/s", "system", "hours here", "published by"]
    ]
    for anchor in anchors:
        speed = anchor.speed
        cells = [f"{speed.num_gpus} {speed.hardware}", speed.precision]
        cells += [f"{speed.batch // speed.num_gpus:,}", f"{speed.measured:,.0f}", speed.model]
        rows.append([*cells, f"{anchor.hours:.1f}", f"{speed.system} ({speed.kind})"])
    return rows


def _summary(plan: Plan) -> list[tuple[str, str]]:
    cost = plan.cost
    jobs = ""
    one_by_one = "no hours are predicted, see below"
    if cost is not None:
        in_words = f"{cost.hours / 24:,.1f} days" if cost.hours >= 48 else duration(cost.hours)
        one_by_one = f"{in_words} one training after the other"
        # On GPUs the time of a training is a range.
        if plan.machine.gpu:
            one_by_one += (
                "; GPU-h, US$ and this time are of the middle (geometric mean) of each range"
            )
    # The paper's real times next to the predicted times on the same machine show how far the
    # prediction errs.
    papers = [
        f"{system} {number(PAPER_HOURS[system])} h (this plan: {hours_range(hours)})"
        for system, hours in plan.on_papers_gpus.items()
    ]
    paper = f"took, on 8 P100 in fp32: {', '.join(papers)}" if papers else ""
    # With advice the jobs are a warning, and `_warnings` prints them.
    if plan.jobs is not None and not plan.jobs.advice:
        jobs = plan.jobs.words
    # The disk is listed by folder, because these folders may be on different disks.
    bytes_by_name = {
        "runs": plan.runs_bytes,
        "averages": plan.averages_bytes,
        "archives": plan.archives_bytes,
        "text": plan.text_bytes,
        "data-bins": plan.data_bin_bytes,
    }
    parts = ", ".join(f"{name} {gigabytes(size)}" for name, size in bytes_by_name.items())
    disk = f"{gigabytes(sum(bytes_by_name.values()))} GB at most: {parts}"
    return [
        ("all", one_by_one),
        ("Slurm jobs", jobs),
        ("the paper", paper),
        ("disk", disk),
    ]


def _bases(plan: Plan) -> list[tuple[str, str]]:
    """Return what each number of the plan is based on, with the source and how to change it."""
    machine = plan.machine
    rate_by_precision: dict[str, str] = {}
    launch_bound: list[str] = []
    runs: list[str] = []
    for row in plan.trainings:
        speed = row.speed
        runs += speed.runs
        if speed.formula is None:
            continue
        # Systems of one scale may have different precisions. Each is listed once.
        rate = machine.rate_by_precision[speed.precision]
        teraflops = f"{number(rate.value / 1e12)} TFLOP/s a {machine.device}"
        rate_by_precision[speed.precision] = f"{speed.precision} {teraflops} ({_source(rate)})"
        # Hours that are scaled by finished trainings contain the host's time already.
        if speed.waits_for_host and speed.expected is not None and not speed.runs:
            launch_bound.append(row.system)
    host = ""
    if launch_bound:
        host = (
            f"{_named(launch_bound)}: an update waits for the host; one H200's took"
            f" {LAUNCH_ERRORS.least} to {LAUNCH_ERRORS.most} times as long as the formula, and so"
            " do these hours (docs/checks.md)"
        )
    change = "change it by --launcher, --cluster, --gpu, --num-gpus"
    formula = f"operations of all updates at {CPU_SHARE:.0%} of the rate (assumption)"
    if machine.gpu:
        formula = "a sum of terms with assumed constants (workflow/aiayn/plan/prediction.py)"
    # The remark on --config is only for systems that have a rate.
    rates = ""
    if rate_by_precision:
        rates = "; ".join([*rate_by_precision.values(), "change it by --config precision"])
    formula += f", every batch full, sentences of {SOURCE_TOKENS_PER_SENTENCE:g} tokens"
    # Measured trainings replace the errors on published systems, so only one of the two is cited.
    if runs:
        formula += f"; scaled as trainings on such devices differed from it: {_named(runs)}"
    elif machine.gpu and plan.cost is not None:
        formula += "; times its errors on published systems (docs/checks.md)"
    prices = _prices(machine) if machine.gpu else []
    return [
        ("machine", f"{machine.words} a training: {machine.chosen_by}; {change}"),
        ("formula", formula if rate_by_precision else ""),
        ("precision", rates),
        ("host", host),
        *prices,
        ("vocabulary", "; ".join(corpus.vocabulary_source for corpus in plan.corpora)),
        ("all else", 'docs/cluster.md, "What a plan assumes"'),
    ]


def _named(names: Sequence[str]) -> str:
    """Return the first few different names, and the number of the other names: `base, big, h1 and 4
    more`.
    """
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - MAX_NAMED} more" if len(different) > MAX_NAMED else ""
    return ", ".join(different[:MAX_NAMED]) + more


def _prices(machine: Machine) -> list[tuple[str, str]]:
    price = machine.dollars_per_hour
    text = f"US$ {price.value:g} a GPU-hour ({_source(price)})" if price else "not known"
    text += f"; yours: dollars_per_hour of {machine.gpu} in workflow/config/hardware.yaml"
    return [("price", text)]


def _source(value: SourcedValue) -> str:
    return f"{value.kind}: {value.source}"


def _warnings(plan: Plan) -> list[str]:
    # Thirty systems may share a reason, so it is printed once with their names.
    systems_by_reason: dict[str, list[str]] = {}
    for row in plan.trainings:
        if reason := row.refusal.removeprefix(f"{row.system}: "):
            systems_by_reason.setdefault(reason, []).append(row.system)
    texts = []
    for reason, systems in systems_by_reason.items():
        texts.append(f"{', '.join(dict.fromkeys(systems))}: {reason}")
    # Many trainings share a reason. A dict drops the repeats and keeps the order.
    texts += dict.fromkeys(row.speed.no_hours for row in plan.trainings if row.speed.no_hours)
    texts += plan.machine.assumptions
    if plan.jobs is not None and plan.jobs.advice:
        texts.append(f"{plan.jobs.words}; {plan.jobs.advice}")
    for name in plan.unsized_corpora:
        texts.append(f"{name}: its size is not published; text and data-bin are not counted")
    return texts


def _sizes(row: PlanRow, corpus: PlannedCorpus) -> list[tuple[str, str, str]]:
    dictionaries = "one vocabulary" if corpus.is_joint else "either vocabulary"
    updates = (
        f"{row.updates:,} updates of {row.target_tokens_per_update:,} target tokens, every batch"
        " full"
    )
    sentence = f"forward and backward, sentences of {SOURCE_TOKENS_PER_SENTENCE:g} tokens"
    return [
        ("V", f"{corpus.vocabulary_size:,}", f"entries of {dictionaries}"),
        ("parameters", f"{row.num_parameters:,}", f"{row.num_parameters / 1e6:.2f} x 10^6"),
        ("operations a target token", rounded(row.flops_per_token, "model_flops"), sentence),
        ("operations counted", rounded(row.counted_flops, "model_flops"), updates),
    ]
