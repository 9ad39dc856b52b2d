"""Joins batches of fairseq into one batch with all sentences, padded to the longest sentence."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from aiayn.train.grouping import BatchShape


def shape_of(sample: dict[str, Any]) -> BatchShape:
    """Return the shape of a fairseq batch."""
    num_sentences, source_length = sample["net_input"]["src_tokens"].shape
    return BatchShape(num_sentences, source_length, sample["target"].shape[1])


def join_batches(
    samples: Sequence[dict[str, Any]], *, padding_index: int, is_left_padded: bool
) -> dict[str, Any]:
    """Return one batch with the sentences of several fairseq batches. `is_left_padded` says whether
    source sentences are padded on the left. Target sentences are padded on the right.
    """
    inputs = [sample["net_input"] for sample in samples]

    def join(tensors: list[Tensor], *, is_left: bool = False) -> Tensor:
        return _join_rows(tensors, padding_index, is_left=is_left)

    # The keys are those of fairseq's batches, which its trainer and our criterion read.
    return {
        "id": _concatenate([sample["id"] for sample in samples]),
        "nsentences": sum(sample["nsentences"] for sample in samples),
        # fairseq divides the gradient by this number, so it covers the tokens of all batches.
        "ntokens": sum(sample["ntokens"] for sample in samples),
        "target": join([sample["target"] for sample in samples]),
        "net_input": {
            "src_tokens": join([part["src_tokens"] for part in inputs], is_left=is_left_padded),
            "src_lengths": _concatenate([part["src_lengths"] for part in inputs]),
            "prev_output_tokens": join([part["prev_output_tokens"] for part in inputs]),
        },
    }


def _concatenate(tensors: list[Tensor]) -> Tensor:
    """Concatenate vectors. The result is in pinned memory if the first vector is in
    pinned memory.
    """
    joined = torch.cat(tensors)
    # From memory that is not pinned, the copy to the GPU would make the host wait.
    return joined.pin_memory() if tensors[0].is_pinned() else joined


def _join_rows(tensors: list[Tensor], padding_index: int, *, is_left: bool) -> Tensor:
    """Stack the rows of matrices, padded to the width of the widest matrix. The result is in pinned
    memory if the first matrix is in pinned memory.
    """
    widest = max(tensor.shape[1] for tensor in tensors)
    joined = torch.full(
        (sum(len(tensor) for tensor in tensors), widest),
        padding_index,
        dtype=tensors[0].dtype,
        pin_memory=tensors[0].is_pinned(),
    )
    first = 0
    for tensor in tensors:
        # Sources of fairseq are padded on the left, targets on the right: each keeps its side.
        rows = joined[first : first + len(tensor)]
        width = tensor.shape[1]
        columns = slice(widest - width, None) if is_left else slice(0, width)
        rows[:, columns] = tensor
        first += len(tensor)
    return joined
