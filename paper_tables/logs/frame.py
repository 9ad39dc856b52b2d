"""Fills the frame of Tables 2 and 3 from logs: a line a configuration that was trained, its numbers over seeds.

A line is named by its differences from the printed row. No difference to a printed BLEU is taken: fairseq's own BLEU is
of another definition.
"""

from collections.abc import Iterable, Iterator, Sequence

from aiayn.cost import training_flops
from aiayn.logs.rules import AveragedLine
from aiayn.paths import CellKey
from aiayn.printed import PAPER_SCALE, PERPLEXITY_METRIC, read_cells
from aiayn.scoring.runs import RunState
from aiayn.spec.hardware import HardwareSpec
from paper_tables.frame import Frame, Line, Number, Run
from paper_tables.layout import MARK_BY_SCALE

METRIC_BY_COLUMN = {"train_steps": "steps", "ppl_dev": PERPLEXITY_METRIC, "params": "num_parameters"}
DEFINITION_NOTES = (
    "bleu_as_given: fairseq-generate's BLEU4, on the data's tokens as they stand, compounds unsplit; on text that was "
    "tokenised otherwise it is another number. fairseq's length penalty is n^alpha, not GNMT's ((5 + n) / 6)^alpha.",
    "bleu_sacre_13a_of_detokenised: sacreBLEU 13a of --eval-bleu, hypothesis and reference both detokenised from the "
    "data's tokens; bleu_sacre_on_tokens: the same on tokens.",
)
COST_NOTE = "Cost: seconds of all starts x GPUs x sustained rate of the GPU that the log names."


def frame_of_logs(lines: Sequence[AveragedLine], hardware: HardwareSpec) -> Frame:
    """Return what logs fill of Tables 2 and 3."""
    gpus = {training.log.gpu for line in lines for training in line.trainings if training.log.gpu}
    unknown = [
        f"{gpu}: not in hardware.yaml, so no cost; add its sustained rate there."
        for gpu in sorted(gpus)
        if hardware.find_gpu(gpu) is None
    ]
    return Frame(
        scale=PAPER_SCALE,
        hardware=hardware,
        lines=tuple(_lines(lines, hardware)),
        is_of_logs=True,
        notes={"table2": (*DEFINITION_NOTES, *unknown, COST_NOTE), "table3": DEFINITION_NOTES},
    )


def _lines(lines: Sequence[AveragedLine], hardware: HardwareSpec) -> Iterator[Line]:
    for row, system in dict.fromkeys((join.row, join.system) for join in read_cells() if join.table == 2):
        for line in lines:
            if line.row.system == system:
                pair = line.language_pair.replace("-", "_")
                yield _line(2, row, line, {
                    f"bleu_{pair}_ours": _bleu(line, "test"),
                    f"flops_{pair}_ours": (_number(line, "training_flops", _costs(line, hardware), "training cost"),),
                })  # fmt: skip
    for line in lines:
        if line.language_pair == "en-de":
            numbers = {"bleu_dev": _bleu(line, "dev")}
            for column, metric in METRIC_BY_COLUMN.items():
                found = ((one.path, one.value_by_metric.get(metric)) for one in line.trainings)
                numbers[column] = (
                    _number(line, metric, [(path, value) for path, value in found if value is not None]),
                )
            yield _line(3, line.row.system, line, numbers)


def _line(table: int, row: str, line: AveragedLine, numbers: dict[str, tuple[Number, ...]]) -> Line:
    return Line(
        table=table, row=row, label=f"logs: {'; '.join((line.row.system, *line.configuration))}", marks=_marks(line),
        settings=dict(line.trainings[0].symbols), numbers=dict(numbers),
    )  # fmt: skip


def _marks(line: AveragedLine) -> tuple[str, ...]:
    return () if line.row.scale == PAPER_SCALE else (MARK_BY_SCALE[line.row.scale],)


def _bleu(line: AveragedLine, role: str) -> tuple[Number, ...]:
    """Return the BLEU of a role, a number a definition or setting; one without a value if there is none."""
    return tuple(
        _number(line, metric, [(one.path, one.value) for one in evaluations], f"BLEU ({role})", settings)
        for (metric, settings), evaluations in (line.evaluations(role) or {("bleu_as_given", ""): []}).items()
    )


def _costs(line: AveragedLine, hardware: HardwareSpec) -> Iterator[tuple[str, float]]:
    """Yield footnote 5's cost: GPU seconds x sustained rate, of each log that has both."""
    for one in line.trainings:
        gpu = hardware.find_gpu(one.log.gpu) if one.log.gpu else None
        if gpu is not None and one.gpu_seconds is not None:
            yield one.path, training_flops(one.gpu_seconds, gpu.sustained_flops_per_second.value)


def _number(
    line: AveragedLine, metric: str, value_by_path: Iterable[tuple[str, float]], what: str = "", settings: str = ""
) -> Number:
    """Return a number over the logs that have it, each with its own value; seed and GPU are those of the training."""
    training_by_path = {training.path: training for training in line.trainings}
    values = []
    for path, value in value_by_path:
        training = training_by_path.get(path)
        run = Run(
            corpus="", system=line.row.system, state=RunState(status="finished", run=path, update=0, updates=0),
            seed=training.seed if training else None, hardware=(training.log.gpu if training else None) or "",
        )  # fmt: skip
        values.append((run, value))
    key = CellKey(corpus="", system=line.row.system, average="", testset="", role="", language_pair=line.language_pair)
    return Number(
        key=key, metric=metric, quantity=f"{what or metric} of {line.row.system}, {line.language_pair}, from logs",
        mark="".join(_marks(line)), values=tuple(values), missing=("",) * (len(line.trainings) - len(values)),
        settings=settings,
    )  # fmt: skip
