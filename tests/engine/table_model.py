"""A model whose next symbol is looked up in a table by what came before, and all that it can say."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

Prefix = tuple[str, ...]
# What comes next after a prefix of the sentence that begins with a source symbol; `</s>` ends it.
NextSymbol = Callable[[str, Prefix], Mapping[str, float]]
END = "</s>"
WORDS = ("a", "b", "c", "d")
PENALTY_BY_FORM: dict[str, Callable[[int], float]] = {
    "len": lambda n: n**0.6,
    "gnmt": lambda n: ((5 + n) / 6) ** 0.6,
}
MIN_LENGTH_BY_STOP = {"fairseq": 1, "tensor2tensor": 0}  # fairseq bars the sentence without words


def make_dictionary(num_symbols: int = 300) -> Dictionary:
    """Return a dictionary of the four words, fairseq's four symbols, and others that are never
    said.

    The others are there because fairseq draws 2 candidates a beam and wants as many symbols.
    """
    dictionary = Dictionary()
    for word in (
        *WORDS,
        *(f"unsaid{index}" for index in range(num_symbols - len(dictionary) - len(WORDS))),
    ):
        dictionary.add_symbol(word)
    return dictionary


def random_table(seed: int, *, sharpness: float = 1.0) -> NextSymbol:
    """Return a model with five symbols, four words and the end: probabilities drawn anew for each
    source and prefix.
    """

    def next_symbol(source: str, prefix: Prefix) -> Mapping[str, float]:
        digits = [WORDS.index(source), *map(WORDS.index, prefix)]
        rng = torch.Generator().manual_seed(
            seed * 10**6 + sum((digit + 1) * 5**i for i, digit in enumerate(digits))
        )
        drawn = (torch.randn(5, generator=rng, dtype=torch.float64) * sharpness).softmax(dim=0)
        return dict(zip((END, *WORDS), drawn.tolist(), strict=True))

    return next_symbol


class _Encoder:
    """Gives the first symbol of each source."""

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary

    def __call__(self, source_BS: Tensor, src_lengths: Tensor) -> Tensor:
        return torch.stack([row[row.ne(self.dictionary.pad())][0] for row in source_BS])

    def reorder_encoder_out(self, encoder_out: Tensor, new_order: Tensor) -> Tensor:
        return encoder_out.index_select(0, new_order)


class _Decoder:
    """Looks the whole prefix up at each step."""

    def __init__(
        self, dictionary: Dictionary, decode: Callable[[Tensor, Tensor], tuple[Tensor, None]]
    ) -> None:
        self.dictionary, self._decode = dictionary, decode

    def forward(
        self, tokens: Tensor, *, encoder_out: Tensor, incremental_state: Any = None
    ) -> tuple[Tensor, None]:
        return self._decode(tokens, encoder_out)

    __call__ = forward

    def reorder_incremental_state_scripting(
        self, incremental_state: Any, new_order: Tensor
    ) -> None:
        pass


class TableModel(nn.Module):
    """What a search asks of a model of fairseq's, out of a table; the source's first symbol says
    which.
    """

    def __init__(self, dictionary: Dictionary, next_symbol: NextSymbol) -> None:
        super().__init__()
        self.dictionary, self.next_symbol = dictionary, next_symbol
        self.encoder, self.decoder = _Encoder(dictionary), _Decoder(dictionary, self._decode)

    def max_decoder_positions(self) -> int:
        return 1024

    def get_normalized_probs(
        self, decoder_out: tuple[Tensor, Any], *, log_probs: bool, sample: Any
    ) -> Tensor:
        return decoder_out[0]

    def _decode(self, tokens: Tensor, encoder_out: Tensor) -> tuple[Tensor, None]:
        rows = []
        for table, prefix in zip(encoder_out.tolist(), tokens.tolist(), strict=True):
            words = tuple(map(self._name, prefix[1:]))
            # A beam larger than what can be said holds impossible prefixes as well, at minus
            # infinity.
            is_possible = set(words) <= set(WORDS)
            probability_by_symbol = (
                self.next_symbol(self._name(table), words) if is_possible else {END: 1.0}
            )
            row = torch.zeros(len(self.dictionary))
            for symbol, probability in probability_by_symbol.items():
                row[self.dictionary.index(symbol)] = probability
            rows.append(row.log())
        return torch.stack(rows)[:, None, :], None

    def _name(self, index: int) -> str:
        return str(self.dictionary[index])


def everything_said(
    next_symbol: NextSymbol,
    table: str,
    *,
    max_length: int,
    penalty: Callable[[int], float],
    min_length: int,
) -> list[tuple[Prefix, float]]:
    """Return each sentence of at most `max_length` words with its score, best first, without any
    search.

    The score is the log-probability (nats) over `penalty(n)`, n the words and the end of sentence.
    """
    said: list[tuple[Prefix, float]] = []
    prefixes: list[tuple[Prefix, float]] = [((), 0.0)]
    for length in range(max_length + 1):
        grown = []
        for prefix, log_probability in prefixes:
            for symbol, probability in next_symbol(table, prefix).items():
                if probability == 0.0:
                    continue
                whole = log_probability + math.log(probability)
                if symbol != END:
                    grown.append(((*prefix, symbol), whole))
                elif length >= min_length:
                    said.append((prefix, whole / penalty(length + 1)))
        prefixes = grown
    return sorted(said, key=lambda sentence: -sentence[1])
