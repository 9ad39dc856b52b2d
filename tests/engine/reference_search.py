"""The reference of our search (`decode/beam_search.py`): fairseq's generator, and tensor2tensor's
search written in lists.

The paper was made with tensor2tensor; "early when possible" (section 6.1) is its stop. The two
prune alike, on log-probability, and differ in which candidates may end, which hypotheses are kept,
and when a sentence is done:

| | fairseq | tensor2tensor (v1.0.4, utils/beam_search.py) |
|---|---|---|
| candidates that may end | end of sentence among the best `beam_size` | among all 2 `beam_size` |
| hypotheses kept | the first `beam_size` | the `beam_size` of the best score |
| a sentence is done | with `beam_size` of them | when no unfinished one can beat the worst kept |
| no words at all | barred: end of sentence cannot come first | allowed |
| beam 1 | greedy | greedy, by a function of its own |

What an unfinished hypothesis can still reach is bounded by its log-probability over the penalty of
the maximal length. Lengths are fairseq's: at most `max_len_a` * source length (its end of sentence
counted) + `max_len_b` tokens and then an end of sentence, which every hypothesis of that length
gets, at the price that the model asks. tensor2tensor drops these, unless none has ended before.

Each step is computed from the whole prefix, only by the model's forward path: nothing is cached.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from aiayn.model.transformer import Transformer
from aiayn.spec.system import DecodingSpec

TOKENS_PER_BATCH = 4_000
LARGEST_DIFFERENCE = 1e-5  # of two scores between which float32 may decide either way

LENGTH_PENALTY_FORMS, SEARCH_STOPS = ("len", "gnmt"), ("fairseq", "tensor2tensor")


class _WholePrefix(nn.Module):
    """A model without incremental state, with the interface that fairseq's generator calls."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.max_decoder_positions, self.get_normalized_probs = (
            model.max_decoder_positions,
            model.get_normalized_probs,
        )

    @property
    def encoder(self) -> "_WholePrefix":
        return self

    @property
    def decoder(self) -> "_WholePrefix":
        return self

    def forward_torchscript(self, net_input: Mapping[str, Tensor]) -> Any:
        return self.model.encoder(net_input["src_tokens"], src_lengths=net_input["src_lengths"])

    def reorder_encoder_out(self, encoder_out: Any, new_order: Tensor) -> Any:
        if not isinstance(self.model, Transformer):
            return self.model.encoder.reorder_encoder_out(encoder_out, new_order)
        tensors = ("memory_BSM", "padding_mask_BS", "additive_mask_B11S")
        return {key: encoder_out[key].index_select(0, new_order) for key in tensors}

    def forward(self, tokens: Tensor, *, encoder_out: Any) -> Any:
        return self.model.decoder(tokens, encoder_out=encoder_out)


class GnmtPenalty:
    """Stands where fairseq keeps its exponent: `n ** self` is ((5 + n) / 6)^alpha (Wu et al. 2016,
    equation 14).

    fairseq divides a hypothesis's log-probability by `n ** lenpen`, n its tokens with end of
    sentence.
    """

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def __rpow__(self, num_tokens: int) -> float:
        return float(((5 + num_tokens) / 6) ** self.alpha)


class Reference(NamedTuple):
    """The best hypothesis of a sentence: symbols without the end, and its summed log-probability
    with the length penalty.
    """

    symbols: list[int]
    score: float


def search_by_reference(
    model: Any, dictionary: Any, decoding: DecodingSpec, sources: list[Tensor]
) -> list[Reference]:
    """Return the best hypothesis of each source. With beam 1 both stops are greedy search."""
    if decoding.stop == "tensor2tensor" and decoding.beam_size > 1:
        return [search_in_lists(model, dictionary, decoding, source) for source in sources]
    return search_by_generator(model, dictionary, decoding, sources)


def penalty_of(decoding: DecodingSpec) -> Any:
    """Return the penalty's exponent: `n ** exponent` divides the log-probability of n tokens."""
    alpha = decoding.length_penalty_alpha
    return GnmtPenalty(alpha) if decoding.length_penalty_form == "gnmt" else alpha


@torch.no_grad()
def search_in_lists(
    model: Any, dictionary: Any, decoding: DecodingSpec, source: Tensor
) -> Reference:
    """Return the best that tensor2tensor's search finds, as its authors describe it.

    Each step takes the 2 beam_size best of all continuations, by log-probability.
    Ended continuations join the finished hypotheses, and the beam_size finished hypotheses with the
    best scores stay. The search goes on with the beam_size best of the other continuations.
    """
    whole, penalty = _WholePrefix(model), penalty_of(decoding)
    end, padding, beam_size = dictionary.eos(), dictionary.pad(), decoding.beam_size
    encoded = whole.model.encoder(source[None], src_lengths=torch.tensor([len(source)]))
    longest = decoding.max_length_per_source_token * len(source) + decoding.max_extra_tokens
    max_length = min(int(longest), model.max_decoder_positions() - 1)
    unfinished: list[tuple[list[int], float]] = [([], 0.0)]
    finished: list[Reference] = []
    for length in range(max_length + 1):
        tokens = torch.tensor([[end, *symbols] for symbols, _ in unfinished])
        rows = whole.reorder_encoder_out(encoded, torch.zeros(len(unfinished), dtype=torch.long))
        output = whole.forward(tokens, encoder_out=rows)
        next_KV = model.get_normalized_probs(
            (output[0][:, -1:], output[1]), log_probs=True, sample=None
        )[:, -1].double()
        next_KV[:, padding] = -torch.inf
        if length == max_length:
            next_KV[:, torch.arange(len(dictionary)).ne(end)] = -torch.inf
        next_KV += torch.tensor([[log_probability] for _, log_probability in unfinished])
        best = next_KV.flatten().topk(2 * beam_size)
        going_on = []
        for index, log_probability in zip(best.indices.tolist(), best.values.tolist(), strict=True):
            row, symbol = divmod(index, len(dictionary))
            if log_probability == -math.inf:
                continue
            prefix = unfinished[row][0]
            if symbol == end:
                score = log_probability / float((length + 1) ** penalty)
                finished.append(Reference(prefix, score))
            else:
                going_on.append(([*prefix, symbol], log_probability))
        finished = sorted(finished, key=lambda hypothesis: -hypothesis.score)[:beam_size]
        unfinished = going_on[:beam_size]
        if not unfinished:
            break
        bound = unfinished[0][1] / float((max_length + 1) ** penalty)
        if finished and finished[-1].score > bound:
            break
    return finished[0]


def search_by_generator(
    model: Any, dictionary: Any, decoding: DecodingSpec, sources: list[Tensor]
) -> list[Reference]:
    """Return the best hypothesis of each source by fairseq's generator, which limits a length by
    its batch's longest source. So a batch has sources of one length.
    """
    generator = SequenceGenerator(
        [_WholePrefix(model)],
        dictionary,
        beam_size=decoding.beam_size,
        len_penalty=penalty_of(decoding),
        min_len=1 if decoding.stop == "fairseq" else 0,
        max_len_a=decoding.max_length_per_source_token,
        max_len_b=decoding.max_extra_tokens,
    )
    reference_by_index: dict[int, Reference] = {}
    by_length = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    for length, group in itertools.groupby(by_length, key=lambda index: len(sources[index])):
        indices = list(group)
        lines_per_batch = max(1, TOKENS_PER_BATCH // length)
        for begin in range(0, len(indices), lines_per_batch):
            batch = indices[begin : begin + lines_per_batch]
            source_BS = torch.stack([sources[index] for index in batch])
            net_input = {"src_tokens": source_BS, "src_lengths": torch.full((len(batch),), length)}
            with torch.no_grad():
                beams = generator.generate([], {"net_input": net_input})
            for index, (best, *_) in zip(batch, beams, strict=True):
                symbols = best["tokens"][:-1].tolist()
                reference_by_index[index] = Reference(symbols, float(best["score"]))
    return [reference_by_index[index] for index in range(len(sources))]


def unequal(ours: list[Any], references: list[Reference]) -> list[str]:
    """Return a line for each hypothesis that differs, a `tie` if its score does not, and for each
    score that does.
    """
    lines = []
    for index, (one, reference) in enumerate(zip(ours, references, strict=True)):
        is_near = abs(one.score - reference.score) <= LARGEST_DIFFERENCE
        is_same_score = np.isclose(
            one.score, reference.score, rtol=LARGEST_DIFFERENCE, atol=LARGEST_DIFFERENCE
        )
        if one.symbols != reference.symbols or not is_same_score:
            lines.append(
                f"{'tie' if is_near else 'differs'}: line {index + 1}, {one.score:.7f} for"
                f" {reference.score:.7f}, {one.symbols} for {reference.symbols}"
            )
    return lines
