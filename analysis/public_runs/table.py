"""Lays out MLPerf's public runs, a row a system: time and epochs to 25.0, BLEU over seeds, cost by footnote 5."""

import statistics
from collections.abc import Callable, Iterator, Sequence

from aiayn.cost import training_flops
from aiayn.printed import read_table
from aiayn.spec.hardware import NUM_PAPER_GPUS, PAPER_GPU, HardwareSpec, read_hardware
from analysis.public_runs.mlperf import TARGET_BLEU, PublicTraining
from analysis.public_runs.shipped import ASSUMED_SD_BLEU, by_system, public_spread, read_public_runs, seed_spreads
from paper_tables.frame import Frame
from paper_tables.layout import (
    DASH,
    Cell,
    Column,
    Note,
    Row,
    Table,
    format_significant,
    format_value,
    label,
    row_by_column,
    text_cell,
)

SECONDS_PER_MINUTE = 60.0
NOT_COMPARABLE = (
    "Not comparable with 28.4 or 27.3: uncased BLEU of MLPerf's own definition on newstest2014, trained on WMT17's "
    "text, without averaged checkpoints, and stopped at the first evaluation of 25.0 or above."
)
LABELS = {
    "round": "round", "submitter": "submitter", "system": "system", "division": "division",
    "accelerators": "accelerators", "batch": "batch", "optimizer": "optimizer, rate, warm-up",
    "parameters": "parameters x10^6",
}  # fmt: skip
NUMBERS = {
    "num_runs": "runs", "minutes": "minutes to 25.0", "epochs": "epochs to 25.0", "epoch": "last epoch of all runs",
    "bleu": "BLEU there", "sd": "sd over seeds there", "training_flops": "FLOPs by footnote 5",
}  # fmt: skip
COLUMNS = (
    *(Column(name, heading, side="label") for name, heading in LABELS.items()),
    *(Column(name, heading) for name, heading in NUMBERS.items()),
    Column("source", "source", side="label"),
)
ASSUMED_MARK = "a"  # of a cost


def lay_out_shipped_runs(_frame: Frame) -> Table:
    """Return the shipped runs, as they stand on the page of every scale."""
    return lay_out_public_runs()


def lay_out_public_runs(read: Sequence[PublicTraining] = ()) -> Table:
    """Return the paper's systems, the runs that were `read` from files, and the shipped ones, a row a system."""
    shipped, hardware = read_public_runs(), read_hardware()
    num_systems = len(by_system(shipped))
    return Table(
        name="public_runs",
        title="Public runs at the paper's scale (MLPerf)",
        caption="Runs of the Transformer benchmark that MLPerf published, v0.5 to v0.7, a row a system; runs of one "
        f"system differ in the seed alone. {NOT_COMPARABLE} Minutes and epochs: mean over runs (lowest to highest).",
        columns=COLUMNS,
        rows=(*_paper_rows(), *_rows(read, ", read", hardware), *_rows(shipped, "", hardware)),
        notes=tuple(_notes()),
        summary=f"{num_systems} systems, {len(shipped)} runs: time and epochs to 25.0, and how much seeds vary; not "
        "comparable with 28.4",
    )


def _paper_rows() -> Iterator[Row]:
    """Yield base and big with their printed costs."""
    for cell in read_table(2):
        if cell.row in ("base", "big") and cell.column.startswith("flops_"):
            texts = {"round": "paper", "system": cell.row, "accelerators": f"{NUM_PAPER_GPUS} x {PAPER_GPU}"}
            texts |= {"training_flops": cell.value, "source": "Table 2"}
            yield _row(texts)


def _row(texts: dict[str, str], cells: dict[str, Cell] | None = None) -> Row:
    cell_by_column = {name: text_cell(text) if name in NUMBERS else label(text) for name, text in texts.items()}
    return Row(row_by_column(COLUMNS, cell_by_column | (cells or {})))


def _rows(trainings: Sequence[PublicTraining], suffix: str, hardware: HardwareSpec) -> Iterator[Row]:
    """Yield a row a system; the suffix tells where its runs are from."""
    spread_by_key = {(one.round, one.submitter, one.system): one for one in seed_spreads(trainings)}
    for key, group in by_system(trainings).items():
        run, spread = group[0].run, spread_by_key.get(key)
        reached = [found for one in group if (found := one.reached())]
        of_all = "" if len(reached) == len(group) else f", of which {len(reached)} reached 25.0"
        minutes = [one.seconds / SECONDS_PER_MINUTE for one in reached]
        number = f"{run.num_accelerators:,}" if run.num_accelerators else "?"
        texts = {
            "round": f"{run.round}{suffix}", "submitter": run.submitter, "system": run.system, "division": run.division,
            "accelerators": f"{number} x {run.accelerator or 'not stated'}",
            "batch": f"{run.batch:,} {run.batch_unit or '(unit not stated)'}",
            "optimizer": f"{run.optimizer}, {run.learning_rate:.4g}, {run.warmup_steps:,}",
            "parameters": format_value(run.num_parameters, "num_parameters") if run.num_parameters else "",
            "num_runs": f"{len(group)}{of_all}",
            "minutes": _over_runs(minutes, lambda value: format_significant(value, 3)),
            "epochs": _over_runs([one.epoch for one in reached], lambda value: f"{value:.1f}".removesuffix(".0")),
            "source": f"{run.repository} {run.commit[:8]}" if run.repository else run.run,
        }  # fmt: skip
        if spread is not None:
            texts |= {"epoch": str(spread.epoch), "bleu": f"{spread.mean:.2f}", "sd": f"{spread.sd:.2f}"}
            texts |= {"source": spread.source}
        yield _row(texts, {"training_flops": _cost_cell(group, hardware)})


def _over_runs(values: Sequence[float], show: Callable[[float], str]) -> str:
    """Return mean and range."""
    if not values:
        return ""
    mean, low, high = show(statistics.fmean(values)), show(min(values)), show(max(values))
    return mean if low == high else f"{mean} ({low} to {high})"


def _cost_cell(group: Sequence[PublicTraining], hardware: HardwareSpec) -> Cell:
    """Return the mean over runs of seconds x accelerators x sustained rate; a dash where no rate has a source."""
    run = group[0].run
    gpu = hardware.find_gpu(run.accelerator)
    if gpu is None or not run.num_accelerators:
        return text_cell(DASH, "state")
    rate = gpu.sustained_flops_per_second
    seconds = statistics.fmean(one.run.seconds for one in group)
    cost = format_value(training_flops(seconds * run.num_accelerators, rate.value), "training_flops")
    return text_cell(cost, "printed", *((ASSUMED_MARK,) if rate.kind == "assumption" else ()))


def _notes() -> Iterator[Note]:
    spread = public_spread()
    if spread is not None:
        pooled = spread.pooled
        yield Note(
            "",
            f"At the last epoch of all runs the sd over seeds is {spread.median_sd:.2f} in the middle of "
            f"{pooled.num_systems} systems ({pooled.smallest_sd:.2f} to {pooled.largest_sd:.2f}; pooled "
            f"{pooled.sd:.2f}); this project's rule of verdicts was tried with {ASSUMED_SD_BLEU}. It enters no "
            f"verdict. A run's last value is selected by the stop at {TARGET_BLEU}, and its spread means nothing. The "
            "epoch is a system's earliest stop, which raises the mean there a little.",
        )
    yield Note(
        ASSUMED_MARK,
        "The sustained rate of this GPU is an assumption of hardware.yaml (0.9 of the peak without tensor cores). The "
        "paper's formula counts single precision, and these runs computed in half precision on tensor cores: the cost "
        "tells how much hardware was held for how long, from run_start to run_stop.",
    )
    yield Note("", f"{DASH}: no sustained rate with a source (TPUs).")
    yield Note(
        "",
        "Batch, of an update over all accelerators: tokens are padded ones; sequences are rows into which Google's "
        "programs pack several sentences (v0.7 logs 566,340 an epoch, and 4,590,101 sentence pairs of the others). The "
        "rate is as logged: the peak, or Google's factor of equation (3). Parameters are as a log prints them.",
    )
    yield Note(
        "",
        "MLPerf asks for ten runs a system; runs that a submitter left out are not to be known. Not had: the ten runs "
        "of v0.5's dgx1_multi_ngc18.11_pytorch.",
    )
