"""A training that does not fit on the disk, or into a day, is refused before it begins."""

import contextlib
import logging
from pathlib import Path

import msgspec
import pytest

import aiayn.plan.machine
from aiayn.cost import num_parameters
from aiayn.errors import LaunchError, SpaceError
from aiayn.plan.feasibility import check_feasible, needed_disk_bytes
from aiayn.records import Beginning
from aiayn.spec.cluster import ClusterSpec, read_cluster
from aiayn.spec.training import TrainingSpec
from aiayn.train.request import TrainingRequest
from tests.planned_scales import leave_free
from tests.records_factory import BASE_TRAINING, BINARIZED, PAPER_TRAINING
from tests.unit.test_launch import make_request

DATA = msgspec.structs.replace(
    BINARIZED, dictionary_sha256_by_language={"en": "0", "de": "0"},
    vocabulary_size_by_language={"en": 37000, "de": 37000},
)  # fmt: skip
PLAIN = read_cluster("plain")
BASE_PARAMETERS = 63_082_496  # the paper's base with a joint vocabulary of 37,000


@pytest.fixture
def request_(tmp_path: Path) -> TrainingRequest:
    """Return a request to train the paper's base, five checkpoints kept."""
    return msgspec.structs.replace(
        make_request(tmp_path / "run"), training=PAPER_TRAINING, num_models=5, threads_per_rank=1
    )


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to a machine with a terabyte free and without GPU, whose core does 10^11 operations a
    second.
    """
    leave_free(10**12, monkeypatch)
    monkeypatch.setattr(aiayn.plan.machine, "gpu_names", list)
    monkeypatch.setattr(aiayn.plan.machine, "cpu_flops_per_second_per_core", lambda: 1.0e11)


def test_a_run_holds_its_models_and_full_checkpoints(request_: TrainingRequest) -> None:
    """5 models kept and 1 being written, 4 bytes a parameter; 2 full ones and their successor, 3
    times that each.
    """
    assert num_parameters(PAPER_TRAINING, 37000, True) == BASE_PARAMETERS
    assert needed_disk_bytes(request_, DATA) == (6 * 4 + 3 * 12) * BASE_PARAMETERS


def test_what_a_run_holds_already_is_not_needed_again(request_: TrainingRequest) -> None:
    folder = Path(request_.run_folder) / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "full_00000010.pt").write_bytes(b"x" * 1000)
    (folder / "full_00000005.pt").symlink_to("vanished")  # as a checkpoint that is being removed
    assert needed_disk_bytes(request_, DATA) == 60 * BASE_PARAMETERS - 1000


@pytest.mark.parametrize(
    ("training", "scale", "allow_long_runs", "cluster", "free_bytes", "error"),
    [
        (PAPER_TRAINING, "paper", True, None, 10**12, ""),
        (PAPER_TRAINING, "paper", False, None, 10**12,
         r"^run: [\d,]+\.\d hours predicted for 100,000 updates at 30% of 1 CPU core, .*; .*scale "
         r"\(`--configfile workflow/config/multi30k.yaml`\), .*: `--config allow_long_runs=true`$"),
        (PAPER_TRAINING, "multi30k", False, None, 10**12, "hours predicted .* of 1 CPU core"),
        (BASE_TRAINING, "multi30k", False, None, 10**12, ""),
        # it would be taken for the paper's
        (BASE_TRAINING, "paper", False, None, 10**12, "minutes predicted"),
        # how long a run may take its time limit says
        (PAPER_TRAINING, "paper", False, PLAIN, 10**12, ""),
        (PAPER_TRAINING, "paper", True, None, 2 * 10**9,  # 60 x 63.08 million bytes are needed
         r"run: 3\.78 GB needed for a run's checkpoints, 2\.00 GB free; make room"),
        (PAPER_TRAINING, "paper", False, PLAIN, 2 * 10**9, "3.78 GB needed"),
    ],
)  # fmt: skip
def test_what_takes_too_long_or_too_much_disk_is_refused_with_the_next_step(
    training: TrainingSpec,
    scale: str,
    allow_long_runs: bool,
    cluster: ClusterSpec | None,
    free_bytes: int,
    error: str,
    request_: TrainingRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leave_free(free_bytes, monkeypatch)
    request = msgspec.structs.replace(request_, training=training)
    with (
        pytest.raises((SpaceError, LaunchError), match=error) if error else contextlib.nullcontext()
    ):
        check_feasible(request, DATA, scale=scale, allow_long_runs=allow_long_runs, cluster=cluster)


def logged_by(
    request: TrainingRequest,
    caplog: pytest.LogCaptureFixture,
    cluster: ClusterSpec | None = None,
) -> tuple[str, str]:
    """Return what is logged about disk and hours when a training starts."""
    with caplog.at_level(logging.INFO):
        check_feasible(request, DATA, scale="paper", allow_long_runs=True, cluster=cluster)
    disk, *hours = caplog.messages
    return disk, "".join(hours)


@pytest.mark.parametrize(
    ("num_begun", "num_cores", "words"),
    [
        (0, 1, "8,766.2 hours predicted for 100,000 updates at 30% of 1 CPU core"),
        (0, 2, "4,383.1 hours predicted for 100,000 updates at 30% of 2 CPU cores"),
        (75_000, 1, "2,191.5 hours predicted for 25,000 updates at 30% of 1 CPU core"),
    ],
)
def test_disk_and_hours_of_the_further_updates_are_logged(
    num_begun: int,
    num_cores: int,
    words: str,
    request_: TrainingRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    beginning = (
        Beginning(run="shorter", update=num_begun, tensors_sha256="0") if num_begun else None
    )
    request = msgspec.structs.replace(request_, threads_per_rank=num_cores, beginning=beginning)
    disk, hours = logged_by(request, caplog)
    assert disk.startswith("run: up to 3785 MB of checkpoints in ")
    assert hours == f"run: {words}, 0.1 TFLOP/s each in fp32"


@pytest.mark.parametrize(
    ("num_ranks", "words"),
    [
        (8, "39.2 to 71.3 minutes predicted for 100,000 updates on 8 NVIDIA H200, "),
        # One GPU computes the batches of all eight.
        (1, "4.9 to 9.0 hours predicted for 100,000 updates on 1 NVIDIA H200, "),
    ],
)
def test_gpus_make_the_papers_scale_feasible_and_its_hours_are_a_range(
    num_ranks: int,
    words: str,
    request_: TrainingRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(aiayn.plan.machine, "gpu_names", lambda: ["NVIDIA H200"] * 8)
    training = msgspec.structs.replace(PAPER_TRAINING, device="auto")
    request = msgspec.structs.replace(request_, num_ranks=num_ranks, training=training)
    with caplog.at_level(logging.INFO):
        check_feasible(request, DATA, scale="paper", allow_long_runs=False, cluster=None)
    assert words in caplog.messages[-1]


@pytest.mark.parametrize(
    ("gpu_type", "hours"),
    [("p100", "4.0 to 7.2 hours"), (None, None), ("turbo9000", None)],
)
def test_on_a_cluster_hours_are_predicted_of_the_gpu_that_its_file_names(
    gpu_type: str | None,
    hours: str | None,
    request_: TrainingRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A GPU that is not named, or not in hardware.yaml, could be any: nothing is predicted."""
    cluster = msgspec.structs.replace(PLAIN, gpu_type=gpu_type)
    _, logged = logged_by(request_, caplog, cluster)
    assert hours in logged if hours else not logged
