"""Perplexity is 2^nll_loss of fairseq's own validation. A model without queries attends evenly and
loses nothing.
"""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from fairseq import criterions
from omegaconf import OmegaConf

import aiayn.decode.perplexity
from aiayn.decode.perplexity import Measured, perplexity
from aiayn.errors import CheckpointError
from aiayn.records import BinarizedCorpus, TrainRecord
from aiayn.train.checkpoints import load_checkpoint, save_whole
from aiayn.train.model import load_model
from tests.engine.random_checkpoint import save_untrained
from tests.engine.tiny_spec import TRAINING


@pytest.fixture
def checkpoint_path(finished: TrainRecord) -> Path:
    """Return the last model of the finished training."""
    return Path(finished.models[-1].path)


def fairseqs_nll_bits(checkpoint_path: Path, data: BinarizedCorpus, split: str) -> float:
    """Return `nll_loss` (bits a target token) as fairseq's validation sums it, to full precision."""
    model, task = load_model(checkpoint_path, Path(data.folder), device="cpu")
    task.load_dataset(split)
    cfg = load_checkpoint(checkpoint_path)["cfg"]["criterion"]
    criterion = criterions.build_criterion(OmegaConf.create(cfg), task)
    criterion.eval()
    iterator = task.get_batch_iterator(task.dataset(split), max_sentences=7).next_epoch_itr(
        shuffle=False
    )
    outputs = [task.valid_step(sample, model, criterion)[2] for sample in iterator]
    nll_nats = sum(float(output["nll_loss"]) for output in outputs)
    return nll_nats / sum(int(output["ntokens"]) for output in outputs) / math.log(2)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_it_equals_fairseqs_validation(
    split: str, checkpoint_path: Path, data: BinarizedCorpus
) -> None:
    measured = perplexity(checkpoint_path, Path(data.folder), split, device="cpu")
    assert measured.ppl_per_subword == pytest.approx(
        2 ** fairseqs_nll_bits(checkpoint_path, data, split), rel=1e-5
    )
    testset = {"valid": "tiny_dev", "test": "tiny_test"}[split]
    assert measured.num_tokens == data.num_tokens_by_split_by_language[testset]["de"]


def test_the_size_of_batches_does_not_matter(
    checkpoint_path: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Padding, of which larger batches have more, must not count.
    at_once = perplexity(checkpoint_path, Path(data.folder), "test", device="cpu")
    monkeypatch.setattr(aiayn.decode.perplexity, "TOKENS_PER_BATCH", 100)
    in_parts = perplexity(checkpoint_path, Path(data.folder), "test", device="cpu")
    assert in_parts.ppl_per_subword == pytest.approx(at_once.ppl_per_subword, rel=1e-5)
    assert in_parts.num_tokens == at_once.num_tokens
    assert in_parts.cross_attention_entropy == [
        pytest.approx(one) for one in at_once.cross_attention_entropy or []
    ]


FAIRSEQS = {
    "architecture": "fairseq_transformer",
    "norm_epsilon": 1e-5,
    "positions": "sinusoidal_halves",
    "initialisation": "fairseq",
}


def random_model(folder: Path, data: BinarizedCorpus, *zeroed: str, **changes: Any) -> Path:
    """Return a checkpoint of two layers with random parameters. Those whose name has a word of
    `zeroed` are 0.
    """
    training = msgspec.structs.replace(TRAINING, num_layers=2, **changes)
    save_untrained(training, data, folder / "untrained.pt")
    state = load_checkpoint(folder / "untrained.pt")
    generator = torch.Generator().manual_seed(1)
    for name, tensor in state["model"].items():
        if tensor.is_floating_point():
            tensor.add_(torch.randn(tensor.shape, generator=generator), alpha=0.5)
        if any(word in name for word in zeroed):
            tensor.zero_()
    path = folder / f"random{''.join(zeroed)}.pt"
    save_whole(state, path)
    return path


def measure(path: Path, data: BinarizedCorpus) -> Measured:
    return perplexity(path, Path(data.folder), "test", device="cpu")


@pytest.mark.parametrize("changes", [{}, FAIRSEQS], ids=["ours", "fairseqs"])
def test_the_bits_lost_are_those_of_the_model_without_queries(
    changes: dict[str, Any], tmp_path: Path, data: BinarizedCorpus
) -> None:
    with_queries, without = (
        measure(random_model(tmp_path, data, *zeroed, **changes), data)
        for zeroed in ((), ("encoder_attn.q_proj",))
    )
    expected = math.log2(without.ppl_per_subword) - math.log2(with_queries.ppl_per_subword)
    assert abs(expected) > 0.01
    assert with_queries.bits_lost_uniform == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("changes", [{}, FAIRSEQS], ids=["ours", "fairseqs"])
def test_the_entropy_is_of_each_sentence_alone_without_padding(
    changes: dict[str, Any], tmp_path: Path, data: BinarizedCorpus
) -> None:
    path = random_model(tmp_path, data, **changes)
    model, task = load_model(path, Path(data.folder), device="cpu")
    task.load_dataset("test")
    entropies: list[torch.Tensor] = []
    for index in range(len(task.dataset("test"))):
        sample = task.dataset("test").collater([task.dataset("test")[index]])["net_input"]
        encoded = model.encoder(sample["src_tokens"], src_lengths=sample["src_lengths"])
        asked = {"alignment_layer": 1, "alignment_heads": 1} if changes else {"needs_weights": True}
        extra = model.decoder(sample["prev_output_tokens"], encoder_out=encoded, **asked)[1]
        weights_TS = (
            extra["attn"][0][0] if changes else extra["weights"][1][1][0, 0]
        )  # of layer 2, head 1
        num_source = sample["src_tokens"].shape[1]
        entropies.append(
            -(weights_TS * weights_TS.log()).sum(dim=-1).detach() / math.log(num_source)
        )
    entropy = measure(path, data).cross_attention_entropy
    assert entropy is not None
    expected = float(torch.cat(entropies).mean())
    assert 0.1 < expected < 0.99
    assert entropy[1][0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "changes", [{"architecture": "lstm"}, {"architecture": "fconv"}], ids=["lstm", "fconv"]
)
def test_a_model_without_heads_over_its_source_records_neither(
    changes: dict[str, Any], tmp_path: Path, data: BinarizedCorpus
) -> None:
    record = measure(random_model(tmp_path, data, **changes), data)
    assert (record.cross_attention_entropy, record.bits_lost_uniform) == (None, None)
    assert record.num_tokens == data.num_tokens_by_split_by_language["tiny_test"]["de"]


@pytest.mark.parametrize("factor", [math.nan, 1e6])
def test_a_model_that_has_diverged_has_no_perplexity(
    factor: float, tmp_path: Path, data: BinarizedCorpus
) -> None:
    """Its outputs are NaN, or its perplexity is above the largest float."""
    path = random_model(tmp_path, data)
    state = load_checkpoint(path)
    state["model"]["decoder.embed_tokens.weight"] *= factor
    save_whole(state, path)
    with pytest.raises(CheckpointError, match=r"random\.pt: its perplexity on .* diverged"):
        measure(path, data)


def test_the_target_lines_are_those_of_the_data_bin(
    checkpoint_path: Path, data: BinarizedCorpus
) -> None:
    lines = perplexity(checkpoint_path, Path(data.folder), "test", device="cpu").target_pieces
    assert (
        sum(len(line.split()) + 1 for line in lines)
        == data.num_tokens_by_split_by_language["tiny_test"]["de"]
    )
    assert "<pad>" not in " ".join(lines)
