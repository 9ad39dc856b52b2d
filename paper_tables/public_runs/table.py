"""Lays out MLPerf's public runs, a row a system: time and epochs to 25.0, BLEU over seeds, cost by footnote 5."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from aiayn.cost import training_flops
from aiayn.printed import read_table
from aiayn.spec.hardware import NUM_PAPER_GPUS, PAPER_GPU, HardwareSpec, read_hardware
from analysis.public_runs.mlperf import TARGET_BLEU, PublicRun, PublicTraining
from analysis.public_runs.shipped import (
    ASSUMED_SD_BLEU,
    PublicSpread,
    SeedSpread,
    by_system,
    public_spread,
    read_public_runs,
    seed_spreads,
)
from paper_tables.cell_verdicts import JudgedCell
from paper_tables.layout import (
    DASH,
    Cell,
    Column,
    Field,
    Note,
    Table,
    columns_of,
    format_significant,
    format_value,
    label_field,
    printed_field,
    rows_of,
    text_cell,
)
from paper_tables.scale_results import ScaleResults

TABLE_NAME = "public_runs"
SECONDS_PER_MINUTE = 60.0
NOT_COMPARABLE = (
    "Not comparable with 28.4 or 27.3: uncased BLEU of MLPerf's own definition on newstest2014, trained on WMT17's "
    "text, without averaged checkpoints, and stopped at the first evaluation of 25.0 or above."
)
ASSUMED_MARK = "a"  # of a cost
# A multi-node system of v0.5 whose ten result files the copy of the repository lacked that the tables were made of.
NOT_HAD = "Not had: the ten runs of v0.5's dgx1_multi_ngc18.11_pytorch."


class _Line(NamedTuple):
    """One row: a system of the paper's, or one whose runs were published."""

    round: str
    submitter: str
    system: str
    runs: Sequence[PublicTraining] = ()
    spread: SeedSpread | None = None
    printed_cost: str = ""

    @property
    def run(self) -> PublicRun | None:
        """Return its first run: but for the seed all are of the same settings."""
        return self.runs[0].run if self.runs else None


def lay_out_shipped_runs(_results: ScaleResults, _judged: Sequence[JudgedCell]) -> Table:
    """Return the shipped runs, as they stand on the page of every scale."""
    return lay_out_public_runs()


def lay_out_public_runs(read: Sequence[PublicTraining] = ()) -> Table:
    """Return the paper's systems, the runs that were `read` from files, and the shipped ones, a row a system."""
    shipped, hardware = read_public_runs(), read_hardware()
    lines = [
        *_paper_lines(),
        *_lines(read, source_of_file=True),
        *_lines(shipped, source_of_file=False),
    ]
    fields: tuple[Field[_Line], ...] = (
        label_field("round", "round", lambda line: line.round),
        label_field("submitter", "submitter", lambda line: line.submitter),
        label_field("system", "system", lambda line: line.system),
        label_field("division", "division", lambda line: line.run.division if line.run else ""),
        label_field("accelerators", "accelerators", _accelerators),
        label_field("batch", "batch", _batch),
        label_field("optimizer", "optimizer, rate, warm-up", _optimizer),
        label_field("parameters", "parameters x10^6", _parameters),
        printed_field("num_runs", "runs", _num_runs),
        printed_field("minutes", "minutes to 25.0", _minutes),
        printed_field("epochs", "epochs to 25.0", _epochs),
        printed_field("epoch", "last epoch of all runs", lambda line: str(line.spread.epoch) if line.spread else ""),
        printed_field("bleu", "BLEU there", lambda line: f"{line.spread.mean:.2f}" if line.spread else ""),
        printed_field("sd", "sd over seeds there", lambda line: f"{line.spread.sd:.2f}" if line.spread else ""),
        Field(Column("training_flops", "FLOPs by footnote 5"), lambda line: _cost_cell(line, hardware)),
        label_field("source", "source", lambda line: line.spread.source if line.spread else _source(line)),
    )
    spread = public_spread(shipped)
    num_runs, num_systems = len(shipped), len(by_system(shipped))
    return Table(
        name=TABLE_NAME,
        title="Public runs at the paper's scale (MLPerf)",
        caption="Runs of the Transformer benchmark that MLPerf published, v0.5 to v0.7, a row a system; runs of one "
        f"system differ in the seed alone. {NOT_COMPARABLE} Minutes and epochs: mean over runs (lowest to highest).",
        columns=columns_of(fields),
        rows=rows_of(fields, lines),
        notes=tuple(_notes(spread)),
        summary=f"{num_systems} systems, {num_runs} runs: time and epochs to 25.0, and how much seeds vary; not "
        "comparable with 28.4",
    )


def _paper_lines() -> list[_Line]:
    """Return base and big with their printed costs."""
    cells = [cell for cell in read_table(2) if cell.row in ("base", "big") and cell.column.startswith("flops_")]
    return [_Line("paper", "", cell.row, printed_cost=cell.value) for cell in cells]


def _lines(trainings: Sequence[PublicTraining], *, source_of_file: bool) -> list[_Line]:
    spread_by_key = {(one.round, one.submitter, one.system): one for one in seed_spreads(trainings)}
    return [
        _Line(f"{key[0]}, read" if source_of_file else key[0], *key[1:], group, spread_by_key.get(key))
        for key, group in by_system(trainings).items()
    ]


def _source(line: _Line) -> str:
    if line.run is None:
        return "Table 2"
    return f"{line.run.repository} {line.run.commit[:8]}" if line.run.repository else line.run.run


def _accelerators(line: _Line) -> str:
    if line.run is None:
        return f"{NUM_PAPER_GPUS} x {PAPER_GPU}"
    number = f"{line.run.num_accelerators:,}" if line.run.num_accelerators else "?"
    return f"{number} x {line.run.accelerator or 'not stated'}"


def _batch(line: _Line) -> str:
    return "" if line.run is None else f"{line.run.batch:,} {line.run.batch_unit or '(unit not stated)'}"


def _optimizer(line: _Line) -> str:
    run = line.run
    return "" if run is None else f"{run.optimizer}, {run.learning_rate:.4g}, {run.warmup_steps:,}"


def _parameters(line: _Line) -> str:
    number = line.run.num_parameters if line.run else 0
    return format_value(number, "num_parameters") if number else ""


def _num_runs(line: _Line) -> str:
    num_reached = sum(one.reached() is not None for one in line.runs)
    text = str(len(line.runs)) if line.runs else ""
    return text if num_reached == len(line.runs) else f"{text}, of which {num_reached} reached 25.0"


def _minutes(line: _Line) -> str:
    """Return the minutes from run_start to the first evaluation at 25.0 or above."""
    minutes = [found.seconds / SECONDS_PER_MINUTE for one in line.runs if (found := one.reached())]
    return _over_runs(minutes, lambda value: format_significant(value, 3))


def _epochs(line: _Line) -> str:
    """Return the epochs up to it."""
    epochs = [float(found.epoch) for one in line.runs if (found := one.reached())]
    return _over_runs(epochs, lambda value: f"{value:.0f}" if value.is_integer() else f"{value:.1f}")


def _over_runs(values: Sequence[float], show: Callable[[float], str]) -> str:
    if not values:
        return ""
    mean, low, high = show(statistics.fmean(values)), show(min(values)), show(max(values))
    return mean if low == high else f"{mean} ({low} to {high})"


def _cost_cell(line: _Line, hardware: HardwareSpec) -> Cell:
    """Return the mean over runs of seconds x accelerators x sustained rate; a dash where no rate has a source."""
    if line.run is None:
        return text_cell(line.printed_cost)
    gpu = hardware.find_gpu(line.run.accelerator)
    if gpu is None or not line.run.num_accelerators:
        return text_cell(DASH, "state")
    rate = gpu.sustained_flops_per_second
    seconds = statistics.fmean(one.run.seconds for one in line.runs)
    cost = training_flops(seconds * line.run.num_accelerators, rate.value)
    return text_cell(
        format_value(cost, "training_flops"), "printed", *((ASSUMED_MARK,) if rate.kind == "assumption" else ())
    )


def _notes(spread: PublicSpread | None) -> Iterator[Note]:
    if spread is not None:
        yield Note(
            "",
            f"At the last epoch of all runs the sd over seeds is {spread.median_sd:.2f} in the middle of "
            f"{spread.num_systems} systems ({spread.lowest_sd:.2f} to {spread.highest_sd:.2f}; pooled "
            f"{spread.pooled_sd:.2f}); this project's rule of verdicts was tried with {ASSUMED_SD_BLEU}. It is cited "
            f"beside verdicts and enters none. A run's last value is selected by the stop at {TARGET_BLEU}, and its "
            "spread means nothing. The epoch is a system's earliest stop, which raises the mean there a little.",
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
    yield Note("", f"MLPerf asks for ten runs a system; runs that a submitter left out are not to be known. {NOT_HAD}")
