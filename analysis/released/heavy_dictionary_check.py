"""Checks whether a dictionary (the list of symbols of a language) is the dictionary with which a
model was trained.

With a wrong dictionary, the indices of symbols do not have the meanings that they had in training.
Most often, a wrong dictionary was made a second time from the same text. In a dictionary that was
made a second time, symbols with a unique count keep their indices, but symbols with equal counts
change places. (Since April 2019, fairseq has a fixed order for symbols with equal counts.)

With references the model's loss is compared with two other losses on the same text: the loss of a
unigram model, and the model's own loss with a shuffled dictionary. In a second test the dictionary
is shuffled only among symbols with equal counts. If this shuffling does not raise the loss, the
order of these symbols was already wrong. Without references, two things are checked: whether the
dictionary is in order of frequency, and how many translations are repeated.

The suffix of a tensor's name is its shape: S source tokens, T target tokens, V symbols.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from aiayn.decode.decode import Translator
from aiayn.decode.exported import cut_line
from aiayn.errors import CheckpointError
from aiayn.model.transformer import Transformer

# This number of lines is enough for two digits of a loss.
NUM_LINES = 100
# With fewer tokens, the test of symbols with equal counts is left out.
MIN_TIED_TOKENS = 50
# The right order of symbols with equal counts must lower the loss by this much.
LEAST_HARM_NATS = 0.5
MAX_REPEATED_FRACTION = 0.1


def check_by_loss(
    translator: Translator, sources: Sequence[Tensor], targets: Sequence[Tensor], place: str
) -> str:
    """Test a dictionary by the model's losses on at most NUM_LINES lines, and return a summary of
    the losses in nats per token. `place` is the name of the dictionary in messages.

    Raises:
        CheckpointError: if the dictionary is wrong. With a wrong dictionary, the model's loss is
            higher than a unigram model's and nearer to the loss with a shuffled dictionary, or
            shuffling symbols with equal counts hardly raises the loss.
    """
    # The lines are spread over the text, because its beginning may come from a single document.
    step = max(1, len(sources) // NUM_LINES)
    encoder, decoder = translator.model.encoder, translator.model.decoder
    lines = (
        [cut_line(line, encoder) for line in sources[::step][:NUM_LINES]],
        [cut_line(line, decoder) for line in targets[::step][:NUM_LINES]],
    )
    target_T = torch.cat(lines[1])
    dictionary = translator.task.target_dictionary
    # One is added to each count, so that no probability is 0.
    count_by_symbol = Counter(torch.cat(list(targets)).tolist())
    # The counts come from the whole text, the loss is the mean over the chosen lines only.
    total = count_by_symbol.total() + len(dictionary)
    unigram = sum(math.log(total / (count_by_symbol[n] + 1)) for n in target_T.tolist())
    unigram /= len(target_T)
    ties = partial(_shuffled, only_ties=True)
    model_T, shuffled_T, shuffled_ties_T = (
        _token_losses(translator, *lines, shuffled)
        for shuffled in (_unchanged, partial(_shuffled, only_ties=False), ties)
    )
    loss, shuffled = float(model_T.mean()), float(shuffled_T.mean())
    summary = (
        f"loss on {len(lines[0])} lines, nats a token: {loss:.2f}; a unigram model of the same"
        f" text {unigram:.2f}; this model with a shuffled dictionary {shuffled:.2f}"
    )
    # A weak model may be worse than a unigram model. The dictionary is blamed only if the loss is
    # also nearer to the loss with a shuffled dictionary.
    is_wrong = loss > unigram and loss > (unigram + shuffled) / 2
    # True for tokens with a symbol that the shuffle of equal counts has moved. A few such tokens
    # would not show anything.
    is_tied_T = (ties(dictionary) != _unchanged(dictionary))[target_T]
    if int(is_tied_T.sum()) >= MIN_TIED_TOKENS:
        tied = float(model_T[is_tied_T].mean())
        shuffled_ties = float(shuffled_ties_T[is_tied_T].mean())
        summary += f"; symbols with equal counts {tied:.2f}, shuffled {shuffled_ties:.2f}"
        is_wrong |= tied > shuffled_ties - LEAST_HARM_NATS
    if is_wrong:
        raise CheckpointError(
            f"{place}: this dictionary is not the model's, or the model is not trained: {summary};"
            " give the dictionary that came with the model, and data that was made with it"
            " (fairseq-preprocess --srcdict, --tgtdict); --no-warning translates all the same"
        )
    return summary


def _unchanged(dictionary: Any) -> Tensor:
    return torch.arange(len(dictionary))


def _shuffled(dictionary: Any, *, only_ties: bool) -> Tensor:
    """Return a random permutation of the indices of a dictionary's symbols. With `only_ties`, only
    symbols with equal counts change places. Special symbols keep their indices.
    """
    numbers_by_group: dict[int, list[int]] = {}
    for number in range(dictionary.nspecial, len(dictionary)):
        group = dictionary.count[number] if only_ties else 0
        numbers_by_group.setdefault(group, []).append(number)
    number_V = _unchanged(dictionary)
    for numbers in numbers_by_group.values():
        # Neighbours in a dictionary are about equally frequent. A shift by half of the group gives
        # each symbol the place of a symbol with a different frequency.
        number_V[numbers] = torch.tensor(numbers).roll((len(numbers) + 1) // 2)
    return number_V


@torch.inference_mode()
def _token_losses(
    translator: Translator,
    sources: Sequence[Tensor],
    targets: Sequence[Tensor],
    shuffled: Callable[[Any], Tensor],
) -> Tensor:
    """Return the negative log-likelihood of each target token in nats, line after line.

    `shuffled` takes a dictionary and returns for each symbol the index that replaces its index.
    """
    task, device = translator.task, translator.device
    source_V, target_V = shuffled(task.source_dictionary), shuffled(task.target_dictionary)
    losses = []
    for source_S, target_T in zip(sources, targets, strict=True):
        source_1S = source_V[source_S][None].to(device)
        numbers_T = target_V[target_T].to(device)
        # The decoder reads the target shifted right, beginning with the end of sentence.
        input_1T = numbers_T.roll(1)[None]
        model = translator.model
        # An export of our transformer does not take fairseq's arguments.
        lengths = {}
        if not isinstance(model, Transformer):
            lengths["src_lengths"] = torch.tensor([source_1S.shape[1]], device=device)
        logits_TV = model.decoder(input_1T, model.encoder(source_1S, **lengths))[0][0]
        losses.append(functional.cross_entropy(logits_TV.float(), numbers_T, reduction="none"))
    return torch.cat(losses).cpu()


def check_without_references(
    counts: Sequence[int], lines: Sequence[str], num_sources: int, place: str
) -> str:
    """Describe a dictionary and the translations that were made with it. The description contains a
    warning if the dictionary is probably wrong.

    `num_sources` is the number of different source lines in the test set.
    """
    # fairseq writes a dictionary in order of falling counts. A different order was made by hand.
    is_by_frequency = list(counts) == sorted(counts, reverse=True)
    # A model that does not understand its input gives many sources the same translation.
    num_repeated = max(0, num_sources - len(set(lines)))
    words = (
        f"{place}: {len(counts):,} symbols, as many as the model has rows;"
        f" {'in' if is_by_frequency else 'not in'} the order of frequency; {num_repeated} of"
        f" {num_sources} translations repeat another"
    )
    if is_by_frequency and num_repeated <= MAX_REPEATED_FRACTION * num_sources:
        return f"{words}; warning: without references a wrong dictionary may not be noticed"
    return f"warning: {words}: is it the dictionary that came with the model? Give --references"
