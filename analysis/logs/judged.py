"""What is known of each log in a folder once the rules have been asked: its row, its numbers, its faults."""

import msgspec

from analysis.logs.checks import Finding
from analysis.logs.facts import Facts
from analysis.logs.rows import Match, PaperRow
from analysis.logs.symbols import Symbols
from analysis.logs.types import GenerationLog, LogFile, TrainingLog

PERPLEXITY_METRIC = "ppl_per_subword"


class LoggedEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """A BLEU that a log holds: `role` is dev or test, `path` the file that says it."""

    path: str
    role: str
    metric: str
    value: float
    settings: str
    findings: tuple[Finding, ...]


class LoggedTraining(msgspec.Struct, frozen=True, kw_only=True):
    """A training: its row or the nearest, what its log holds by metric, and the rules that it breaks."""

    path: str
    log: TrainingLog
    symbols: Symbols
    language_pair: str
    match: Match
    facts: Facts
    findings: tuple[Finding, ...]
    value_by_metric: dict[str, float]
    version: str
    gpu_seconds: float | None
    evaluations: tuple[LoggedEvaluation, ...] = ()

    @property
    def row(self) -> PaperRow | None:
        """The row that its numbers may fill; None if there is none, or a rule keeps them out."""
        is_kept_out = any(finding.severity == "error" for finding in self.findings)
        return None if is_kept_out else self.match.row


class LoggedGeneration(msgspec.Struct, frozen=True, kw_only=True):
    """A generation: the training that it is of, if any, and the rules that it breaks."""

    path: str
    log: GenerationLog
    training_path: str
    findings: tuple[Finding, ...]


class LoggedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """All that a folder holds, files by their path below it."""

    file_by_path: dict[str, LogFile]
    trainings: tuple[LoggedTraining, ...]
    generations: tuple[LoggedGeneration, ...]
