"""Fills the frame of Tables 2 and 3 from logs: a line for each configuration, its numbers over
seeds.

A line is named by its differences from the system. A logged BLEU is not subtracted from a printed
one: fairseq's own BLEU has another definition.
"""

import itertools
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
        judgements = [one.judgements for one in line.trainings]
        judgements += [one.judgements for one in line.generations]
        for one in (one for one in itertools.chain(*judgements) if one.verdict == "harmless"):
            source = f" ({one.source})" if one.source else ""
            text = f"{one.words or one.quantity} {one.found} for {one.expected}: {one.reason}"
            systems_by_text.setdefault(text + source, {})[line.system.system] = None
    return [f"{', '.join(systems)}: {text}." for text, systems in systems_by_text.items()]


def _parts(lines: Sequence[AveragedLine]) -> list[tuple[AveragedLine, tuple[str, ...]]]:
    """Return each line with () for its trainings' own numbers, and with the labels of each
    perplexity and BLEU that differs in something of its own; the paper's scale and few labels
    first.
    """
    parts = []
    for line in lines:
        labels = dict.fromkeys([(), *(one.perplexity_labels for one in line.trainings)])
        labels |= dict.fromkeys(one.labels for one in line.generations)
        parts += [(line, one) for one in labels]
    parts.sort(
        key=lambda part: (
            part[0].system.scale != PAPER_SCALE,
            part[0].system.scale,
            len(part[0].configuration) + len(part[1]),
        )
    )
    return parts


def _lines_of_table2(lines: Sequence[AveragedLine], hardware: HardwareSpec) -> Iterator[Line]:
    """Yield the lines below each row of Table 2: the BLEU of a test set, and footnote 5's cost, GPU
    seconds x sustained rate.
    """
    rows = dict.fromkeys((join.row, join.system) for join in read_cells() if join.table == 2)
    for row, system in rows:
        for line, labels in _parts([one for one in lines if one.system.system == system]):
            pair = line.language_pair.replace("-", "_")
            bleu = _bleu(line, "test", labels)
            if not labels:
                cost = _training_cost(line, hardware)
                numbers = {f"bleu_{pair}_ours": bleu, f"flops_{pair}_ours": (cost,)}
                yield _line(2, row, line, labels, numbers)
            elif bleu[0].values:
                yield _line(2, row, line, labels, {f"bleu_{pair}_ours": bleu})


def _training_cost(line: AveragedLine, hardware: HardwareSpec) -> Number:
    costs = {}
    for one in line.trainings:
        gpu = hardware.find_gpu(one.training.log.gpu) if one.training.log.gpu else None
        seconds = one.training.gpu_seconds
        if gpu is not None and seconds is not None:
            costs[one.path] = training_flops(seconds, gpu.sustained_flops_per_second.value)
    return _number(line, "training_flops", "training cost", costs)


def _lines_of_table3(lines: Sequence[AveragedLine]) -> Iterator[Line]:
    """Yield the lines below each row of Table 3: a dev set's BLEU, and the training's numbers."""
    for line, labels in _parts([one for one in lines if one.language_pair == "en-de"]):
        numbers = {"bleu_dev": _bleu(line, "dev", labels)}
        for column, metric in METRIC_BY_COLUMN.items():
            values = {}
            for one in line.trainings:
                if labels == (one.perplexity_labels if metric == PERPLEXITY_METRIC else ()):
                    values[one.path] = one.training.value_by_metric.get(metric)
            numbers[column] = (_number(line, metric, metric, values),)
        if not labels or numbers["bleu_dev"][0].values or numbers["ppl_dev"][0].values:
            yield _line(3, line.system.system, line, labels, numbers)


def _line(
    table: int,
    row: str,
    line: AveragedLine,
    labels: tuple[str, ...],
    numbers: dict[str, tuple[Number, ...]],
) -> Line:
    differences = label_of_texts((*line.configuration, *labels))
    label = "; ".join(filter(None, (line.system.system, differences)))
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


def _bleu(line: AveragedLine, role: str, labels: tuple[str, ...]) -> tuple[Number, ...]:
    """Return the BLEU of a role, a number for each definition or mark; a number without values if
    there is none.
    """
    numbers = []
    for (label, metric, settings), members in line.scored(role).items():
        if label == labels:
            values = {member.generation.training_path: member.value for member in members}
            numbers.append(_number(line, metric, f"BLEU ({role})", values, settings))
    return tuple(numbers) or (_number(line, "bleu_as_given", f"BLEU ({role})", {}),)


def _number(
    line: AveragedLine,
    metric: str,
    what: str,
    value_by_path: Mapping[str, float | None],
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
