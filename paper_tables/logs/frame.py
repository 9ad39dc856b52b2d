"""Fills the frame of Tables 2 and 3 from logs: a line for each configuration, its numbers over
seeds.

A line is named by its differences from the system. A logged BLEU is not subtracted from a printed
one: fairseq's own BLEU has another definition.
"""

from collections.abc import Iterator, Mapping, Sequence

from aiayn.cost import training_flops
from aiayn.paths import CellKey
from aiayn.printed import PAPER_SCALE, PERPLEXITY_METRIC, read_cells
from aiayn.scoring.runs import RunState
from aiayn.spec.hardware import HardwareSpec
from paper_tables.compare.judgement import label_of_texts
from paper_tables.compare.lines import AveragedLine
from paper_tables.frame import Frame, Line, Number, Run
from paper_tables.layout import MARK_BY_SCALE

METRIC_BY_COLUMN = {
    "train_steps": "steps",
    "ppl_dev": PERPLEXITY_METRIC,
    "params": "num_parameters",
}
DEFINITION_NOTES = (
    (
        "bleu_as_given: fairseq-generate's BLEU4, on the data's tokens as they stand, compounds"
        " unsplit; on text that was tokenised otherwise it is another number. fairseq's length"
        " penalty is n^alpha, not GNMT's ((5 + n) / 6)^alpha."
    ),
    (
        "bleu_sacre_13a_of_detokenised: sacreBLEU 13a of --eval-bleu, hypothesis and reference both"
        " detokenised from the data's tokens; bleu_sacre_on_tokens: the same on tokens."
    ),
)
CORPUS_NOTE = (
    "That a training read WMT14's text no log can prove: its numbers of pairs and types, and of"
    " reference tokens, are compared."
)
COST_NOTE = "Cost: seconds of all starts x GPUs x sustained rate of the GPU that the log names."


def frame_of_logs(lines: Sequence[AveragedLine], hardware: HardwareSpec) -> Frame:
    """Return what logs fill of Tables 2 and 3; harmless differences are footnotes."""
    gpus = {one.training.log.gpu for line in lines for one in line.trainings}
    unknown = []
    for gpu in sorted(gpus - {""}):
        if hardware.find_gpu(gpu) is None:
            unknown.append(
                f"{gpu}: not in hardware.yaml, so no cost; add its sustained rate there."
            )
    notes = [*DEFINITION_NOTES, *_harmless_notes(lines)]
    if any(line.system.has_papers_corpus for line in lines):
        notes.append(CORPUS_NOTE)
    return Frame(
        scale=PAPER_SCALE,
        hardware=hardware,
        lines=(*_lines_of_table2(lines, hardware), *_lines_of_table3(lines)),
        is_of_logs=True,
        notes={"table2": (*notes, *unknown, COST_NOTE), "table3": tuple(notes)},
    )


def _harmless_notes(lines: Sequence[AveragedLine]) -> list[str]:
    """Return a footnote for each harmless difference, with the lines that have it and the published
    reason.
    """
    systems_by_text: dict[str, dict[str, None]] = {}
    for line in lines:
        judgements = [one for training in line.trainings for one in training.judgements]
        judgements += [one for generation in line.generations for one in generation.judgements]
        for one in judgements:
            if one.verdict == "harmless":
                source = f" ({one.source})" if one.source else ""
                name = one.words or one.quantity
                text = f"{name} {one.found} for {one.expected}: {one.reason}{source}"
                systems_by_text.setdefault(text, {})[line.system.system] = None
    return [f"{', '.join(systems)}: {text}." for text, systems in systems_by_text.items()]


def _lines_of_table2(lines: Sequence[AveragedLine], hardware: HardwareSpec) -> Iterator[Line]:
    """Yield the lines below each row of Table 2: the BLEU of a test set, and footnote 5's cost, GPU
    seconds x sustained rate.
    """
    rows = dict.fromkeys((join.row, join.system) for join in read_cells() if join.table == 2)
    for row, system in rows:
        for line in lines:
            bleu = _bleu(line, "test")
            if line.system.system != system or not (line.has_training_numbers or bleu[0].values):
                continue
            pair = line.language_pair.replace("-", "_")
            numbers = {f"bleu_{pair}_ours": bleu}
            if line.has_training_numbers:
                costs = {}
                for one in line.trainings:
                    gpu = hardware.find_gpu(one.training.log.gpu) if one.training.log.gpu else None
                    seconds = one.training.gpu_seconds
                    if gpu is not None and seconds is not None:
                        rate = gpu.sustained_flops_per_second.value
                        costs[one.path] = training_flops(seconds, rate)
                cost = _number(line, "training_flops", costs, "training cost")
                numbers[f"flops_{pair}_ours"] = (cost,)
            yield _line(2, row, line, numbers)


def _lines_of_table3(lines: Sequence[AveragedLine]) -> Iterator[Line]:
    """Yield the lines below each row of Table 3: a dev set's BLEU, and the training's numbers."""
    for line in lines:
        bleu = _bleu(line, "dev")
        is_shown = line.has_training_numbers or line.has_perplexity or bool(bleu[0].values)
        if line.language_pair != "en-de" or not is_shown:
            continue
        numbers = {"bleu_dev": bleu}
        for column, metric in METRIC_BY_COLUMN.items():
            values = {}
            if line.has_perplexity if metric == PERPLEXITY_METRIC else line.has_training_numbers:
                values = {
                    one.path: one.training.value_by_metric.get(metric) for one in line.trainings
                }
            numbers[column] = (_number(line, metric, values, metric),)
        yield _line(3, line.system.system, line, numbers)


def _line(table: int, row: str, line: AveragedLine, numbers: dict[str, tuple[Number, ...]]) -> Line:
    label = "; ".join(filter(None, (line.system.system, label_of_texts(line.configuration))))
    return Line(
        table=table,
        row=row,
        label=f"logs: {label}",
        marks=tuple(filter(None, [_mark(line)])),
        settings=dict(line.trainings[0].training.symbols),
        numbers=dict(numbers),
    )


def _mark(line: AveragedLine) -> str:
    return "" if line.system.scale == PAPER_SCALE else MARK_BY_SCALE[line.system.scale]


def _bleu(line: AveragedLine, role: str) -> tuple[Number, ...]:
    """Return the BLEU of a role, a number for each definition or mark; a number without values if
    there is none.
    """
    scored = line.scored(role) or {("bleu_as_given", ""): []}
    numbers = []
    for (metric, settings), members in scored.items():
        values = {member.generation.training_path: member.value for member in members}
        numbers.append(_number(line, metric, values, f"BLEU ({role})", settings))
    return tuple(numbers)


def _number(
    line: AveragedLine,
    metric: str,
    value_by_path: Mapping[str, float | None],
    what: str,
    settings: str = "",
) -> Number:
    """Return a number over the trainings that have a value, each with its own; seed and GPU are
    those of the training.
    """
    system = line.system.system
    values = []
    for judged in line.trainings:
        value = value_by_path.get(judged.path)
        if value is not None:
            state = RunState(status="finished", run=judged.path, update=0, updates=0)
            hardware = judged.training.log.gpu
            run = Run(corpus="", system=system, seed=judged.seed, hardware=hardware, state=state)
            values.append((run, value))
    return Number(
        key=CellKey(
            corpus="",
            system=system,
            average="",
            testset="",
            role="",
            language_pair=line.language_pair,
        ),
        metric=metric,
        mark=_mark(line),
        values=tuple(values),
        settings=settings,
        quantity=f"{what} of {system}, {line.language_pair}, from logs",
        missing=("",) * (len(line.trainings) - len(values)),
    )
