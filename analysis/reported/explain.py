"""Explains a BLEU score that somebody reports, without logs or records: finds the paper's number in
the same definition of BLEU, the nearest published replications, and what to check next.

The reported BLEU is never converted to a different definition of BLEU. The printed number (the
paper's BLEU) keeps its own definition (section 6.1 for Table 2, 6.2 for Table 3). A *gap* is a
published difference between the BLEUs of the same translations in two definitions. The paper's BLEU
minus the gaps is a range in the definition of the reported BLEU, and the reported BLEU is compared
with this range. The range and this comparison are called a *reading* of the paper's number. A
*cause* is a published reason why a replication misses the paper's number. Every gap, replication
and cause has its source (README.md next to this file, and published/README.md).
"""

from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Literal

import msgspec

from aiayn.errors import UsageError, did_you_mean
from aiayn.paths import RESULTS_FOLDER, num_averaged
from aiayn.printed import (
    EDITION_WORDS,
    PAPER_CORPUS_BY_LANGUAGE_PAIR,
    PAPER_TESTSET_BY_ROLE,
    CellJoin,
    evaluations_of,
    find_printed,
    read_cells,
    read_table,
)
from aiayn.released import read_released_records
from aiayn.scoring.definitions import METRICS
from aiayn.terminal import command_lines, sections, table, titled, wrapped
from analysis.reported.published import (
    PublishedCause,
    ReferenceReplication,
    read_causes,
    read_reference_replications,
)
from paper_tables.published_data import MAX_BLEU, PublishedGap, counted_alike, read_gaps

# The filtered set is the full set without 266 lines.
PRINTED_TESTSET_BY_TESTSET = {"newstest2014_filtered": "newstest2014"}
SEED_NOISE = Decimal("0.3")  # cause 12 of causes.csv: how far two runs of one recipe differ
NUM_NEAREST_REPLICATIONS = 5
NUM_NEAREST_CAUSES = 3
# Below this BLEU the model is not trained, or something is broken. Causes of rank `L` (low) are
# then listed first.
LOW_BLEU = 17
LOW_RANK = "L"
ASSUMED = (
    "No --metric is given: the number is assumed to have the printed number's definition. If it is"
    " sacreBLEU's, add --metric bleu_sacre_13a."
)

# These numbers were published for newstest2014 in the direction German to English.
DE_EN_NUMBERS = (
    "others printed 30.5 (sacreBLEU; joeynmt, docs/source/benchmarks.rst), 30.7 (sacreBLEU, the"
    " target of AlgoPerf's workload wmt, trained on WMT17) and, for one released model, 30.3 or"
    " 33.4 with references tokenised in two ways (lemmonation/abnet #3); `aiayn score"
    " --hypotheses FILE --testset newstest2014 --language-pair de-en` scores yours"
)

INDENT = "  "
NOT_STATED = "-"

Position = Literal["within", "below", "above", "not comparable"]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The BLEU that a user asks about, in percent, and how it was measured. `system` is a row of
    the paper's tables.
    """

    bleu: float
    metric: str
    testset: str
    language_pair: str
    system: str


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A number of the paper, its range in the definition of the reported BLEU, and where the
    reported BLEU is relative to this range.

    `low` and `high`, the ends of the range, are None if no gap is published. In the paper's own
    definition of BLEU `low` and `high` equal the paper's number. `distance` is the distance of the
    reported BLEU to the nearer end of the range, 0 inside the range.
    """

    edition: str
    printed: str
    printed_metric: str
    low: float | None
    high: float | None
    position: Position
    distance: float | None
    sentence: str


class NearReplication(msgspec.Struct, frozen=True, kw_only=True):
    """A published replication of the same system, scored on the same test set in the same
    definition of BLEU.

    `difference` is the replication's BLEU minus the reported BLEU.
    """

    replication: ReferenceReplication
    difference: float


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer to the question what a reported BLEU means.

    The range of the paper's number is made from `gaps`. `other_gaps` are only shown. `amount` has
    the smallest and the largest number of BLEU points by which the reported BLEU may be too low, or
    None if there is no range. If `direction` is `raises`, `amount` says by how much the reported
    BLEU is too high. The commands in `causes` are filled in. If no cause costs as many points as
    `amount`, `is_amount_matched` is false and `causes` has the causes with the nearest costs.
    `is_low` means that the reported BLEU is below LOW_BLEU, where causes of rank `L` come first.
    `replications` has the nearest comparable replications. `num_replications` is the number of all
    comparable replications, `num_replications_elsewhere` the number of replications that are not
    comparable.
    """

    question: Question
    readings: list[Reading]
    gaps: list[PublishedGap]
    other_gaps: list[PublishedGap]
    caveats: list[str]
    replications: list[NearReplication]
    num_replications: int
    num_replications_elsewhere: int
    direction: Literal["lowers", "raises"]
    amount: tuple[float, float] | None
    is_amount_matched: bool
    is_low: bool
    causes: list[PublishedCause]


# ---- The answer


def explain(
    *,
    bleu: float,
    metric: str | None,
    testset: str | None,
    language_pair: str,
    system: str,
) -> Explanation:
    """Return how published numbers explain a BLEU (in percent) of a system of the paper.

    Without a `metric` the reported BLEU is assumed to be in the definition of the paper's number,
    and a caveat in the answer states this assumption. Without a `testset` it is assumed to be on
    the test set of Table 2 or, if the system is not in Table 2, of Table 3.

    Raises:
        UsageError: if the name of a system, test set or definition is unknown (the error gives the
            nearest known name), or if the value is not a BLEU in percent.
        TableError: if a published file is malformed.
    """
    # The two editions print different numbers for some cells, such as En-Fr big: 41.0 in the
    # proceedings and 41.8 on arXiv. Each of them is compared.
    joins = candidate_joins(metric, testset, language_pair, system)
    question = Question(
        bleu=checked_bleu(bleu),
        metric=metric or joins[0].metric,
        testset=testset or PAPER_TESTSET_BY_ROLE[joins[0].role],
        language_pair=language_pair,
        system=joins[0].row,
    )
    gaps, other_gaps = _find_gaps(question)
    readings = [_make_reading(question, join, gaps) for join in joins]
    direction, amount = _find_amount(question, readings)
    causes, is_amount_matched = _find_causes(question, direction, amount)
    near, num_elsewhere = _find_replications(question)
    caveats = _find_caveats(question, joins, gaps)
    # This caveat is the first, because every other sentence depends on the definition.
    if metric is None:
        caveats.insert(0, ASSUMED)
    return Explanation(
        question=question,
        readings=readings,
        gaps=gaps,
        other_gaps=other_gaps,
        caveats=caveats,
        replications=near[:NUM_NEAREST_REPLICATIONS],
        num_replications=len(near),
        num_replications_elsewhere=num_elsewhere,
        direction=direction,
        amount=None if amount is None else (float(amount[0]), float(amount[1])),
        is_amount_matched=is_amount_matched,
        is_low=question.bleu < LOW_BLEU,
        causes=[_with_command(cause, question, joins[0]) for cause in causes],
    )


def checked_bleu(bleu: float) -> float:
    """Return the given BLEU, after a check that it is in percent.

    Raises:
        UsageError: if the value is a fraction (between 0 and 1), negative or above 100.
    """
    # Some programs, such as NLTK, give BLEU as a fraction. A broken model may have such a BLEU in
    # percent, and the causes of a BLEU of 1 are its causes, too.
    if 0 < bleu < 1:
        raise UsageError(
            f"BLEU {bleu:g}: expected in percent; did you mean {100 * bleu:g}? If it is {bleu:g}"
            " percent, give 1, which has the same causes"
        )
    if not 0 <= bleu <= 100:
        raise UsageError(f"BLEU {bleu:g}: expected 0 to 100, in percent")
    return bleu


def candidate_joins(
    metric: str | None, testset: str | None, language_pair: str, system: str
) -> list[CellJoin]:
    """Return the paper's BLEUs that a question is about: one for each version of the paper, each
    with the definition, test set and system of our evaluation for it.

    If `testset` is None, return the BLEUs that Table 2 prints for the system. If the system is not
    in Table 2, return the BLEUs that Table 3 prints.

    Raises:
        UsageError: if the name of a system, test set or definition is unknown. The error gives the
            nearest known name.
    """
    if metric is not None:
        check_known("--metric", metric, METRICS)
    # Many people train German to English, a direction that the paper does not report. The error
    # cites what others printed.
    if language_pair == "de-en":
        raise UsageError(f"--language-pair de-en: the paper has no number for it; {DE_EN_NUMBERS}")
    check_known("--language-pair", language_pair, tuple(PAPER_CORPUS_BY_LANGUAGE_PAIR))
    # Compound splitting comes from tensor2tensor's get_ende_bleu.sh, which is for German only.
    if language_pair != "en-de" and "compound_split" in (metric or ""):
        raise UsageError(
            f"--metric {metric}: defined for German only; for {language_pair} give bleu_tok_moses"
        )
    # cells.csv also lists perplexities and numbers of parameters, which are not explained here.
    joins = [
        join
        for join in read_cells()
        if join.language_pair == language_pair and join.metric.startswith("bleu")
    ]
    where = f" (BLEU printed for {language_pair}"
    if testset is not None:
        testsets = {PAPER_TESTSET_BY_ROLE[join.role] for join in joins}
        # The filtered set is accepted under its own name, though the paper scores the full set.
        check_known("--testset", testset, sorted(testsets | PRINTED_TESTSET_BY_TESTSET.keys()))
        printed_testset = _printed_testset(testset)
        joins = [join for join in joins if PAPER_TESTSET_BY_ROLE[join.role] == printed_testset]
        where += f" on {printed_testset}"
    names: dict[str, None] = {}  # keeps the order of the tables
    for join in joins:
        # The row and the system have different names in En-Fr: row `big` is our system `big_enfr`.
        names |= {join.row: None, join.system: None}
    check_known("--system", system, list(names), f"{where})")
    found = [join for join in joins if system in (join.row, join.system)]
    # Base is in both tables. Its BLEU of Table 2 comes first.
    return [join for join in found if join.table == found[0].table]


def check_known(flag: str, name: str, known: Sequence[str], where: str = "") -> None:
    """Raise UsageError, with the nearest known name, if the value `name` of a flag is not among the
    known names.
    """
    if name in known:
        return
    hint = did_you_mean(name, known, "choose a name of this list")
    raise UsageError(f"{flag} {name}: unknown{where}; expected one of {', '.join(known)}; {hint}")


def _printed_testset(testset: str) -> str:
    return PRINTED_TESTSET_BY_TESTSET.get(testset, testset)


def _find_gaps(question: Question) -> tuple[list[PublishedGap], list[PublishedGap]]:
    """Return the published differences (gaps) between other definitions of BLEU and the definition
    of the reported BLEU, in two lists. The first list has the gaps from which the range of the
    paper's number in the reported definition is computed. The second list has the gaps that are
    shown, but not used for this range.

    A gap on the full newstest2014 is also used for the filtered newstest2014, and the reverse,
    because the BLEUs on the two sets differ by less than the gaps.
    """
    gaps: list[PublishedGap] = []
    other_gaps: list[PublishedGap] = []
    for gap in read_gaps():
        is_same_set = _printed_testset(gap.testset) == _printed_testset(question.testset)
        # `counts` is "no" if the first definition is not the paper's, or is not stated.
        is_same_pair = gap.language_pair == question.language_pair
        if is_same_set and is_same_pair and gap.definition_to in counted_alike(question.metric):
            (gaps if gap.counts == "yes" else other_gaps).append(gap)
    return gaps, other_gaps


def _make_reading(question: Question, join: CellJoin, gaps: Sequence[PublishedGap]) -> Reading:
    """Return the reading of one of the paper's numbers: its range and the comparison with the
    reported BLEU.

    The ends of the range are rounded outwards to as many decimals as the paper's number has.
    """
    printed = find_printed(join, read_table(join.table)).value
    # Decimals are exact. As a binary fraction, 28.45 would fall on the wrong side of its rounding.
    value, bleu = Decimal(printed), Decimal(str(question.bleu))
    # The unit is the last printed digit: 0.1 for 28.4.
    unit = Decimal(1).scaleb(int(value.as_tuple().exponent))
    ours, theirs = f"{bleu} {question.metric}", f"{printed} {join.metric}"
    reading = Reading(
        edition=join.edition,
        printed=printed,
        printed_metric=join.metric,
        low=None,
        high=None,
        position="not comparable",
        distance=None,
        # This sentence remains if no gap is published. The branches below replace it.
        sentence=(
            f"No published gap leads from the printed {theirs} to this definition: {ours} cannot be"
            " compared."
        ),
    )
    if join.metric in counted_alike(question.metric):
        low = high = value
        position, distance = _position(bleu, low, high, slack=unit / 2)  # 28.4 is 28.35 to 28.45
        verb = "rounds to" if position == "within" else f"is {distance} {position}"
        alike = "the same definition" if question.metric == join.metric else "both count alike"
        sentence = f"{ours} {verb} the printed {theirs}: {alike}."
    elif gaps:
        # A large gap gives a low number, so the largest gap makes the low end of the range.
        low = (value - max(gap.bounds[1] for gap in gaps)).quantize(unit, ROUND_FLOOR)
        high = (value - min(gap.bounds[0] for gap in gaps)).quantize(unit, ROUND_CEILING)
        position, distance = _position(bleu, low, high)
        verb = f"is {distance} {position}" if distance else "is within"
        sentence = (
            f"{ours} {verb} the range {low} to {high}, which published gaps give for the printed"
            f" {theirs}."
        )
    else:
        return reading
    return msgspec.structs.replace(
        reading,
        low=float(low),
        high=float(high),
        position=position,
        distance=float(distance),
        sentence=sentence,
    )


def _position(
    bleu: Decimal, low: Decimal, high: Decimal, slack: Decimal = Decimal(0)
) -> tuple[Position, Decimal]:
    # The slack only decides whether the number rounds to the printed one. The distance is to the
    # printed number itself.
    if bleu < low - slack:
        return "below", low - bleu
    if bleu > high + slack:
        return "above", bleu - high
    return "within", Decimal(0)


def _find_amount(
    question: Question, readings: Sequence[Reading]
) -> tuple[Literal["lowers", "raises"], tuple[Decimal, Decimal] | None]:
    """Return by how many BLEU points, at least and at most, the reported BLEU is below the ranges
    of all readings.

    If the reported BLEU is above all ranges, return by how many points it is above them, with the
    direction `raises`.
    """
    bleu, nothing = Decimal(str(question.bleu)), Decimal(0)
    # If an edition has no range, the missing amount could be larger than the other edition
    # suggests.
    if any(reading.low is None for reading in readings):
        return "lowers", None
    if all(reading.position == "within" and reading.low == reading.high for reading in readings):
        return "lowers", (nothing, nothing)  # the printed number itself, up to its rounding
    # The text of a float gives an exact decimal, so that 28.4 - 27.8 is 0.6.
    lows, highs = [], []
    for reading in readings:
        lows.append(Decimal(str(reading.low)))
        highs.append(Decimal(str(reading.high)))
    if all(reading.position == "above" for reading in readings):
        return "raises", (bleu - max(highs), bleu - min(lows))
    # The amount reaches from the lowest to the highest end of all ranges. It begins at 0 if the
    # number is inside a range.
    return "lowers", (max(min(lows) - bleu, nothing), max(max(highs) - bleu, nothing))


def _find_causes(
    question: Question,
    direction: str,
    amount: tuple[Decimal, Decimal] | None,
) -> tuple[list[PublishedCause], bool]:
    """Return the causes that may explain the missing BLEU points (`amount`), and whether their
    costs match this amount up to SEED_NOISE.

    Causes that match the amount are in order of rank. If no cause matches, the causes with the
    nearest costs are returned. For a BLEU below LOW_BLEU, the causes of rank `L` come first.
    """
    low_causes, causes = [], []
    for cause in read_causes():
        if not cause.applies_to(question.language_pair, question.system, question.metric):
            continue
        if cause.rank.startswith(LOW_RANK):
            low_causes.append(cause)
        elif cause.direction == direction:
            causes.append(cause)
    # Without an amount the costs do not say which cause is more likely.
    is_matched = True
    if amount is None or amount[1] == 0:
        causes = []
    else:
        # Two runs of one recipe differ by the seed, so a cost need not match the amount exactly.
        matching = [cause for cause in causes if _distance(cause, amount) <= SEED_NOISE]
        is_matched = bool(matching)
        nearest = sorted(causes, key=lambda cause: _distance(cause, amount))
        causes = matching or nearest[:NUM_NEAREST_CAUSES]
    # Far below the paper's number, faults are more likely than different settings.
    if question.bleu >= LOW_BLEU:
        return causes, is_matched
    # Without an amount all distances are 0, and the sort keeps the order of the ranks.
    low_causes.sort(key=lambda cause: _distance(cause, amount or (Decimal(0), MAX_BLEU)))
    return low_causes + (causes if is_matched else []), is_matched


def _distance(cause: PublishedCause, amount: tuple[Decimal, Decimal]) -> Decimal:
    """Return by how many BLEU points the cost of a cause differs from the missing amount, or 0 if
    the two ranges overlap.
    """
    low, high = cause.cost
    return max(low - amount[1], amount[0] - high, Decimal(0))


def _with_command(cause: PublishedCause, question: Question, join: CellJoin) -> PublishedCause:
    """Return a cause (a reason for a low BLEU) with its command filled in for the question. The
    command is ready to paste, except for names of files.
    """
    # Table 3 uses the last checkpoint only, Table 2 the average of the last 5 (base) or 20 (big).
    # The command for a system in both tables has the number of Table 2.
    averages = [average for average, _ in evaluations_of(question.language_pair, join.system)]
    command = cause.command.format(
        corpus=PAPER_CORPUS_BY_LANGUAGE_PAIR[question.language_pair],
        language_pair=question.language_pair,
        last=max(map(num_averaged, averages)),
        system=join.system,
        testset=question.testset,
    )
    return msgspec.structs.replace(cause, command=command)


def _find_replications(question: Question) -> tuple[list[NearReplication], int]:
    """Return the comparable replications, the one with the nearest BLEU first, and how many
    replications of the system are not comparable.
    """
    near = []
    num_elsewhere = 0
    for replication in [*read_reference_replications(), *_decoded_here()]:
        if (replication.system, replication.language_pair) != (
            question.system,
            question.language_pair,
        ):
            continue
        # A number on a different test set, or in a different definition, may differ by several
        # BLEU. It is only counted.
        is_same_definition = replication.metric in counted_alike(question.metric)
        if replication.testset == question.testset and is_same_definition:
            difference = Decimal(replication.value) - Decimal(str(question.bleu))
            near.append(NearReplication(replication=replication, difference=float(difference)))
        else:
            num_elsewhere += 1
    return sorted(near, key=lambda row: abs(row.difference)), num_elsewhere


def _decoded_here() -> Iterator[ReferenceReplication]:
    """Yield the scores of released models with which `aiayn evaluate --released` has translated on
    this machine.
    """
    for record in read_released_records(RESULTS_FOLDER):
        for score in record.scores:
            # Both released models in workflow/config/released are of size big.
            fields: dict[str, Any] = {
                "name": f"{record.name}:{score.metric}",
                "who": "released model, decoded here",
                "system": "big",
                "language_pair": record.language_pair,
                "testset": record.testset,
                "value": f"{score.value:.2f}",
                "metric": score.metric,
                "definition": record.search,
                "note": f"{record.num_lines} of {record.num_testset_lines} lines",
                "source": f"aiayn where released:{record.name}:{score.metric}",
            }
            # How others trained the model is not part of our record.
            fields |= dict.fromkeys(("training_data", "steps", "batch", "hardware"), "")
            yield ReferenceReplication(**fields)


def _find_caveats(
    question: Question, joins: Sequence[CellJoin], gaps: Sequence[PublishedGap]
) -> list[str]:
    """Return sentences with the caveats that a reader of the range must know."""
    caveats = []
    # If the user's number has the definition of the printed number, gaps are not used, and caveats
    # about gaps are left out.
    is_own_definition = all(join.metric in counted_alike(question.metric) for join in joins)
    if question.metric == "bleu_fairseq":
        caveats.append(
            "bleu_fairseq counts like bleu_tok_moses, except for empty lines: published values of"
            " either definition can be used."
        )
    if question.metric == "bleu_as_given":
        caveats.append(
            "bleu_as_given is assumed to be computed on Moses' tokens with their case, where it"
            " equals bleu_fairseq. Tokens with split hyphens (tokenizer.perl -a: ' @-@ ', as"
            " fairseq's prepare-wmt14en2de.sh makes them) give values like compound split's,"
            " 0.7 to 1 higher; lower-cased text is not covered."
        )
    if len(joins) > 1:
        caveats.append("The two editions print different numbers; each is compared separately.")
    if question.language_pair == "en-fr":
        caveats.append(
            "For En-Fr no scoring script was published; bleu_tok_moses is the nearest definition."
        )
    elif not is_own_definition and len({gap.definition_from for gap in gaps}) > 1:
        caveats.append(
            "Whether the paper's reference had its quotes normalised was not published: gaps with"
            " and without that step count."
        )
    # One source may have used one system only, so the range may be too narrow.
    if len({gap.source for gap in gaps}) == 1 and not is_own_definition:
        caveats.append("The range rests on a single source.")
    if question.testset in PRINTED_TESTSET_BY_TESTSET:
        caveats.append(
            "The printed number is on all 3,003 lines, this number on the 2,737 of the filtered"
            " set."
        )
    if all(join.role == "dev" for join in joins):
        caveats.append("Table 3 averages no checkpoints: compare with the last checkpoint only.")
    return caveats


# ---- The text of the answer


def render_explanation(explanation: Explanation) -> str:
    """Return the whole explanation of a BLEU as text. Each line has at most `WIDTH` columns and
    ends with LF.
    """
    question = explanation.question
    subject = f"{question.system}, {question.language_pair}, {question.testset}"
    title = titled(f"{question.bleu:g} {question.metric}: {subject}")
    sentences = [reading.sentence for reading in explanation.readings]
    return sections(
        ("", title),
        ("1. The paper's number in this definition", reading_lines(explanation)),
        ("2. Your number compared with it", paragraphs(sentences, INDENT)),
        (
            f"3. Published replications nearest to it: {question.system}, same test set and"
            " definition",
            _replication_lines(explanation),
        ),
        ("4. What to check next", _cause_lines(explanation)),
        ("", ["For your own run or log, `aiayn doctor RUN` checks these causes one by one."]),
    )


def paragraphs(texts: Sequence[str], indent: str = "") -> list[str]:
    """Return texts as wrapped lines. Each text is a paragraph."""
    lines = []
    for text in texts:
        lines += wrapped(text, indent)
    return lines


def _range(low: str, high: str) -> str:
    # The ends are texts, so that the decimals stay as they were published.
    return low if low == high else f"{low} to {high}"


def _with_sources(
    headings: Sequence[str],
    widths: Sequence[int],
    rows: Sequence[Sequence[str]],
    sources: Sequence[str],
    *,
    num_numbers: int,
) -> list[str]:
    """Return the lines of a table, followed by the list of its sources. The last column has the
    number of a row's source, such as [2], and the list below the table has the sources by number.

    The first `num_numbers` columns of the table are aligned to the right.
    """
    # Several rows share a source, which is printed once.
    distinct = list(dict.fromkeys(sources))
    marked = []
    for row, source in zip(rows, sources, strict=True):
        marked.append((*row, f"[{distinct.index(source) + 1}]"))
    lines = table(
        [(*headings, ""), *marked],
        right=range(num_numbers),
        widths=(*widths, 3),
        num_headings=1,
        indent=INDENT,
    )
    for number, source in enumerate(distinct, start=1):
        lines += wrapped(source, f"{INDENT}[{number}] ", f"{INDENT}    ")
    return lines


def reading_lines(explanation: Explanation) -> list[str]:
    """Return lines with the ranges of the paper's numbers in the definition of the reported BLEU,
    with the gaps and their sources.
    """
    metric = explanation.question.metric
    rows = []
    is_own_definition = True
    for reading in explanation.readings:
        printed = f"{reading.printed} {reading.printed_metric}"
        rows.append((EDITION_WORDS[reading.edition], printed, _range_words(reading, metric)))
        is_own_definition &= reading.printed_metric in counted_alike(metric)
    rows.insert(0, ("printed in", "printed", "reads as"))
    # The second part explains where the range comes from, or why there is none.
    lines = [*table(rows, widths=(20, 40, 36), num_headings=1, indent=INDENT), ""]
    if is_own_definition:
        text = "The number has the same definition as the printed number: no gap is needed."
        lines += wrapped(text, INDENT)
    elif explanation.gaps:
        heading = (
            "Gaps that make the range: for one output, its value in a paper-style definition minus"
            " its value in the other definition."
        )
        lines += _gap_lines(heading, explanation.gaps)
    else:
        lines += wrapped(f"No published gap leads to {metric}, so no range is made.", INDENT)
    if explanation.other_gaps:
        # These gaps are shown, so that nobody thinks that their publications were overlooked.
        heading = "Published too, but no range is made from them:"
        lines += ["", *_gap_lines(heading, explanation.other_gaps)]
    if explanation.caveats:
        lines += ["", *paragraphs(explanation.caveats, INDENT)]
    return lines


def _range_words(reading: Reading, metric: str) -> str:
    """Return the range of a reading as text, with as many decimals as the paper's number."""
    if reading.low is None or reading.high is None:
        return "no published gap"
    # 28.4 has one decimal, so its range has one decimal, too.
    decimals = len(reading.printed.partition(".")[2])
    return f"{_range(f'{reading.low:.{decimals}f}', f'{reading.high:.{decimals}f}')} {metric}"


def _joined(*texts: str) -> str:
    """Join the texts that are not empty into one text."""
    return "; ".join(filter(None, texts))


def _gap_lines(heading: str, gaps: Sequence[PublishedGap]) -> list[str]:
    rows = []
    for gap in gaps:
        # Some sources publish a difference without the two scores.
        values = (gap.value_from or NOT_STATED, gap.value_to or NOT_STATED)
        gap_range = _range(gap.low, gap.high)
        rows.append((gap_range, *values, gap.printed_from, _joined(gap.who, gap.note)))
    headings, widths = ("gap", "from", "to", "'from' is", "who"), (12, 5, 5, 30, 31)
    sources = [gap.source for gap in gaps]
    lines = _with_sources(headings, widths, rows, sources, num_numbers=3)
    return [*wrapped(heading, INDENT), *lines]


def _replication_lines(explanation: Explanation) -> list[str]:
    metric, testset = explanation.question.metric, explanation.question.testset
    # The number of the others shows how few of the replications can be compared.
    elsewhere = (
        f"{explanation.num_replications_elsewhere} more are in other definitions or on other test"
        " sets."
    )
    if not explanation.replications:
        return wrapped(f"None is published in {metric} on {testset}. {elsewhere}", INDENT)
    rows, sources = [], []
    for near in explanation.replications:
        replication = near.replication
        difference = f"{near.difference:+.2f}"
        conditions = replication.conditions or NOT_STATED
        printed_as = _joined(replication.definition, replication.remarks)
        rows.append((replication.value, difference, replication.who, conditions, printed_as))
        sources.append(replication.source)
    headings = ("BLEU", "differs by", "who", "steps, batch, hardware", "as printed; remarks")
    lines = _with_sources(headings, (5, 10, 18, 23, 27), rows, sources, num_numbers=2)
    shown = f"The nearest {len(rows)} of {explanation.num_replications} in {metric}; {elsewhere}"
    return [*lines, "", *wrapped(shown, INDENT)]


def _cause_lines(explanation: Explanation) -> list[str]:
    question = explanation.question
    # A number below LOW_BLEU has causes even without a range: something is broken.
    if explanation.amount is None and not explanation.is_low:
        return wrapped(
            "Without a range it is not known how many BLEU are missing. Score the hypotheses in"
            f" every definition: aiayn score --hypotheses FILE --testset {question.testset}"
            f" --language-pair {question.language_pair}",
            INDENT,
        )
    if not explanation.causes:
        return wrapped("Nothing is missing.", INDENT)
    lines = [*wrapped(_cause_heading(explanation), INDENT), "", f"{INDENT}BLEU        cause"]
    for cause in explanation.causes:
        # The cost is a column. All texts are indented past it.
        label = f"{INDENT}{_range(cause.cost_low, cause.cost_high):<11} "
        body = " " * len(label)
        lines += ["", *wrapped(cause.cause, label, body)]
        lines += wrapped(f"seen: {cause.evidence} [{cause.source}]", body)
        lines += wrapped(f"check: {cause.check}", body)
        lines += command_lines(cause.command.split(), f"{body}$ ", f"{body}    ")
    return lines


def _cause_heading(explanation: Explanation) -> str:
    if explanation.is_low:
        return (
            f"Below {LOW_BLEU} BLEU a model is not trained yet, or something is broken on the way."
            " Check in this order; each is a published cause, and several may occur together:"
        )
    # Above LOW_BLEU there is an amount here, because `_cause_lines` returns before without one.
    low, high = (f"{amount:g}" for amount in explanation.amount or (0, 0))
    heading = f"{_range(low, high)} BLEU"
    heading += " may be missing." if explanation.direction == "lowers" else " too many."
    if explanation.is_amount_matched:
        return (
            f"{heading} Each of these causes can explain that amount, up to {SEED_NOISE} for the"
            " seed. Check in this order:"
        )
    return f"{heading} No single published cause explains that; two may add up. The nearest causes:"
