"""Asks whether a dictionary is the dictionary that a model was trained with.

With a wrong dictionary the numbers of symbols have other meanings than in training. The commonest
case is a dictionary that was made again. Symbols with a count of their own keep their numbers, but
symbols with equal counts change places (fairseq's order of these became fixed in April 2019).

With references the model's loss is compared with two others on the same text: the loss of a unigram
model, and the model's own loss after its dictionary is shuffled. For symbols with equal counts the
shuffle is repeated among themselves: it does no harm if their order is wrong already. Without
references only the dictionary's order and the translations are looked at. Shapes: B sentences, S
source and T target tokens, V symbols.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from aiayn.decode.decode import Translator
from aiayn.errors import CheckpointError

NUM_LINES = 200  # enough for two digits of a loss; big takes a minute for them
LINES_PER_BATCH = 20
MIN_TIED_TOKENS = 50
LEAST_HARM_NATS = 0.5  # by which a right order of equal counts is better than a wrong order
MAX_REPEATED_FRACTION = 0.1


def check_by_loss(
    translator: Translator, sources: Sequence[Tensor], targets: Sequence[Tensor], place: str
) -> str:
    """Return what to say of the dictionary in `place`, from at most NUM_LINES lines of the text.

    Raises:
        CheckpointError: if the loss is that of a model with a wrong dictionary: worst of the three,
            or nearer to a shuffled dictionary than to the unigrams, or not harmed by a shuffle of
            equal counts.
    """
    step = max(1, len(sources) // NUM_LINES)
    lines = sources[::step][:NUM_LINES], targets[::step][:NUM_LINES]
    target_T = torch.cat(list(lines[1]))
    dictionary = translator.task.target_dictionary
    # One is added to each count, so that no probability is 0.
    count_by_symbol = Counter(torch.cat(list(targets)).tolist())
    total = count_by_symbol.total() + len(dictionary)
    unigram = sum(math.log(total / (count_by_symbol[n] + 1)) for n in target_T.tolist())
    unigram /= len(target_T)
    model_T = _token_losses(translator, *lines)
    model = float(model_T.mean())
    shuffled = float(_token_losses(translator, *lines, shuffle=_shuffled).mean())
    words = (
        f"loss on {len(lines[0])} lines, nats a token: {model:.2f}; a unigram model of the same"
        f" text {unigram:.2f}; this model with a shuffled dictionary {shuffled:.2f}"
    )
    is_wrong = model > unigram and model > (unigram + shuffled) / 2
    is_tied_T = (_shuffled_ties(dictionary) != torch.arange(len(dictionary)))[target_T]
    if int(is_tied_T.sum()) >= MIN_TIED_TOKENS:
        tied = float(model_T[is_tied_T].mean())
        shuffled_T = _token_losses(translator, *lines, shuffle=_shuffled_ties)
        shuffled_ties = float(shuffled_T[is_tied_T].mean())
        words += f"; symbols with equal counts {tied:.2f}, shuffled {shuffled_ties:.2f}"
        is_wrong |= tied > shuffled_ties - LEAST_HARM_NATS
    if is_wrong:
        raise CheckpointError(
            f"{place}: this dictionary is not the model's, or the model is not trained: {words};"
            " give the dictionary that came with the model, and data that was made with it"
            " (fairseq-preprocess --srcdict, --tgtdict); --no-warning translates all the same"
        )
    return words


def _shuffled(dictionary: Any) -> Tensor:
    """Return another number for each symbol; the special symbols keep theirs."""
    num_special = dictionary.nspecial
    generator = torch.Generator().manual_seed(1)
    others = torch.randperm(len(dictionary) - num_special, generator=generator) + num_special
    return torch.cat([torch.arange(num_special), others])


def _shuffled_ties(dictionary: Any) -> Tensor:
    """Return another number for each symbol that shares its count: its neighbour's."""
    number_V = torch.arange(len(dictionary))
    numbers_by_count: dict[int, list[int]] = {}
    for number in range(dictionary.nspecial, len(dictionary)):
        numbers_by_count.setdefault(dictionary.count[number], []).append(number)
    for numbers in numbers_by_count.values():
        number_V[numbers] = torch.tensor(numbers).roll(-1)
    return number_V


@torch.inference_mode()
def _token_losses(
    translator: Translator,
    sources: Sequence[Tensor],
    targets: Sequence[Tensor],
    *,
    shuffle: Any = None,
) -> Tensor:
    """Return the negative log-likelihood of each target token in nats, in the order of lines.

    `shuffle` returns the new numbers of a dictionary's symbols.
    """
    model, task, device = translator.model, translator.task, translator.device
    padding = task.target_dictionary.pad()
    if shuffle is not None:
        source_V, target_V = shuffle(task.source_dictionary), shuffle(task.target_dictionary)
        sources = [source_V[line] for line in sources]
        targets = [target_V[line] for line in targets]
    losses = []
    for begin in range(0, len(sources), LINES_PER_BATCH):
        batch = slice(begin, begin + LINES_PER_BATCH)
        source_BS = pad_sequence(
            list(sources[batch]), True, task.source_dictionary.pad(), padding_side="left"
        )
        target_BT = pad_sequence(list(targets[batch]), True, padding)
        # The decoder reads the target shifted right, beginning with the end of sentence.
        input_BT = pad_sequence([line.roll(1) for line in targets[batch]], True, padding)
        length_B = source_BS.ne(task.source_dictionary.pad()).sum(dim=1)
        output = model(source_BS.to(device), length_B.to(device), input_BT.to(device))
        nats_BTV = functional.log_softmax(output[0].float().cpu(), dim=-1)
        nats_BT = nats_BTV.gather(2, target_BT[..., None])[..., 0]
        losses.append(-nats_BT[target_BT.ne(padding)])
    return torch.cat(losses)


def check_without_references(
    counts: Sequence[int], lines: Sequence[str], num_sources: int, place: str
) -> str:
    """Return what to say of a dictionary's counts and of translations without references.

    `num_sources` is the number of different source lines.
    """
    is_by_frequency = list(counts) == sorted(counts, reverse=True)
    num_repeated = max(0, num_sources - len(set(lines)))
    words = (
        f"{place}: {len(counts):,} symbols, as many as the model has rows;"
        f" {'in' if is_by_frequency else 'not in'} the order of frequency; {num_repeated} of"
        f" {num_sources} translations repeat another"
    )
    if is_by_frequency and num_repeated <= MAX_REPEATED_FRACTION * num_sources:
        return f"{words}; warning: without references a wrong dictionary may not be noticed"
    return f"warning: {words}: is it the dictionary that came with the model? Give --references"
