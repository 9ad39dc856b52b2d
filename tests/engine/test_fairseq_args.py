"""The flags that fairseq is given are the paper's symbols, and what it cannot train is refused."""

import re
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from aiayn.cost import num_parameters
from aiayn.errors import ConfigError
from aiayn.records import BinarizedCorpus, TrainRecord
from aiayn.spec.system import read_system
from aiayn.train.fairseq_args import (
    log_interval,
    model_flags,
    refuse_untrainable,
)
from tests.engine.tiny_spec import TRAINING, flags_of
from tests.engine.tiny_training import log_text


def value_of(flags: list[str], flag: str) -> str:
    """Return what follows a flag that occurs once."""
    assert flags.count(flag) == 1
    return flags[flags.index(flag) + 1]


def test_the_papers_base_is_trained_as_section_5_says() -> None:
    flags = flags_of(read_system("base", "paper").training, seed=3, device="cuda", num_ranks=8)
    expected = {
        "--arch": "aiayn_transformer",
        "--num-layers": "6",
        "--d-model": "512",
        "--d-ff": "2048",
        "--num-heads": "8",
        "--d-k": "64",
        "--d-v": "64",
        "--norm-order": "post",
        "--norm": "layer",
        "--norm-epsilon": "1e-06",
        "--attention": "scaled",
        "--positions": "sinusoidal",
        "--share-embeddings": "all",
        "--embeddings": "d_model",
        "--initialisation": "tensor2tensor",
        "--p-drop": "0.1",
        "--p-drop-attention": "0.0",
        "--p-drop-ffn": "0.0",
        "--criterion": "aiayn_label_smoothing",
        "--label-smoothing": "0.1",
        "--optimizer": "aiayn_adam",
        "--adam-beta-1": "0.9",
        "--adam-beta-2": "0.98",
        "--adam-epsilon": "1e-09",
        "--clip-norm": "0.0",
        "--lr-scheduler": "equation_3",
        "--warmup-updates": "4000",
        "--schedule-d-model": "512",
        "--max-update": "100000",
        "--update-freq": "1",
        "--seed": "3",
        "--update-epoch-batch-itr": "True",
        "--precision": "fp32",
    }
    assert {flag: value_of(flags, flag) for flag in expected} == expected
    assert "--attention-biases" in flags
    assert "--cpu" not in flags


@pytest.mark.parametrize(("device", "num_loaders"), [("cuda", "2"), ("cpu", "0")])
def test_each_rank_on_gpus_has_loaders_of_its_own(device: str, num_loaders: str) -> None:
    # Without loaders a GPU waits for each batch to be read.
    for num_ranks in (1, 8):
        training = replace(TRAINING, batches_per_update=8)
        flags = flags_of(training, device=device, num_ranks=num_ranks)
        assert value_of(flags, "--num-workers") == num_loaders


def test_one_rank_makes_the_same_update_out_of_more_batches() -> None:
    # The number of GPUs must not change the tokens of the paper's update.
    training = read_system("base", "paper").training
    for num_ranks, batches_each in ((1, "8"), (2, "4"), (8, "1")):
        flags = flags_of(training, num_ranks=num_ranks)
        assert value_of(flags, "--update-freq") == batches_each
    with pytest.raises(
        ConfigError,
        match=r"base: batches_per_update 8 cannot be shared by 3 ranks; expected a divisor or a",
    ):
        refuse_untrainable("base", training, num_ranks=3)
    shared = flags_of(training, num_ranks=16)
    assert (value_of(shared, "--update-freq"), value_of(shared, "--ranks-per-batch")) == ("1", "2")
    assert "--ranks-per-batch" not in flags_of(training, num_ranks=8)


def test_fairseqs_own_transformer_gets_fairseqs_own_flags() -> None:
    training = read_system("revisit_tiny", "multi30k").training
    flags = model_flags(training, is_joint=True)
    assert value_of(flags, "--arch") == "transformer"
    assert (value_of(flags, "--encoder-layers"), value_of(flags, "--decoder-ffn-embed-dim")) == (
        "4",
        "256",
    )
    assert (value_of(flags, "--dropout"), value_of(flags, "--activation-dropout")) == ("0.3", "0.0")
    assert "--share-all-embeddings" in flags
    assert {"--encoder-normalize-before", "--encoder-learned-pos"} & set(flags) == set()
    changed = model_flags(replace(training, norm_order="pre", positions="learned"), is_joint=False)
    assert {
        "--encoder-normalize-before",
        "--decoder-normalize-before",
        "--decoder-learned-pos",
    } <= set(changed)
    assert "--share-decoder-input-output-embed" in changed
    optimiser = flags_of(training)
    assert (value_of(optimiser, "--optimizer"), value_of(optimiser, "--adam-betas")) == (
        "adam",
        "(0.9, 0.98)",
    )
    assert value_of(optimiser, "--criterion") == "label_smoothed_cross_entropy"


def test_a_constant_rate_has_no_warm_up() -> None:
    training = replace(TRAINING, schedule="constant", peak_learning_rate=1e-4)
    flags = flags_of(training)
    assert (value_of(flags, "--lr-scheduler"), value_of(flags, "--lr")) == ("fixed", "0.0001")
    assert "--warmup-updates" not in flags


def test_patience_needs_checkpoints_by_epochs() -> None:
    # fairseq counts patience in validations, which are epochs only then.
    refuse_untrainable("tiny", replace(TRAINING, save_interval_updates=None, patience_epochs=2))
    with pytest.raises(ConfigError, match="patience_epochs 2 with save_interval_updates 10"):
        refuse_untrainable("tiny", replace(TRAINING, patience_epochs=2))


def test_a_data_bin_is_joint_if_its_dictionaries_are_one(data: BinarizedCorpus) -> None:
    assert data.is_joint
    assert not replace(data, dictionary_sha256_by_language={"en": "0", "de": "1"}).is_joint


def test_a_run_logs_a_hundred_lines_but_at_least_one_a_hundred_updates() -> None:
    # A week's log stays readable, and a short training still shows how it goes.
    assert [log_interval(replace(TRAINING, updates=n)) for n in (40, 5_000, 100_000)] == [
        1,
        50,
        100,
    ]


def test_the_finished_training_is_of_the_size_that_cost_predicts(
    finished: TrainRecord, data: BinarizedCorpus
) -> None:
    expected = num_parameters(TRAINING, data.vocabulary_size_by_language["en"], True)
    assert finished.num_parameters == expected
    assert f"num. shared model params: {expected:,} " in log_text(Path(finished.run_folder))


def test_the_finished_training_counted_every_target_token(
    finished: TrainRecord, data: BinarizedCorpus
) -> None:
    """Whole epochs have the data-bin's tokens. Of the last, which is cut, the log tells how many an
    update had.
    """
    log = log_text(Path(finished.run_folder))
    counts = Counter[int]()
    for epoch, count in re.findall(r'train_inner \| {"epoch": (\d+), .*"wpb": "(\d+)"', log):
        counts[int(epoch)] += int(count)
    per_epoch = data.num_tokens_by_split_by_language["train"]["de"]
    assert (counts[1], counts[2]) == (per_epoch, per_epoch)
    assert 0 < counts[max(counts)] < per_epoch
    assert finished.tokens == sum(counts.values())
