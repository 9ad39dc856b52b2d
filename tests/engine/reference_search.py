"""The oracle of our search (`decode/beam_search.py`): fairseq's generator, and tensor2tensor's
search made of it.

The paper was made with tensor2tensor; "early when possible" (section 6.1) is its stop. The two
prune alike, on log-probability, and differ in which candidates may end, which hypotheses are kept,
and when a sentence is done:

| | fairseq | tensor2tensor (v1.0.4, utils/beam_search.py) |
|---|---|---|
| candidates that may end | end of sentence among the best `beam_size` | among all 2 `beam_size` |
| hypotheses kept | the first `beam_size` | the `beam_size` of the best score |
| a sentence is done | with `beam_size` of them | when no unfinished one can beat the worst kept |
| no words at all | barred: end of sentence cannot come first | allowed |
| maximal length | that of the batch's longest source | that of its own source |
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

import torch
from fairseq.search import BeamSearch
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


class EndingsFirst(BeamSearch):  # type: ignore[misc]
    """fairseq's beam search, but all 2 * beam_size candidates may end, each sentence at its own
    maximal length.

    fairseq ends only candidates among the first beam_size. No more than beam_size can end at a
    step, one a beam, so it is enough to move these to the front; the others stay in the order of
    their log-probability.

    In the names, B is a sentence and C a candidate.
    """

    needs_src_lengths = True  # asks fairseq for `set_src_lengths` before each step

    def __init__(
        self, dictionary: Any, *, max_len_a: float, max_len_b: int, model_max_len: int
    ) -> None:
        super().__init__(dictionary)
        self.max_len_a, self.max_len_b, self.model_max_len = max_len_a, max_len_b, model_max_len
        self.best_unfinished_B = torch.empty(0)

    def max_lengths(self, source_length_B: Tensor) -> Tensor:
        """Return the most tokens before the end of sentence, (B,); source lengths count theirs."""
        max_length_B = (self.max_len_a * source_length_B.double() + self.max_len_b).long()
        return max_length_B.clamp(max=self.model_max_len)

    def step(
        self,
        step: int,
        lprobs: Tensor,
        scores: Tensor | None,
        prev_output_tokens: Tensor | None = None,
        original_batch_idxs: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probabilities, symbols and beams of the candidates, those that end first.

        `best_unfinished_B` is then the best log-probability (nats) of those that do not end.
        """
        is_longest_B = step >= self.max_lengths(self.src_lengths)
        if is_longest_B.any():
            is_symbol_V = torch.arange(lprobs.size(-1), device=lprobs.device).ne(self.eos)
            lprobs = lprobs.masked_fill(is_longest_B[:, None, None] & is_symbol_V, -torch.inf)
        score_BC, symbol_BC, beam_BC = super().step(
            step, lprobs, scores, prev_output_tokens, original_batch_idxs
        )
        is_ending_BC = symbol_BC.eq(self.eos) & score_BC.ne(-torch.inf)
        self.best_unfinished_B = score_BC.masked_fill(is_ending_BC, -torch.inf).amax(dim=1)
        order_BC = torch.sort((~is_ending_BC).byte(), dim=1, stable=True).indices
        return (
            score_BC.gather(1, order_BC),
            symbol_BC.gather(1, order_BC),
            beam_BC.gather(1, order_BC),
        )


class Tensor2TensorGenerator(SequenceGenerator):  # type: ignore[misc]
    """fairseq's generator with tensor2tensor's way of ending; see the module's table.

    tensor2tensor ends a batch when all its sentences are done. Here a sentence ends at the first
    step at which it is done and some hypothesis of the batch ends. Its later hypotheses would be
    worse than those it has, so the best is the same. In both searches a sentence may be done with
    fewer than beam_size hypotheses.
    """

    def __init__(self, models: Any, dictionary: Any, **keywords: Any) -> None:
        super().__init__(models, dictionary, **keywords)
        self.search = EndingsFirst(
            dictionary,
            max_len_a=self.max_len_a,
            max_len_b=self.max_len_b,
            model_max_len=self.max_len - 1,
        )
        self.should_set_src_lengths = True

    def is_finished(self, *_: Any) -> bool:
        """Return False: `finalize_hypos` decides, for all sentences at once, and not only for those
        that it extends.
        """
        return False

    def finalize_hypos(
        self,
        step: int,
        bbsz_idx: Tensor,
        eos_scores: Tensor,
        tokens: Tensor,
        scores: Tensor,
        finalized: list[list[dict[str, Any]]],
        finished: list[bool],
        beam_size: int,
        attn: Tensor | None,
        src_lengths: Tensor,
        max_len: int,
    ) -> list[int]:
        """Keep the best of the ended hypotheses; return the rows of the batch that are done.

        fairseq calls this at each step at which a hypothesis of the batch ends; names and types are
        its own.
        """
        ended: list[list[dict[str, Any]]] = [[] for _ in finalized]
        super().finalize_hypos(
            step,
            bbsz_idx,
            eos_scores,
            tokens,
            scores,
            ended,
            finished,
            beam_size,
            attn,
            src_lengths,
            max_len,
        )
        sentences = [
            sentence for sentence, is_done in enumerate(finished) if not is_done
        ]  # one a row of the batch
        max_lengths = self.search.max_lengths(src_lengths).tolist()
        best_unfinished = self.search.best_unfinished_B.tolist()
        done_rows = []
        rows = enumerate(zip(sentences, max_lengths, best_unfinished, strict=True))
        for row, (sentence, max_length, log_probability_nats) in rows:
            kept = sorted(finalized[sentence] + ended[sentence], key=_score, reverse=True)[
                :beam_size
            ]
            finalized[sentence] = kept
            # No continuation scores higher: a log-probability only falls, a penalty only grows.
            bound = log_probability_nats / float((max_length + 1) ** self.len_penalty)
            if step >= max_length or (kept and _score(kept[-1]) > bound):
                finished[sentence] = True
                done_rows.append(row)
        return done_rows


def _score(hypothesis: dict[str, Any]) -> float:
    return float(hypothesis["score"])


def make_generator(
    model: Any,
    dictionary: Any,
    *,
    length_penalty_form: str,
    search_stop: str,
    beam_size: int,
    len_penalty: float,
    **keywords: Any,
) -> SequenceGenerator:
    """Return the generator of a form of length penalty and a stop; `keywords` are those of
    fairseq's own.

    fairseq's rule that end of sentence cannot come first (`min_len` 1) belongs to its stop. With
    beam 1 both stops are greedy search.
    """
    is_stock = search_stop == "fairseq" or beam_size == 1
    return (SequenceGenerator if is_stock else Tensor2TensorGenerator)(
        [_WholePrefix(model)],
        dictionary,
        beam_size=beam_size,
        len_penalty=GnmtPenalty(len_penalty) if length_penalty_form == "gnmt" else len_penalty,
        min_len=1 if search_stop == "fairseq" else 0,
        **keywords,
    )


class Reference(NamedTuple):
    """The best hypothesis of a sentence: symbols without the end, summed log-probability (nats),
    and that penalised.
    """

    symbols: list[int]
    log_probability_nats: float
    score: float


def search_by_generator(
    model: Any, dictionary: Any, decoding: DecodingSpec, sources: list[Tensor]
) -> list[Reference]:
    """Return the best hypothesis of each source; the generators limit a length by their batch's
    longest source.
    """
    generator = make_generator(
        model,
        dictionary,
        length_penalty_form=decoding.length_penalty_form,
        search_stop=decoding.stop,
        beam_size=decoding.beam_size,
        len_penalty=decoding.length_penalty_alpha,
        max_len_a=decoding.max_length_per_source_token,
        max_len_b=decoding.max_extra_tokens,
    )
    found: dict[int, Reference] = {}
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
                found[index] = Reference(
                    best["tokens"][:-1].tolist(),
                    float(best["positional_scores"].sum()),
                    float(best["score"]),
                )
    return [found[index] for index in range(len(sources))]


def unequal(ours: list[Any], references: list[Reference]) -> list[str]:
    """Return a line for each hypothesis that differs, a `tie` if its score does not, and for each
    score that does.
    """
    lines = []
    for index, (one, other) in enumerate(zip(ours, references, strict=True)):
        is_near = abs(one.score - other.score) <= LARGEST_DIFFERENCE
        is_same_score = math.isclose(
            one.score, other.score, rel_tol=LARGEST_DIFFERENCE, abs_tol=LARGEST_DIFFERENCE
        )
        if one.symbols != other.symbols or not is_same_score:
            lines.append(
                f"{'tie' if is_near else 'differs'}: line {index + 1}, {one.score:.7f} for"
                f" {other.score:.7f}, {one.symbols} for {other.symbols}"
            )
    return lines
