"""The flags that fairseq is given are the paper's symbols, and what it cannot train is refused."""

import re
from collections import Counter
from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.cost import num_parameters
from aiayn.engine.fairseq_args import TrainingData, log_interval, refuse_untrainable, train_flags, training_data
from aiayn.errors import ConfigError
from aiayn.records import BinarizedCorpus, TrainRecord
from aiayn.spec import read_system
from tests.engine.tiny_spec import TRAINING
from tests.engine.tiny_training import log_text, make_request

DATA = TrainingData(folder="data-bin", source_language="en", target_language="de", is_joint=True)


def value_of(flags: list[str], flag: str) -> str:
    """Return what follows a flag that stands there once."""
    assert flags.count(flag) == 1
    return flags[flags.index(flag) + 1]


def test_the_papers_base_is_trained_as_section_5_says() -> None:
    flags = train_flags(
        read_system("base", "paper").training, DATA, seed=3, save_folder="run", device="cuda", num_ranks=8
    )
    expected = {
        "--encoder-layers": "6", "--decoder-layers": "6", "--encoder-embed-dim": "512",
        "--decoder-ffn-embed-dim": "2048", "--encoder-attention-heads": "8",
        "--dropout": "0.1", "--attention-dropout": "0.0", "--activation-dropout": "0.0", "--label-smoothing": "0.1",
        "--adam-betas": "(0.9, 0.98)", "--adam-eps": "1e-09", "--clip-norm": "0.0", "--weight-decay": "0.0",
        "--lr-scheduler": "equation_3", "--warmup-updates": "4000", "--schedule-d-model": "512",
        "--max-update": "100000", "--update-freq": "1", "--seed": "3", "--update-epoch-batch-itr": "True",
    }  # fmt: skip
    assert {flag: value_of(flags, flag) for flag in expected} == expected
    assert "--share-all-embeddings" in flags
    assert "--cpu" not in flags


def test_one_rank_makes_the_same_update_out_of_more_batches() -> None:
    training = read_system("base", "paper").training
    for num_ranks, batches_each in ((1, "8"), (2, "4"), (8, "1")):
        flags = train_flags(training, DATA, seed=1, save_folder="run", device="cpu", num_ranks=num_ranks)
        assert value_of(flags, "--update-freq") == batches_each
    with pytest.raises(ConfigError, match=r"base: batches_per_update 8 cannot be shared by 3 ranks: .* take a divisor"):
        refuse_untrainable("base", training, num_ranks=3)


def test_separate_vocabularies_share_the_targets_two_matrices() -> None:
    separate = TrainingData(folder="data-bin", source_language="en", target_language="fr", is_joint=False)
    flags = train_flags(TRAINING, separate, seed=1, save_folder="run", device="cpu")
    assert "--share-decoder-input-output-embed" in flags
    assert "--share-all-embeddings" not in flags


def test_learned_positions_are_asked_for_on_both_sides() -> None:
    flags = train_flags(read_system("table3_e_learned", "demo").training, DATA, seed=1, save_folder="run", device="cpu")
    assert {"--encoder-learned-pos", "--decoder-learned-pos"} <= set(flags)


@pytest.mark.parametrize("scale", ["demo", "multi30k", "paper"])
@pytest.mark.parametrize("system", ["table3_b_dk16", "table3_b_dk32"])
def test_rows_b_are_refused_never_approximated(scale: str, system: str) -> None:
    training = read_system(system, scale).training
    with pytest.raises(
        ConfigError, match=rf"{system}: d_k={training.d_k}, d_v=.* take the system out of `ablation_systems`"
    ):
        refuse_untrainable(system, training)
    with pytest.raises(ConfigError, match="d_k"):
        train_flags(training, DATA, seed=1, save_folder="run", device="cpu")


def test_the_command_refuses_rows_b_before_it_reads_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--binarized", str(tmp_path / "none.json"), "--record", str(tmp_path / "seed1.json")]
    arguments = ["train", "--scale", "demo", "--corpus", "demo_en_de", "--system", "table3_b_dk16", "--seed", "1"]
    assert main([*arguments, *places, "--runs-folder", str(tmp_path / "runs")]) == 1
    assert "Table 3's rows (B) cannot be trained yet" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flag", ["--num-ranks", "--num-models", "--threads-per-rank"])
def test_counts_below_one_are_a_usage_error(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["train", flag, "0"])
    assert f"argument {flag}: '0': expected a whole number of 1 or more" in capsys.readouterr().err


def test_patience_needs_checkpoints_by_epochs() -> None:
    from msgspec.structs import replace

    refuse_untrainable("tiny", replace(TRAINING, save_interval_updates=None, patience_epochs=2))
    with pytest.raises(ConfigError, match="patience_epochs 2 with save_interval_updates 10"):
        refuse_untrainable("tiny", replace(TRAINING, patience_epochs=2))


def test_a_data_bin_is_joint_if_its_dictionaries_are_one(data: BinarizedCorpus) -> None:
    from msgspec.structs import replace

    assert training_data(data).is_joint
    assert not training_data(replace(data, dictionary_sha256_by_language={"en": "0", "de": "1"})).is_joint


def test_a_run_logs_a_hundred_lines_but_at_least_one_a_hundred_updates() -> None:
    from msgspec.structs import replace

    assert [log_interval(replace(TRAINING, updates=n)) for n in (40, 5_000, 100_000)] == [1, 50, 100]


def test_the_finished_training_is_of_the_size_that_cost_predicts(finished: TrainRecord, data: BinarizedCorpus) -> None:
    expected = num_parameters(TRAINING, data.vocabulary_size_by_language["en"], True)
    assert finished.num_parameters == expected
    assert f"num. shared model params: {expected:,} " in log_text(Path(finished.run_folder))


def test_the_finished_training_counted_every_target_token(finished: TrainRecord, data: BinarizedCorpus) -> None:
    """Whole epochs have the data-bin's tokens; of the last, which is cut, the log tells how many an update had."""
    log = log_text(Path(finished.run_folder))
    counts = Counter[int]()
    for epoch, count in re.findall(r'train_inner \| {"epoch": (\d+), .*"wpb": "(\d+)"', log):
        counts[int(epoch)] += int(count)
    per_epoch = data.num_tokens_by_split_by_language["train"]["de"]
    assert (counts[1], counts[2]) == (per_epoch, per_epoch)
    assert 0 < counts[max(counts)] < per_epoch
    assert finished.tokens == sum(counts.values())


def test_a_training_of_learned_positions_is_of_the_predicted_size(tmp_path: Path, data: BinarizedCorpus) -> None:
    from msgspec.structs import replace

    from tests.engine.tiny_training import train

    request = make_request(tmp_path / "run", data, positions="learned", updates=1, save_interval_updates=1)
    learned = replace(TRAINING, positions="learned")
    assert train(request).num_parameters == num_parameters(learned, data.vocabulary_size_by_language["en"], True)
