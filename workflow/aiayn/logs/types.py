"""Types of a log's content: a training, a `fairseq-generate`, an averaging of checkpoints, or a
refusal.

fairseq prints losses in base 2: `loss_bits` and `nll_bits` are per target subword, end of sentence
included, and the perplexity of Table 3 is 2 to the `nll_bits` of a validation. Line numbers count
from 1, at line feeds alone.
"""

import msgspec

from aiayn.facts.types import Refusal

Argument = bool | int | float | str | None
# a subword; a training that diverged prints thousands, and a uniform guess costs about 15
MAX_BITS = 100.0


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one validation of a subset, or of a whole epoch, whose subset is ''.

    `bleu`, by `--eval-bleu`, is in percent. `target_tokens_per_update` is fairseq's wpb, without
    padding.
    """

    line: int
    epoch: int
    update: int
    subset: str = ""
    loss_bits: float | None = None
    nll_bits: float | None = None
    bleu: float | None = None
    target_tokens_per_update: float | None = None
    wall_seconds: float | None = None


class LoggedRate(msgspec.Struct, frozen=True, kw_only=True):
    """A printed learning rate: the line, the update, the value."""

    line: int
    update: int
    rate: float


class Dictionaries(msgspec.Struct, kw_only=True):
    """The loaded dictionaries, source first: the number of types by language."""

    size_by_language: dict[str, int] = {}

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages in the order of their dictionaries."""
        return tuple(self.size_by_language)

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        """The sizes in the order of the languages."""
        return tuple(self.size_by_language.values())


class Printed(Dictionaries, kw_only=True):
    """What fairseq prints of a training: its arguments, model, data and devices.

    `form` is the style of the arguments: `print` (up to 0.9), `namespace` (0.10) or `config` (after
    0.10, up to 0.12 and the fork). `arguments_digest` covers all arguments that can change a
    result; '' without arguments.
    """

    form: str = ""
    log_format: str = ""
    arguments: dict[str, Argument] = {}
    arguments_digest: str = ""
    num_parameters: int | None = None
    num_gpus: int | None = None
    gpu: str = ""
    num_pairs_by_split: dict[str, int] = {}


class Start(Printed, kw_only=True):
    """The lines from one start of the trainer to the next, which `aiayn.logs.training` reads into
    it.

    `resumed_update` is 0 for a start from nothing and None where the log does not state it.
    `loaded_path` is the checkpoint that the start began from, '' without. `first_update` and
    `last_update` are the updates of its first and of its newest statistics. `arguments` are empty
    if the start printed none, and `num_ranks` counts the ranks that printed them. `measured_by_key`
    has validations by subset and update, epochs by '' and their number. Every `rate_step`-th
    printed learning rate is kept. `first_text` and `last_text` are the first and the last line that
    were read.
    """

    line: int
    last_line: int = 0
    first_text: bytes = b""
    last_text: bytes = b""
    num_ranks: int = 0
    resumed_update: int | None = None
    loaded_path: str = ""
    first_update: int | None = None
    first_epoch: int | None = None
    last_update: int = 0
    measured_by_key: dict[tuple[str, int], Measured] = {}
    done_seconds: float | None = None
    is_stopped_early: bool = False
    num_repeated_lines: int = 0
    damaged_lines: list[int] = []
    conflict: Refusal | None = None
    rates: list[LoggedRate] = []
    rate_step: int = 1
    num_rates: int = 0

    @property
    def begin_update(self) -> int | None:
        """The update that it began at, None without any; from nothing if its first statistics are
        of epoch 1.

        fairseq before 0.9 prints nothing about an absent checkpoint, and its first statistics may
        be an epoch's.
        """
        if self.resumed_update is not None:
            return self.resumed_update
        return 0 if self.first_epoch == 1 else self.first_update


class TrainingLog(Printed, kw_only=True):
    """One training with all of its starts; of two starts with the same updates the later counts.

    What is printed is the last start's. `last_update` is the newest update of any statistics,
    `rates` a sample of the printed learning rates.
    """

    starts: tuple[Start, ...]
    validations: tuple[Measured, ...] = ()
    epochs: tuple[Measured, ...] = ()
    last_update: int = 0
    first_update: int = 0
    is_stopped_early: bool = False
    num_repeated_lines: int = 0
    damaged_lines: tuple[int, ...] = ()
    truncated_line: int | None = None
    conflict: Refusal | None = None
    rates: tuple[LoggedRate, ...] = ()

    @property
    def first_line(self) -> int:
        """The line that it begins with."""
        return self.starts[0].line

    @property
    def last_line(self) -> int:
        """The last line that was read of it."""
        return self.starts[-1].last_line

    @property
    def is_done(self) -> bool:
        """Whether fairseq printed that it is done."""
        return self.starts[-1].done_seconds is not None


MIN_PIECE_SHARE = 0.05  # of the hypotheses


class GenerationLog(Dictionaries, kw_only=True):
    """One translation: what a log prints of its checkpoint, search, sentences and score, and which
    training and average it belongs to.

    `num_hypotheses` counts the best hypotheses printed, 0 with `--quiet`; `num_marked` of them have
    `@@ ` or other marks of subwords. The last line of fairseq-generate, `bleu_line`, has `bleu` in
    percent under the name as printed (`BLEU4`, or sacreBLEU's `BLEU`), and what follows `bleu`
    below. `subset` is '' if no line names it. `aiayn.logs.evidence` adds the last four fields:
    `path` names the log, `training_path` the log of its training ('' if unknown). `average` is what
    the checkpoint is an average of, `last5`, or the words that name it; `is_by_name` if only the
    name of its file says so.
    """

    first_line: int
    last_line: int
    arguments: dict[str, Argument] = {}
    model_path: str = ""
    num_sentences: int | None = None
    num_hypotheses: int = 0
    num_marked: int = 0
    truncated_line: int | None = None
    subset: str = ""
    bleu_line: int = 0
    bleu: float | None = None
    bleu_name: str = ""
    beam_size: int | None = None
    brevity_penalty: float = 1.0
    hypothesis_length: int = 0
    reference_length: int = 0
    path: str = ""
    training_path: str = ""
    average: str = ""
    is_by_name: bool = False

    @property
    def role(self) -> str:
        """`dev` or `test`, or the subset's own name."""
        return "dev" if self.subset == "valid" else self.subset

    @property
    def has_piece_marks(self) -> bool:
        """Whether the BLEU counts pieces: more hypotheses are marked than in a text about such
        marks.
        """
        return self.num_marked > MIN_PIECE_SHARE * self.num_hypotheses


class AveragingLog(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `average_checkpoints.py`: which checkpoints went into which file."""

    first_line: int
    input_paths: tuple[str, ...]
    output_path: str = ""
    path: str = ""


LogEntry = TrainingLog | GenerationLog | AveragingLog


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one file; `refusal` is the line and the reason if it holds nothing usable.

    `other_programs` are the programs of fairseq, besides training and generation, whose arguments
    the file prints: `preprocess`, `score` and so on.
    """

    num_lines: int
    entries: tuple[LogEntry, ...] = ()
    refusal: Refusal | None = None
    other_programs: tuple[str, ...] = ()


def perplexity_of(nll_bits: float | None) -> float | None:
    """Return the perplexity of a loss in bits a subword; None for a loss that is absent, negative
    or beyond numbers.
    """
    if nll_bits is None or not 0 <= nll_bits < MAX_BITS:
        return None
    return float(2.0**nll_bits)
