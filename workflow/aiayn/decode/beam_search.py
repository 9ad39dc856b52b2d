"""Turns a batch of sentences into the best translation of each, by beam search (section 6.1).

The search supports the length penalty and the stopping rule of fairseq, and those of tensor2tensor:

| | fairseq | tensor2tensor (v1.0.4, utils/beam_search.py) |
|---|---|---|
| candidates that may end | the best `beam_size` | all 2 `beam_size` |
| a sentence is done | with `beam_size` ended hypotheses | when its best cannot be beaten |
| empty translation | not allowed: end of sentence cannot come first | allowed |

Both stopping rules end a translation at a maximal length that depends only on its own source
sentence, so a translation does not depend on its batch. With beam size 1, both stopping rules give
greedy search. The host reads from the device which sentences are done: after each step on a CPU,
and after every few steps on a GPU, because reading makes the host wait. The best hypothesis of a
done sentence does not change while the sentence is still in the batch.

Suffixes of tensor names are shapes: B sentences, K beams, N = B * K rows, C = 2 K candidates, V
symbols, T tokens, J blocks of the vocabulary, I symbols in each block. Log-probabilities are in
nats.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from aiayn.decode.decoder_steps import COLUMN_MULTIPLE, DecoderSteps
from aiayn.spec.training import DecodingSpec, require_decoding

BLOCK_SIZE = 16  # larger blocks take more time for their maxima than they save
# After this number of steps the host reads which sentences are done.
STEPS_BETWEEN_LOOKS = {"cpu": 1}
STEPS_BETWEEN_LOOKS_ELSEWHERE = 8
# Done sentences are removed when they are at least this share of the batch. To remove fewer takes
# more time than it saves.
LEAVING_FRACTION = 1 / 16
# Rows of logits from `TransformerSteps` then consist of whole blocks and need no filling.
assert COLUMN_MULTIPLE % BLOCK_SIZE == 0


class BestHypothesis(NamedTuple):
    """The best hypothesis of a sentence.

    `symbols` are the target ids without the end-of-sentence symbol. `score` is the summed
    log-probability divided by the length penalty.
    """

    symbols: list[int]
    score: float


class _Candidates(NamedTuple):
    """The 2 `beam_size` best continuations of each sentence, best first."""

    log_probability_BC: Tensor  # summed over the hypothesis, nats
    symbol_BC: Tensor
    beam_BC: Tensor


class _Finished(NamedTuple):
    """The best hypothesis that has ended, for each sentence of the batch."""

    score_B: Tensor  # minus infinity before a hypothesis has ended
    # Without the end of sentence. Only the first `num_tokens_B` tokens of a row are valid.
    token_BT: Tensor
    num_tokens_B: Tensor


def length_penalty(decoding: DecodingSpec, num_tokens: int) -> float:
    """Return the length penalty: n^alpha, or ((5 + n) / 6)^alpha (Wu et al. 2016, equation 14).

    n is the number of target tokens, including the end of sentence.
    """
    base = (5 + num_tokens) / 6 if decoding.length_penalty_form == "gnmt" else num_tokens
    return float(base**decoding.length_penalty_alpha)


def max_length(decoding: DecodingSpec, num_source_tokens: int) -> int:
    """Return the maximal number of target tokens, not counting the end of sentence.

    `num_source_tokens` includes the source's end of sentence.
    """
    return int(decoding.max_length_per_source_token * num_source_tokens + decoding.max_extra_tokens)


class BatchSearch:
    """The search for the best hypothesis of each sentence of a batch.

    The object holds the sentences that are not done, their unfinished hypotheses and their best
    ended hypotheses. Source sentences are padded on the left. `lengths` are the numbers of source
    tokens, including the end of sentence. The search never chooses the symbol `padding`. The symbol
    `end` begins and ends each target sentence.
    """

    @torch.inference_mode()
    def __init__(
        self,
        steps: DecoderSteps,
        source_BS: Tensor,
        lengths: list[int],
        decoding: DecodingSpec,
        *,
        padding: int,
        end: int,
    ) -> None:
        self.steps, self.decoding, self.padding, self.end = steps, decoding, padding, end
        num_sentences = len(lengths)
        device = source_BS.device
        self.beam_size = decoding.beam_size
        # With a beam of 1 tensor2tensor decodes greedily, without its beam search. fairseq's rule
        # with this beam does the same.
        self.is_by_fairseq = decoding.stop == "fairseq" or self.beam_size == 1
        self.may_be_empty = decoding.stop == "tensor2tensor"
        # One of the model's positions is needed for the end of sentence.
        self.max_lengths = [
            min(max_length(decoding, length), steps.max_tokens - 1) for length in lengths
        ]
        shortest = min(self.max_lengths)
        require_decoding(
            "longest translation",
            self.may_be_empty or shortest >= 1,
            shortest,
            "1 token or more with stop fairseq",
        )
        self.max_length_B = torch.tensor(self.max_lengths, device=device)
        # An unfinished hypothesis has its best possible score if it ends at the maximal length
        # without losing log-probability. This is the penalty for that length, end of sentence
        # included.
        bound_penalties = [length_penalty(decoding, length + 1) for length in self.max_lengths]
        self.bound_penalty_B = torch.tensor(bound_penalties, device=device)
        # The remaining sentences, by their index in the whole batch.
        self.sentence_indices = list(range(num_sentences))
        self.best: list[BestHypothesis | None] = [None] * num_sentences
        # At the first step a sentence has a single, empty hypothesis.
        self.log_probability_BK = torch.zeros(num_sentences, 1, device=device)
        self.token_BKT = torch.full((num_sentences, 1, 1), end, device=device)
        self.finished = _Finished(
            score_B=torch.full((num_sentences,), -torch.inf, device=device),
            token_BT=torch.empty(num_sentences, 0, dtype=torch.long, device=device),
            num_tokens_B=torch.zeros(num_sentences, dtype=torch.long, device=device),
        )
        # Only fairseq's rule counts ended hypotheses.
        self.num_ended_B = torch.zeros(num_sentences, dtype=torch.long, device=device)
        self.is_done_B = torch.zeros(num_sentences, dtype=torch.bool, device=device)
        self.steps_between_looks = STEPS_BETWEEN_LOOKS.get(
            device.type, STEPS_BETWEEN_LOOKS_ELSEWHERE
        )
        # Kept from step to step, so that its memory is not allocated again.
        self.nats_NV = torch.empty(0, 0, device=device)
        steps.start(source_BS)

    @torch.inference_mode()
    def run(self) -> list[BestHypothesis | None]:
        """Return the best hypothesis of each sentence, or None for a sentence if the model's
        outputs for it are NaN.
        """
        step = 0
        while True:
            # One step: find the best continuations, end some of them, remove the sentences that are
            # done, and extend the others.
            candidates = self._candidates(step)
            is_ending_BC = candidates.symbol_BC.eq(self.end) & candidates.log_probability_BC.ne(
                -torch.inf
            )
            finish = (
                self._finish_as_fairseq if self.is_by_fairseq else self._finish_as_tensor2tensor
            )
            # With both rules a sentence is done at its maximal length, where the end of sentence
            # was the only allowed symbol.
            self.is_done_B |= finish(candidates, is_ending_BC, step) | self.max_length_B.le(step)
            sentence_B = self._remove_done(step)
            if not self.sentence_indices:
                return self.best
            self._extend(candidates, is_ending_BC, sentence_B)
            step += 1

    def _candidates(self, step: int) -> _Candidates:
        """Return the 2 `beam_size` best continuations of each sentence, over all its beams.

        The vocabulary is divided into blocks of symbols. The 2 `beam_size` best continuations are
        always in the 2 `beam_size` blocks with the highest maxima, so only these blocks are sorted.
        Sorting all symbols of all beams would take much longer.
        """
        nats_NV = self._log_probabilities(step)
        num_sentences, num_beams = self.log_probability_BK.shape
        # Block j has the symbols j, j + J, j + 2 J and so on.
        nats_NIJ = nats_NV.view(len(nats_NV), BLOCK_SIZE, -1)
        num_blocks = nats_NIJ.shape[2]
        highest_BKJ = nats_NIJ.amax(dim=1).view(num_sentences, num_beams, -1)
        # With the log-probability of its hypothesis, a maximum can be compared across beams.
        # Q = K * J: the blocks of all beams of a sentence in a row.
        highest_BQ = (highest_BKJ + self.log_probability_BK[..., None]).flatten(1)
        num_candidates = 2 * self.beam_size
        flat_index_BC = highest_BQ.topk(
            min(num_candidates, highest_BQ.shape[1]), sorted=False
        ).indices
        beam_BC, block_BC = flat_index_BC // num_blocks, flat_index_BC % num_blocks
        # From a beam within its sentence to a row of the batch.
        row_BC = beam_BC + torch.arange(num_sentences, device=beam_BC.device)[:, None] * num_beams
        nats_BCI = (
            nats_NIJ[row_BC, :, block_BC] + self.log_probability_BK.gather(1, beam_BC)[..., None]
        )
        best_BC, flat_index_BC = nats_BCI.flatten(1).topk(num_candidates)
        chosen_BC, in_block_BC = flat_index_BC // BLOCK_SIZE, flat_index_BC % BLOCK_SIZE
        # Undo the layout of the blocks: symbol i of block j is number j + i J.
        symbol_BC = in_block_BC * num_blocks + block_BC.gather(1, chosen_BC)
        return _Candidates(
            log_probability_BC=best_BC,
            # If a sentence is done or a model has diverged, the filling symbols may be among the
            # best. Such a candidate is never used, but its number must be a valid symbol.
            symbol_BC=symbol_BC.clamp(max=self.steps.num_symbols - 1),
            beam_BC=beam_BC.gather(1, chosen_BC),
        )

    def _log_probabilities(self, step: int) -> Tensor:
        """Return the log-probabilities of the next symbol for each hypothesis, padded to whole
        blocks.

        Symbols that the search must not choose have a log-probability of minus infinity.
        """
        logits_NV = self.steps.logits(self.token_BKT[:, :, -1].flatten())
        num_filling = -logits_NV.shape[1] % BLOCK_SIZE
        if num_filling:
            logits_NV = functional.pad(logits_NV, (0, num_filling))
        logits_NV[:, self.steps.num_symbols :] = -torch.inf
        # Only the second step has more rows than the first: each sentence grows to `beam_size`
        # rows.
        if len(self.nats_NV) < len(logits_NV):
            self.nats_NV = torch.empty_like(logits_NV)
        nats_NV = torch.log_softmax(logits_NV, 1, out=self.nats_NV[: len(logits_NV)])
        nats_NV[:, self.padding] = -torch.inf
        # fairseq never ends a translation before its first word. tensor2tensor may.
        if step == 0 and not self.may_be_empty:
            nats_NV[:, self.end] = -torch.inf
        # The host knows the maximal lengths, so most steps skip this without asking the device.
        if step >= min(self.max_lengths):
            num_beams = self.log_probability_BK.shape[1]
            # A sentence at its maximal length can only end. Other sentences of the batch go on.
            is_longest_N1 = self.max_length_B.le(step).repeat_interleave(num_beams)[:, None]
            is_word_V = torch.arange(nats_NV.shape[1], device=nats_NV.device).ne(self.end)
            nats_NV.masked_fill_(is_longest_N1 & is_word_V, -torch.inf)
        return nats_NV

    def _finish_as_fairseq(
        self, candidates: _Candidates, is_ending_BC: Tensor, step: int
    ) -> Tensor:
        """Among the first `beam_size` candidates, end the hypotheses whose newest symbol is the end
        of sentence. Return which sentences are done, shape (B,).

        As in fairseq, a sentence is done when `beam_size` of its hypotheses have ended.
        """
        is_among_first_C = (
            torch.arange(is_ending_BC.shape[1], device=is_ending_BC.device) < self.beam_size
        )
        # fairseq counts endings in the order of the candidates, and stops counting at `beam_size`.
        num_after_BC = self.num_ended_B[:, None] + (is_ending_BC & is_among_first_C).cumsum(dim=1)
        self.num_ended_B = num_after_BC[:, -1]
        self._keep_best(
            candidates, is_ending_BC & is_among_first_C & num_after_BC.le(self.beam_size), step
        )
        return self.num_ended_B.ge(self.beam_size)

    def _finish_as_tensor2tensor(
        self, candidates: _Candidates, is_ending_BC: Tensor, step: int
    ) -> Tensor:
        """End all hypotheses whose newest symbol is the end of sentence. Return which sentences are
        done, shape (B,).

        A sentence is done when none of its unfinished hypotheses can beat its best ended
        hypothesis. The score of an unfinished hypothesis is bounded, because its log-probability
        can only fall and its length penalty can only grow. tensor2tensor itself continues until the
        worst of its `beam_size` best ended hypotheses cannot be beaten either. tensor2tensor's
        longer search can change the other hypotheses of a sentence, but not the best hypothesis.
        """
        self._keep_best(candidates, is_ending_BC, step)
        # The best candidate that does not end here. Divided by the largest penalty, it is a bound.
        best_unfinished_B = candidates.log_probability_BC.masked_fill(
            is_ending_BC, -torch.inf
        ).amax(dim=1)
        return self.finished.score_B.gt(best_unfinished_B / self.bound_penalty_B)

    def _keep_best(self, candidates: _Candidates, is_ending_BC: Tensor, step: int) -> None:
        """Replace a sentence's best ended hypothesis if a hypothesis that ends in this step is
        better.

        The best hypothesis of a done sentence does not change while the sentence is still in the
        batch. With fairseq's stopping rule, hypotheses that end later are not counted. With
        tensor2tensor's stopping rule, hypotheses that end later have lower scores. After the
        maximal length, all candidates have a score of minus infinity.
        """
        finished = self.finished
        ended_B, candidate_B = candidates.log_probability_BC.masked_fill(
            ~is_ending_BC, -torch.inf
        ).max(dim=1)
        # The penalty counts the end of sentence, as fairseq and tensor2tensor both do.
        score_B = ended_B / length_penalty(self.decoding, step + 1)
        is_better_B = score_B.gt(finished.score_B)
        beam_B = candidates.beam_BC.gather(1, candidate_B[:, None])[:, 0]
        # The first symbol, which begins every target, is left out.
        token_BT = self.token_BKT[torch.arange(len(beam_B), device=beam_B.device), beam_B, 1:]
        # Hypotheses that ended earlier are shorter, so they are filled up to the same width.
        best_BT = functional.pad(
            finished.token_BT, (0, token_BT.shape[1] - finished.token_BT.shape[1])
        )
        self.finished = _Finished(
            score_B=torch.where(is_better_B, score_B, finished.score_B),
            token_BT=torch.where(is_better_B[:, None], token_BT, best_BT),
            num_tokens_B=torch.where(is_better_B, step, finished.num_tokens_B),
        )

    def _remove_done(self, step: int) -> Tensor | None:
        """Remove done sentences from the batch. Return the remaining sentences' indices in the old
        batch.

        Return None if no sentence is removed.
        """
        # The host knows this without reading from the device.
        is_last = step >= max(self.max_lengths)
        if not is_last and (step + 1) % self.steps_between_looks:
            return None
        # To read from the device, the host waits until the step has been computed.
        is_done = self.is_done_B.tolist()
        num_done = sum(is_done)
        is_worthwhile = num_done == len(is_done) or num_done >= LEAVING_FRACTION * len(is_done)
        if num_done == 0 or not is_worthwhile:
            return None
        rows = zip(
            self.finished.score_B.tolist(),
            self.finished.num_tokens_B.tolist(),
            self.finished.token_BT.tolist(),
            strict=True,
        )
        for sentence_index, is_sentence_done, (score, num_tokens, tokens) in zip(
            self.sentence_indices, is_done, rows, strict=True
        ):
            # If the model's outputs are not numbers, a sentence is done without a hypothesis, and
            # its entry stays None.
            if is_sentence_done and score > -torch.inf:
                self.best[sentence_index] = BestHypothesis(tokens[:num_tokens], score)
        remaining = [
            index for index, is_sentence_done in enumerate(is_done) if not is_sentence_done
        ]
        self.sentence_indices = [self.sentence_indices[index] for index in remaining]
        self.max_lengths = [self.max_lengths[index] for index in remaining]
        sentence_B = torch.tensor(remaining, dtype=torch.long, device=self.max_length_B.device)
        self.max_length_B = self.max_length_B[sentence_B]
        self.bound_penalty_B = self.bound_penalty_B[sentence_B]
        self.num_ended_B = self.num_ended_B[sentence_B]
        self.is_done_B = self.is_done_B[sentence_B]
        self.finished = _Finished(*(tensor[sentence_B] for tensor in self.finished))
        return sentence_B

    def _extend(
        self, candidates: _Candidates, is_ending_BC: Tensor, sentence_B: Tensor | None
    ) -> None:
        """Continue the search with the `beam_size` best candidates that have not ended."""
        num_beams = self.log_probability_BK.shape[1]
        # The rows as they were before done sentences were removed, because `steps` still has them.
        first_row_B = torch.arange(len(is_ending_BC), device=is_ending_BC.device) * num_beams
        if sentence_B is not None:
            candidates = _Candidates(*(tensor[sentence_B] for tensor in candidates))
            is_ending_BC = is_ending_BC[sentence_B]
            first_row_B = first_row_B[sentence_B]
        # A stable sort puts the ended candidates last and keeps the order of the others. At most K
        # of the 2 K candidates can end, because each beam has the end of sentence once. So at least
        # K candidates are left to extend.
        candidate_BK = is_ending_BC.byte().sort(dim=1, stable=True).indices[:, : self.beam_size]
        self.log_probability_BK = candidates.log_probability_BC.gather(1, candidate_BK)
        row_N = (candidates.beam_BC.gather(1, candidate_BK) + first_row_B[:, None]).flatten()
        symbol_BK = candidates.symbol_BC.gather(1, candidate_BK)
        token_BKT = self.token_BKT.flatten(0, 1).index_select(0, row_N).view(*symbol_BK.shape, -1)
        self.token_BKT = torch.cat([token_BKT, symbol_BK[..., None]], dim=2)
        self.steps.keep(row_N, sentence_B)
