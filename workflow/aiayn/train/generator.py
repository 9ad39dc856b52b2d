"""The two beam searches that a translation can be found with (section 6.1): fairseq's, and tensor2tensor's.

As plugins of `fairseq-generate`, and what the tests hold `decode/beam_search.py` to, by which we decode.

The paper was made with tensor2tensor; "early when possible" is its stop. The two prune alike, on log-probability, and
differ in what may end, what is kept of it, and when a sentence is done:

| | fairseq | tensor2tensor (v1.0.4, utils/beam_search.py) |
|---|---|---|
| candidates that may end | end of sentence among the best `beam_size` | among all 2 `beam_size` |
| hypotheses kept | the first `beam_size` | the `beam_size` of the best score |
| a sentence is done | with `beam_size` of them | when no unfinished one can beat the worst kept |
| no words at all | barred: end of sentence cannot come first | allowed |
| maximal length | that of the batch's longest source | that of its own source |
| beam 1 | greedy | greedy, by a function of its own |

What an unfinished hypothesis can still reach is bounded by its log-probability over the penalty of the maximal length.
Lengths are fairseq's: at most `max_len_a` * source length (its end of sentence counted) + `max_len_b` tokens and then
an end of sentence, which every hypothesis of that length gets, at the price that the model asks. tensor2tensor drops
these, unless none has ended before.
"""

from typing import Any

import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from aiayn.spec.search_options import check_flag, check_search, gnmt_penalty


class GnmtPenalty:
    """Stands where fairseq keeps its exponent: `n ** self` is ((5 + n) / 6)^alpha (Wu et al. 2016, equation 14).

    fairseq divides a hypothesis's log-probability by `n ** lenpen`, n its tokens with end of sentence.
    """

    def __init__(self, alpha: float) -> None:
        self.alpha, self.penalty = alpha, gnmt_penalty(alpha)

    def __rpow__(self, num_tokens: int) -> float:
        return self.penalty(num_tokens)


class EndingsFirst(BeamSearch):  # type: ignore[misc]
    """fairseq's beam search, but all 2 * beam_size candidates may end, each sentence at its own maximal length.

    fairseq ends only what stands among the first beam_size candidates. No more than beam_size can end at a step, one a
    beam, so it is enough to move these to the front; the others stay in the order of their log-probability.

    In the names, B is a sentence, C one of its candidates.
    """

    needs_src_lengths = True  # asks fairseq for `set_src_lengths` before each step

    def __init__(self, dictionary: Any, *, max_len_a: float, max_len_b: int, model_max_len: int) -> None:
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
        score_BC, symbol_BC, beam_BC = super().step(step, lprobs, scores, prev_output_tokens, original_batch_idxs)
        is_ending_BC = symbol_BC.eq(self.eos) & score_BC.ne(-torch.inf)
        self.best_unfinished_B = score_BC.masked_fill(is_ending_BC, -torch.inf).amax(dim=1)
        order_BC = torch.sort((~is_ending_BC).byte(), dim=1, stable=True).indices
        return score_BC.gather(1, order_BC), symbol_BC.gather(1, order_BC), beam_BC.gather(1, order_BC)


class Tensor2TensorGenerator(SequenceGenerator):  # type: ignore[misc]
    """fairseq's generator with tensor2tensor's way of ending; see the module's table.

    tensor2tensor ends a batch when all its sentences are done. Here each ends by itself, at the first step at which it
    is done and something of the batch ends. What would still be found for a sentence that is done is worse than all
    that it has, so the best hypothesis is the same. It may be done with fewer than beam_size of them, in both.
    """

    def __init__(self, models: Any, dictionary: Any, **keywords: Any) -> None:
        super().__init__(models, dictionary, **keywords)
        self.search = EndingsFirst(
            dictionary, max_len_a=self.max_len_a, max_len_b=self.max_len_b, model_max_len=self.max_len - 1
        )
        self.should_set_src_lengths = True

    def is_finished(self, *_: Any) -> bool:
        """Return False: `finalize_hypos` decides, for all sentences at once, and not only for those that it extends."""
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
        """Keep the best of what has ended; return which rows of the batch are done.

        fairseq calls this at each step at which anything of the batch ends; names and types are its own.
        """
        ended: list[list[dict[str, Any]]] = [[] for _ in finalized]
        super().finalize_hypos(
            step, bbsz_idx, eos_scores, tokens, scores, ended, finished, beam_size, attn, src_lengths, max_len
        )
        _move_scores_to_cpu(ended)
        sentences = [sentence for sentence, is_done in enumerate(finished) if not is_done]  # one a row of the batch
        max_lengths = self.search.max_lengths(src_lengths).tolist()
        best_unfinished = self.search.best_unfinished_B.tolist()
        done_rows = []
        rows = enumerate(zip(sentences, max_lengths, best_unfinished, strict=True))
        for row, (sentence, max_length, log_probability_nats) in rows:
            kept = sorted(finalized[sentence] + ended[sentence], key=_score, reverse=True)[:beam_size]
            finalized[sentence] = kept
            bound = self._highest_score(log_probability_nats, max_length)
            if step >= max_length or (kept and _score(kept[-1]) > bound):
                finished[sentence] = True
                done_rows.append(row)
        return done_rows

    def _highest_score(self, log_probability_nats: float, max_length: int) -> float:
        """Return what no continuation can exceed: a log-probability only falls, a penalty only grows."""
        if not self.normalize_scores:
            return log_probability_nats
        return log_probability_nats / float((max_length + 1) ** self.len_penalty)  # with end of sentence


def _score(hypothesis: dict[str, Any]) -> float:
    return float(hypothesis["score"])


def _move_scores_to_cpu(ended: list[list[dict[str, Any]]]) -> None:
    """Fetch all scores from the device at once: one by one, each would wait for it."""
    hypotheses = [hypothesis for of_sentence in ended for hypothesis in of_sentence]
    scores = torch.stack([hypothesis["score"] for hypothesis in hypotheses]).cpu()
    for hypothesis, score in zip(hypotheses, scores, strict=True):
        hypothesis["score"] = score


def make_generator(
    models: list[Any],
    dictionary: Any,
    *,
    length_penalty_form: str,
    search_stop: str,
    beam_size: int,
    len_penalty: float,
    min_len: int = 1,
    **keywords: Any,
) -> SequenceGenerator:
    """Return the generator of a form of length penalty and a stop; `keywords` are those of fairseq's own.

    fairseq's rule that end of sentence cannot come first (`min_len` 1) belongs to its stop; with tensor2tensor's there
    is none. With beam 1 both stops are greedy search.

    Raises:
        ConfigError: for a form or stop that does not exist, a beam too large for the vocabulary, and whatever
            tensor2tensor's stop cannot be exact with: rewards for length, sampling, constraints.
    """
    check_search(length_penalty_form, search_stop, beam_size, len_penalty, num_symbols=len(dictionary))
    if search_stop == "tensor2tensor":
        _check_tensor2tensor(min_len, keywords)
        min_len = 0
    is_stock = search_stop == "fairseq" or beam_size == 1
    return (SequenceGenerator if is_stock else Tensor2TensorGenerator)(
        models,
        dictionary,
        beam_size=beam_size,
        len_penalty=GnmtPenalty(len_penalty) if length_penalty_form == "gnmt" else len_penalty,
        min_len=min_len,
        **keywords,
    )


def _check_tensor2tensor(min_len: int, keywords: dict[str, Any]) -> None:
    """Refuse what could raise a score later on, as the stop would come too early, and searches of other kinds."""
    with_stop = "with --search-stop tensor2tensor"
    unk_penalty = keywords.get("unk_penalty", 0.0)
    strategy = keywords.get("search_strategy")
    is_plain = strategy is None or type(strategy) is BeamSearch
    check_flag("--unkpen", unk_penalty >= 0, unk_penalty, f"0 or more {with_stop}")
    check_flag("--min-len", min_len <= 1, min_len, f"none {with_stop}, which allows any length")
    check_flag("search strategy", is_plain, type(strategy).__name__, f"plain beam search {with_stop}")
