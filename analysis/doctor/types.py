"""The types of the doctor: the claim, the evidence of a run, the outcome of each check; and the list of checks."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from aiayn.printed import read_rows
from aiayn.spec.system import CorpusSpec, DecodingSpec, TrainingSpec
from analysis.doctor.data_bin import DataBin
from analysis.findings import Cost, Evidence, Finding
from analysis.logs.symbols import Symbols
from analysis.logs.types import Argument, BleuLine, TrainingLog

# Turns hypotheses and references into values in percent by metric, under every definition that applies.
Scorer = Callable[[Sequence[str], Sequence[str]], dict[str, float]]


class Claim(msgspec.Struct, frozen=True):
    """The system that a run claims to be; `averages_by_role` are those of the paper's tables, empty without any."""

    name: str
    scale: str
    system: str
    corpus: CorpusSpec
    training: TrainingSpec
    decoding: DecodingSpec
    averages_by_role: dict[str, frozenset[str]]

    @property
    def is_papers_corpus(self) -> bool:
        """Whether the corpus is WMT14's, of which alone the paper's counts hold (section 5.1)."""
        return self.corpus.name.startswith("wmt14_")


class LoggedRate(msgspec.Struct, frozen=True):
    """A printed rate: the line, the update, the value."""

    line: int
    update: int
    rate: float


class Trained(msgspec.Struct, frozen=True):
    """A training, from its log or from the command that starts it: the paper's symbols in its arguments.

    Of a command `log` is None, `line_by_symbol` has the lines of its flags, and `target_tokens_per_update` is an
    estimate (None where the GPUs are not known); `tokens_words` tell how it comes about. `num_epochs` is set where
    epochs end the training, and `data` names its data-bin.
    """

    path: str
    symbols: Symbols
    log: TrainingLog | None = None
    rates: tuple[LoggedRate, ...] = ()
    line_by_symbol: Mapping[str, int] = {}
    target_tokens_per_update: float | None = None
    tokens_words: str = ""
    num_epochs: float | None = None
    data: str = ""

    def line_of(self, symbol: str) -> int | None:
        """Return the line that sets a symbol: that of its flag, or of a log's arguments."""
        return self.line_by_symbol.get(symbol) or (self.log.first_line if self.log else None)


class Search(msgspec.Struct, frozen=True):
    """The known settings of the search; `place` is the file (and `line`) that states them."""

    place: str
    beam_size: int | None = None
    length_penalty_alpha: float | None = None
    length_penalty_form: str | None = None
    stop: str | None = None
    max_length_per_source_token: float | None = None
    max_extra_tokens: int | None = None
    line: int | None = None


def search_of_arguments(
    arguments: Mapping[str, Argument], place: str, beam_size: int | None = None, *, line: int | None = None
) -> Search:
    """Return the search that arguments of fairseq-generate set; `beam_size` where these have none."""
    beam, alpha, factor, extra = (arguments.get(key) for key in ("beam", "lenpen", "max_len_a", "max_len_b"))
    return Search(
        place=place,
        line=line,
        beam_size=beam if isinstance(beam, int) else beam_size,
        length_penalty_alpha=float(alpha) if isinstance(alpha, int | float) else None,
        max_length_per_source_token=float(factor) if isinstance(factor, int | float) else None,
        max_extra_tokens=extra if isinstance(extra, int) else None,
    )


class Averaged(msgspec.Struct, frozen=True):
    """The updates of the averaged checkpoints that were decoded, and the file that records them."""

    place: str
    updates: tuple[int, ...]


class Reported(msgspec.Struct, frozen=True):
    """A score that was reported: value in percent, signature ('' for none), and the file that holds it."""

    place: str
    metric: str
    value: float
    signature: str


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """One translated test set. `split` is the data-bin's name of it, `average` as `last5`; '' and None: not known.

    `pieces` are the lines as they left the model; `references` those of the score; both are as found;
    `plain.plain` normalises them. `logged` is the BLEU line of the generate log at `path`; `lines` are empty if it
    holds no more, or if `path` is a script. `metric` is the definition in which it is scored; `leaves_pieces`: by its
    arguments, pieces are left in the output.
    """

    path: str
    testset: str
    role: str
    lines: tuple[str, ...] = ()
    pieces: tuple[str, ...] | None = None
    split: str = ""
    average: str = ""
    average_words: str = ""
    averaged: Averaged | None = None
    search: Search | None = None
    references_path: str = ""
    references: tuple[str, ...] | None = None
    reported: tuple[Reported, ...] = ()
    source_lines: tuple[str, ...] | None = None
    logged: BleuLine | None = None
    line: int | None = None
    metric: str = ""
    leaves_pieces: bool = False


class Attending(msgspec.Struct, frozen=True):
    """What the decoder reads of the source, by a record of `perplexity`: see `PerplexityRecord`.

    `entropies` are of each decoder layer and head, 1 where it reads all of a source alike; `bits_lost` what a subword
    loses if all do.
    """

    place: str
    entropies: tuple[tuple[float, ...], ...]
    bits_lost: float


class Case(msgspec.Struct, frozen=True):
    """The evidence; what is None or empty is absent, and `absent` lists it in words."""

    claim: Claim
    trained: Trained | None
    data: DataBin | None
    translations: tuple[Translation, ...]
    scorer: Scorer
    attending: Attending | None = None

    @property
    def log(self) -> TrainingLog | None:
        """The training's log, None without one."""
        return self.trained.log if self.trained else None

    @property
    def place(self) -> str:
        """The data-bin's folder, else the path of the log or command; '' without either."""
        return str(self.data.folder) if self.data else self.trained.path if self.trained else ""


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """The BLEU missing to the printed number, at most `high`; negative if none is. `words` name the number.

    `is_known` is false where no score was given: then at most the whole printed number is missing.
    """

    low: float
    high: float
    words: str
    is_known: bool = True


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a check: findings; or, in `seen`, what was as expected; or, in `missing`, why it could not run.

    `check` is set by the one who runs all checks.
    """

    check: str = ""
    findings: tuple[Finding, ...] = ()
    seen: str = ""
    missing: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer: findings in their rank, and the outcome of every check in the order in which it was made.

    `harmless` are differences with which published runs reached the paper's number. `notes` are sentences on what could
    not be compared. `scores` are BLEU in percent of the translations by role; `metrics` their definitions, those of the
    printed numbers wherever the lines are there to be scored.
    """

    name: str
    scale: str
    system: str
    corpus: str
    files: dict[str, str]
    findings: tuple[Finding, ...]
    outcomes: tuple[Answer, ...]
    harmless: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    scores: dict[str, float] = {}
    metrics: dict[str, str] = {}
    missing: Missing | None = None


class Cause(msgspec.Struct, frozen=True):
    """A check: its key, what it is about, and its cause's rank in paper_tables/published/causes.csv, '' without one.

    What a difference of a known size was measured to cost is in published/costs.csv, under that rank.
    """

    check: str
    words: str
    published_rank: str


# In the order in which the checks are made: that of the ranked causes.
CAUSES = (
    Cause("data", "numbers of pairs", "5a"),
    Cause("vocabulary", "joint vocabulary, of this text", "1a"),
    Cause("alignment", "pairs that are translations", ""),
    Cause("pieces", "pieces joined, detokenised", "1b"),
    Cause("reference_order", "references in their order", "1d"),
    Cause("wrong_checkpoints", "the last checkpoints averaged", "1e"),
    Cause("batch", "target tokens an update", "3"),
    Cause("schedule", "learning rates as printed", ""),
    Cause("divergence", "a training that holds", ""),
    Cause("start", "a decoder that attends", ""),
    Cause("model", "model and optimiser", ""),
    Cause("norm_order", "order of normalisation", "8"),
    Cause("dropout", "dropout", "7"),
    Cause("smoothing", "label smoothing", "9"),
    Cause("updates", "updates", "6"),
    Cause("average", "number of checkpoints averaged", "10"),
    Cause("search", "search", "11"),
    Cause("lengths", "length of translations", "11"),
    Cause("definition", "definition of the scores", "A2"),
    Cause("testset", "lines of the test set", "13"),
)
PLACE_BY_CHECK = {cause.check: place for place, cause in enumerate(CAUSES)}
CAUSE_BY_CHECK = {cause.check: cause for cause in CAUSES}


class KnownFinding(msgspec.Struct, frozen=True):
    """What a finding says: its check, the rank and `what` of its published cost, templates of its title and fix."""

    name: str
    check: str
    rank: str
    what: str
    title: str
    fix: str


KNOWN_FINDINGS = {one.name: one for _, one in read_rows(Path(__file__).parent / "findings.csv", KnownFinding)}


def found(
    name: str,
    evidence: Sequence[Evidence],
    *,
    rank: str | None = None,
    what: str = "",
    amount: float | None = None,
    costs: tuple[Cost, ...] = (),
    is_symptom: bool = False,
    **values: Any,
) -> Finding:
    """Return the finding of a name in findings.csv; `rank` and `what` are by default those that stand there."""
    known = KNOWN_FINDINGS[name]
    return Finding(
        check=known.check,
        title=known.title.format(**values),
        evidence=tuple(evidence),
        fix=known.fix.format(**values),
        published_rank=known.rank if rank is None else rank,
        is_symptom=is_symptom,
        costs=costs,
        what=what or known.what,
        amount=amount,
    )


def fact(path: object, what: str, found_value: object, expected: object, line: int | None = None) -> Evidence:
    """Return one fact, values as text."""
    return Evidence(path=str(path), line=line, what=what, found=str(found_value), expected=str(expected))
