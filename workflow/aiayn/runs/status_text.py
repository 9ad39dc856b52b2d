"""Renders the states of runs for a terminal: one line for each run, or everything about one run."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from aiayn.runs.attempts import Event, Started
from aiayn.runs.names import training_of
from aiayn.runs.status import RunStatus
from aiayn.terminal import entries, sections, table, wrapped

INDENT = "  "
HEADER = ("run", "state", "update", "loss", "tok/s", "ETA", "GPU-h", "try", "job", "node")
# Numbers are aligned to the right: the columns from update to job.
RIGHT_COLUMNS = range(2, 9)
MAX_RUN_WIDTH, MAX_NODE_WIDTH = 36, 24
UNKNOWN = "-"
_LEGEND = (
    (
        "update: done/asked for, k: thousands. loss: bits, as fairseq prints it (label-smoothed,"
        " base 2)."
    ),
    "tok/s: target tokens a second. ETA: at its newest speed. GPU-h: GPU-hours. try: attempts.",
)


def render_statuses(statuses: Sequence[RunStatus], runs_folder: Path) -> str:
    """Return the table of all runs, followed by the reasons why runs wait, ended or are damaged."""
    if not statuses:
        return f"{runs_folder}: no runs yet\n"
    # groupby below joins neighbours only, so runs of one corpus must be adjacent.
    statuses = sorted(statuses, key=_order)
    rows: list[Sequence[str]] = [HEADER]
    # The corpus is most of a run's name. As a heading it leaves room for the other columns.
    for corpus, of_corpus in groupby(statuses, key=_corpus):
        rows += [
            (corpus, *[""] * (len(HEADER) - 1)),
            *(_row(status, statuses) for status in of_corpus),
        ]
    widths = [MAX_RUN_WIDTH, *[None] * (len(HEADER) - 2), MAX_NODE_WIDTH]
    num_by_state = Counter(status.state for status in statuses)
    counts = ", ".join(f"{number} {state}" for state, number in sorted(num_by_state.items()))
    gpu_hours = sum(status.gpu_hours for status in statuses)
    summary = f"{runs_folder}: {counts}" + (f"; {gpu_hours:,.1f} GPU-hours" if gpu_hours else "")
    parts = [
        wrapped(summary),
        table(rows, right=RIGHT_COLUMNS, widths=widths),
        _reason_lines(statuses),
    ]
    example = _short_name(statuses[0], statuses)
    parts.append(
        [
            *_LEGEND,
            f"All of one run, with its log's path: aiayn status RUN, as {example}",
        ]
    )
    return sections(*(("", lines) for lines in parts))


def render_status(status: RunStatus) -> str:
    """Return a text with everything that is known about one run."""
    title = f"{status.run}: {status.state}" + (f", {status.reason}" if status.reason else "")
    num_attempts = f"{status.num_attempts} attempt{'' if status.num_attempts == 1 else 's'}"
    driver = (
        "running, waits for its end"
        if status.is_attended
        else "none; the next driver attaches to it"
    )
    update = f"{_count(status.update)} of {_count(status.updates)}"
    hours = f"{status.gpu_hours:.2f} GPU-hours, {status.wall_hours:.2f} hours of wall time"
    pairs = [("update", f"{update}, saved {_count(status.saved_update)}")]
    # A line is left out if its value is not known: a run that has not begun has no loss.
    if status.loss_bits is not None:
        pairs.append(("loss", f"{status.loss_bits:.3f} bits (label-smoothed, base 2)"))
    if status.target_tokens_per_second:
        pairs.append(("speed", f"{status.target_tokens_per_second:,.0f} target tokens/s"))
    if status.eta_seconds:
        pairs.append(("ETA", format_duration(status.eta_seconds)))
    pairs += [
        ("cost", f"{hours}, {num_attempts}"),
        ("job", f"{status.launcher} {status.job}".strip()),
        ("node", status.host),
        ("time left", status.time_left),
    ]
    if status.is_alive:
        pairs.append(("driver", driver))
    pairs += [
        ("folder", status.run_folder),
        ("log", status.log_path),
        ("job's output", status.output_path),
    ]
    parts = [("", [*wrapped(title), *entries(pairs, INDENT)])]
    lines = []
    for event in status.events:
        lines += wrapped(_describe_event(event), "", INDENT)
    parts.append(("", lines))
    return sections(*parts)


def _describe_event(event: Event) -> str:
    """Return one line on the start or the end of an attempt."""
    if isinstance(event, Started):
        return (
            f"attempt {event.attempt} began {event.time} on {event.host}, job {event.job}, at"
            f" update {event.update}"
        )
    reason = f": {event.reason}" if event.reason else ""
    return f"attempt {event.attempt} {event.outcome} {event.time}, at update {event.update}{reason}"


def format_duration(seconds: float | None) -> str:
    """Return a number of seconds as text with two units: `4m10s`, `2h05m`, `3d07h`."""
    if seconds is None:
        return UNKNOWN
    whole = round(seconds)
    # Two units are enough to plan a day, and they keep the column narrow.
    for unit, (below, length, below_length) in {
        "d": ("h", 86400, 3600),
        "h": ("m", 3600, 60),
    }.items():
        if whole >= length:
            return f"{whole // length}{unit}{whole % length // below_length:02d}{below}"
    return f"{whole // 60}m{whole % 60:02d}s"


def saved_words(saved: int, updates: int | None) -> str:
    """Return as text which update of a run was saved before the run ended. `saved` is 0 if the run
    has no checkpoint. `updates` is the total number of updates, if it is known.
    """
    total = f" of {updates:,}" if updates else ""
    return f"saved at update {saved:,}{total}" if saved else "ended before anything was saved"


def _number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)


def _count(value: int | None) -> str:
    return _number(value, ",")


def _order(status: RunStatus) -> tuple[str, str, int]:
    """Return the sort key of a run. Seed 10 comes after seed 9. A folder that does not have the
    form of a run's name comes last.
    """
    # `~` sorts after all letters and digits.
    return training_of(status.run) or ("~", status.run, 0)


def _corpus(status: RunStatus) -> str:
    training = training_of(status.run)
    return training.corpus if training else "(other names)"


def _short_name(status: RunStatus, statuses: Iterable[RunStatus]) -> str:
    """Return a run's name without the digest at its end. The digest is kept if two runs differ only
    in their digests.
    """
    short = status.run.rpartition("-")[0] if training_of(status.run) else status.run
    # A training has a second run, with a different digest, if its spec was edited in between.
    num_alike = sum(other.run.startswith(f"{short}-") for other in statuses)
    return short if num_alike == 1 else status.run


def _row(status: RunStatus, statuses: Iterable[RunStatus]) -> tuple[str, ...]:
    return (
        INDENT + _short_name(status, statuses).removeprefix(f"{_corpus(status)}-"),
        status.state,
        f"{_short_count(status.update)}/{_short_count(status.updates)}",
        _number(status.loss_bits, ".2f"),
        _number(status.target_tokens_per_second, ".0f"),
        format_duration(status.eta_seconds),
        # A training on a CPU has no GPU-hours, and a dash says so better than 0.0.
        _number(status.gpu_hours or None, ".1f"),
        str(status.num_attempts),
        status.job or UNKNOWN,
        status.host or UNKNOWN,
    )


def _short_count(value: int | None) -> str:
    """Return a number of updates in at most five characters. From 100,000 on, the number is in
    thousands, such as `100k`.
    """
    if value is None:
        return UNKNOWN
    return str(value) if value < 100_000 else f"{value // 1000}k"


def _reason_lines(statuses: Sequence[RunStatus]) -> list[str]:
    """Return lines on why runs wait or have ended. Runs with the same reason share a line."""
    runs_by_reason: dict[str, list[str]] = {}
    for status in statuses:
        if status.reason:
            runs_by_reason.setdefault(f"{status.state}, {status.reason}", []).append(
                _short_name(status, statuses)
            )
    texts = [f"{reason}: {', '.join(runs)}" for reason, runs in sorted(runs_by_reason.items())]
    return [line for text in texts for line in wrapped(text, "", INDENT)]
