"""Models of a few thousand parameters for the tests of this folder, and batches of random sentences
with padding.
"""

from types import SimpleNamespace
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from aiayn.train.fairseq_model import AiaynTransformer, AiaynTransformerConfig

NUM_SYMBOLS = 23  # with fairseq's four special ones
PAD, EOS = 1, 2
SMALL: dict[str, Any] = {
    "num_layers": 2, "d_model": 8, "d_ff": 16, "num_heads": 2, "d_k": 4, "d_v": 4, "attention_biases": True,
    "p_drop": 0.0, "max_positions": 40,
}  # fmt: skip


def make_dictionary(num_symbols: int = NUM_SYMBOLS) -> Dictionary:
    """Return a dictionary of `num_symbols` symbols, with the special symbols."""
    dictionary = Dictionary()
    for index in range(num_symbols - len(dictionary)):
        dictionary.add_symbol(f"s{index}")
    return dictionary


def make_task(dictionary: Dictionary | None = None) -> Any:
    """Return the two dictionaries that a model asks its task for."""
    one = dictionary or make_dictionary()
    return SimpleNamespace(source_dictionary=one, target_dictionary=one)


def make_model(seed: int = 1, task: Any = None, **changes: Any) -> AiaynTransformer:
    """Return a model of two layers, width 8 and two heads, with `changes` to its config, ready to
    be evaluated.
    """
    torch.manual_seed(seed)
    return AiaynTransformer.build_model(
        AiaynTransformerConfig(**(SMALL | changes)), task or make_task()
    ).eval()


def randomise(model: Any, seed: int = 1, *, std: float = 0.2) -> Any:
    """Return a model with noise on every parameter, so that no bias is 0 and no norm's gain 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(std * torch.randn(parameter.shape, generator=generator))
    return model


def make_batch(
    seed: int = 1,
    *,
    source_lengths: tuple[int, ...] = (5, 7, 3),
    target_lengths: tuple[int, ...] = (4, 2, 6),
    left_pad_source: bool = False,
) -> dict[str, Tensor]:
    """Return random sentences as fairseq's collater gives them: each ends with </s>, targets begin
    with it.
    """
    generator = torch.Generator().manual_seed(seed)

    def sentences(lengths: tuple[int, ...]) -> list[Tensor]:
        ends = torch.tensor([EOS])
        return [
            torch.cat([torch.randint(4, NUM_SYMBOLS, (n - 1,), generator=generator), ends])
            for n in lengths
        ]

    source, target = sentences(source_lengths), sentences(target_lengths)
    moved = [torch.cat([one[-1:], one[:-1]]) for one in target]

    def pad(rows: list[Tensor], *, is_left: bool = False) -> Tensor:
        side = "left" if is_left else "right"
        return torch.nn.utils.rnn.pad_sequence(
            rows, batch_first=True, padding_value=PAD, padding_side=side
        )

    return {
        "src_tokens": pad(source, is_left=left_pad_source),
        "src_lengths": torch.tensor(source_lengths),
        "prev_output_tokens": pad(moved),
        "target": pad(target),
    }


def logits_of(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """Return a model's logits at the target tokens without padding, (N, V)."""
    logits: Tensor = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])[
        0
    ]
    return logits[batch["target"].ne(PAD)]


class WaitsForTheHost(TorchDispatchMode):
    """Notes each operator whose result, or the shape of it, the host must know before it goes on."""

    NAMES = (
        "_local_scalar_dense",
        "nonzero",
        "masked_select",
        "is_nonzero",
        "equal",
        "unique",
        "_unique2",
    )

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.num_operators = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.num_operators += 1
        indices = (
            args[1] if name in ("index", "index_put", "index_put_", "_index_put_impl_") else []
        )
        if name in self.NAMES or any(
            one is not None and one.dtype == torch.bool for one in indices
        ):
            self.found.append(name)
        return func(*args, **(kwargs or {}))
