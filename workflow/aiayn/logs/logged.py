"""Types of a folder's logs: each with its row, its numbers, its version and seed, and the rules that it breaks."""

import msgspec

from aiayn.logs.findings import Finding
from aiayn.logs.symbols import Symbol, Symbols, is_ours
from aiayn.logs.types import Argument, GenerationLog, LogFile, TrainingLog, Validation
from aiayn.printed import PERPLEXITY_METRIC
from aiayn.runs.attempts import Event, Started, summarise_attempts

LANGUAGE_PAIRS = ("en-de", "en-fr")  # of Table 2; Table 3 is en-de alone
VERSION_BY_FORM = {
    "print": "fairseq 0.9 or before",
    "namespace": "fairseq 0.10",
    "config": "fairseq 1.0.0a0 to 0.12",
    "": "fairseq, version unknown",
}


class PaperRow(msgspec.Struct, frozen=True):
    """A system at a scale: the symbols that a log of its training must have, and the search of its translations."""

    scale: str
    system: str
    language_pairs: tuple[str, ...]
    symbols: Symbols
    decoding: Symbols


class Difference(msgspec.Struct, frozen=True):
    """A symbol in which a log differs from a row: the log's value (None: absent), and the row's."""

    symbol: str
    found: Symbol | None
    expected: Symbol


class Match(msgspec.Struct, frozen=True):
    """The row that a log is of; or None, the nearest row, and the symbols that differ from it."""

    row: PaperRow | None
    nearest: PaperRow | None
    differences: tuple[Difference, ...]


class LoggedEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """A BLEU of a log: `role` is dev or test, `path` the file that holds it."""

    path: str
    role: str
    metric: str
    value: float
    settings: str
    findings: tuple[Finding, ...]


class LoggedTraining(msgspec.Struct, frozen=True, kw_only=True):
    """A training: its row or the nearest, and the rules that it breaks.

    `events` are those of the attempts.jsonl beside a log of ours; None of a log without one.
    """

    path: str
    log: TrainingLog
    events: list[Event] | None
    symbols: Symbols
    match: Match
    findings: tuple[Finding, ...] = ()
    evaluations: tuple[LoggedEvaluation, ...] = ()

    @property
    def row(self) -> PaperRow | None:
        """The row that its numbers may fill; None if there is none, or a rule keeps them out."""
        is_kept_out = any(finding.severity == "error" for finding in self.findings)
        return None if is_kept_out else self.match.row

    @property
    def language_pair(self) -> str:
        """`en-de`, from the arguments or from the order of the dictionaries; '' without either."""
        return language_pair_of(self.log)

    @property
    def seed(self) -> int | None:
        """The seed, None if the arguments have none."""
        return whole_number(self.log.arguments.get("seed"))

    @property
    def commits(self) -> tuple[str, ...] | None:
        """The commits of a run of ours, in their order; None of other logs."""
        if self.events is None:
            return None
        return tuple(dict.fromkeys(event.commit for event in self.events if isinstance(event, Started)))

    @property
    def version(self) -> str:
        """The version that made it: our commit, or fairseq's version as far as its log shows."""
        if self.commits and is_ours(self.log.arguments):
            commit, plus, dirty = self.commits[-1].partition("+")
            return f"commit {commit[:12]}{plus}{dirty}"
        return VERSION_BY_FORM[self.log.form]

    @property
    def identity(self) -> str | None:
        """What two logs of one training share, whatever else is in them; None without two validations."""
        if len(self.log.validations) < 2:
            return None
        first, second = self.log.validations[:2]
        return f"{self.log.arguments_digest} {first.update} {first.loss_bits} {second.update} {second.loss_bits}"

    @property
    def gpu_seconds(self) -> float | None:
        """GPU seconds of all starts; None where the log does not hold them all, or names no GPU."""
        if self.events is not None:
            return summarise_attempts(self.events).gpu_seconds or None
        seconds = _wall_seconds(self.log)
        return seconds * self.log.num_gpus or None if seconds is not None and self.log.num_gpus else None

    @property
    def value_by_metric(self) -> dict[str, float]:
        """The numbers that its log holds."""
        values = {"steps": float(self.log.last_update)}
        if self.log.num_parameters is not None:
            values["num_parameters"] = float(self.log.num_parameters)
        final = final_validation(self.log)
        if final is not None and final.nll_bits is not None:
            values[PERPLEXITY_METRIC] = 2.0**final.nll_bits
        return values


class LoggedGeneration(msgspec.Struct, frozen=True, kw_only=True):
    """A generation: the training that it is of, if any, its average (`last5`), and the rules that it breaks."""

    path: str
    log: GenerationLog
    training: LoggedTraining | None
    average: str
    findings: tuple[Finding, ...] = ()

    @property
    def subset(self) -> str:
        """What was translated: `test`, `valid`, or another subset; '' if the log does not name it."""
        return self.log.bleu.subset if self.log.bleu else str(self.log.arguments.get("gen_subset") or "")


class LoggedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a folder, files by their path below it."""

    file_by_path: dict[str, LogFile]
    trainings: tuple[LoggedTraining, ...]
    generations: tuple[LoggedGeneration, ...]


def language_pair_of(training: TrainingLog) -> str:
    """Return `en-de`, from the arguments or from the order of the dictionaries; '' without either."""
    source, target = training.arguments.get("source_lang"), training.arguments.get("target_lang")
    if source and target:
        return f"{source}-{target}"
    return "-".join(training.languages[:2]) if len(training.languages) >= 2 else ""


def dev_subset(training: TrainingLog) -> str:
    """Return the subset that perplexity is taken of: the first of `--valid-subset`."""
    return str(training.arguments.get("valid_subset") or "valid").split(",")[0]


def final_validation(training: TrainingLog) -> Validation | None:
    """Return the validation of the weights that the training ended with."""
    subset = dev_subset(training)
    found = [v for v in training.validations if v.subset == subset and v.update == training.last_update]
    return found[-1] if found else None


def whole_number(value: Argument) -> int | None:
    """Return an argument that is a whole number, None for any other."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _wall_seconds(training: TrainingLog) -> float | None:
    if training.first_update:
        return None  # what came before is in another log
    seconds = [start.done_seconds if start.done_seconds is not None else start.seconds for start in training.starts]
    if all(value is not None for value in seconds) and seconds:
        return sum(value for value in seconds if value is not None)
    walls = [epoch.wall_seconds for epoch in training.epochs if epoch.wall_seconds]
    return walls[-1] if walls and len(training.starts) == 1 else None
