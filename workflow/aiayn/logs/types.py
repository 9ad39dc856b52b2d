"""Types of a log's content: a training, a `fairseq-generate`, an averaging of checkpoints, or a
refusal.

fairseq prints losses in base 2: `loss_bits` and `nll_bits` are per target subword, end of sentence
included, and the perplexity of Table 3 is 2 to the `nll_bits` of a validation. Line numbers count
from 1, at line feeds alone.
"""

import msgspec

Argument = bool | int | float | str | None
# a subword; a training that diverged prints thousands, and a uniform guess costs about 15
MAX_BITS = 100.0


class LogStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all that is read from a log."""


class LogNote(LogStruct, frozen=True, kw_only=True):
    """A note on a line of the file."""

    line: int
    text: str


class Validation(LogStruct, frozen=True, kw_only=True):
    """One validation of a subset; `bleu`, by `--eval-bleu`, is in percent."""

    line: int
    epoch: int
    update: int
    subset: str
    loss_bits: float | None
    nll_bits: float | None
    bleu: float | None


class EpochEnd(LogStruct, frozen=True, kw_only=True):
    """The statistics of a whole epoch; `target_tokens_per_update` is fairseq's wpb, without
    padding.
    """

    line: int
    epoch: int
    update: int
    loss_bits: float | None
    nll_bits: float | None
    target_tokens_per_update: float | None
    wall_seconds: float | None


class LoggedRate(LogStruct, frozen=True, kw_only=True):
    """A printed learning rate: the line, the update, the value."""

    line: int
    update: int
    rate: float


class Start(LogStruct, frozen=True, kw_only=True):
    """A start of the trainer. `resumed_update` is 0 for a start from nothing and None where the log
    does not state it.

    `seconds` is the time between the first and the last line of this start; None without printed
    times. `loaded_path` is the checkpoint that it began from, '' without; `last_update` the newest
    of its statistics. `arguments` are empty if the start printed none; `num_gpus` and
    `num_pairs_by_split` are what it printed.
    """

    line: int
    resumed_update: int | None
    loaded_path: str
    last_update: int
    seconds: float | None
    done_seconds: float | None
    arguments: dict[str, Argument]
    num_gpus: int | None
    num_pairs_by_split: dict[str, int]


class TrainingLog(LogStruct, frozen=True, kw_only=True, tag="training"):
    """One training with all of its starts; of two starts with the same updates the later counts.

    `arguments` were printed by the last start. `arguments_digest` covers all arguments that can
    change a result; '' without arguments. `form` is the style in which fairseq printed them:
    `print` (up to 0.9), `namespace` (0.10) or `config` (after 0.10, up to 0.12 and the fork).
    `last_update` is the newest update of any statistics, `rates` a sample of the printed learning
    rates.
    """

    first_line: int
    last_line: int
    form: str
    log_format: str
    arguments: dict[str, Argument]
    arguments_digest: str
    starts: tuple[Start, ...]
    validations: tuple[Validation, ...]
    epochs: tuple[EpochEnd, ...]
    last_update: int
    first_update: int
    num_parameters: int | None
    num_gpus: int | None
    gpu: str
    languages: tuple[str, ...]
    vocabulary_sizes: tuple[int, ...]
    num_pairs_by_split: dict[str, int]
    is_done: bool
    is_stopped_early: bool
    num_repeated_lines: int
    damaged_lines: tuple[int, ...]
    truncated_line: int | None
    conflict: LogNote | None
    notes: tuple[LogNote, ...]
    rates: tuple[LoggedRate, ...]


class BleuLine(LogStruct, frozen=True, kw_only=True):
    """The last line of `fairseq-generate`, value in percent; `name` as printed: `BLEU4`, or
    sacreBLEU's `BLEU`.
    """

    line: int
    subset: str
    beam_size: int
    name: str
    value: float
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int


class GenerationLog(LogStruct, frozen=True, kw_only=True, tag="generation"):
    """One call of fairseq-generate: its checkpoint, its number of sentences, and its BLEU line.

    `num_hypotheses` counts the best hypotheses printed, 0 with `--quiet`. `has_piece_marks` says
    that they still contain `@@ ` or other marks of subwords, so the BLEU counts pieces. `languages`
    and `vocabulary_sizes` describe the loaded dictionaries, source first.
    """

    first_line: int
    last_line: int
    arguments: dict[str, Argument]
    model_path: str
    num_sentences: int | None
    num_hypotheses: int
    has_piece_marks: bool
    bleu: BleuLine | None
    languages: tuple[str, ...] = ()
    vocabulary_sizes: tuple[int, ...] = ()
    truncated_line: int | None


class AveragingLog(LogStruct, frozen=True, kw_only=True, tag="averaging"):
    """One run of `average_checkpoints.py`: which checkpoints went into which file."""

    first_line: int
    last_line: int
    input_paths: tuple[str, ...]
    output_path: str


LogEntry = TrainingLog | GenerationLog | AveragingLog


class Refusal(LogStruct, frozen=True, kw_only=True):
    """Why a file, or the rest of it, is not read; `line` is 0 where it could not be opened or read
    at all.
    """

    line: int
    text: str
    next_step: str = "copy the log again"


class LogFile(LogStruct, frozen=True, kw_only=True):
    """The content of one file; `refusal` is the line and the reason if it holds nothing usable.

    `not_utf8_line` is the first line with bytes outside of UTF-8, or 0. `other_programs`
    are the programs of fairseq, besides training and generation, whose arguments the file prints:
    `preprocess`, `score` and so on.
    """

    num_lines: int
    entries: tuple[LogEntry, ...]
    refusal: Refusal | None = None
    not_utf8_line: int = 0
    other_programs: tuple[str, ...] = ()


def perplexity_of(nll_bits: float | None) -> float | None:
    """Return the perplexity of a loss in bits a subword; None for a loss that is absent, negative
    or beyond numbers.
    """
    if nll_bits is None or not 0 <= nll_bits < MAX_BITS:
        return None
    return float(2.0**nll_bits)
