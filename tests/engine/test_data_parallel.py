"""Two ranks that share each update: they train, stop together, resume, and die together."""

import errno
import functools
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset, ListDataset

import aiayn.train.train
from aiayn.errors import RunError
from aiayn.records import BinarizedCorpus, TrainRecord, read_record
from aiayn.runs import attempts
from aiayn.runs.checkpoint_names import list_checkpoints
from aiayn.runs.run_folder import RunFolder
from aiayn.train.checkpoints import load_checkpoint, newest_whole_full
from aiayn.train.node_check import check_node
from aiayn.train.request import TrainingRequest
from aiayn.train.task import AiaynTranslationConfig, AiaynTranslationTask
from tests.engine.hooked_job import Fault, Signal, SignalRank0, hooked
from tests.engine.models import EOS, make_dictionary
from tests.engine.tiny_spec import TWO_BATCHES
from tests.engine.tiny_training import (
    ends,
    log_text,
    make_request,
    outcomes,
    starts,
    state_sha256,
    train,
    train_ranks,
    updates_kept,
)

KILLED = signal.SIGKILL


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus) -> TrainingRequest:
    """Return the request of a training that two ranks have finished undisturbed."""
    request = make_request(
        tmp_path_factory.mktemp("runs") / "two_ranks", data, num_ranks=2, **TWO_BATCHES
    )
    assert train_ranks(request) == [0, 0]
    return request


@pytest.fixture(scope="module")
def undisturbed(two_ranks: TrainingRequest) -> TrainRecord:
    """Return its record."""
    return read_record(Path(two_ranks.run_folder) / attempts.DONE_NAME, TrainRecord)


EVERY_SENTENCE = ("wpb", "bsz", "lr")
MEASURED = ("loss", "nll_loss", "gnorm")


def per_update(run_folder: Path, *names: str) -> list[tuple[str, ...]]:
    """Return what the log says of each update."""
    lines = re.findall(r"train_inner \| (\{.*\})", log_text(run_folder))
    return [tuple(str(msgspec.json.decode(line)[name]) for name in names) for line in lines]


def test_two_ranks_make_the_updates_of_one(
    undisturbed: TrainRecord, finished_by_two_batches: TrainRecord
) -> None:
    """The same sentences in each update. Dropout is drawn otherwise, so that the tensors differ."""
    assert undisturbed.hardware.num_ranks == 2
    assert finished_by_two_batches.hardware.num_ranks == 1
    assert (undisturbed.tokens, undisturbed.updates) == (finished_by_two_batches.tokens, 40)
    ours, theirs = (
        per_update(Path(run.run_folder), *EVERY_SENTENCE)
        for run in (undisturbed, finished_by_two_batches)
    )
    assert len(ours) == 40
    assert ours == theirs
    assert undisturbed.tensors_sha256 != finished_by_two_batches.tensors_sha256


EIGHTH = {"max_tokens_per_batch": 2000, "batches_per_update": 1, "p_drop": 0.0, "updates": 15}


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus) -> TrainRecord:
    """Return the record of a training with one rank, without dropout, with one batch an update."""
    return train(make_request(tmp_path_factory.mktemp("runs") / "one_rank", data, **EIGHTH))


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [3, 4])
def test_more_ranks_than_batches_share_each_batch(
    num_ranks: int, tmp_path: Path, data: BinarizedCorpus, one_rank: TrainRecord
) -> None:
    """Every update has the same sentences as with one rank, and prints the same. An epoch has
    13 updates.

    An update of three sentences gives the fourth rank none. The weights differ only by the
    order of summation, except the keys' biases: softmax does not depend on them, so their
    gradient is only rounding, which Adam enlarges.
    """
    request = make_request(tmp_path / "shared", data, num_ranks=num_ranks, **EIGHTH)
    assert set(train_ranks(request)) == {0}
    record = read_record(tmp_path / "shared" / attempts.DONE_NAME, TrainRecord)
    ours, theirs = Path(record.run_folder), Path(one_rank.run_folder)
    assert len(per_update(theirs, *EVERY_SENTENCE)) == 15
    assert "3" in [bsz for _, bsz, _ in per_update(theirs, *EVERY_SENTENCE)]
    assert per_update(ours, *EVERY_SENTENCE) == per_update(theirs, *EVERY_SENTENCE)
    assert per_update(ours, *MEASURED) == per_update(theirs, *MEASURED)
    assert valid_losses(ours) == valid_losses(theirs) != []
    assert record.tokens == one_rank.tokens
    for name, tensor in newest_model(theirs).items():
        if not name.endswith("k_proj.bias"):
            torch.testing.assert_close(newest_model(ours)[name], tensor, rtol=0, atol=5e-6)


def test_each_validation_of_ranks_that_share_batches_has_every_sentence_once() -> None:
    """fairseq keeps a validation's iterator for the next one, and it may be asked for before it is
    used.
    """
    num_ranks, num_sentences = 16, 90
    dictionary = make_dictionary()
    sentences = ListDataset([torch.tensor([4, 5, EOS])] * num_sentences, [3] * num_sentences)
    sizes = np.full(num_sentences, 3)
    dataset = LanguagePairDataset(sentences, sizes, dictionary, sentences, sizes, dictionary)
    cfg = AiaynTranslationConfig(ranks_per_batch=2)
    tasks = [AiaynTranslationTask(cfg, dictionary, dictionary) for _ in range(num_ranks)]

    def batches_of(rank: int) -> Any:
        return tasks[rank].get_batch_iterator(
            dataset, max_sentences=5, num_shards=num_ranks, shard_id=rank
        )

    for _ in range(2):
        validated: list[int] = []
        for rank in range(num_ranks):
            assert batches_of(rank) is batches_of(rank)
            for sample in batches_of(rank).next_epoch_itr(shuffle=False):
                validated += sample["id"].tolist() if sample else []
        assert sorted(validated) == list(range(num_sentences))


def valid_losses(run_folder: Path) -> list[str]:
    """Return the validations' losses as printed, of those updates that every training of this file
    validates at.
    """
    return re.findall(
        r'valid \| .*"valid_loss": "([^"]+)", .*"valid_num_updates": "15"', log_text(run_folder)
    )


def newest_model(run_folder: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of the last model."""
    path = list_checkpoints(run_folder / "checkpoints", "model")[-1]
    tensors: dict[str, torch.Tensor] = load_checkpoint(path)["model"]
    return tensors


@pytest.mark.slow
def test_on_all_ranks_a_request_to_end_outweighs_a_time_limit(
    tmp_path: Path, data: BinarizedCorpus
) -> None:
    """USR2 reaches one rank, TERM the other: had each its own mind, one would go on in another job."""
    request = make_request(tmp_path / "both", data, num_ranks=2, **TWO_BATCHES)
    hooks = {0: Signal(update=3, number=signal.SIGUSR2), 1: Signal(update=3, number=signal.SIGTERM)}
    assert train_ranks(request, hooks) == [0, 0]
    (ended,) = ends(tmp_path / "both")
    assert (ended.outcome, ended.reason, ended.update) == ("stopped", "asked by SIGTERM", 3)


@pytest.mark.slow
def test_a_rank_that_fails_is_named_by_rank_0(tmp_path: Path, data: BinarizedCorpus) -> None:
    """Rank 0 itself sees a closed connection. What was wrong, the rank has noted before it ended."""
    request = make_request(tmp_path / "failed", data, num_ranks=2, **TWO_BATCHES)
    statuses = train_ranks(request, {1: Fault(update=3, message="out of memory")})
    assert [os.waitstatus_to_exitcode(status) for status in statuses] == [1, 1]
    (ended,) = ends(tmp_path / "failed")
    assert ended.outcome == "failed"
    assert re.fullmatch(r"rank 1 on \S+: RuntimeError: out of memory", ended.reason)


@pytest.mark.slow
def test_stopped_in_a_local_job_and_resumed_they_end_with_the_same_tensors(
    run_folder: Path, data: BinarizedCorpus, undisturbed: TrainRecord
) -> None:
    """Only rank 0 gets the signal, at update 13. Both ranks end there."""
    request = make_request(run_folder, data, num_ranks=2, **TWO_BATCHES)
    with (
        hooked(SignalRank0(update=13)),
        pytest.raises(RunError, match="stopped at update 13 of 40, asked by SIGTERM"),
    ):
        train(request, launcher="local")
    assert updates_kept(run_folder, "full") == [10, 13]
    assert train_ranks(request) == [0, 0]
    record = read_record(run_folder / attempts.DONE_NAME, TrainRecord)
    assert starts(run_folder) == [0, 13]
    assert outcomes(run_folder) == ["stopped", "done"]
    assert (record.tensors_sha256, record.tokens) == (
        undisturbed.tensors_sha256,
        undisturbed.tokens,
    )
    assert state_sha256(run_folder) == state_sha256(Path(undisturbed.run_folder))
    assert record.hardware.num_ranks == 2


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_others_and_the_next_start_resumes(
    run_folder: Path, data: BinarizedCorpus, undisturbed: TrainRecord
) -> None:
    """From what rank 0 found whole: the newest checkpoint is torn, and a rank that looked for
    itself would take it.
    """
    request = make_request(run_folder, data, num_ranks=2, **TWO_BATCHES)
    status_0, status_1 = train_ranks(request, {1: Signal(update=23, number=KILLED)})
    assert (os.waitstatus_to_exitcode(status_0), status_1) == (1, KILLED)
    assert outcomes(run_folder) == ["lost"]
    (run_folder / "checkpoints" / "full_00000030.pt").write_bytes(b"torn")
    assert train_ranks(request) == [0, 0]
    assert starts(run_folder) == [0, 20]
    record = read_record(run_folder / attempts.DONE_NAME, TrainRecord)
    assert record.tensors_sha256 == undisturbed.tensors_sha256


ONE_UPDATE = {**TWO_BATCHES, "updates": 1, "save_interval_updates": 1}
NO_SHARED_MEMORY = (
    "NCCL error: ncclSystemError: System call failed. Error while creating a segment in /dev/shm"
)


@pytest.mark.slow
def test_the_node_check_makes_the_first_reduction_and_reports_its_error(
    run_folder: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NCCL makes its communicator in it. Had it no attempt and no note, three more jobs would meet
    it again.
    """

    def broken(
        collective: Callable[..., Any], *arguments: Any, group: Any = None, **named: Any
    ) -> Any:
        if group is None:  # the group of the devices, not the control group
            raise RuntimeError(NO_SHARED_MEMORY)
        return collective(*arguments, group=group, **named)

    for name in ("all_reduce", "broadcast", "broadcast_object_list", "all_gather"):
        monkeypatch.setattr(
            torch.distributed, name, functools.partial(broken, getattr(torch.distributed, name))
        )
    request = make_request(run_folder, data, num_ranks=2, **ONE_UPDATE)
    assert [os.waitstatus_to_exitcode(status) for status in train_ranks(request)] == [1, 1]
    (ended,) = ends(run_folder)
    assert ended.outcome == "failed"
    assert f"an all-reduce: {NO_SHARED_MEMORY}; leave that node out" in ended.reason


@pytest.mark.slow
def test_no_rank_waits_in_the_check_for_rank_0_to_read_its_checkpoint(
    run_folder: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gigabytes, from a file system that may be slow. The check's time-out is for sound devices."""
    looked_path = run_folder / "looked"

    def look_slowly(folder: Path) -> tuple[Path | None, list[Path]]:
        time.sleep(0.5)
        looked_path.touch()
        return newest_whole_full(folder)

    def check_after_it(*arguments: Any) -> None:
        assert looked_path.exists()
        check_node(*arguments)

    monkeypatch.setattr(aiayn.train.train, "newest_whole_full", look_slowly)
    monkeypatch.setattr(aiayn.train.train, "check_node", check_after_it)
    assert train_ranks(make_request(run_folder, data, num_ranks=2, **ONE_UPDATE)) == [0, 0]


@pytest.mark.slow
def test_what_rank_0_meets_before_its_attempt_is_noted_and_ends_the_others(
    run_folder: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = mock.Mock(side_effect=OSError(errno.ESTALE, "Stale file handle"))
    monkeypatch.setattr(aiayn.train.train, "newest_whole_full", stale)
    request = make_request(run_folder, data, num_ranks=2, **ONE_UPDATE)
    assert [os.waitstatus_to_exitcode(status) for status in train_ranks(request)] == [1, 1]
    (noted,) = RunFolder(run_folder).rank_errors()
    assert re.fullmatch(r"rank 0 on \S+: OSError: \[Errno \d+\] Stale file handle", noted)


@pytest.mark.slow
def test_rank_0_does_not_begin_before_all_ranks_have_joined(
    run_folder: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If rank 0 failed earlier, it would remove the store while other ranks still read it."""
    joined_path = run_folder / "joined"
    new_group = torch.distributed.new_group

    def join_slowly(*arguments: Any, **named: Any) -> Any:
        group = new_group(*arguments, **named)
        if torch.distributed.get_rank() == 1:
            time.sleep(0.5)
            joined_path.touch()
        return group

    def look_after_it(folder: Path) -> tuple[Path | None, list[Path]]:
        assert joined_path.exists()
        return newest_whole_full(folder)

    monkeypatch.setattr(torch.distributed, "new_group", join_slowly)
    monkeypatch.setattr(aiayn.train.train, "newest_whole_full", look_after_it)
    assert train_ranks(make_request(run_folder, data, num_ranks=2, **ONE_UPDATE)) == [0, 0]


@pytest.mark.slow
def test_no_rank_trains_a_run_that_is_done(
    two_ranks: TrainingRequest, undisturbed: TrainRecord
) -> None:
    hooks = {index: Fault(update=41, message="trained on") for index in range(2)}
    assert train_ranks(two_ranks, hooks) == [0, 0]
    assert starts(Path(two_ranks.run_folder)) == [0]
