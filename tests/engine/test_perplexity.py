"""Perplexity is 2^nll_loss of fairseq's own validation."""

import math
import re
from pathlib import Path

import pytest
import torch
from fairseq import criterions
from omegaconf import OmegaConf

import aiayn.decode.perplexity
from aiayn.decode.perplexity import SIGNATURE, perplexity
from aiayn.records import BinarizedCorpus, TrainRecord
from aiayn.train.checkpoints import load_checkpoint, save_whole
from aiayn.train.model import load_model
from tests.engine.tiny_training import log_text


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
    iterator = task.get_batch_iterator(task.dataset(split), max_sentences=7).next_epoch_itr(shuffle=False)
    outputs = [task.valid_step(sample, model, criterion)[2] for sample in iterator]
    nll_nats = sum(float(output["nll_loss"]) for output in outputs)
    return nll_nats / sum(int(output["ntokens"]) for output in outputs) / math.log(2)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_it_equals_fairseqs_validation(split: str, checkpoint_path: Path, data: BinarizedCorpus) -> None:
    value, num_tokens = perplexity(checkpoint_path, Path(data.folder), split, device="cpu")
    assert value == pytest.approx(2 ** fairseqs_nll_bits(checkpoint_path, data, split), rel=1e-5)
    testset = {"valid": "tiny_dev", "test": "tiny_test"}[split]
    assert num_tokens == data.num_tokens_by_split_by_language[testset]["de"]


def test_it_equals_what_the_log_says_of_the_last_update(
    checkpoint_path: Path, data: BinarizedCorpus, finished: TrainRecord
) -> None:
    """The log has three digits after the point: 2^0.0005 is 3.5e-4 of a perplexity."""
    nll_bits = re.findall(r'\| valid \| .*"valid_nll_loss": "([\d.]+)"', log_text(Path(finished.run_folder)))[-1]
    value, _ = perplexity(checkpoint_path, Path(data.folder), "valid", device="cpu")
    assert math.log2(value) == pytest.approx(float(nll_bits), abs=0.000501)
    # The smoothed loss, or nats taken for bits, would be told from it.
    assert value != pytest.approx(math.exp(float(nll_bits)), rel=0.1)


def test_a_model_that_knows_nothing_is_as_perplexed_as_its_vocabulary_is_large(
    checkpoint_path: Path, tmp_path: Path, data: BinarizedCorpus
) -> None:
    """All weights zero: every symbol has the same probability."""
    state = load_checkpoint(checkpoint_path)
    for name, tensor in state["model"].items():
        if name.endswith(("weight", "bias")):
            state["model"][name] = torch.zeros_like(tensor)
    save_whole(state, tmp_path / "model.pt")
    value, _ = perplexity(tmp_path / "model.pt", Path(data.folder), "test", device="cpu")
    assert value == pytest.approx(data.vocabulary_size_by_language["de"], rel=1e-5)


def test_the_size_of_batches_does_not_matter(
    checkpoint_path: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, num_at_once = perplexity(checkpoint_path, Path(data.folder), "test", device="cpu")
    monkeypatch.setattr(aiayn.decode.perplexity, "TOKENS_PER_BATCH", 100)
    value, num_tokens = perplexity(checkpoint_path, Path(data.folder), "test", device="cpu")
    assert value == pytest.approx(at_once, rel=1e-5)
    assert num_tokens == num_at_once


def test_the_signature_says_of_what_it_is() -> None:
    assert SIGNATURE == "unit:subword|eos:yes|dropout:no|smoothing:no|base:e"
