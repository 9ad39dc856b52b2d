"""Sums the gradients of all ranks (processes) in one flat buffer. Replaces fairseq's `legacy_ddp`.

fairseq copies each gradient into its buffer and back: two kernels for each of the 253 parameters of
base. Here one operation for lists of tensors fills the buffer, and after the sum the gradients are
views of the buffer. The sums are bitwise equal to fairseq's sums: the order of the parameters, the
division before the sum and the size of the buffer are the same.

If `sample_size` is set, the last element of the buffer is the number of target tokens of this rank
(process). One operation sums the gradients and the number of target tokens over the ranks. After
this sum, the GPU divides the gradients by the total number of target tokens.
"""

from typing import Any

import torch
from fairseq.distributed import utils
from fairseq.distributed.legacy_distributed_data_parallel import LegacyDistributedDataParallel
from torch import Tensor


class FlatGradients(LegacyDistributedDataParallel):  # type: ignore[misc]
    """Wraps a model for several ranks (processes). `all_reduce_grads` sums the gradients of all
    ranks after the backward pass.
    """

    def __init__(self, module: torch.nn.Module, process_group: Any, buffer_size: int = 0) -> None:
        # fairseq passes `buffer_size`. It is not used, because one buffer has all gradients.
        super().__init__(module, process_group)
        self.buffer: Any = None
        self._parameters_summed = [p for p in module.parameters() if p.requires_grad]
        self.sample_size: float | None = None
        # A view of the buffer for each parameter.
        self._views: list[Tensor] = []

    def all_reduce_grads(self) -> None:
        """Replace each parameter's gradient by the mean of all ranks' gradients.

        If `sample_size` is set, the gradient is replaced by the sum of all ranks' gradients,
        divided by the number of target tokens of all ranks.
        """
        parameters = self._parameters_summed
        # A batch that is not the update's last: its gradients stay on this rank and add up.
        if self.accumulate_grads:
            return
        # Made at the first call, when it is known whether the buffer also holds `sample_size`.
        if self.buffer is None:
            sizes = [p.numel() for p in parameters]
            num_extra = 0 if self.sample_size is None else 1
            self.buffer = parameters[0].new_empty(sum(sizes) + num_extra)
            pieces = self.buffer[: sum(sizes)].split(sizes)
            self._views = [piece.view_as(p) for piece, p in zip(pieces, parameters, strict=True)]
        # A parameter without a gradient on this rank may have one on another, so it takes part with
        # zeros.
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad.detach() for p in parameters]
        torch._foreach_copy_(self._views, gradients)
        # Before the sum, as fairseq does it: afterwards the last bits would differ.
        self.buffer.div_(self.world_size)
        # Divided by the number of ranks like the gradients, so that their quotient is right.
        if self.sample_size is not None:
            self.buffer[-1:].fill_(self.sample_size / self.world_size)
        utils.all_reduce(self.buffer, self.process_group)
        if self.sample_size is not None:
            # A product, as fairseq's: with two ranks the gradients are equal to the bit.
            self.buffer.mul_(self.buffer[-1].double().reciprocal())
        # Nothing is copied back: from here on the gradients are views of the buffer.
        for parameter, view in zip(parameters, self._views, strict=True):
            parameter.grad = view
