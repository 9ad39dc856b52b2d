"""Compares the BLEUs of several seeds of one system with the paper's number, by the project's rule.
The BLEUs are given, or read from a folder.

There are two answers: the verdict on the mean (`aiayn.scoring.verdict`), and whether the paper's
number, itself from a single run, could be from a further run of this system. The standard deviation
(sd) over seeds is computed from the BLEUs, or given together with a mean. The sd is never taken
from our own runs. The answer also cites published gaps (differences between two definitions of
BLEU) and how much public runs vary over seeds. The verdict does not depend on these cited numbers.
"""

import importlib.metadata
import statistics
from pathlib import Path

import msgspec

from aiayn.errors import RecordError, UsageError
from aiayn.facts.listing import list_folder
from aiayn.known_good.rows import rows_of, scored
from aiayn.printed import (
    EDITION_WORDS,
    PAPER_CORPUS_BY_LANGUAGE_PAIR,
    PAPER_SCALE,
    PAPER_TESTSET_BY_ROLE,
    PublishedReplication,
    find_printed,
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
from analysis.reported.explain import (
    INDENT,
    Explanation,
    candidate_joins,
    check_known,
    checked_bleu,
    explain,
    paragraphs,
    reading_lines,
)
from paper_tables.logs.from_logs import judged_folder
from paper_tables.make_frame import make_frame
from paper_tables.public_seeds import noise_sentence, seeds_by_public_noise
from paper_tables.rounding import BLEU, PLUS_MINUS, rounded, rounded_p, rounded_range
from paper_tables.scale_results import gather_from_records
from paper_tables.tables.verdicts import MEANINGS

# `judged` repeats a published mean for each seed, so the number must be bounded.
MAX_SEEDS = 1000


class PrintedNumber(msgspec.Struct, frozen=True, kw_only=True):
    """A number of the paper or of a published replication, with its system and its conditions.

    `source` is the table of the paper, or the publication of the replication. `edition` is the
    version of the paper, '' for a replication.
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
    """A number of the paper, the verdict on it (is it reproduced?), and whether it could be from a
    further run of the system.

    `public_seeds_to_decide` says how many seeds would decide the verdict if the sd over seeds were
    as in public trainings. The text is "" if the sd is known from the values.
    """

    printed: PrintedNumber
    verdict: Verdict
    is_printed_predicted: bool | None
    public_seeds_to_decide: str


class GivenMean(msgspec.Struct, frozen=True):
    """A published mean over seeds, with the sd over seeds (divisor n - 1)."""

    mean: float
    sd: float
    num_seeds: int


class SeedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """BLEUs in percent, one for each seed, and the conditions under which they were measured.

    `signatures` and `left_out` (runs without a usable value) are filled only if the BLEUs come from
    records. If a published mean is given, it is in `given_mean`, and `values` is empty.
    """

    values: tuple[float, ...]
    conditions: Conditions
    signatures: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    given_mean: GivenMean | None = None

    @property
    def judged(self) -> tuple[float, ...]:
        """The BLEU of each seed, or the given mean repeated once for each seed.

        The repeated values have the right mean and the right number of seeds, but their sd of 0 is
        meaningless, so the given sd is used.
        """
        if self.given_mean is None:
            return self.values
        return (self.given_mean.mean,) * self.given_mean.num_seeds


class SeedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts, the limits of the rule for verdicts with the source of the sd (`rule`), the
    cited gaps (`evidence`), and how much public trainings vary over seeds.
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
    """Return the published numbers for a system: from a replication, from Table 2 or, if the system
    is not in Table 2, from Table 3.

    If the versions of the paper have different numbers, the result has all of them.

    Raises:
        UsageError: if the name of a system, test set or metric is unknown. The error gives the
            nearest known name.
    """
    if metric is not None:
        check_known("--metric", metric, METRICS)
    for replication in read_replications():
        if replication.row == system:
            return [_number_of_replication(replication)]
    numbers = []
    for join in candidate_joins(metric, testset, language_pair, system):
        conditions = Conditions(
            scale=PAPER_SCALE,
            corpus=PAPER_CORPUS_BY_LANGUAGE_PAIR[language_pair],
            testset=PAPER_TESTSET_BY_ROLE[join.role],
            metric=join.metric,
        )
        number = PrintedNumber(
            value=find_printed(join, read_table(join.table)).value,
            source=f"Table {join.table}",
            edition=join.edition,
            system=join.system,
            language_pair=language_pair,
            average=join.average,
            role=join.role,
            conditions=conditions,
        )
        numbers.append(number)
    # If both editions print the same number, its edition is `both`. Then every `--edition` means
    # this number.
    return [number for number in numbers if number.edition == edition] or numbers


def _number_of_replication(replication: PublishedReplication) -> PrintedNumber:
    """Return the published number of a replication. The scale in its conditions is the scale that
    has a training of this replication.
    """
    # The file of replications does not state a scale. `scale` keeps its value after `break`.
    for scale in SCALES:
        rows = read_scale(CONFIG_FOLDER / f"{scale}.yaml").read_rows()
        if replication.system in {row.system for row in rows}:
            break
    return PrintedNumber(
        value=replication.value,
        source=replication.paper,
        edition="",
        system=replication.system,
        language_pair=replication.language_pair,
        average=replication.average,
        role=replication.role,
        conditions=Conditions(
            scale=scale,
            corpus=replication.corpus,
            testset=replication.testset,
            metric=replication.metric,
        ),
    )


def question_of_values(
    values: list[float],
    printed: PrintedNumber,
    *,
    scale: str | None,
    testset: str | None,
    metric: str | None,
    given_mean: GivenMean | None = None,
) -> SeedQuestion:
    """Return the question whether given BLEUs reproduce a published number (`printed`). Conditions
    that are None are the same as those of the published number.

    Raises:
        UsageError: if a given mean is over fewer than two seeds, or if the given sd cannot be an sd
            of BLEU.
    """
    if given_mean is not None and not 2 <= given_mean.num_seeds <= MAX_SEEDS:
        raise UsageError(
            f"--num-seeds {given_mean.num_seeds}: expected 2 to {MAX_SEEDS}; one seed has no sd"
        )
    # `not ... <=` also catches nan, because every comparison with nan is false.
    if given_mean is not None and not 0 <= given_mean.sd <= 100:
        raise UsageError(f"--sd {given_mean.sd}: expected 0 to 100 BLEU")
    check_known("--scale", scale or PAPER_SCALE, SCALES)
    given = {"scale": scale, "testset": testset, "metric": metric}
    if scale not in (None, printed.conditions.scale):
        # The values are from a different scale, so neither corpus nor test set can be the printed
        # number's. The texts appear in the reason of NOT COMPARABLE.
        given |= {"corpus": f"{scale}'s corpus", "testset": testset or "an unnamed test set"}
    changes = {condition: text for condition, text in given.items() if text}
    conditions = msgspec.structs.replace(printed.conditions, **changes)
    return SeedQuestion(values=tuple(values), conditions=conditions, given_mean=given_mean)


def question_of_folder(
    folder: Path, printed: PrintedNumber, *, scale: str | None, metric: str | None
) -> SeedQuestion:
    """Return the question whether a system's BLEUs in a folder reproduce a published number. The
    BLEUs come from our records or, if the folder has no records, from fairseq's logs.

    Raises:
        RecordError: if the folder contains no BLEU, or if its BLEUs are of several configurations
            or definitions.
        UsageError: if the folder has records of several scales, or no records of `scale`.
    """
    # The records of a scale are in `results/<scale>/`. They are read from the folder above it.
    scale_folders = [path.resolve() for path in list_folder(folder).scale_folders]
    above_by_scale = {path.name: path.parent for path in scale_folders}
    if not above_by_scale:
        return _question_of_logs(folder, printed, scale, metric)
    # The folder has one scale only, so --scale is not required.
    if scale is None and len(above_by_scale) == 1:
        (scale,) = above_by_scale
    if scale not in above_by_scale:
        raise UsageError(
            f"{folder}: records of scale {', '.join(above_by_scale)}; choose a scale with --scale"
        )
    # The tables read their numbers in the same way, so the values equal the numbers of the tables.
    recorded = gather_from_records(scale, [above_by_scale[scale]])
    frame = make_frame(recorded.results)
    metric = metric or printed.conditions.metric
    corpus = printed.conditions.corpus
    # A number of the paper is compared with this scale's own En-De corpus, such as Multi30k. The
    # verdict is then NOT COMPARABLE, but the values are shown. A replication has the corpus of its
    # own.
    if printed.conditions.scale == PAPER_SCALE:
        corpus = frame.corpus_by_pair[printed.language_pair]
    key = frame.find(printed.language_pair, printed.system, printed.average, printed.role, corpus)
    number = frame.number(key, metric)
    place = f"{folder}: {printed.system} on {corpus}, {printed.average}, {printed.role}"
    if number is None or not number.values:
        raise RecordError(
            f"{place}: no {metric}; expected a score for each seed, with its translations; `aiayn"
            " score` writes it"
        )
    signatures = number.signatures
    # BLEUs with two signatures were computed differently: their sd would not be over seeds.
    if len(signatures) > 1:
        named = " and ".join(signatures)
        raise RecordError(
            f"{place}: values of several definitions, {named}; expected a single definition; score"
            " all seeds alike"
        )
    # A fault is a record that cannot be read. Its path has the system as a folder:
    # `results/paper/train/wmt14_en_de/base/seed1.json`.
    left_out = [fault.text for fault in recorded.faults if printed.system in fault.path.parts]
    return SeedQuestion(
        values=tuple(number.seed_values),
        signatures=signatures,
        conditions=Conditions(
            scale=scale, corpus=corpus, testset=number.key.testset, metric=metric
        ),
        left_out=tuple(left_out),
    )


def _question_of_logs(
    folder: Path, printed: PrintedNumber, scale: str | None, metric: str | None
) -> SeedQuestion:
    """Return the question whether a system's BLEUs in fairseq's logs, one for each training,
    reproduce a published number.
    """
    place = f"{folder}: {printed.system}, {printed.role}"
    # The keys are (scale, version). The version is fairseq's version, or the commit for our own
    # runs. Two versions are two programs, so their values are not seeds of one system.
    values_by_row: dict[tuple[str, str], dict[tuple[str, str], list[float]]] = {}
    for target, trainings in rows_of(judged_folder(folder).trainings):
        is_of_scale = scale in (None, target.scale)
        is_of_system = (target.system, target.language_pair) == (
            printed.system,
            printed.language_pair,
        )
        if is_of_scale and is_of_system:
            for definition, translation_by_name in scored(trainings, printed.role).items():
                bleus = [translation.value for translation in translation_by_name.values()]
                values = [bleu for bleu in bleus if bleu is not None]
                row = target.scale, trainings[0].version
                values_by_row.setdefault(row, {})[definition] = values
    if not values_by_row:
        raise RecordError(
            f"{place}: no BLEU in these logs fills the row; `aiayn tables --from-logs` lists the"
            " system of each log, and what keeps a number out"
        )
    if len(values_by_row) > 1:
        named = " and ".join(f"{scale}, {version}" for scale, version in values_by_row)
        raise RecordError(
            f"{place}: values of several versions, {named}; give a folder with a single version"
        )
    # Exactly one row is left, so the nested unpacking cannot fail.
    (((found_scale, _), values_by_definition),) = values_by_row.items()
    chosen = [key for key in values_by_definition if metric in (None, key[0])]
    if len(chosen) != 1:
        named = " and ".join(" ".join(key).rstrip() for key in values_by_definition)
        raise RecordError(
            f"{place}: values of several definitions, {named}; expected a single definition; choose"
            " it with --metric"
        )
    conditions = msgspec.structs.replace(printed.conditions, metric=chosen[0][0], scale=found_scale)
    return SeedQuestion(values=tuple(values_by_definition[chosen[0]]), conditions=conditions)


def explain_seeds(question: SeedQuestion, numbers: list[PrintedNumber]) -> SeedAnswer:
    """Return the verdict on the seeds' BLEUs for each of the published numbers.

    Raises:
        UsageError: if a value is not a BLEU in percent.
    """
    bleu = round(statistics.mean(map(checked_bleu, question.judged)), 2)
    # With `pooled` None, `judge` computes the sd from the values. The values behind a published
    # mean are unknown, so its sd is passed as if it were pooled over this one system.
    pooled = None
    sd_from = "these values"
    if question.given_mean is not None:
        sd = question.given_mean.sd
        degrees_of_freedom = question.given_mean.num_seeds - 1
        sd_from = f"given: {sd:g}, {degrees_of_freedom} degrees of freedom"
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
        # BLEUs in different definitions or on different test sets can differ by more than the
        # margin without any difference between the systems.
        mismatch = find_condition_mismatch(question.conditions, number.conditions)
        if mismatch is None:
            verdict = judge(float(number.value), question.judged, pooled)
        else:
            verdict = not_comparable(mismatch, len(question.judged))
        # The public trainings are on WMT, so their noise says nothing about smaller corpora.
        is_of_paper = number.conditions.scale == PAPER_SCALE
        public_seeds = seeds_by_public_noise(verdict) if is_of_paper else ""
        judged.append(JudgedNumber(number, verdict, verdict.is_printed_predicted, public_seeds))
    conditions = question.conditions
    evidence = None
    public_spread = ""
    if conditions.scale == PAPER_SCALE:
        public_spread = noise_sentence()
        evidence = explain(
            bleu=bleu,
            metric=conditions.metric,
            testset=conditions.testset,
            system=numbers[0].system,
            language_pair=numbers[0].language_pair,
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
        public_spread=public_spread,
        version=importlib.metadata.version("aiayn"),
    )


def render_seeds(answer: SeedAnswer) -> str:
    """Return the whole answer about the seeds as text. Each line ends with LF."""
    rule = (
        "Rule: margin {margin_bleu} BLEU, two one-sided t-tests at {alpha}, at least {min_seeds}"
        " seeds, sd: {sd_from}."
    ).format(**answer.rule)
    # MEANINGS explains the terms of a verdict. It is left out if no verdict has a mean.
    meanings: list[str] = []
    if any(judged.verdict.mean is not None for judged in answer.verdicts):
        meanings = [text.replace(PLUS_MINUS, "+-") for text in MEANINGS]
    evidence: list[str] = []
    if answer.evidence is not None:
        sentences = [reading.sentence for reading in answer.evidence.readings]
        evidence = [*reading_lines(answer.evidence), *paragraphs(sentences, INDENT)]
    return sections(
        ("", _question_lines(answer)),
        *(("", _answer_lines(judged)) for judged in answer.verdicts),
        ("", paragraphs([rule, *meanings])),
        ("The paper's number in this definition", evidence),
        ("", wrapped(answer.public_spread)),
    )


def _question_lines(answer: SeedAnswer) -> list[str]:
    """Return lines with the seeds' BLEUs, their mean and sd, and their conditions."""
    question = answer.question
    conditions = answer.question.conditions
    mean = rounded(statistics.mean(question.judged), conditions.metric)
    values = " ".join(rounded(value, conditions.metric) for value in question.values)
    # A given mean has repeated values: their sd of 0 would be wrong, so it is not shown.
    spread = ""
    if question.given_mean is not None:
        values = f"a mean of {mean}"
    elif len(question.values) > 1:
        spread = f", sd {rounded(statistics.stdev(question.values), conditions.metric)}"
    system = answer.verdicts[0].printed.system
    lines = titled(f"{system}: {values} {conditions.metric}")
    lines.append(
        f"mean {mean}{spread}, n {len(question.judged)}; {conditions.testset} of"
        f" {conditions.corpus}, scale {conditions.scale}"
    )
    lines += [f"signature {signature}" for signature in question.signatures]
    return lines + paragraphs([f"left out: {text}" for text in question.left_out])


def _answer_lines(judged: JudgedNumber) -> list[str]:
    """Return the lines about one published number: the verdict with its statistics, and whether the
    number could be from a further run.
    """
    verdict, number = judged.verdict, judged.printed
    metric = number.conditions.metric
    edition = f", {EDITION_WORDS[number.edition]}" if number.edition else ""
    lines = wrapped(f"Printed: {number.value} {metric} ({number.source}{edition})", "", INDENT)
    texts = [f"{verdict.outcome.value}. {verdict.reason}"]
    if verdict.difference is not None:
        text = f"Mean minus printed: {rounded(verdict.difference, BLEU, is_signed=True)}"
        if verdict.interval:
            text += f" (95 % interval {rounded_range(*verdict.interval, BLEU, is_signed=True)})"
        text += "."
        # With fewer than three seeds there is a difference, but the rule is not applied.
        if verdict.p_equivalent is not None and verdict.p_outside is not None:
            largest = "none"
            if verdict.largest_equivalent_difference is not None:
                largest = rounded(verdict.largest_equivalent_difference, metric)
            text += (
                f" p equivalent {rounded_p(verdict.p_equivalent)}, p outside"
                f" {rounded_p(verdict.p_outside)}. Largest difference that these seeds could call"
                f" equivalent: {largest}."
            )
        # A single seed has no sd, so the noise of public trainings is the best estimate.
        wanted = verdict.num_seeds_to_decide or judged.public_seeds_to_decide or "not known"
        texts.append(f"{text} Seeds that would decide if mean and sd stayed: {wanted}.")
    if verdict.prediction_interval is not None and verdict.prediction_half_width is not None:
        low, high = verdict.prediction_interval
        interval = f"{rounded(low, metric)} to {rounded(high, metric)}"
        half_width = rounded(verdict.prediction_half_width, metric)
        where = "inside" if judged.is_printed_predicted else "outside"
        texts.append(
            f"As a single run: {number.value} is {where} the 95 % prediction interval of a further"
            f" run, {interval} (+-{half_width})."
        )
    return lines + paragraphs(texts, INDENT)
