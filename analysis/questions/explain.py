"""Explains a BLEU without any run: the paper's number in its definition, near replications, what to
check next.

One number is never turned into another. The printed number keeps its own definition (section 6.1
for Table 2, 6.2 for Table 3); beside it is the range that published gaps between the two
definitions give, and the number in question is compared with that range. Every gap, replication and
cause carries its source (published/README.md).
"""

import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.errors import UsageError, did_you_mean
from aiayn.paths import num_averaged
from aiayn.printed import (
    EDITION_WORDS,
    PAPER_CORPUS_BY_LANGUAGE_PAIR,
    PAPER_TESTSET_BY_ROLE,
    PUBLISHED_FOLDER,
    CellJoin,
    evaluations_of,
    find_printed,
    read_cells,
    read_table,
)
from aiayn.scoring.definitions import METRICS
from aiayn.terminal import command_lines, sections, table, titled, wrapped
from paper_tables.published_data import (
    MAX_BLEU,
    PublishedCause,
    PublishedGap,
    ReferenceReplication,
    counted_alike,
    read_causes,
    read_gaps,
    read_reference_replications,
)

PRINTED_TESTSET_BY_TESTSET = {
    "newstest2014_filtered": "newstest2014"
}  # the same lines, but for 266
SEED_NOISE = Decimal("0.3")  # cause 12 of causes.csv: two runs of one recipe lie this far apart
NUM_NEAREST_REPLICATIONS = 5
NUM_NEAREST_CAUSES = 3
# below it a number is no shade of the paper's: other questions come first, those of ranks `L`
LOW_BLEU = 17
LOW_RANK = "L"
OTHER_DEFINITION = (  # what a number without a definition most often is, if not the paper's
    "bleu_sacre_13a"
)

INDENT = "  "
NOT_STATED = "-"

Position = Literal["within", "below", "above", "not comparable"]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The number in question, in percent; `system` is the row of the paper's table.

    Without a definition given (`is_metric_given`) `metric` is the one in which the paper's number
    is printed.
    """

    bleu: float
    metric: str
    testset: str
    language_pair: str
    system: str
    is_metric_given: bool = True


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A printed number in its definition, its range in the question's definition, and the position
    of the number.

    `low` and `high` are None without a published gap; they equal the printed number in its own
    definition. `distance` is to the nearer end of the range, 0 within it.
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
    """A published replication of the same system, test set and definition; `difference` is its
    value minus ours.
    """

    replication: ReferenceReplication
    difference: float


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer. `amount` is how many BLEU may be missing (or, direction `raises`, too
    many), least and most.

    `gaps` make the range, `other_gaps` are shown beside them. Causes have their commands filled in;
    if none costs the amount, `is_amount_matched` is false and the nearest ones are listed.
    `is_low`: below 17 BLEU, where other causes come first. `taken` names the definition assumed
    when none was given, and how the number reads in the other.
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
    taken: str
    causes: list[PublishedCause]


def explain(
    *,
    bleu: float,
    metric: str | None,
    testset: str,
    language_pair: str,
    system: str,
    folder: Path = PUBLISHED_FOLDER,
) -> Explanation:
    """Return how published numbers explain one BLEU (in percent) of one of the paper's systems.

    Without a `metric` the number is assumed to be in the definition in which the paper's is
    printed; `taken` notes it.

    Raises:
        UsageError: a name is unknown (the nearest known one is named), or the value is no BLEU in
        percent.
        TableError: a published file is malformed.
    """
    joins = candidate_joins(metric, testset, language_pair, system, folder)
    question = Question(
        bleu=checked_bleu(bleu),
        metric=metric or joins[0].metric,
        testset=testset,
        language_pair=language_pair,
        system=joins[0].row,
        is_metric_given=metric is not None,
    )
    gaps = [gap for gap in read_gaps(folder) if _concerns(gap, question)]
    counted = [gap for gap in gaps if gap.counts == "yes"]
    readings = [_reading(question, join, counted, folder) for join in joins]
    direction, amount = _amount(question, readings)
    is_low = question.bleu < LOW_BLEU
    published = read_causes(folder)
    causes, is_matched = _matching_causes(
        question, direction, amount, [one for one in published if not one.rank.startswith(LOW_RANK)]
    )
    if is_low:
        low = [one for one in published if one.rank.startswith(LOW_RANK) and _fits(one, question)]
        low.sort(key=lambda one: _distance(one, amount or (Decimal(0), MAX_BLEU)))
        causes = low + (causes if is_matched else [])
    replications = [
        one
        for one in read_reference_replications(folder)
        if (one.system, one.language_pair) == (question.system, language_pair)
    ]
    same = counted_alike(question.metric)
    alike = [one for one in replications if one.testset == testset and one.metric in same]
    number = Decimal(str(question.bleu))
    near = [
        NearReplication(replication=one, difference=float(Decimal(one.value) - number))
        for one in alike
    ]
    return Explanation(
        question=question,
        readings=readings,
        gaps=counted,
        other_gaps=[gap for gap in gaps if gap.counts == "no"],
        caveats=_caveats(question, joins, counted),
        replications=sorted(near, key=lambda one: abs(one.difference))[:NUM_NEAREST_REPLICATIONS],
        num_replications=len(alike),
        num_replications_elsewhere=len(replications) - len(alike),
        direction=direction,
        amount=None if amount is None else (float(amount[0]), float(amount[1])),
        is_amount_matched=is_matched,
        is_low=is_low,
        taken="" if metric is not None else _taken(question, joins, folder),
        causes=[_with_command(cause, question, joins[0]) for cause in causes],
    )


def _taken(question: Question, joins: Sequence[CellJoin], folder: Path) -> str:
    """Return the definition assumed for a number without one, and how it reads if it is sacreBLEU's
    instead.
    """
    other = msgspec.structs.replace(question, metric=OTHER_DEFINITION)
    gaps = [gap for gap in read_gaps(folder) if gap.counts == "yes" and _concerns(gap, other)]
    reads = " ".join(_reading(other, join, gaps, folder).sentence for join in joins)
    return (
        f"No --metric is given: taken as {question.metric}, the definition in which the paper's"
        f" number is printed. If it is sacreBLEU's, give --metric {OTHER_DEFINITION}: {reads}"
    )


def _fits(cause: PublishedCause, question: Question) -> bool:
    return cause.applies_to(question.language_pair, question.system, question.metric)


def checked_bleu(bleu: float) -> float:
    """Return a BLEU in percent.

    Raises:
        UsageError: if it is none.
    """
    if 0 < bleu < 1:
        raise UsageError(f"--bleu {bleu:g}: expected BLEU in percent; did you mean {100 * bleu:g}?")
    if not 0 <= bleu <= 100:
        raise UsageError(f"--bleu {bleu:g}: expected 0 to 100, in percent")
    return bleu


def candidate_joins(
    metric: str | None, testset: str, language_pair: str, system: str, folder: Path
) -> list[CellJoin]:
    """Return the joins of the printed BLEUs of the question, one an edition.

    Raises:
        UsageError: if a name is unknown; the nearest one is named.
    """
    if metric is not None:
        check_known("--metric", metric, METRICS)
    check_known("--language-pair", language_pair, tuple(PAPER_CORPUS_BY_LANGUAGE_PAIR))
    if language_pair != "en-de" and "compound_split" in (metric or ""):
        raise UsageError(
            f"--metric {metric}: defined for German only; for {language_pair} give bleu_tok_moses"
        )
    joins = [
        join
        for join in read_cells(folder)
        if join.language_pair == language_pair and join.metric.startswith("bleu")
    ]
    printed_testsets = {PAPER_TESTSET_BY_ROLE[join.role] for join in joins}
    aliases = [
        name for name, printed in PRINTED_TESTSET_BY_TESTSET.items() if printed in printed_testsets
    ]
    check_known("--testset", testset, (*sorted(printed_testsets), *aliases))
    printed_testset = PRINTED_TESTSET_BY_TESTSET.get(testset, testset)
    on_testset = [join for join in joins if PAPER_TESTSET_BY_ROLE[join.role] == printed_testset]
    names = list(dict.fromkeys(name for join in on_testset for name in (join.row, join.system)))
    where = f" (BLEU printed for {language_pair} on {printed_testset})"
    check_known("--system", system, names, where)
    return [join for join in on_testset if system in (join.row, join.system)]


def check_known(flag: str, name: str, known: Sequence[str], where: str = "") -> None:
    """Raise UsageError if a name is not among the known ones; it names the nearest."""
    if name in known:
        return
    hint = did_you_mean(name, known, "choose one of these")
    raise UsageError(f"{flag} {name}: unknown{where}; expected one of {', '.join(known)}; {hint}")


def _concerns(gap: PublishedGap, question: Question) -> bool:
    """Return whether a gap leads to the question's definition on its lines; full and filtered set
    differ by less.
    """
    printed_testsets = [
        PRINTED_TESTSET_BY_TESTSET.get(name, name) for name in (gap.testset, question.testset)
    ]
    is_same_set = printed_testsets[0] == printed_testsets[1]
    leads_there = gap.definition_to in counted_alike(question.metric)
    return is_same_set and leads_there and gap.language_pair == question.language_pair


def _reading(
    question: Question, join: CellJoin, gaps: Sequence[PublishedGap], folder: Path
) -> Reading:
    """Return the position of the number beside one printed number; the range is rounded outwards to
    its decimals.
    """
    printed = find_printed(join, read_table(join.table, folder)).value
    number, bleu = Decimal(printed), Decimal(str(question.bleu))
    unit = Decimal(1).scaleb(int(number.as_tuple().exponent))
    own, other = f"{bleu} {question.metric}", f"{printed} {join.metric}"
    position: Position = "not comparable"
    low = high = distance = None
    sentence = (
        f"No published gap leads from the printed {other} to this definition: {own} cannot be"
        " compared."
    )
    if join.metric in counted_alike(question.metric):
        low = high = number
        position, distance = _place(
            bleu, number, number, slack=unit / 2
        )  # 28.4 means 28.35 to 28.45
        words = "rounds to" if position == "within" else f"lies {distance} {position}"
        alike = "the same definition" if question.metric == join.metric else "both count alike"
        sentence = f"{own} {words} the printed {other}: {alike}."
    elif gaps:
        low = (number - max(gap.bounds[1] for gap in gaps)).quantize(unit, ROUND_FLOOR)
        high = (number - min(gap.bounds[0] for gap in gaps)).quantize(unit, ROUND_CEILING)
        position, distance = _place(bleu, low, high)
        words = f"lies {distance} {position}" if distance else "lies within"
        sentence = (
            f"{own} {words} the range {low} to {high}, in which the printed {other} reads by"
            " published gaps."
        )
    return Reading(
        edition=join.edition,
        printed=printed,
        printed_metric=join.metric,
        low=None if low is None else float(low),
        high=None if high is None else float(high),
        position=position,
        distance=None if distance is None else float(distance),
        sentence=sentence,
    )


def _place(
    bleu: Decimal, low: Decimal, high: Decimal, slack: Decimal = Decimal(0)
) -> tuple[Position, Decimal]:
    if bleu < low - slack:
        return "below", low - bleu
    if bleu > high + slack:
        return "above", bleu - high
    return "within", Decimal(0)


def _amount(
    question: Question, readings: Sequence[Reading]
) -> tuple[Literal["lowers", "raises"], tuple[Decimal, Decimal] | None]:
    """Return how many BLEU may be missing, least and most over all readings; or too many, if it is
    above them all.
    """
    bleu = Decimal(str(question.bleu))
    if any(one.low is None for one in readings):
        return "lowers", None
    if all(one.position == "within" and one.low == one.high for one in readings):
        return "lowers", (Decimal(0), Decimal(0))  # the printed number itself, up to its rounding
    ranges = [(Decimal(str(one.low)), Decimal(str(one.high))) for one in readings]
    if all(one.position == "above" for one in readings):
        return "raises", (
            min(bleu - high for _, high in ranges),
            max(bleu - low for low, _ in ranges),
        )
    least = min(max(low - bleu, Decimal(0)) for low, _ in ranges)
    return "lowers", (least, max(max(high - bleu, Decimal(0)) for _, high in ranges))


def _matching_causes(
    question: Question,
    direction: str,
    amount: tuple[Decimal, Decimal] | None,
    causes: Sequence[PublishedCause],
) -> tuple[list[PublishedCause], bool]:
    """Return the causes whose cost matches the amount up to the seed's noise, in their rank; else
    the nearest ones.
    """
    if amount is None or amount[1] == 0:
        return [], True
    fitting = [cause for cause in causes if cause.direction == direction and _fits(cause, question)]
    matching = [cause for cause in fitting if _distance(cause, amount) <= SEED_NOISE]
    if matching:
        return matching, True
    return sorted(fitting, key=lambda one: _distance(one, amount))[:NUM_NEAREST_CAUSES], False


def _distance(cause: PublishedCause, amount: tuple[Decimal, Decimal]) -> Decimal:
    """Return by how many BLEU a cause's cost misses the amount; 0 if it can be that much."""
    low, high = cause.cost
    return max(low - amount[1], amount[0] - high, Decimal(0))


def _with_command(cause: PublishedCause, question: Question, join: CellJoin) -> PublishedCause:
    """Return the cause with its command as it can be pasted, but for files."""
    command = cause.command.format(
        corpus=PAPER_CORPUS_BY_LANGUAGE_PAIR[question.language_pair],
        language_pair=question.language_pair,
        last=max(
            num_averaged(average)
            for average, _ in evaluations_of(question.language_pair, join.system)
        ),
        system=join.system,
        testset=question.testset,
    )
    return msgspec.structs.replace(cause, command=command)


def _caveats(
    question: Question, joins: Sequence[CellJoin], gaps: Sequence[PublishedGap]
) -> list[str]:
    """Return what a reader of the range must know."""
    caveats = []
    is_own_definition = all(join.metric in counted_alike(question.metric) for join in joins)
    if question.metric == "bleu_fairseq":
        caveats.append(
            "bleu_fairseq counts as bleu_tok_moses does, but for empty lines: what is published of"
            " it holds."
        )
    if question.metric == "bleu_as_given":
        caveats.append(
            "bleu_as_given is taken to be of Moses' tokens with their case, of which it is"
            " bleu_fairseq. Tokens with their hyphens split (tokenizer.perl -a: ' @-@ ', as"
            " fairseq's prepare-wmt14en2de.sh makes them) read as compound split does, 0.7 to 1"
            " higher; lower-cased text is not covered."
        )
    if len(joins) > 1:
        caveats.append("The two editions print different numbers; each is read apart.")
    if question.language_pair == "en-fr":
        caveats.append(
            "For En-Fr no scoring script was published; bleu_tok_moses is the nearest definition."
        )
    elif not is_own_definition and len({gap.definition_from for gap in gaps}) > 1:
        caveats.append(
            "Whether the paper's reference had its quotes normalised was not published: gaps with"
            " and without count."
        )
    if len({gap.source for gap in gaps}) == 1 and not is_own_definition:
        caveats.append("The range rests on one source.")
    if question.testset in PRINTED_TESTSET_BY_TESTSET:
        caveats.append(
            "The printed number is on all 3,003 lines, this one on the 2,737 of the filtered set."
        )
    if all(join.role == "dev" for join in joins):
        caveats.append("Table 3 averages no checkpoints: compare with the last one alone.")
    return caveats


def render_explanation(explanation: Explanation) -> str:
    """Return the whole answer as lines of at most `WIDTH` columns, each ended by LF."""
    question = explanation.question
    title = (
        f"{question.bleu:g} {question.metric}: {question.system}, {question.language_pair},"
        f" {question.testset}"
    )
    nearest = (
        f"3. Published replications nearest to it: {question.system}, same test set and definition"
    )
    return sections(
        ("", [*titled(title), *wrapped(explanation.taken)]),
        ("1. How the paper's number reads in this definition", reading_lines(explanation)),
        (
            "2. Where the number lies",
            [line for one in explanation.readings for line in wrapped(one.sentence, INDENT)],
        ),
        (nearest, _replication_lines(explanation)),
        ("4. What to check next", _cause_lines(explanation)),
        ("", ["For your own run or log, `aiayn doctor RUN` checks these causes one by one."]),
    )


def aligned(
    headings: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]
) -> list[str]:
    """Return a table; cells longer than their column's width wrap, columns of numbers are aligned
    to the right.
    """
    numbers = re.compile(r"[+-]*[0-9]+\.?[0-9]*( to [0-9]*\.?[0-9]*)?")
    right = [
        index
        for index, cells in enumerate(zip(*rows, strict=True))
        if all(map(numbers.fullmatch, cells))
    ]
    return table([headings, *rows], right=right, widths=widths, num_headings=1, indent=INDENT)


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _with_sources(
    headings: Sequence[str],
    widths: Sequence[int],
    rows: Sequence[Sequence[str]],
    sources: Sequence[str],
) -> list[str]:
    """Return a table with the number of each row's source in its last column, and below it the
    sources by number.
    """
    number_by_source = {
        source: index for index, source in enumerate(dict.fromkeys(sources), start=1)
    }
    marked = [
        (*row, f"[{number_by_source[source]}]") for row, source in zip(rows, sources, strict=True)
    ]
    lines = aligned((*headings, ""), marked, (*widths, 3))
    for source, number in number_by_source.items():
        lines += wrapped(source, f"{INDENT}[{number}] ", f"{INDENT}    ")
    return lines


def reading_lines(explanation: Explanation) -> list[str]:
    """Return how the printed number reads in the question's definition, with the gaps and their
    sources.
    """
    metric = explanation.question.metric
    rows = [
        (EDITION_WORDS[one.edition], f"{one.printed} {one.printed_metric}", _reads(one, metric))
        for one in explanation.readings
    ]
    lines = aligned(("printed in", "printed", "reads as"), rows, (20, 40, 36))
    if all(one.printed_metric in counted_alike(metric) for one in explanation.readings):
        text = "The number is in the definition in which the paper's was printed: no gap is needed."
        lines += ["", *wrapped(text, INDENT)]
    elif explanation.gaps:
        heading = (
            "Gaps that make the range: one output, its value in a paper-style definition minus the"
            " other's."
        )
        lines += ["", *_gap_lines(heading, explanation.gaps)]
    else:
        lines += ["", *wrapped(f"No published gap leads to {metric}, so no range is made.", INDENT)]
    if explanation.other_gaps:
        lines += [
            "",
            *_gap_lines("Published too, but no range is made from them:", explanation.other_gaps),
        ]
    if explanation.caveats:
        lines += ["", *(line for caveat in explanation.caveats for line in wrapped(caveat, INDENT))]
    return lines


def _reads(reading: Reading, metric: str) -> str:
    """Return the range with as many decimals as are printed."""
    if reading.low is None or reading.high is None:
        return "no published gap"
    decimals = len(reading.printed.partition(".")[2])
    return f"{_range(f'{reading.low:.{decimals}f}', f'{reading.high:.{decimals}f}')} {metric}"


def _gap_lines(heading: str, gaps: Sequence[PublishedGap]) -> list[str]:
    rows = [
        (
            _range(gap.low, gap.high),
            gap.value_from or NOT_STATED,
            gap.value_to or NOT_STATED,
            gap.printed_from,
            "; ".join(filter(None, (gap.who, gap.note))),
        )
        for gap in gaps
    ]
    headings, widths = ("gap", "from", "to", "'from' is", "who"), (12, 5, 5, 30, 31)
    return [
        *wrapped(heading, INDENT),
        *_with_sources(headings, widths, rows, [gap.source for gap in gaps]),
    ]


def _replication_lines(explanation: Explanation) -> list[str]:
    metric = explanation.question.metric
    elsewhere = (
        f"{explanation.num_replications_elsewhere} more are in other definitions or on other test"
        " sets."
    )
    if not explanation.replications:
        return wrapped(
            f"None is published in {metric} on {explanation.question.testset}. {elsewhere}", INDENT
        )
    rows = []
    for near in explanation.replications:
        one = near.replication
        printed_as = "; ".join(filter(None, (one.definition, one.remarks)))
        rows.append(
            (
                one.value,
                f"{near.difference:+.2f}",
                one.who,
                one.conditions or NOT_STATED,
                printed_as,
            )
        )
    headings = ("BLEU", "differs by", "who", "steps, batch, hardware", "as printed; remarks")
    sources = [near.replication.source for near in explanation.replications]
    shown = f"The nearest {len(rows)} of {explanation.num_replications} in {metric}; {elsewhere}"
    return [
        *_with_sources(headings, (5, 10, 18, 23, 27), rows, sources),
        "",
        *wrapped(shown, INDENT),
    ]


def _cause_lines(explanation: Explanation) -> list[str]:
    if explanation.amount is None and not explanation.is_low:
        return wrapped(
            "Without a range no amount is known to be missing. Score the hypotheses in every"
            " definition: aiayn score --hypotheses FILE --testset"
            f" {explanation.question.testset} --language-pair {explanation.question.language_pair}",
            INDENT,
        )
    if not explanation.causes:
        return wrapped("Nothing is missing.", INDENT)
    if explanation.is_low:
        lead = (
            f"Below {LOW_BLEU} BLEU a model is not trained yet, or something is broken on the way."
            " Check in this order; each is a published cause, and the first ones may occur"
            " together:"
        )
    else:
        low, high = (f"{amount:g}" for amount in explanation.amount or (0, 0))
        lead = f"{_range(low, high)} BLEU "
        lead += (
            "may be missing. "
            if explanation.direction == "lowers"
            else "more than the paper's number reads. "
        )
        lead += (
            f"Causes that alone explain that amount, up to {SEED_NOISE} for the seed, in their"
            " rank:"
            if explanation.is_amount_matched
            else "No single published cause explains that; two may add up. The nearest ones:"
        )
    return [
        *wrapped(lead, INDENT),
        *(line for cause in explanation.causes for line in ("", *_one_cause(cause))),
    ]


def _one_cause(cause: PublishedCause) -> list[str]:
    label = f"{INDENT}{cause.rank:<3} {_range(cause.cost_low, cause.cost_high):<11} "
    body = " " * len(label)
    lines = wrapped(cause.cause, label, body)
    lines += wrapped(f"seen: {cause.evidence} [{cause.source}]", body)
    lines += wrapped(f"check: {cause.check}", body)
    return lines + command_lines(cause.command.split(), f"{body}$ ", f"{body}    ")
