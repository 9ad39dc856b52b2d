"""Fills the frame of Tables 2 and 3 from logs. Each row of the paper's tables gets one line for
each version of the code that trained it, with numbers over seeds. The version is fairseq's version,
or the commit of our runs.

Only numbers without problems (facts in the log that are not as expected) are shown. The paper's
BLEU is not compared with a BLEU from a log, because fairseq's own BLEU has a different definition.
"""

from collections.abc import Iterator, Mapping, Sequence

from aiayn.cost import training_flops
from aiayn.facts.trainings import Problem, Target, Training
from aiayn.known_good.rows import scored
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
MAX_NOTES = 12  # of unusual facts, the table of logs has all


# These are the rows that the trainings fill. A row has an entry for each version.
Rows = Sequence[tuple[Target, list[Training]]]


def frame_of_logs(rows: Rows, hardware: HardwareSpec) -> Frame:
    """Return the frame of Tables 2 and 3 with the numbers from logs. Its footnotes list unusual
    facts in the logs.
    """
    gpus = {training.gpu for _, trainings in rows for training in trainings}
    unknown = []
    for gpu in sorted(gpus - {""}):
        # Table 2's cost is seconds x rate. Without a rate the cell is empty, and a footnote says
        # why.
        if hardware.find_gpu(gpu) is None:
            unknown.append(
                f"{gpu}: not in hardware.yaml, so no cost; add its sustained rate there."
            )
    notes = [DEFINITION_NOTE, *_notes(rows)]
    if any(target.scale == PAPER_SCALE for target, _ in rows):
        notes.append(CORPUS_NOTE)
    return Frame(
        # The printed rows are the paper's. Lines of smaller scales have their scale's mark.
        scale=PAPER_SCALE,
        hardware=hardware,
        lines=(*_lines_of_table2(rows, hardware), *_lines_of_table3(rows)),
        is_of_logs=True,
        notes={"table2": (*notes, *unknown, COST_NOTE), "table3": tuple(notes)},
    )


def _notes(rows: Rows) -> list[str]:
    """Return a footnote for each unusual fact in the logs of the shown numbers, with the systems
    concerned.
    """
    # Seeds of a system often share their unusual facts. Each is stated once. The inner dict is an
    # ordered set.
    systems_by_text: dict[str, dict[str, None]] = {}
    for target, trainings in rows:
        problems: list[Problem] = []
        for training in trainings:
            problems += training.problems
            for generation in training.generations:
                problems += generation.problems if generation.value is not None else []
        for note in problems:
            # A problem that keeps a number out of its row is shown in the table of logs instead.
            if not note.keeps_out:
                text = f"{note.label}, usually {note.expected}: {note.why}"
                systems_by_text.setdefault(text, {})[target.system] = None
    texts = [f"{', '.join(systems)}: {text}." for text, systems in systems_by_text.items()]
    more = len(texts) - MAX_NOTES
    return texts[:MAX_NOTES] + ([f"{more} more notes: the table of logs."] if more > 0 else [])


def _ordered(rows: Rows) -> Rows:
    """Return the rows with our numbers, with the rows of the paper's scale first."""
    return sorted(rows, key=lambda row: (row[0].scale != PAPER_SCALE, row[0].scale))


def _lines_of_table2(rows: Rows, hardware: HardwareSpec) -> Iterator[Line]:
    """Yield the lines with our numbers below each row of Table 2: the BLEU on the test set, and the
    training cost as in the paper's footnote 5, GPU seconds x sustained rate.
    """
    # A row of Table 2 may have two systems, such as big and big_enfr.
    names = dict.fromkeys((join.row, join.system) for join in read_cells() if join.table == 2)
    for name, system in names:
        for target, trainings in _ordered([row for row in rows if row[0].system == system]):
            pair = target.language_pair.replace("-", "_")
            numbers = {
                f"bleu_{pair}_ours": _bleu(target, trainings, "test"),
                f"flops_{pair}_ours": (_training_cost(target, trainings, hardware),),
            }
            yield _line(2, name, target, trainings, rows, numbers)


def _training_cost(target: Target, trainings: Sequence[Training], hardware: HardwareSpec) -> Number:
    costs = {}
    for training in trainings:
        # A training may fill the other columns without a cost: the cost also needs one kind of GPU
        # with a known rate, and the time of all starts.
        is_used = bool(training.gpu) and "cost" in training.filled
        gpu = hardware.find_gpu(training.gpu) if is_used else None
        seconds = training.gpu_seconds
        if gpu is not None and seconds is not None:
            costs[training.name] = training_flops(seconds, gpu.sustained_flops_per_second.value)
    return _number(target, trainings, "training_flops", "training cost", costs)


def _lines_of_table3(rows: Rows) -> Iterator[Line]:
    """Yield the lines with our numbers below each row of Table 3: the BLEU on the dev set, and the
    numbers of the training, such as its perplexity.
    """
    # Table 3 has En-De only.
    for target, trainings in _ordered([row for row in rows if row[0].language_pair == "en-de"]):
        numbers = {"bleu_dev": _bleu(target, trainings, "dev")}
        for column, metric in METRIC_BY_COLUMN.items():
            values = {training.name: training.value_by_metric.get(metric) for training in trainings}
            numbers[column] = (_number(target, trainings, metric, metric, values),)
        yield _line(3, target.system, target, trainings, rows, numbers)


def _line(
    table: int,
    row: str,
    target: Target,
    trainings: Sequence[Training],
    rows: Rows,
    numbers: dict[str, tuple[Number, ...]],
) -> Line:
    # Two lines of a row differ in the version, so it is in their label. Otherwise only the table of
    # logs has it.
    has_versions = [other for other, _ in rows].count(target) > 1
    version = f"; {trainings[0].version}" if has_versions else ""
    return Line(
        table=table,
        row=row,
        label=f"logs: {target.system}{version}",
        marks=tuple(filter(None, [_mark(target)])),
        # The trainings of a line fill the same row, so the first one stands for all. `last` is its
        # last start.
        settings=dict(trainings[0].last.symbols),
        numbers=dict(numbers),
    )


def _mark(target: Target) -> str:
    return "" if target.scale == PAPER_SCALE else MARK_BY_SCALE[target.scale]


def _bleu(target: Target, trainings: Sequence[Training], role: str) -> tuple[Number, ...]:
    """Return the BLEU on dev or test (`role`): one number for each definition of BLEU or footnote
    mark. If the logs have no BLEU, return a number without values.
    """
    numbers = []
    quantity = f"BLEU ({role})"
    # A mean is only over scores of one definition.
    for (metric, settings), translation_by_name in scored(trainings, role).items():
        values = {name: member.value for name, member in translation_by_name.items()}
        numbers.append(_number(target, trainings, metric, quantity, values, settings))
    # A number without values makes a dash, so that the row is visible without a BLEU.
    return tuple(numbers) or (_number(target, trainings, "bleu_as_given", quantity, {}),)


def _number(
    target: Target,
    trainings: Sequence[Training],
    metric: str,
    quantity: str,
    value_by_name: Mapping[str, float | None],
    settings: str = "",
) -> Number:
    """Return a number from all trainings that have a value of a metric. Each value has a run with
    the seed and the GPU of its training.
    """
    system, pair = target.system, target.language_pair
    values = []
    for training in trainings:
        value = value_by_name.get(training.name)
        if value is not None:
            # The page lists the runs behind a number. A training without a record is not a run of
            # ours, so the name of its log takes the place of the run's name.
            status = RunStatus(state="finished", run=training.name)
            run = Run(
                corpus="", system=system, seed=training.seed, hardware=training.gpu, status=status
            )
            values.append((run, value))
    return Number(
        # The empty fields are unknown: the name of a data-bin does not prove the corpus.
        key=CellKey(corpus="", system=system, average="", testset="", role="", language_pair=pair),
        metric=metric,
        mark=_mark(target),
        values=tuple(values),
        settings=settings,
        quantity=f"{quantity} of {system}, {pair}, from logs",
        # '' is shown as a dash. A log does not have the state of a run, such as `running`.
        missing=("",) * (len(trainings) - len(values)),
    )
