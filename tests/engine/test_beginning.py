"""A training that continues a shorter training of the same seed has the tensors of an undivided
training.
"""

import shutil
from pathlib import Path

import msgspec
import pytest

from aiayn.errors import ConfigError, LaunchError
from aiayn.launch.beginning import begun_from
from aiayn.records import Beginning, BinarizedCorpus, TrainRecord
from aiayn.spec.system import run_name
from aiayn.stages import STAGE_VERSIONS
from aiayn.train.request import TrainingRequest
from tests.engine.tiny_training import make_request, starts, state_sha256, train


def shorter(folder: Path, data: BinarizedCorpus, updates: int) -> TrainRecord:
    """Train the tiny system for fewer updates, under the name that its spec, seed and data give it."""
    request = make_request(folder / "unnamed", data, updates=updates)
    name = run_name(
        corpus=data.corpus,
        system="tiny",
        seed=1,
        training=request.training,
        data_digest=data.digest,
        stage_version=STAGE_VERSIONS["train"],
    )
    return train(msgspec.structs.replace(request, run=name, run_folder=str(folder / name)))


def longer(run_folder: Path, data: BinarizedCorpus, earlier: TrainRecord) -> TrainingRequest:
    """Return the request of the whole training, which begins where the earlier one ended."""
    return begun_from(make_request(run_folder, data, begins_from="tiny"), earlier, data)


def test_it_ends_with_the_same_tensors_and_its_record_says_where_it_began(
    tmp_path: Path, run_folder: Path, data: BinarizedCorpus, finished: TrainRecord
) -> None:
    """The shorter training ends in the middle of epoch 2. 13 updates are an epoch."""
    earlier = shorter(tmp_path, data, updates=20)
    record = train(longer(run_folder, data, earlier))
    assert record.beginning == Beginning(
        run=earlier.run, update=20, tensors_sha256=earlier.tensors_sha256
    )
    assert starts(run_folder) == [20]
    assert (record.updates, record.tokens) == (40, finished.tokens)
    assert record.tensors_sha256 == finished.tensors_sha256
    assert state_sha256(run_folder) == state_sha256(Path(finished.run_folder))
    assert finished.beginning is None


def test_another_seed_or_model_is_refused(
    run_folder: Path, data: BinarizedCorpus, finished: TrainRecord
) -> None:
    with pytest.raises(
        ConfigError, match=r"names the run .*, expected .*-tiny-seed1-\w{8}, the training of tiny"
    ):
        longer(
            run_folder, data, finished
        )  # its name has no digest: nothing says that it is this training
    earlier = msgspec.structs.replace(finished, run=named_like(data, updates=40), updates=40)
    with pytest.raises(
        ConfigError, match=r"40 updates, but .*, from which it begins, has 40; expected more"
    ):
        longer(run_folder, data, earlier)


def named_like(data: BinarizedCorpus, updates: int) -> str:
    """Return the name of the tiny system's run with `updates` updates."""
    return run_name(
        corpus=data.corpus,
        system="tiny",
        seed=1,
        training=make_request(Path("none"), data, updates=updates).training,
        data_digest=data.digest,
        stage_version=STAGE_VERSIONS["train"],
    )


def test_a_checkpoint_that_is_gone_is_named(
    tmp_path: Path, run_folder: Path, data: BinarizedCorpus
) -> None:
    earlier = shorter(tmp_path, data, updates=20)
    request = longer(run_folder, data, earlier)
    shutil.rmtree(earlier.run_folder / "checkpoints")
    with pytest.raises(
        LaunchError, match=r"full_00000020\.pt, which does not exist; train .* again"
    ):
        train(request)
