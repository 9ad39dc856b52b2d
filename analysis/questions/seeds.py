"""Judges several values of one system, its seeds, by the project's rule: numbers, or what lies in
files.

Two answers: the verdict on the mean (`aiayn.scoring.verdict`), and whether the printed number,
itself a single run, could be one more of these runs. The sd is that of the values, or one that the
caller names; never one of ours. What others published on definitions and on seeds is cited beside
the answers and enters neither.
"""

import importlib.metadata
import statistics
from pathlib import Path

import msgspec

from aiayn.errors import RecordError, UsageError
from aiayn.logs.listing import list_folder
from aiayn.printed import (
    EDITION_WORDS,
    PAPER_CORPUS_BY_LANGUAGE_PAIR,
    PAPER_SCALE,
    PAPER_TESTSET_BY_ROLE,
    PUBLISHED_FOLDER,
    find_printed,
    read_cells,
    read_replications,
    read_table,
)
from aiayn.scoring.definitions import METRICS
from aiayn.scoring.verdict import (
    ALPHA,
    MARGIN_BLEU,
    MIN_SEEDS,
    Conditions,
    PooledSd,
    Verdict,
    find_condition_mismatch,
    judge,
    not_comparable,
)
from aiayn.spec.system import CONFIG_FOLDER, SCALES, read_scale
from aiayn.terminal import sections, titled, wrapped
from analysis.questions.explain import (
    INDENT,
    Explanation,
    candidate_joins,
    check_known,
    checked_bleu,
    explain,
    reading_lines,
)
from paper_tables.layout import PLUS_MINUS, format_difference, format_interval, format_value
from paper_tables.logs.from_logs import averaged_lines
from paper_tables.make_frame import make_frame
from paper_tables.public_seeds import noise_sentence, seeds_by_public_noise
from paper_tables.scale_results import gather_from_records
from paper_tables.tables.verdicts import MEANINGS, format_p

MAX_SEEDS = 1000


class PrintedNumber(msgspec.Struct, frozen=True, kw_only=True):
    """A printed number, where it is printed, whose it is, and its conditions. `edition` is '' but
    of the paper's.
    """

    value: str
    source: str
    edition: str
    system: str
    language_pair: str
    average: str
    role: str
    conditions: Conditions


class JudgedNumber(msgspec.Struct, frozen=True):
    """A printed number, the verdict on it, and whether it could be one more of these runs.

    `public_seeds_to_decide` says how many seeds would decide at the seed noise of public trainings,
    where ours is not known; "" elsewhere.
    """

    printed: PrintedNumber
    verdict: Verdict
    is_printed_predicted: bool | None
    public_seeds_to_decide: str


class SeedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Values in percent, one a seed, and their conditions; only records fill `signatures` and
    `left_out`.

    A published mean has no values, only `given_mean`: the mean and the number of seeds.
    """

    values: tuple[float, ...]
    conditions: Conditions
    signatures: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    given_mean: tuple[float, int] | None = None

    @property
    def judged(self) -> tuple[float, ...]:
        """The values, or as many times the given mean: of either the mean and the number are right,
        the sd is not.
        """
        return (
            self.values if self.given_mean is None else (self.given_mean[0],) * self.given_mean[1]
        )


class SeedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answers, the rule with the source of its sd, and what is cited: published gaps, the
    spread of public runs.
    """

    question: SeedQuestion
    rule: dict[str, float | str]
    verdicts: tuple[JudgedNumber, ...]
    evidence: Explanation | None
    public_spread: str
    version: str


def printed_numbers(
    system: str,
    language_pair: str,
    *,
    testset: str | None = None,
    metric: str | None = None,
    edition: str | None = None,
) -> list[PrintedNumber]:
    """Return the printed numbers of a system, one an edition: of Table 2, else of Table 3; or of a
    replication.

    Raises:
        UsageError: if a name is unknown; the nearest one is named.
    """
    if metric is not None:
        check_known("--metric", metric, METRICS)
    if one := next((found for found in read_replications() if found.row == system), None):
        scale = next(
            name
            for name in SCALES
            if system in read_scale(CONFIG_FOLDER / f"{name}.yaml").replications
        )
        conditions = Conditions(
            scale=scale, corpus=one.corpus, testset=one.testset, metric=one.metric
        )
        return [
            PrintedNumber(
                value=one.value,
                source=one.paper,
                edition="",
                system=one.system,
                language_pair=one.language_pair,
                average=one.average,
                role=one.role,
                conditions=conditions,
            )
        ]
    is_of_table_2 = any(
        join.table == 2 and system in (join.row, join.system) for join in read_cells()
    )
    testset = testset or PAPER_TESTSET_BY_ROLE["test" if is_of_table_2 else "dev"]
    corpus = PAPER_CORPUS_BY_LANGUAGE_PAIR.get(language_pair, "")
    numbers = [
        PrintedNumber(
            value=find_printed(join, read_table(join.table)).value,
            source=f"Table {join.table}",
            edition=join.edition,
            system=join.system,
            language_pair=language_pair,
            average=join.average,
            role=join.role,
            conditions=Conditions(
                scale=PAPER_SCALE,
                corpus=corpus,
                testset=PAPER_TESTSET_BY_ROLE[join.role],
                metric=join.metric,
            ),
        )
        for join in candidate_joins(metric, testset, language_pair, system, PUBLISHED_FOLDER)
    ]
    return [one for one in numbers if one.edition == edition] or numbers


def question_of_values(
    values: list[float],
    printed: PrintedNumber,
    *,
    scale: str | None,
    testset: str | None,
    metric: str | None,
) -> SeedQuestion:
    """Return a question under the printed number's conditions, but for those that are named."""
    check_known("--scale", scale or PAPER_SCALE, SCALES)
    named = {"scale": scale, "testset": testset, "metric": metric}
    if scale not in (None, printed.conditions.scale):
        named |= {"corpus": f"{scale}'s corpus", "testset": testset or "an unnamed test set"}
    conditions = msgspec.structs.replace(
        printed.conditions, **{key: text for key, text in named.items() if text}
    )
    return SeedQuestion(values=tuple(values), conditions=conditions)


def question_of_mean(
    mean: float,
    num_seeds: int,
    printed: PrintedNumber,
    *,
    scale: str | None,
    testset: str | None,
    metric: str | None,
) -> SeedQuestion:
    """Return the question of a mean over seeds whose values are not known: their mean and number
    decide, with the sd.

    Raises:
        UsageError: if there are fewer than two seeds: one seed has no sd.
    """
    if not 2 <= num_seeds <= MAX_SEEDS:
        raise UsageError(f"--num-seeds {num_seeds}: expected 2 to {MAX_SEEDS}; one seed has no sd")
    question = question_of_values([], printed, scale=scale, testset=testset, metric=metric)
    return msgspec.structs.replace(question, given_mean=(mean, num_seeds))


def question_of_folder(
    folder: Path, printed: PrintedNumber, *, scale: str | None, metric: str | None
) -> SeedQuestion:
    """Return the values that a folder holds of a system: its records of ours, if there are any,
    else fairseq's logs.

    Raises:
        RecordError: if there is none, or they are of several configurations or definitions.
        UsageError: if records of several scales are there and none of them is named.
    """
    listing = list_folder(folder)
    above_by_scale = {path.resolve().name: path.resolve().parent for path in listing.scale_folders}
    if not above_by_scale:
        return _question_of_logs(folder, printed, metric)
    scale = scale or (next(iter(above_by_scale)) if len(above_by_scale) == 1 else None)
    if scale not in above_by_scale:
        raise UsageError(
            f"{folder}: records of scale {', '.join(above_by_scale)}; name one of them with --scale"
        )
    recorded = gather_from_records(scale, [above_by_scale[scale]])
    frame, metric = make_frame(recorded.results), metric or printed.conditions.metric
    is_of_paper = printed.conditions.scale == PAPER_SCALE
    corpus = (
        frame.corpus_by_pair[printed.language_pair] if is_of_paper else printed.conditions.corpus
    )
    key = frame.find(printed.language_pair, printed.system, printed.average, printed.role, corpus)
    number = frame.number(key, metric)
    place = f"{folder}: {printed.system} on {corpus}, {printed.average}, {printed.role}"
    if number is None or not number.values:
        raise RecordError(
            f"{place}: no {metric}; expected one a seed, with its translations; `aiayn score`"
            " writes it"
        )
    signatures = number.signatures
    if len(signatures) > 1:
        named = " and ".join(signatures)
        raise RecordError(
            f"{place}: values of unlike definitions, {named}; expected one; score all seeds alike"
        )
    return SeedQuestion(
        values=tuple(value for _, value in number.values),
        signatures=signatures,
        conditions=Conditions(
            scale=scale, corpus=corpus, testset=number.key.testset, metric=metric
        ),
        left_out=tuple(
            fault.text for fault in recorded.faults if printed.system in fault.path.parts
        ),
    )


def _question_of_logs(folder: Path, printed: PrintedNumber, metric: str | None) -> SeedQuestion:
    """Return the values that logs of fairseq hold of a system, a training each."""
    wanted, place = (
        (printed.system, printed.language_pair),
        f"{folder}: {printed.system}, {printed.role}",
    )
    lines = [
        line
        for line in averaged_lines(folder)
        if (line.system.system, line.language_pair) == wanted and line.scored(printed.role)
    ]
    if not lines:
        raise RecordError(
            f"{place}: no BLEU in these logs; `aiayn tables --from-logs` lists what each log is of"
        )
    if len(lines) > 1:
        named = " and ".join("; ".join(line.configuration) or "as the row" for line in lines)
        raise RecordError(
            f"{place}: values of several configurations, {named}; name a folder with one of them"
        )
    by_definition = lines[0].scored(printed.role)
    chosen = [(key[0], values) for key, values in by_definition.items() if metric in (None, key[0])]
    if len(chosen) != 1:
        named = " and ".join(" ".join(filter(None, key)) for key in by_definition)
        raise RecordError(
            f"{place}: values of unlike definitions, {named}; expected one; name it with --metric"
        )
    conditions = msgspec.structs.replace(
        printed.conditions, metric=chosen[0][0], scale=lines[0].system.scale
    )
    return SeedQuestion(
        values=tuple(one.value for one in chosen[0][1] if one.value is not None),
        conditions=conditions,
    )


def explain_seeds(
    question: SeedQuestion, numbers: list[PrintedNumber], given: tuple[float, int] | None
) -> SeedAnswer:
    """Judge the values on each printed number; `given` is an sd with its degrees of freedom, None
    takes the values'.

    Raises:
        UsageError: if a value is no BLEU in percent, or the sd is none.
    """
    bleu = round(statistics.mean(map(checked_bleu, question.judged)), 2)
    pooled = None
    if given is not None:
        sd, degrees_of_freedom = given
        if not 0 <= sd <= 100 or degrees_of_freedom < 1:
            raise UsageError(
                f"--sd {sd} --sd-df {degrees_of_freedom}: expected 0 to 100 BLEU, and 1 or more"
            )
        pooled = PooledSd(
            sd=sd,
            degrees_of_freedom=degrees_of_freedom,
            num_systems=1,
            smallest_sd=sd,
            largest_sd=sd,
            bartlett_p=None,
        )
    judged = []
    for number in numbers:
        mismatch = find_condition_mismatch(question.conditions, number.conditions)
        if mismatch is None:
            verdict = judge(float(number.value), question.judged, pooled)
        else:
            verdict = not_comparable(mismatch, len(question.judged))
        is_of_paper = number.conditions.scale == PAPER_SCALE
        public_seeds = seeds_by_public_noise(verdict) if is_of_paper else ""
        judged.append(JudgedNumber(number, verdict, verdict.is_printed_predicted, public_seeds))
    conditions, evidence = question.conditions, None
    is_papers = conditions.scale == PAPER_SCALE
    if is_papers:
        evidence = explain(
            bleu=bleu,
            metric=conditions.metric,
            testset=conditions.testset,
            system=numbers[0].system,
            language_pair=numbers[0].language_pair,
        )
    sd_from = (
        "these values" if given is None else "given: {:g}, {} degrees of freedom".format(*given)
    )
    return SeedAnswer(
        question=question,
        rule={
            "margin_bleu": MARGIN_BLEU,
            "alpha": ALPHA,
            "min_seeds": MIN_SEEDS,
            "sd_from": sd_from,
        },
        verdicts=tuple(judged),
        evidence=evidence,
        public_spread=noise_sentence() if is_papers else "",
        version=importlib.metadata.version("aiayn"),
    )


def render_seeds(answer: SeedAnswer) -> str:
    """Return the whole answer as lines, each ended by LF."""
    question, conditions, number = (
        answer.question,
        answer.question.conditions,
        len(answer.question.judged),
    )
    metric, evidence = conditions.metric, answer.evidence
    spread = (
        f", sd {format_value(statistics.stdev(question.values), metric)}"
        if len(question.values) > 1
        else ""
    )
    mean = format_value(statistics.mean(question.judged), metric)
    values = " ".join(format_value(value, metric) for value in question.values)
    if question.given_mean is not None:
        values = f"a mean of {mean}"
    rule = (
        "Rule: margin {margin_bleu} BLEU, two one-sided t-tests at {alpha}, at least {min_seeds}"
        " seeds, sd: {sd_from}."
    )
    is_judged = any(judged.verdict.mean is not None for judged in answer.verdicts)
    meanings = [text.replace(PLUS_MINUS, "+-") for text in MEANINGS] if is_judged else []
    sentences = [reading.sentence for reading in evidence.readings] if evidence else []
    return sections(
        (
            "",
            [
                *titled(f"{answer.verdicts[0].printed.system}: {values} {metric}"),
                (
                    f"mean {mean}{spread}, n {number}; {conditions.testset} of {conditions.corpus},"
                    f" scale {conditions.scale}"
                ),
                *(f"signature {signature}" for signature in question.signatures),
                *(line for text in question.left_out for line in wrapped(f"left out: {text}")),
            ],
        ),
        *(("", _answers(judged)) for judged in answer.verdicts),
        ("", [line for text in (rule.format(**answer.rule), *meanings) for line in wrapped(text)]),
        (
            "How the paper's number reads in this definition" if evidence else "",
            [
                *(reading_lines(evidence) if evidence else ()),
                *(line for text in sentences for line in wrapped(text, INDENT)),
            ],
        ),
        ("", wrapped(answer.public_spread)),
    )


def _answers(judged: JudgedNumber) -> list[str]:
    """Return the printed number, its verdict with the evidence, and whether it could be one more
    run, as lines.
    """
    verdict, number, metric = judged.verdict, judged.printed, judged.printed.conditions.metric
    edition = f", {EDITION_WORDS[number.edition]}" if number.edition else ""
    printed = f"Printed: {number.value} {metric} ({number.source}{edition})"
    texts = [f"{verdict.outcome.value}. {verdict.reason}"]
    if verdict.difference is not None:
        interval = (
            f" (95 % interval {format_interval(verdict.interval)})" if verdict.interval else ""
        )
        words = [f"Mean minus printed: {format_difference(verdict.difference)}{interval}."]
        if verdict.p_equivalent is not None and verdict.p_outside is not None:
            largest = verdict.largest_equivalent_difference
            words += [
                f"p equivalent {format_p(verdict.p_equivalent)}, p outside"
                f" {format_p(verdict.p_outside)}. Largest difference that these seeds could call"
                f" equivalent: {'none' if largest is None else format_value(largest, metric)}."
            ]
        wanted = verdict.num_seeds_to_decide or judged.public_seeds_to_decide or "not known"
        words += [f"Seeds that would decide if mean and sd stayed: {wanted}."]
        texts += [" ".join(words)]
    if verdict.prediction_interval is not None and verdict.prediction_half_width is not None:
        limits = (*verdict.prediction_interval, verdict.prediction_half_width)
        low, high, half_width = (format_value(value, metric) for value in limits)
        where = "inside" if judged.is_printed_predicted else "outside"
        texts += [
            f"As one run: {judged.printed.value} lies {where} the 95 % prediction interval of one"
            f" more run, {low} to {high} (+-{half_width})."
        ]
    return [
        *wrapped(printed, "", INDENT),
        *(line for text in texts for line in wrapped(text, INDENT)),
    ]
