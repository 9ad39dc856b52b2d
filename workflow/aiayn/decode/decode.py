"""Turns the source lines of a test set into translations, by beam search (section 6.1). Each source
line consists of pieces (subwords), separated by spaces.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch
from tqdm import tqdm

from aiayn.decode.beam_search import BatchSearch, BestHypothesis, max_length
from aiayn.decode.decoder_steps import steps_of
from aiayn.decode.exported import cut_line, load_average
from aiayn.errors import CheckpointError, CorpusError
from aiayn.progress import progress_bar
from aiayn.records import CheckpointRecord
from aiayn.spec.system import DecodingSpec
from aiayn.spec.training import check_search

# Tokens of the source plus tokens of the longest possible target. Together with the beam size, this
# limits the memory of a batch.
TOKENS_PER_BATCH = 12_288  # on a CPU: 150 sentences of 15 tokens
TOKENS_PER_BATCH_ELSEWHERE = 32_768


class Hypothesis(msgspec.Struct, frozen=True, kw_only=True):
    """The best translation of a line: its pieces and its score with the length penalty."""

    pieces: list[str]
    score: float


class Translator:
    """A model with its dictionaries, ready to translate lines of pieces (subwords).

    Raises:
        ConfigError: if the beam is too large for the vocabulary.
    """

    def __init__(
        self,
        checkpoint: Path | CheckpointRecord,
        data_folder: Path,
        decoding: DecodingSpec,
        *,
        device: str,
    ) -> None:
        self.model, self.task = load_average(checkpoint, data_folder, device=device)
        self.checkpoint_path = checkpoint if isinstance(checkpoint, Path) else checkpoint.path
        self.device = device
        self.steps = steps_of(self.model)
        check_search(decoding, len(self.task.target_dictionary))
        self.decoding = decoding

    def number(self, pieces: str) -> torch.Tensor:
        """Convert a line of pieces (subwords) into token ids, including the end of sentence."""
        encoded: torch.Tensor = self.task.source_dictionary.encode_line(
            pieces, add_if_not_exist=False
        ).long()
        return encoded

    def translate(
        self, sources: list[torch.Tensor], bar: "tqdm[Any] | None" = None
    ) -> list[Hypothesis]:
        """Translate source lines, which are given as token ids with the end of sentence.

        Lines longer than the model's positions are cut (`cut_line`). `bar` is a progress bar that
        counts lines.

        Raises:
            CheckpointError: if the model's outputs for a line are NaN.
        """
        sources = [cut_line(source, self.model.encoder) for source in sources]
        hypothesis_by_line: dict[int, Hypothesis] = {}
        padding = self.task.source_dictionary.pad()
        dictionary = self.task.target_dictionary
        tokens_per_batch = TOKENS_PER_BATCH if self.device == "cpu" else TOKENS_PER_BATCH_ELSEWHERE
        for line_indices in _batches(list(map(len, sources)), self.decoding, tokens_per_batch):
            batch = [sources[index] for index in line_indices]
            # On the left, as in training, where fairseq pads sources on the left.
            source_BS = torch.nn.utils.rnn.pad_sequence(
                batch, batch_first=True, padding_value=padding, padding_side="left"
            ).to(self.device)
            lengths = list(map(len, batch))
            end = dictionary.eos()
            search = BatchSearch(
                self.steps, source_BS, lengths, self.decoding, padding=dictionary.pad(), end=end
            )
            for line_index, hypothesis in zip(line_indices, search.run(), strict=True):
                hypothesis_by_line[line_index] = self._hypothesis(hypothesis, line_index)
            if bar is not None:
                bar.update(len(line_indices))
        # The batches were in the order of length. The result is in the order of the lines.
        return [hypothesis_by_line[index] for index in range(len(sources))]

    def _hypothesis(self, best: BestHypothesis | None, line_index: int) -> Hypothesis:
        if best is None:
            raise CheckpointError(
                f"{self.checkpoint_path}: its outputs for line {line_index + 1} are not numbers;"
                " the training has diverged: decode an earlier checkpoint, or lower the learning"
                " rate and train again"
            )
        pieces = [self.task.target_dictionary.symbols[symbol] for symbol in best.symbols]
        return Hypothesis(pieces=pieces, score=best.score)


def _batches(
    lengths: list[int], decoding: DecodingSpec, tokens_per_batch: int
) -> Iterator[list[int]]:
    """Yield batches of line indices, longest lines first.

    A batch has at most `tokens_per_batch` tokens. Padding and the longest possible translations are
    counted, too.
    """
    # Neighbours have similar lengths, so there is little padding. If memory is short, the first
    # batch already shows it.
    longest_first = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    begin = 0
    while begin < len(longest_first):
        length = lengths[longest_first[begin]]
        # A line that exceeds the limit by itself is still translated, in a batch of its own.
        num_lines = max(1, tokens_per_batch // (length + max_length(decoding, length) + 1))
        yield longest_first[begin : begin + num_lines]
        begin += num_lines


def load_split(task: Any, split: str) -> tuple[list[torch.Tensor], list[torch.Tensor] | None]:
    """Return the source and target lines of a data-bin's split (train, valid or test) as token ids,
    in order.

    A data-bin is a folder of text that fairseq has converted to ids. The target lines are None if
    the data-bin has only source lines. The data-bin may have any of fairseq's formats (raw, lazy,
    cached, mmap), also a format that differs from that of the model's training data.

    Raises:
        CorpusError: if the data-bin does not have this split.
    """
    folder = Path(task.cfg.data)
    # A raw data-bin has text files such as `test.en-de.en`, the others `test.en-de.en.idx`.
    is_raw = any(folder.glob(f"{split}.*-*.{task.cfg.source_lang}"))
    # With None, fairseq finds the format from the first bytes of the index file.
    task.cfg.dataset_impl = "raw" if is_raw else None
    try:
        task.load_dataset(split)
    except FileNotFoundError as error:
        raise CorpusError(
            f"{folder}: {error}; give a split of this data-bin with --split"
        ) from error
    sides = []
    for side in filter(None, (task.dataset(split).src, task.dataset(split).tgt)):
        # fairseq's `cached` format has only the lines that were prefetched.
        if side.supports_prefetch:
            side.prefetch(range(len(side)))
        sides.append([side[index].long() for index in range(len(side))])
    return sides[0], sides[1] if len(sides) == 2 else None


def decode_split(translator: Translator, split: str) -> tuple[list[Hypothesis], float]:
    """Translate a split of the data-bin. Return its hypotheses in order, and the sentences per
    second.

    The speed does not count the time to load the data.
    """
    sources, _ = load_split(translator.task, split)
    begin = time.perf_counter()
    with progress_bar("decode", len(sources), " lines") as bar:
        hypotheses = translator.translate(sources, bar)
    # An empty split takes no time.
    return hypotheses, len(sources) / max(time.perf_counter() - begin, 1e-9)
