"""Compares the product's training step with an independent step, written from the paper
(tests/oracle/training_step.py).

Both start from the same weights and make 20 updates with one batch of sentences of different
lengths, in float64. The product's side is what `aiayn train` runs: its flags, fairseq's trainer, our
task, model, loss, optimiser and schedule. With dropout, the oracle computes with the masks that the
product has drawn, by their place in the model.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from fairseq.data.language_pair_dataset import collate
from fairseq.logging import metrics
from fairseq.trainer import Trainer

from aiayn.train import compat
from aiayn.train.task import AiaynTranslationTask
from tests import records_factory
from tests.engine.models import EOS, NUM_SYMBOLS, PAD, make_dictionary, randomise
from tests.engine.tiny_spec import flags_of
from tests.oracle import training_step as oracle
from tests.oracle.training_step import Array, Pairs, Settings

NUM_UPDATES = 20
WARMUP_STEPS = 12  # so that equation (3) rises and falls within the updates
TRAINING = msgspec.structs.replace(
    records_factory.BASE_TRAINING,
    num_layers=2,
    p_drop=0.0,
    warmup_steps=WARMUP_STEPS,
    updates=NUM_UPDATES,
    device="cpu",
)
SETTINGS = Settings(
    num_layers=2,
    d_model=64,
    num_heads=4,
    d_k=16,
    eps_ls=0.1,
    adam_beta_1=0.9,
    adam_beta_2=0.98,
    adam_epsilon=1e-9,
    warmup_steps=WARMUP_STEPS,
    end_symbol=EOS,
)
LENGTHS = ((5, 4), (8, 2), (3, 7), (6, 6), (1, 3))  # source and target tokens, </s> included

TOLERANCE = 1e-9
# A bias of the keys adds the same number to all scores of a query, which softmax ignores: its
# gradient is 0. Both sides compute a rounding error instead, which Adam divides by epsilon.
KEY_BIAS_TOLERANCE = 1e-8

TIED = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.output_projection.weight",
)
ORACLE_NAME_BY_MODULE = {
    "self_attn": "self",
    "encoder_attn": "cross",
    "q_proj": "q",
    "k_proj": "k",
    "v_proj": "v",
    "out_proj": "out",
    "fc1": "feed_forward.1",
    "fc2": "feed_forward.2",
    "self_attn_layer_norm": "norm_self",
    "encoder_attn_layer_norm": "norm_cross",
    "final_layer_norm": "norm_feed_forward",
}


def make_pairs() -> Pairs:
    """Return random sentence pairs. Symbols below 4 are fairseq's special symbols."""
    rng = np.random.default_rng(1)

    def sentence(num_tokens: int) -> list[int]:
        return [*rng.integers(4, NUM_SYMBOLS, num_tokens - 1).tolist(), EOS]

    return [(sentence(source), sentence(target)) for source, target in LENGTHS]


@pytest.fixture
def trainer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trainer]:
    """Return fairseq's trainer as `aiayn train` makes it, with a float64 model that has noise on
    all parameters. The parameter is P_drop, 0 without one.
    """
    training = msgspec.structs.replace(TRAINING, p_drop=getattr(request, "param", 0.0))
    cfg = compat.training_config(flags_of(training, tmp_path))
    dictionary = make_dictionary()
    task = AiaynTranslationTask(cfg.task, dictionary, dictionary)
    torch.set_num_threads(
        1
    )  # as a rank with one thread does; more are slower with matrices as small as these
    torch.manual_seed(1)
    model = randomise(task.build_model(cfg.model).double(), std=0.05)
    with metrics.aggregate(new_root=True):
        yield Trainer(cfg, task, model, task.build_criterion(cfg.criterion))


def train_product(trainer: Trainer, pairs: Pairs) -> None:
    """Make the updates with all pairs in one batch, padded by fairseq as the task has it."""
    cfg = trainer.task.cfg
    samples = [
        {"id": index, "source": torch.tensor(source), "target": torch.tensor(target)}
        for index, (source, target) in enumerate(pairs)
    ]
    for _ in range(NUM_UPDATES):
        batch = collate(
            samples,
            PAD,
            EOS,
            left_pad_source=cfg.left_pad_source,
            left_pad_target=cfg.left_pad_target,
        )
        trainer.train_step([batch])


def record_masks(trainer: Trainer) -> list[dict[str, torch.Tensor]]:
    """Return a list that gets the product's masks of dropout: for each update (B, T, M) by place.

    A mask is what the same random numbers do to ones. The module of a layer is called once for each
    of its sub-layers, in their order.
    """
    recorded: list[dict[str, torch.Tensor]] = []
    sublayers_by_stack = {
        "encoder": ("self", "feed_forward"),
        "decoder": ("self", "cross", "feed_forward"),
    }

    def watch(module: torch.nn.Dropout, places: Sequence[str]) -> None:
        states: list[torch.Tensor] = []

        def before(_: torch.nn.Module, inputs: tuple[torch.Tensor]) -> None:
            states.append(torch.get_rng_state())

        def after(_: torch.nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
            state_after = torch.get_rng_state()
            torch.set_rng_state(states[-1])
            mask_BTM = torch.nn.functional.dropout(torch.ones_like(inputs[0]), module.p)
            assert torch.equal(torch.get_rng_state(), state_after)
            assert torch.equal(inputs[0] * mask_BTM, output)
            if places[0] == "encoder.embed":
                recorded.append({})
            recorded[-1][places[(len(states) - 1) % len(places)]] = mask_BTM

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)

    for name, module in trainer.model.named_modules():
        if isinstance(module, torch.nn.Dropout):
            stack, *layer, _ = name.split(".")
            places = [f"{stack}.embed"]
            if layer:
                places = [f"{stack}.{layer[-1]}.{kind}" for kind in sublayers_by_stack[stack]]
            watch(module, places)
    return recorded


def masks_of_pairs(
    trainer: Trainer, recorded: dict[str, torch.Tensor], pairs: Pairs
) -> list[dict[str, Array]]:
    """Return the masks of each pair by place, without the padding of the product's batch."""
    cfg = trainer.task.cfg
    masks = []
    # fairseq sorts a batch by the length of the source, the longest first.
    order = sorted(range(len(pairs)), key=lambda index: -len(pairs[index][0]))
    for index, (source, target) in enumerate(pairs):
        of_pair = {}
        for place, mask_BTM in recorded.items():
            row_TM = mask_BTM[order.index(index)].numpy()
            is_source = place.startswith("encoder")
            num_tokens = len(source) if is_source else len(target)
            is_left_padded = cfg.left_pad_source if is_source else cfg.left_pad_target
            of_pair[place] = row_TM[-num_tokens:] if is_left_padded else row_TM[:num_tokens]
        masks.append(of_pair)
    return masks


def oracle_name(name: str) -> str:
    """Return the oracle's name for a parameter of the product."""
    if name in TIED:
        return "embedding"
    stack, _, layer_index, *modules, kind = name.split(".")
    kinds = (
        {"weight": "gain", "bias": "bias"}
        if modules[-1].endswith("norm")
        else {"weight": "W", "bias": "b"}
    )
    return ".".join(
        [stack, layer_index, *(ORACLE_NAME_BY_MODULE[module] for module in modules), kinds[kind]]
    )


def parameters_of(model: torch.nn.Module) -> list[tuple[str, Array]]:
    """Return copies of the parameters with the oracle's names and shapes. The tied matrix appears
    three times.
    """
    parameters = []
    for product_name, parameter in model.named_parameters(remove_duplicate=False):
        name, array = oracle_name(product_name), parameter.detach().numpy().copy()
        parameters.append((name, array.T if name.endswith(".W") else array))
    return parameters


@pytest.mark.parametrize("trainer", [0.0, 0.1, 0.5], indirect=True)
def test_20_updates_give_the_parameters_of_the_oracle(trainer: Trainer) -> None:
    """Prints the largest differences (`pytest -rP`)."""
    pairs, weights = make_pairs(), dict(parameters_of(trainer.model))
    assert {array.dtype for array in weights.values()} == {np.dtype(np.float64)}
    recorded = record_masks(trainer)
    train_product(trainer, pairs)
    assert [len(masks) for masks in recorded] == [12] * NUM_UPDATES  # 2 embeddings, 10 sub-layers
    masks_by_step = [masks_of_pairs(trainer, masks, pairs) for masks in recorded]
    oracle.train(SETTINGS, weights, pairs, NUM_UPDATES, masks_by_step)
    difference_by_name: dict[str, float] = {}
    for name, array in parameters_of(trainer.model):
        difference = float(np.abs(array - weights[name]).max())
        difference_by_name[name] = max(difference, difference_by_name.get(name, 0.0))
    assert difference_by_name.keys() == weights.keys()
    key_bias = max(difference_by_name.pop(name) for name in weights if name.endswith(".k.b"))
    largest = max(difference_by_name.values())
    print(f"largest difference {largest:.1e}, of biases of keys {key_bias:.1e}")
    assert largest < TOLERANCE
    assert key_bias < KEY_BIAS_TOLERANCE
