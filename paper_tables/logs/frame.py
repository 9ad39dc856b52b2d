"""Fills the frame of Tables 2 and 3 from logs: a line for each configuration, its numbers over
seeds.

A line is named by its differences from the system. A logged BLEU is not subtracted from a printed
one: fairseq's own BLEU has another definition.
"""

from collections.abc import Iterable, Iterator, Sequence

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
    gpus = {
        one.training.log.gpu for line in lines for one in line.trainings if one.training.log.gpu
    }
    unknown = [
        f"{gpu}: not in hardware.yaml, so no cost; add its sustained rate there."
        for gpu in sorted(gpus)
        if hardware.find_gpu(gpu) is None
    ]
    has_papers_corpus = any(line.system.has_papers_corpus for line in lines)
    harmless = [*_harmless_notes(lines), *([CORPUS_NOTE] if has_papers_corpus else [])]
    return Frame(
        scale=PAPER_SCALE,
        hardware=hardware,
        lines=tuple(_lines(lines, hardware)),
        is_of_logs=True,
        notes={
            "table2": (*DEFINITION_NOTES, *harmless, *unknown, COST_NOTE),
            "table3": (*DEFINITION_NOTES, *harmless),
        },
    )


def _harmless_notes(lines: Sequence[AveragedLine]) -> list[str]:
    """Return a footnote for each harmless difference, with the lines that have it and the published
    reason.
    """
    systems_by_text: dict[str, dict[str, None]] = {}
    for line in lines:
        judged = [one for training in line.trainings for one in training.judgements]
        judged += [one for generation in line.generations for one in generation.judgements]
        for one in judged:
            if one.verdict == "harmless":
                source = f" ({one.source})" if one.source else ""
                text = (
                    f"{one.words or one.quantity} {one.found} for {one.expected}:"
                    f" {one.reason}{source}"
                )
                systems_by_text.setdefault(text, {})[line.system.system] = None
    return [f"{', '.join(systems)}: {text}." for text, systems in systems_by_text.items()]


def _lines(lines: Sequence[AveragedLine], hardware: HardwareSpec) -> Iterator[Line]:
    for row, system in dict.fromkeys(
        (join.row, join.system) for join in read_cells() if join.table == 2
    ):
        for line in lines:
            if line.system.system == system and (line.has_training_numbers or line.scored("test")):
                pair = line.language_pair.replace("-", "_")
                numbers = {f"bleu_{pair}_ours": _bleu(line, "test")}
                if line.has_training_numbers:
                    cost = _number(line, "training_flops", _costs(line, hardware), "training cost")
                    numbers[f"flops_{pair}_ours"] = (cost,)
                yield _line(2, row, line, numbers)
    for line in lines:
        is_shown = line.has_training_numbers or line.has_perplexity or line.scored("dev")
        if line.language_pair == "en-de" and is_shown:
            numbers = {"bleu_dev": _bleu(line, "dev")}
            for column, metric in METRIC_BY_COLUMN.items():
                is_kept = (
                    line.has_perplexity
                    if metric == PERPLEXITY_METRIC
                    else line.has_training_numbers
                )
                found = [
                    (one.path, one.training.value_by_metric.get(metric))
                    for one in line.trainings
                    if is_kept
                ]
                values = [(path, value) for path, value in found if value is not None]
                numbers[column] = (_number(line, metric, values),)
            yield _line(3, line.system.system, line, numbers)


def _line(table: int, row: str, line: AveragedLine, numbers: dict[str, tuple[Number, ...]]) -> Line:
    label = "; ".join(filter(None, (line.system.system, label_of_texts(line.configuration))))
    return Line(
        table=table,
        row=row,
        label=f"logs: {label}",
        marks=_marks(line),
        settings=dict(line.trainings[0].training.symbols),
        numbers=dict(numbers),
    )


def _marks(line: AveragedLine) -> tuple[str, ...]:
    return () if line.system.scale == PAPER_SCALE else (MARK_BY_SCALE[line.system.scale],)


def _bleu(line: AveragedLine, role: str) -> tuple[Number, ...]:
    """Return the BLEU of a role, a number for each definition or mark; a number without values if
    there is none.
    """
    scored = line.scored(role) or {("bleu_as_given", ""): []}
    numbers = []
    for (metric, mark), members in scored.items():
        values = [(member.generation.training_path, member.value) for member in members]
        numbers.append(_number(line, metric, values, f"BLEU ({role})", mark))
    return tuple(numbers)


def _costs(line: AveragedLine, hardware: HardwareSpec) -> Iterator[tuple[str, float]]:
    """Yield footnote 5's cost, GPU seconds x sustained rate, of each log that has both."""
    for one in line.trainings:
        gpu = hardware.find_gpu(one.training.log.gpu) if one.training.log.gpu else None
        if gpu is not None and one.training.gpu_seconds is not None:
            yield (
                one.path,
                training_flops(one.training.gpu_seconds, gpu.sustained_flops_per_second.value),
            )


def _number(
    line: AveragedLine,
    metric: str,
    value_by_path: Iterable[tuple[str, float | None]],
    what: str = "",
    settings: str = "",
) -> Number:
    """Return a number over the logs that have it, each with its own value; seed and GPU are those
    of the training.
    """
    training_by_path = {one.path: one for one in line.trainings}
    values = []
    for path, value in value_by_path:
        if value is None:
            continue
        judged = training_by_path[path]
        run = Run(
            corpus="",
            system=line.system.system,
            seed=judged.seed,
            hardware=judged.training.log.gpu,
            state=RunState(status="finished", run=path, update=0, updates=0),
        )
        values.append((run, value))
    key = CellKey(
        corpus="",
        system=line.system.system,
        average="",
        testset="",
        role="",
        language_pair=line.language_pair,
    )
    return Number(
        key=key,
        metric=metric,
        mark="".join(_marks(line)),
        values=tuple(values),
        settings=settings,
        quantity=f"{what or metric} of {line.system.system}, {line.language_pair}, from logs",
        missing=("",) * (len(line.trainings) - len(values)),
    )
