"""Lays out the table of variants: the paper's model as others read it, in the shape of Table 3, each beside base."""

from dataclasses import replace

import msgspec

from aiayn.paths import Evaluation
from analysis.seeds import MIN_SEEDS_OF_INTERVAL, paired_differences
from paper_tables.evaluations import COMPARED_AVERAGE, COMPARED_ROLE, REFERENCE_SYSTEM, VARIANTS
from paper_tables.findings import Findings
from paper_tables.layout import (
    DASH,
    SACRE_METRIC,
    SEEDS_WORDS,
    Cell,
    Column,
    Note,
    Row,
    Table,
    blank_cell,
    format_difference,
    over_seeds,
    text_cell,
)
from paper_tables.layout_ours import (
    difference_provenance,
    mark_note,
    mark_of,
    metric_cell,
    precision_note,
    seeds_cell,
    signatures_of,
    state_notes,
)
from paper_tables.layout_table2 import trainings_of
from paper_tables.layout_table3 import BLEU_METRIC, PERPLEXITY_METRIC

METRICS = (PERPLEXITY_METRIC, BLEU_METRIC, SACRE_METRIC)
DIFFERENCE_WORDS = (
    "A difference is to base, seed by seed over the seeds that both have, with the 95 % t-interval of these paired "
    f"differences; of fewer than {MIN_SEEDS_OF_INTERVAL} seeds the differences themselves."
)


def lay_out_variants(findings: Findings) -> Table:
    """Return the table: base, then a row for each variant that the scale names, in its order."""
    reference = compared_evaluation(findings, REFERENCE_SYSTEM)
    rows: list[Row] = []
    evaluations: list[Evaluation] = []
    if findings.scale.variants and reference is not None:
        for name in dict.fromkeys([REFERENCE_SYSTEM, *findings.scale.variants]):
            evaluation = compared_evaluation(findings, name)
            if evaluation is not None:
                evaluations.append(evaluation)
                rows.append(_row(findings, evaluation, reference))
    return Table(
        name="variants",
        title="Variants",
        caption="The paper's model as others read it, EN-DE, on the dev set without averaging, as the rows of Table 3. "
        f"Ours: {SEEDS_WORDS}. BLEU in {BLEU_METRIC}, and beside it in {SACRE_METRIC}; perplexity per "
        f"subword. {DIFFERENCE_WORDS} Of twenty such intervals one is expected to miss zero by chance alone.",
        columns=(
            Column("system", "", side="label"),
            Column("unlike_base", "unlike base in", side="ours"),
            Column("train_steps", "train steps", side="ours"),
            Column("ppl_dev", "PPL (dev)", side="ours"),
            Column("ppl_dev_difference", "PPL difference", side="ours"),
            Column("bleu_dev", "BLEU (dev)", side="ours"),
            Column("bleu_dev_difference", "BLEU difference", side="ours"),
            Column("bleu_dev_sacre", "sacreBLEU 13a (dev)", side="ours"),
            Column("params", "params x10^6", side="ours"),
        ),
        rows=tuple(rows),
        notes=(
            *mark_note(findings, evaluations),
            *precision_note(findings, evaluations),
            *missing_note(findings, "variants", VARIANTS, findings.scale.variants),
            *state_notes(findings, evaluations),
        ),
        signatures=signatures_of(findings, [(e, metric) for e in evaluations for metric in METRICS]),
    )


def compared_evaluation(findings: Findings, system: str) -> Evaluation | None:
    """Return a system's evaluation beside base's, or None if the scale does not run it."""
    return findings.evaluation_of(findings.scale.en_de_corpus, system, COMPARED_AVERAGE, COMPARED_ROLE)


def missing_note(findings: Findings, key: str, known: tuple[str, ...], named: list[str]) -> list[Note]:
    """Return a note that names the systems that exist, but that the scale does not train under `key`."""
    missing = [name for name in known if name not in named]
    if not missing:
        return []
    text = (
        f"Not run at scale {findings.scale.scale}, as `{key}` of its config does not name them: {', '.join(missing)}."
    )
    return [Note("", text)]


def _row(findings: Findings, evaluation: Evaluation, reference: Evaluation) -> Row:
    marks = mark_of(findings, evaluation)
    trains = trainings_of(findings, evaluation)
    steps = {seed: float(train.updates) for seed, train in trains.items()}
    parameters = {seed: float(train.num_parameters) for seed, train in trains.items()}
    cells = (
        text_cell(evaluation.system, "label", *marks),
        text_cell(differing_keys(findings, evaluation.system), "ours", *marks),
        seeds_cell(findings, evaluation, steps, "steps"),
        metric_cell(findings, evaluation, PERPLEXITY_METRIC),
        paired_difference_cell(findings, evaluation, reference, PERPLEXITY_METRIC),
        metric_cell(findings, evaluation, BLEU_METRIC),
        paired_difference_cell(findings, evaluation, reference, BLEU_METRIC),
        metric_cell(findings, evaluation, SACRE_METRIC),
        seeds_cell(findings, evaluation, parameters, "num_parameters"),
    )
    return Row(cells, "ours")


def differing_keys(findings: Findings, system: str) -> str:
    """Return the keys of training and decoding in which a system is unlike base, each with its own value."""
    spec, base = (findings.system_by_name[name] for name in (system, REFERENCE_SYSTEM))
    texts = []
    for part, base_part in ((spec.training, base.training), (spec.decoding, base.decoding)):
        value_by_key, base_value_by_key = msgspec.structs.asdict(part), msgspec.structs.asdict(base_part)
        texts += [
            f"{key} {'null' if value is None else msgspec.to_builtins(value)}"
            for key, value in value_by_key.items()
            if value != base_value_by_key[key]
        ]
    return ", ".join(texts)


def paired_difference_cell(findings: Findings, evaluation: Evaluation, reference: Evaluation, metric: str) -> Cell:
    """Return the difference to the reference over common seeds: `+0.30 +- 0.12 (n=3)`, or each of two, or of one.

    No common seed has a dash; the reference itself is left blank.
    """
    if evaluation.system == reference.system:
        return blank_cell()
    marks = mark_of(findings, evaluation)
    values, reference_values = (findings.values_of(each, metric) for each in (evaluation, reference))
    if not values.keys() & reference_values.keys():
        return text_cell(DASH, "state", *marks)
    differences = paired_differences(values, reference_values)
    text = over_seeds(differences, metric, lambda difference, _: format_difference(difference))
    cell = text_cell(f"{text} (n={len(differences)})", "ours", *marks)
    common = values.keys() & reference_values.keys()
    return replace(cell, provenance=difference_provenance(findings, evaluation, reference, metric, common))
