"""Fills the frame of Tables 2 and 3 from logs. Each row and version has one line, with numbers over
seeds.

Only numbers without problems are shown. A logged BLEU is not subtracted from a printed one:
fairseq's own BLEU has a different definition.
"""

from collections.abc import Iterator, Mapping, Sequence

from aiayn.cost import training_flops
from aiayn.known_good.judge import Problem
from aiayn.known_good.rows import AveragedLine
from aiayn.paths import CellKey
from aiayn.printed import PAPER_SCALE, PERPLEXITY_METRIC, read_cells
from aiayn.runs.status import RunStatus
from aiayn.spec.hardware import HardwareSpec
from paper_tables.frame import Frame, Line, Number, Run
from paper_tables.layout import MARK_BY_SCALE

METRIC_BY_COLUMN = {
    "train_steps": "steps",
    "ppl_dev": PERPLEXITY_METRIC,
    "params": "num_parameters",
}
DEFINITION_NOTE = (
    "bleu_as_given: fairseq-generate's BLEU4, on the data's tokens as they stand, compounds"
    " unsplit. On text that was tokenised differently it is a different number. fairseq's length"
    " penalty is n^alpha, not GNMT's ((5 + n) / 6)^alpha. bleu_sacre_on_tokens: sacreBLEU 13a on"
    " tokens."
)
CORPUS_NOTE = (
    "That a training read WMT14's text no log can prove: its numbers of pairs and types, and of"
    " reference tokens, are compared."
)
COST_NOTE = "Cost: seconds of all starts x GPUs x sustained rate of the GPU that the log states."
MAX_NOTES = 12  # of unusual facts; the table of logs has all


def frame_of_logs(lines: Sequence[AveragedLine], hardware: HardwareSpec) -> Frame:
    """Return the frame of Tables 2 and 3 from logs. Unusual facts in the logs become footnotes."""
    gpus = {judged.gpu for line in lines for judged in line.trainings}
    unknown = []
    for gpu in sorted(gpus - {""}):
        if hardware.find_gpu(gpu) is None:
            unknown.append(
                f"{gpu}: not in hardware.yaml, so no cost; add its sustained rate there."
            )
    notes = [DEFINITION_NOTE, *_notes(lines)]
    if any(line.target.scale == PAPER_SCALE for line in lines):
        notes.append(CORPUS_NOTE)
    return Frame(
        scale=PAPER_SCALE,
        hardware=hardware,
        lines=(*_lines_of_table2(lines, hardware), *_lines_of_table3(lines)),
        is_of_logs=True,
        notes={"table2": (*notes, *unknown, COST_NOTE), "table3": tuple(notes)},
    )


def _notes(lines: Sequence[AveragedLine]) -> list[str]:
    """Return a footnote for each unusual fact of the shown numbers, with the rows that have it."""
    rows_by_text: dict[str, dict[str, None]] = {}
    for line in lines:
        shown: list[Problem] = []
        for judged in line.trainings:
            shown += judged.problems
            for translation in judged.translations:
                shown += translation.problems if translation.value is not None else []
        for note in (one for one in shown if not one.keeps_out):
            text = f"{note.label}, usually {note.expected}: {note.why}"
            rows_by_text.setdefault(text, {})[line.target.system] = None
    texts = [f"{', '.join(rows)}: {text}." for text, rows in rows_by_text.items()]
    more = len(texts) - MAX_NOTES
    return texts[:MAX_NOTES] + ([f"{more} more notes: the table of logs."] if more > 0 else [])


def _ordered(lines: Sequence[AveragedLine]) -> list[AveragedLine]:
    return sorted(lines, key=lambda line: (line.target.scale != PAPER_SCALE, line.target.scale))


def _lines_of_table2(lines: Sequence[AveragedLine], hardware: HardwareSpec) -> Iterator[Line]:
    """Yield the lines below each row of Table 2: the BLEU of a test set, and footnote 5's cost, GPU
    seconds x sustained rate.
    """
    rows = dict.fromkeys((join.row, join.system) for join in read_cells() if join.table == 2)
    for row, system in rows:
        for line in _ordered([line for line in lines if line.target.system == system]):
            pair = line.target.language_pair.replace("-", "_")
            cost = _training_cost(line, hardware)
            numbers = {
                f"bleu_{pair}_ours": _bleu(line, "test"),
                f"flops_{pair}_ours": (cost,),
            }
            yield _line(2, row, line, lines, numbers)


def _training_cost(line: AveragedLine, hardware: HardwareSpec) -> Number:
    costs = {}
    for judged in line.trainings:
        name = judged.gpu
        gpu = hardware.find_gpu(name) if name and "cost" in judged.filled else None
        seconds = judged.gpu_seconds
        if gpu is not None and seconds is not None:
            costs[judged.name] = training_flops(seconds, gpu.sustained_flops_per_second.value)
    return _number(line, "training_flops", "training cost", costs)


def _lines_of_table3(lines: Sequence[AveragedLine]) -> Iterator[Line]:
    """Yield the lines below each row of Table 3: a dev set's BLEU, and the training's numbers."""
    for line in _ordered([line for line in lines if line.target.language_pair == "en-de"]):
        numbers = {"bleu_dev": _bleu(line, "dev")}
        for column, metric in METRIC_BY_COLUMN.items():
            values = {}
            for judged in line.trainings:
                values[judged.name] = judged.value_by_metric.get(metric)
            numbers[column] = (_number(line, metric, metric, values),)
        yield _line(3, line.target.system, line, lines, numbers)


def _line(
    table: int,
    row: str,
    line: AveragedLine,
    lines: Sequence[AveragedLine],
    numbers: dict[str, tuple[Number, ...]],
) -> Line:
    same = [other for other in lines if other.target == line.target]
    version = f"; {line.version}" if len(same) > 1 else ""
    return Line(
        table=table,
        row=row,
        label=f"logs: {line.target.system}{version}",
        marks=tuple(filter(None, [_mark(line)])),
        settings=dict(line.trainings[0].training.last.symbols),
        numbers=dict(numbers),
    )


def _mark(line: AveragedLine) -> str:
    return "" if line.target.scale == PAPER_SCALE else MARK_BY_SCALE[line.target.scale]


def _bleu(line: AveragedLine, role: str) -> tuple[Number, ...]:
    """Return the BLEU of a role (dev or test): one number for each definition or mark. If there is
    no BLEU, return a number without values.
    """
    numbers = []
    for (metric, settings), members in line.scored(role).items():
        values: dict[str, float | None] = {}
        for member in members:
            training = member.translation.training
            if training is not None:
                values[training.name] = member.value
        numbers.append(_number(line, metric, f"BLEU ({role})", values, settings))
    return tuple(numbers) or (_number(line, "bleu_as_given", f"BLEU ({role})", {}),)


def _number(
    line: AveragedLine,
    metric: str,
    what: str,
    value_by_name: Mapping[str, float | None],
    settings: str = "",
) -> Number:
    """Return a number over all trainings that have a value. Each value has the seed and the GPU of
    its training.
    """
    system = line.target.system
    values = []
    for judged in line.trainings:
        value = value_by_name.get(judged.name)
        if value is not None:
            status = RunStatus(state="finished", run=judged.name)
            seed = judged.training.seed
            hardware = judged.gpu
            run = Run(corpus="", system=system, seed=seed, hardware=hardware, status=status)
            values.append((run, value))
    return Number(
        key=CellKey(
            corpus="",
            system=system,
            average="",
            testset="",
            role="",
            language_pair=line.target.language_pair,
        ),
        metric=metric,
        mark=_mark(line),
        values=tuple(values),
        settings=settings,
        quantity=f"{what} of {system}, {line.target.language_pair}, from logs",
        missing=("",) * (len(line.trainings) - len(values)),
    )
