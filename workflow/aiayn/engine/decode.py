"""Beam search of a test set (section 6.1): one hypothesis a source line, whatever is in it."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch
from tqdm import tqdm

from aiayn.engine.fairseq_args import MAX_POSITIONS
from aiayn.engine.generator import make_generator
from aiayn.engine.model import load_model
from aiayn.spec import DecodingSpec

TOKENS_PER_BATCH = 4000


class Hypothesis(msgspec.Struct, frozen=True, kw_only=True):
    """The best translation of one line: its pieces, its summed log-probability (nats), and its rank score."""

    pieces: list[str]
    log_probability_nats: float
    score: float


def decoding_signature(decoding: DecodingSpec) -> str:
    """Return everything about the search that could change a hypothesis, in one line."""
    return (
        f"beam:{decoding.beam_size}|lenpen:{decoding.length_penalty_form}|alpha:{decoding.length_penalty_alpha:g}"
        f"|stop:{decoding.stop}|maxlen:{decoding.max_length_per_source_token:g}x+{decoding.max_extra_tokens}"
    )


class Translator:
    """A model with its dictionaries, ready to translate lines of pieces."""

    def __init__(self, checkpoint_path: Path, data_folder: Path, decoding: DecodingSpec, *, device: str) -> None:
        self.model, self.task = load_model(checkpoint_path, data_folder, device=device)
        self.device = device
        self.search_as(decoding)

    def search_as(self, decoding: DecodingSpec) -> None:
        """Search from now on as `decoding` says.

        Raises:
            ConfigError: if the beam is too large for the vocabulary.
        """
        self.generator = make_generator(
            [self.model],
            self.task.target_dictionary,
            length_penalty_form=decoding.length_penalty_form,
            search_stop=decoding.stop,
            beam_size=decoding.beam_size,
            len_penalty=decoding.length_penalty_alpha,
            max_len_a=decoding.max_length_per_source_token,
            max_len_b=decoding.max_extra_tokens,
        )

    def number(self, pieces: str) -> torch.Tensor:
        """Return the ids of a line of pieces, end of sentence included."""
        encoded: torch.Tensor = self.task.source_dictionary.encode_line(pieces, add_if_not_exist=False).long()
        return encoded

    def translate(self, sources: list[torch.Tensor], bar: "tqdm[Any] | None" = None) -> list[Hypothesis]:
        """Translate lines given as ids with end of sentence; lines above fairseq's 1,024 positions are cut.

        Progress, in lines, is shown by `bar`, or by one of its own.
        """
        if bar is None:
            with tqdm(total=len(sources), unit="line", desc="decode", disable=None) as own_bar:
                return self.translate(sources, own_bar)
        hypotheses: list[Hypothesis | None] = [None] * len(sources)
        for line_indices in _batches([_fit(source) for source in sources]):
            found = self._translate_batch([_fit(sources[index]) for index in line_indices])
            for index, hypothesis in zip(line_indices, found, strict=True):
                hypotheses[index] = hypothesis
            bar.update(len(line_indices))
        return [hypothesis for hypothesis in hypotheses if hypothesis is not None]

    def _translate_batch(self, sources: list[torch.Tensor]) -> list[Hypothesis]:
        lengths = torch.tensor([len(source) for source in sources])
        dataset = self.task.build_dataset_for_inference(sources, lengths)
        sample = dataset.collater([dataset[index] for index in range(len(sources))])
        net_input = {key: value.to(self.device) for key, value in sample["net_input"].items() if value is not None}
        with torch.no_grad():
            found = self.generator.generate([self.model], {"net_input": net_input})
        hypotheses: list[Hypothesis] = [_best(beam, self.task.target_dictionary) for beam in found]
        # fairseq sorts a batch by length; `id` tells where each line stood.
        by_line = dict(zip(sample["id"].tolist(), hypotheses, strict=True))
        return [by_line[index] for index in range(len(sources))]


def _fit(source: torch.Tensor) -> torch.Tensor:
    if len(source) <= MAX_POSITIONS:
        return source
    return torch.cat([source[: MAX_POSITIONS - 1], source[-1:]])


def _batches(sources: list[torch.Tensor]) -> Iterator[list[int]]:
    """Yield line indices in batches of at most TOKENS_PER_BATCH tokens, all lines of a batch of the same length.

    fairseq limits a hypothesis by the length of its batch's longest line; so it is that of its own.
    """
    longest_first = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
    for length, indices in itertools.groupby(longest_first, key=lambda index: len(sources[index])):
        left = list(indices)
        lines_per_batch = max(1, TOKENS_PER_BATCH // length)
        while left:
            yield left[:lines_per_batch]
            left = left[lines_per_batch:]


def _best(beam: list[dict[str, Any]], dictionary: Any) -> Hypothesis:
    best = beam[0]
    pieces = [dictionary[int(token)] for token in best["tokens"] if int(token) != dictionary.eos()]
    return Hypothesis(
        pieces=pieces,
        log_probability_nats=float(best["positional_scores"].sum()),
        score=float(best["score"]),
    )


def load_source_lines(task: Any, split: str) -> list[torch.Tensor]:
    """Return the source side of a data-bin's split, as ids with end of sentence, in order of line."""
    task.load_dataset(split)
    dataset = task.dataset(split)
    return [dataset.src[index] for index in range(len(dataset.src))]


def decode_split(translator: Translator, split: str) -> tuple[list[Hypothesis], float]:
    """Translate a split; return its hypotheses in order of line, and sentences a second without loading."""
    sources = load_source_lines(translator.task, split)
    begin = time.perf_counter()
    hypotheses = translator.translate(sources)
    return hypotheses, len(sources) / max(time.perf_counter() - begin, 1e-9)
