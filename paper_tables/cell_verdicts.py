"""Joins each printed BLEU with ours and gives the verdict: verdicts.tsv, a line a printed number."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec
import pandas as pd

from aiayn.experiment import chosen_replications
from aiayn.paths import Evaluation
from aiayn.printed import (
    PAPER_CORPUS_BY_LANGUAGE_PAIR,
    PAPER_SCALE,
    PAPER_TESTSET_BY_ROLE,
    CellJoin,
    PublishedReplication,
    find_printed,
    printed_number,
    read_cells,
    read_replications,
    read_table,
    run_of,
)
from analysis.scoring.verdict import (
    Conditions,
    Corrected,
    Family,
    PooledSd,
    Verdict,
    find_condition_mismatch,
    judge,
    judge_family,
    not_comparable,
    pool_sd,
)
from paper_tables.scale_results import ScaleResults

NOT_RUN = "This system is not run at scale {scale}"
COUNT_COLUMNS = ("num_seeds", "num_seeds_to_decide", "degrees_of_freedom", "num_systems")

VERDICT_COLUMNS = (
    "table", "row", "column", "edition", "printed", "corpus", "system", "average", "testset", "metric", "num_seeds",
    "mean", "difference", "ci_low", "ci_high", "outcome", "reason", "largest_equivalent_difference",
    "num_seeds_to_decide", "sd", "degrees_of_freedom", "num_systems", "smallest_sd", "largest_sd", "bartlett_p",
    "p_difference", "p_equivalent", "p_outside", "p_equivalent_holm", "p_outside_holm", "outcome_holm",
    "prediction_low", "prediction_high", "prediction_half_width", "printed_in_prediction", "num_judged",
    "chance_wrongly_reproduced", "chance_wrongly_not_reproduced",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class JudgedCell:
    """A printed BLEU, the evaluation of ours beside it (None: not run at this scale), and the verdict.

    `corrected` is the verdict by Holm over all cells; None where the rule was not applied.
    """

    table: str
    row: str
    column: str
    edition: str
    printed: str
    corpus: str
    system: str
    average: str
    metric: str
    evaluation: Evaluation | None
    verdict: Verdict
    corrected: Corrected | None = None


def is_bleu(metric: str) -> bool:
    """Return whether the rule, whose margin is in BLEU, applies to a metric."""
    return metric.startswith("bleu_")


def has_condition_mismatch(results: ScaleResults, evaluation: Evaluation) -> bool:
    """Return whether an evaluation is not of the paper's scale, corpus and test set."""
    printed = _paper_conditions(evaluation.language_pair, evaluation.role, metric="")
    return find_condition_mismatch(_our_conditions(results, evaluation, metric=""), printed) is not None


def judge_cells(results: ScaleResults) -> list[JudgedCell]:
    """Return every printed BLEU of Tables 2 and 3, each edition apart, then every published replication."""
    cells_by_table = {number: read_table(number) for number in (2, 3)}
    judged = []
    for join in read_cells():
        if is_bleu(join.metric):
            printed = find_printed(join, cells_by_table[join.table]).value
            corpus, evaluation = results.corpus_of(join.language_pair), results.evaluation_for(join)
            conditions = _paper_conditions(join.language_pair, join.role, join.metric)
            place = (str(join.table), join.column, join.edition)
            judged.append(_judged(results, join, place, printed, corpus, evaluation, conditions))
    for one in read_replications():
        evaluation = None
        if run_of(one) in chosen_replications(results.scale):
            evaluation = results.evaluation_of(one.corpus, one.system, one.average, one.role)
        scale = results.scale.scale  # it is ours by being named in our config
        conditions = Conditions(scale=scale, corpus=one.corpus, testset=one.testset, metric=one.metric)
        of_others = ("replications", "value", "")
        judged.append(_judged(results, one, of_others, one.value, one.corpus, evaluation, conditions))
    return corrected(judged)


def corrected(cells: Sequence[JudgedCell]) -> list[JudgedCell]:
    """Return all cells of a scale, each with its verdict by Holm over them."""
    by_holm = family_of(cells).corrected
    return [replace(cell, corrected=one) for cell, one in zip(cells, by_holm, strict=True)]


def family_of(cells: Iterable[JudgedCell]) -> Family:
    """Return the family of a scale's verdicts, for Holm's correction; `cells` are all of `judge_cells`."""
    return judge_family([cell.verdict for cell in cells])


def verdict_frame(cells: Sequence[JudgedCell]) -> pd.DataFrame:
    """Return verdicts.tsv's frame, columns VERDICT_COLUMNS; what does not apply is empty.

    Its last three columns are the family's, the same in every line.
    """
    family = family_of(cells)
    chances = (family.num_judged, family.chance_wrongly_reproduced, family.chance_wrongly_not_reproduced)
    lines = [(*_verdict_line(cell), *chances) for cell in cells]
    frame = pd.DataFrame(lines, columns=list(VERDICT_COLUMNS))
    return frame.astype(dict.fromkeys(COUNT_COLUMNS, "Int64"))  # counts stay whole though some are empty


def _verdict_line(cell: JudgedCell) -> tuple[object, ...]:
    verdict = cell.verdict
    testset = cell.evaluation.testset if cell.evaluation else None
    pooled: tuple[object, ...] = (None,) * 6
    if verdict.pooled is not None:
        pooled = msgspec.structs.astuple(verdict.pooled)
    by_holm: tuple[object, ...] = (None,) * 3
    if cell.corrected is not None:
        by_holm = (cell.corrected.p_equivalent, cell.corrected.p_outside, cell.corrected.outcome.value)
    return (
        cell.table, cell.row, cell.column, cell.edition, cell.printed, cell.corpus, cell.system, cell.average, testset,
        cell.metric, verdict.num_seeds, verdict.mean, verdict.difference, *(verdict.interval or (None, None)),
        verdict.outcome.value, verdict.reason, verdict.largest_equivalent_difference, verdict.num_seeds_to_decide,
        *pooled, verdict.p_difference, verdict.p_equivalent, verdict.p_outside, *by_holm,
        *(verdict.prediction_interval or (None, None)), verdict.prediction_half_width,
        prediction_word(verdict) or None,
    )  # fmt: skip


def prediction_word(verdict: Verdict) -> str:
    """Return whether the printed number lies `inside` or `outside` our prediction interval; '' without one."""
    return {True: "inside", False: "outside", None: ""}[verdict.is_printed_predicted]


def _paper_conditions(language_pair: str, role: str, metric: str) -> Conditions:
    return Conditions(
        scale=PAPER_SCALE,
        corpus=PAPER_CORPUS_BY_LANGUAGE_PAIR[language_pair],
        testset=PAPER_TESTSET_BY_ROLE.get(role, ""),  # the paper has no further ones
        metric=metric,
    )


def _our_conditions(results: ScaleResults, evaluation: Evaluation, metric: str) -> Conditions:
    return Conditions(scale=results.scale.scale, corpus=evaluation.corpus, testset=evaluation.testset, metric=metric)


def _judged(
    results: ScaleResults,
    one: CellJoin | PublishedReplication,
    place: tuple[str, str, str],
    printed: str,
    corpus: str,
    evaluation: Evaluation | None,
    printed_conditions: Conditions,
) -> JudgedCell:
    """Return a printed number with its verdict; `place` is its table, column and edition."""
    table, column, edition = place
    return JudgedCell(
        table=table, row=one.row, column=column, edition=edition, printed=printed, corpus=corpus, system=one.system,
        average=one.average, metric=one.metric, evaluation=evaluation,
        verdict=_verdict(results, evaluation, printed_conditions, printed),
    )  # fmt: skip


def _verdict(
    results: ScaleResults, evaluation: Evaluation | None, printed_conditions: Conditions, printed: str
) -> Verdict:
    metric = printed_conditions.metric
    if evaluation is None:
        return not_comparable(NOT_RUN.format(scale=results.scale.scale), 0)
    values = list(results.values_of(evaluation, metric).values())
    mismatch = find_condition_mismatch(_our_conditions(results, evaluation, metric), printed_conditions)
    if mismatch is not None:
        return not_comparable(mismatch, len(values))
    return judge(printed_number(printed), values, pool_of(results, [evaluation], metric))


def pool_of(results: ScaleResults, judged: Sequence[Evaluation], metric: str) -> PooledSd | None:
    """Return the sd pooled over the scale's systems in this definition, on the one test set of all judged numbers.

    Other test sets are left out: the same trainings on dev and on test are not independent. So is a second average
    of the same training: a judged system is represented by the judged one, any other by the first of its evaluations.
    """
    evaluation_by_system: dict[tuple[str, str], Evaluation] = {}
    for evaluation in [*judged, *results.evaluations]:
        if evaluation.testset == judged[0].testset:
            evaluation_by_system.setdefault((evaluation.corpus, evaluation.system), evaluation)
    values_by_system = {
        f"{e.corpus} {e.system}": list(results.values_of(e, metric).values()) for e in evaluation_by_system.values()
    }
    return pool_sd(values_by_system)
