"""Renders a plan for a terminal: one row per system, the precisions side by side, each assumption with its source."""

from collections.abc import Sequence, Set

from aiayn.cost import SOURCE_TOKENS_PER_SENTENCE
from aiayn.plan.machine import PRICE_FLAG, Machine
from aiayn.plan.prediction import GLOO_BYTES_PER_SECOND, HOST_SECONDS_PER_BATCH, LAYERS_OF_HOST_SECONDS
from aiayn.price.data import (
    DOWNLOAD_BYTES_PER_SECOND,
    MOSES_PAIRS_PER_SECOND,
    NUM_TEXT_COPIES,
    PAIRS_PER_SECOND_BY_VERB,
)
from aiayn.price.plan import DECODING_FLOPS_PER_SECOND, Plan, PlannedTraining
from aiayn.spec.hardware import CPU, WHO_HAS_TENSOR_CORES, SourcedValue, UtilisationSpec
from aiayn.spec.training import PRECISIONS
from aiayn.terminal import table, titled, wrapped

UNKNOWN = "-"
MARK_BY_BASIS = {"measured": " m", "fraction": " f"}
NUM_LABELS = 2  # columns that are words
NUM_ACTUAL = 2  # columns that stand only where trainings have begun
MONEY_COLUMN = 6  # not known of cores
MINUTES_BELOW_HOURS = 0.1  # shorter ones are said in minutes
DAYS_FROM_HOURS = 48.0  # the sum of all is said in days


def render_plan(plan: Plan) -> str:
    """Return the whole plan, each line ended by LF."""
    num_trainings = sum(len(one.seeds) for one in plan.trainings)
    num_jobs = sum(plan.num_jobs_by_rule.values())
    words = f"{num_trainings} trainings, each on {plan.machine.words}, {num_jobs} jobs of Snakemake"
    title = f"Plan of {plan.scale}: {words}"
    headings = _headings(plan.machine)
    rows = [*headings, *(_cells(one, plan) for one in plan.trainings), _total_cells(plan)]
    if not any(one.actual for one in plan.trainings):
        rows = [row[:-NUM_ACTUAL] for row in rows]
    if not plan.machine.gpu:
        rows = [(*row[:MONEY_COLUMN], *row[MONEY_COLUMN + 1 :]) for row in rows]
    lines = table(rows, right=range(NUM_LABELS, len(rows[0])), num_headings=len(headings), num_totals=1)
    parts = [
        titled(title), lines, _precision_lines(plan), _summary_lines(plan), _assumption_lines(plan),
        _warning_lines(plan),
    ]  # fmt: skip
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _headings(machine: Machine) -> list[tuple[str, ...]]:
    """Return each column's noun and unit, from top to bottom."""
    of_devices, place, spent = ("GPU-h", "GPU", "GPU-h") if machine.gpu else ("core-h", "node", "hours")
    return [
        ("", "", "", "updates", "hours", of_devices, "US$", "disk GB", "GB of", "actual", "actual"),
        ("", "", "", "", "", *["all"] * 3, "a", "hours", spent),
        ("system", "corpus", "seeds", "a run", "a run", *["seeds"] * 3, place, "a run", "so far"),
    ]


def _memory_bytes(one: PlannedTraining, plan: Plan) -> int:
    """Return the memory of a GPU, or of a node without GPUs."""
    return one.device_memory_bytes if plan.machine.gpu else one.node_memory_bytes


def _cells(one: PlannedTraining, plan: Plan) -> tuple[str, ...]:
    actual = ("", "")
    if one.actual is not None:
        done = f" ({one.actual.num_finished}/{len(one.seeds)})" if one.actual.num_finished < len(one.seeds) else ""
        hours = UNKNOWN if one.actual.hours is None else _hours(one.actual.hours)
        actual = (f"{hours}{done}", _hours(one.actual.gpu_hours if plan.machine.gpu else one.actual.total_hours))
    return (
        one.system,
        one.corpus,
        str(len(one.seeds)),
        f"{one.updates:,}",
        f"{_hours(one.speed.hours)}{MARK_BY_BASIS.get(one.speed.basis, '  ')}",
        _hours(one.total_device_hours),
        _number_or_unknown(one.total_dollars),
        _gigabytes(len(one.seeds) * (one.run_bytes + one.averages_bytes)),
        _gigabytes(_memory_bytes(one, plan)),
        *actual,
    )


def _total_cells(plan: Plan) -> tuple[str, ...]:
    rows = plan.trainings
    actuals = [one.actual for one in rows if one.actual is not None]
    hours, gpu_hours = (sum(getattr(one, key) for one in actuals) for key in ("total_hours", "gpu_hours"))
    return (
        "all", "", str(sum(len(one.seeds) for one in rows)), "", "",
        _hours(sum(one.total_device_hours for one in rows)),
        _number_or_unknown(_total(one.total_dollars for one in rows)),
        _gigabytes(plan.runs_bytes + plan.averages_bytes),
        _gigabytes(max((_memory_bytes(one, plan) for one in rows), default=0)),
        _hours(hours) if plan.machine.gpu else "",
        _hours(gpu_hours if plan.machine.gpu else hours),
    )  # fmt: skip


def _hours_one_at_a_time(plan: Plan) -> float:
    return sum(len(one.seeds) * one.speed.hours for one in plan.trainings)


def _total(values: object) -> float | None:
    listed = list(values)  # type: ignore[call-overload]
    return None if None in listed else float(sum(listed))


def _number(value: float) -> str:
    """Return a quantity with about three digits."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def _hours(hours: float) -> str:
    """Return hours as a number, short ones as minutes."""
    if 0 < hours < MINUTES_BELOW_HOURS:
        return f"{60 * hours:.0f} min" if 60 * hours >= 1 else "<1 min"
    return f"{hours:.2f}" if 0 < hours < 1 else _number(hours)


def _duration(hours: float) -> str:
    """Return hours with their unit, short ones as minutes."""
    return _hours(hours) if 0 < hours < MINUTES_BELOW_HOURS else f"{_hours(hours)} h"


def _number_or_unknown(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}" if value >= 10 else _number(value)


def _gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:,.1f}" if num_bytes >= 1e8 else f"{num_bytes / 1e9:.3f}"


def _precision_lines(plan: Plan) -> list[str]:
    """Return hours, device-hours, money and energy in each precision side by side, and why one is missing."""
    if not plan.trainings:
        return []
    hours = [one.speed.hours for one in plan.trainings]
    shown = dict.fromkeys((0, hours.index(max(hours))))  # the first system, and the slowest
    rows = [("in each precision", *(one.precision for one in plan.precisions))]
    rows += [
        (
            f"hours a run, {plan.trainings[index].system}",
            *(UNKNOWN if one.refusal else _hours(one.speeds[index].hours) for one in plan.precisions),
        )
        for index in shown
    ]
    sums = [
        ("hours of all, one at a time", [_hours(one.total_hours) for one in plan.precisions]),
        (f"{plan.machine.device}-hours", [_hours(one.total_device_hours) for one in plan.precisions]),
        ("US$", [_number_or_unknown(one.total_dollars) for one in plan.precisions]),
        ("kWh", [_number_or_unknown(one.total_kilowatt_hours) for one in plan.precisions]),
    ]
    for name, cells in sums if plan.machine.gpu else sums[:2]:
        are_known = [not one.refusal for one in plan.precisions]
        rows.append((name, *(cell if is_known else UNKNOWN for cell, is_known in zip(cells, are_known, strict=True))))
    return [*table(rows, right=range(1, len(rows[0])), num_headings=1), *_precision_words(plan)]


def _precision_words(plan: Plan) -> list[str]:
    """Return which precision the plan is of, how to take another, and which ones the devices do not have."""
    taken = ", ".join(dict.fromkeys(one.speed.precision for one in plan.trainings))
    text = f"The plan is of {taken}; `--config precision=...` takes another for all systems."
    missing = [one.precision for one in plan.precisions if one.refusal]
    if missing:
        text += f" A dash: {_device(plan)} has no {' and no '.join(missing)} ({WHO_HAS_TENSOR_CORES})."
    return wrapped(text)


def _device(plan: Plan) -> str:
    return f"a {plan.machine.gpu}" if plan.machine.gpu else CPU


def _summary_lines(plan: Plan) -> list[str]:
    jobs = ", ".join(f"{number} {rule}" for rule, number in plan.num_jobs_by_rule.items())
    chain = "; ".join(f"{link.what} {_duration(link.hours)}" for link in plan.longest_chain)
    hours, all_hours = sum(link.hours for link in plan.longest_chain), _hours_one_at_a_time(plan)
    in_words = f"{all_hours / 24:,.1f} days" if all_hours >= DAYS_FROM_HOURS else _duration(all_hours)
    disk = (
        f"runs {_gigabytes(plan.runs_bytes)}, averages {_gigabytes(plan.averages_bytes)}, archives "
        f"{_gigabytes(plan.archives_bytes)}, text {_gigabytes(plan.text_bytes)}, data-bins "
        f"{_gigabytes(plan.data_bin_bytes)}"
    )
    entries = [
        ("jobs", jobs),
        ("longest chain", f"{_duration(hours)}, however many nodes there are: {chain}"),
        ("one at a time", f"{in_words} of training"),
    ]
    longest = max(plan.trainings, key=lambda one: one.speed.hours, default=None)
    limits = plan.machine.job_limits
    if limits is not None and longest is not None and not plan.overrun:
        number = limits.count_jobs(longest.speed.hours)
        entries.append((
            "Slurm jobs",
            f"{number} in turn for {longest.system}, each of {limits.training_minutes:,g} minutes "
            f"(time_limit_minutes less signal_seconds); {limits.max_num_jobs} are allowed",
        ))  # fmt: skip
    whole = _gigabytes(plan.runs_bytes + plan.results_bytes + plan.archives_bytes)
    entries.append(("disk", f"{whole} GB at most: {disk}"))
    if plan.machine.gpu:
        node_bytes = max((one.node_memory_bytes for one in plan.trainings), default=0)
        entries.append(("memory of a node", f"{_gigabytes(node_bytes)} GB at most, beside its GPUs'"))
    return [line for name, text in entries for line in wrapped(text, f"{name:<18}", " " * 18)]


def _assumption_lines(plan: Plan) -> list[str]:
    machine, bases = plan.machine, {speed.basis for one in plan.precisions for speed in one.speeds}
    vocabularies = "; ".join(corpus.vocabulary_source for corpus in plan.corpora)
    texts = [
        f"{machine.words} a training: {machine.chosen_by}. --launcher, --cluster, --gpu, --num-gpus change it",
        f"{_rates(machine)}",
        *(text for basis, text in _basis_texts(plan).items() if basis in bases),
        *_utilisation_texts(plan, bases),
        *_host_texts(plan),
        _scaling_text(machine),
        *_price_texts(machine),
        f"vocabulary of {vocabularies}",
        "disk: of each run the last models that its longest average takes and two full checkpoints (one when done), "
        "one more of each while it is written, all kept until you delete the runs folder; text "
        f"{NUM_TEXT_COPIES} times (raw, clean, a stage at work); archives as published; logs not counted",
        "memory: 16 bytes a parameter and what a full batch leaves for the backward pass, by formula "
        "(aiayn.plan.prediction)",
        f"data stages, where not measured, on one core: {DOWNLOAD_BYTES_PER_SECOND / 1e6:g} MB/s downloaded; pairs/s: "
        + ", ".join(f"{verb} {rate:,}" for verb, rate in PAIRS_PER_SECOND_BY_VERB.items())
        + f" (with Moses' scripts clean {MOSES_PAIRS_PER_SECOND:,}); decoding {DECODING_FLOPS_PER_SECOND / 1e9:g} "
        "GFLOP/s",
    ]
    return ["Assumptions", *_listed(texts)]


def _listed(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in wrapped(text, "- ", "  ")]


def _basis_texts(plan: Plan) -> dict[str, str]:
    """Return what hours are made of, by their basis."""
    speeds = [speed for one in plan.precisions for speed in one.speeds]
    speed_by_basis = {speed.basis: speed for speed in speeds}
    ratio, others, fraction = 1.0, "", 0.0
    if "fraction" in speed_by_basis:
        other = speed_by_basis["fraction"]
        ratio, others = other.utilisation_fraction / other.utilisation.fraction.value, ", ".join(other.runs[:3])
    if "asked" in speed_by_basis:
        fraction = speed_by_basis["asked"].utilisation_fraction
    measured = sorted({run for one in plan.trainings if one.speed.basis == "measured" for run in one.speed.runs})
    more = f" and {len(measured) - 3} more" if len(measured) > 3 else ""
    counted = f"operations of all updates (sentences of {SOURCE_TOKENS_PER_SENTENCE:g} tokens, every batch full)"
    return {
        "measured": "hours marked m: as trainings of the system took on this kind of machine, in proportion to updates "
        f"and devices: {', '.join(measured[:3])}{more}",
        "fraction": f"hours marked f: at {ratio:.2f} times the share below, as other trainings in that precision on "
        f"this kind of machine: {others}",
        "assumed": f"hours without mark: {counted} at the share below",
        "asked": f"hours: {counted} at {100 * fraction:g} % of that rate: yours, by --utilisation",
    }


def _utilisation_texts(plan: Plan, bases: Set[str]) -> list[str]:
    """Return what share each precision is taken to reach, by width, and where it is not this kind of machine's."""
    if not bases & {"assumed", "fraction"}:
        return []
    texts, elsewhere = [], []
    used = {id(speed.utilisation): speed.utilisation for one in plan.precisions for speed in one.speeds}
    shares = sorted(used.values(), key=lambda one: (PRECISIONS.index(one.precision), one.min_d_model))
    for precision in dict.fromkeys(one.precision for one in shares):
        of_precision = [one for one in shares if one.precision == precision]
        texts.append(f"{precision} {', '.join(map(_share, of_precision))}")
        elsewhere += [precision] if any(one.gpu != plan.machine.gpu for one in of_precision) else []
    names = "" if len(elsewhere) == len(texts) else f"{' and '.join(elsewhere)} "
    assumed = f"; {names}on {plan.machine.gpu or CPU} assumed" if elsewhere else ""
    return [f"share of that rate: {'; '.join(texts)}{assumed}; --utilisation takes yours"]


def _share(one: UtilisationSpec) -> str:
    since = f"from d_model {one.min_d_model:,} " if one.min_d_model > 1 else ""
    return f"{since}{100 * one.fraction.value:.0f} % ({one.fraction.source})"


def _host_texts(plan: Plan) -> list[str]:
    """Return what keeps updates from being shorter still, if it does."""
    bound = [one.precision for one in plan.precisions if any(speed.is_host_bound for speed in one.speeds)]
    if not bound:
        return []
    return [
        f"in {' and '.join(bound)} some systems' updates are as long as the host's side of them, "
        f"{1000 * HOST_SECONDS_PER_BATCH:g} ms a batch for {LAYERS_OF_HOST_SECONDS} + {LAYERS_OF_HOST_SECONDS} layers "
        "(assumption): more GPUs do not make them shorter"
    ]


def _scaling_text(machine: Machine) -> str:
    """Return what is taken to be lost between devices."""
    if machine.gpu or machine.num_ranks == 1:
        devices = "GPUs" if machine.gpu else "cores"
        return f"hours fall in proportion to {devices}: nothing is lost between them or between nodes"
    return (
        "hours fall in proportion to cores, but for the sum of gradients by gloo: "
        f"{GLOO_BYTES_PER_SECOND / 1e9:g} GB/s, as measured within a node; nothing more is lost between nodes"
    )


def _price_texts(machine: Machine) -> list[str]:
    """Return what money and energy are made of; nothing for cores, whose are not known."""
    if not machine.gpu:
        return []
    place = f"{PRICE_FLAG}, or dollars_per_hour of {machine.gpu} in workflow/config/hardware.yaml"
    price = f"US$ not known: hardware.yaml has no price of a {machine.gpu}; give yours: {place}"
    if machine.dollars_per_hour is not None:
        advice = "" if PRICE_FLAG in machine.dollars_per_hour.source else f"; yours: {place}"
        price = f"US$ {machine.dollars_per_hour.value:g} a GPU-hour ({_source(machine.dollars_per_hour)}){advice}"
    watts = machine.watts
    energy = f"{watts.value:g} W a GPU all the time ({_source(watts)})" if watts else "kWh not known"
    return [
        price,
        f"{energy}. US$, kWh and GPU-hours are the trainings' alone: not the nodes beside their GPUs, CPU jobs, "
        "waiting in queues, nor updates repeated after faults",
    ]


def _rates(machine: Machine) -> str:
    """Return the rate of one device in each precision that it has, with its source."""
    texts = [f"{name} {_rate(rate)} ({_source(rate)})" for name, rate in machine.rate_by_precision.items()]
    if not machine.gpu:  # all the same value
        texts = [f"{texts[0]}; in bf16 taken to be the same, which is not known"]
    return f"rate of one {machine.device}: {', '.join(texts)}"


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
    texts += [plan.overrun] if plan.overrun else []
    texts += [
        f"{name}: its size is not published: its text and data-bin are not counted" for name in plan.unsized_corpora
    ]
    texts += [f"{path}: cannot be read as the record of a training; omitted" for path in plan.unreadable_records]
    return ["To look at", *_listed(texts)] if texts else []
