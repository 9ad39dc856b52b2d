"""Which devices a job trains on: those that it was promised, no others, and never a CPU in place of
a GPU.
"""

import os
import pickle
import platform
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import fairseq.options
import msgspec
import pytest
import submitit
import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils

import aiayn
from aiayn.errors import ConfigError, LaunchError
from aiayn.launch.job import (
    GPU_ALLOCATOR_NAMES,
    TrainingJob,
    choose_gpu_variables,
    require_own_code,
)
from aiayn.records import TrainRecord
from aiayn.runs.run_folder import RunFolder
from aiayn.train.device import prepare_device, require_precision, require_promised_gpus
from aiayn.train.ranks import Rank, rank_flags
from aiayn.train.request import StopFlag, TrainingRequest
from tests.engine.tiny_spec import TRAINING, flags_of
from tests.fake_slurm import FakeSlurm
from tests.unit.test_launch import make_request

ALONE = Rank(rank=0, world_size=1, job="7", local_rank=0)
TOO_OLD = "The NVIDIA driver on your system is too old (found version 12040)."


def request_of_gpus(gpus_per_node: int, device: str = "auto") -> TrainingRequest:
    """Return a request for `gpus_per_node` GPUs a node."""
    training = msgspec.structs.replace(TRAINING, device=device)
    return msgspec.structs.replace(
        make_request(Path("run")), gpus_per_node=gpus_per_node, training=training
    )


def see_gpus(
    monkeypatch: pytest.MonkeyPatch, num_gpus: int, *, by_nvml: int, error: Exception | None = None
) -> None:
    """Let torch see `num_gpus` GPUs after CUDA's initialisation, or fail then. Before that it
    counts what NVML
    tells.
    """
    has_begun: list[bool] = []

    def init() -> None:
        if error is not None:
            raise error
        has_begun.append(True)

    monkeypatch.setattr(torch.cuda, "init", init)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_gpus if has_begun else by_nvml)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: error is None and num_gpus > 0)


@pytest.mark.parametrize(
    "error",
    [RuntimeError(TOO_OLD), AssertionError("Torch not compiled with CUDA enabled")],
    ids=["driver", "build"],
)
def test_gpus_that_torch_cannot_use_do_not_count(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """NVML counts all 8, without CUDA: the training would go to the CPUs."""
    see_gpus(monkeypatch, 0, by_nvml=8, error=error)
    with pytest.raises(LaunchError) as raised:
        require_promised_gpus(request_of_gpus(8))
    message = (
        f"{platform.node()}: torch sees 0 GPUs, expected 8 (`gpus_per_node: 8` in the cluster's"
        f" file): {error}; "
    )
    assert str(raised.value).startswith(message)
    assert "TORCH_INDEX_URL" in str(raised.value)


def test_a_rank_that_sees_only_its_own_gpu_gets_the_option_that_shows_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    see_gpus(monkeypatch, 1, by_nvml=8)
    with pytest.raises(LaunchError, match=r"torch sees 1 GPUs, expected 8 .*\{gpu-bind: none\}"):
        require_promised_gpus(request_of_gpus(8))


def test_who_was_promised_nothing_or_gets_all_is_let_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    see_gpus(monkeypatch, 8, by_nvml=8)
    require_promised_gpus(request_of_gpus(8))
    see_gpus(monkeypatch, 0, by_nvml=8, error=RuntimeError(TOO_OLD))
    require_promised_gpus(request_of_gpus(0))
    require_promised_gpus(request_of_gpus(8, device="cpu"))


@pytest.mark.parametrize(
    ("name", "capability", "has_it"),
    [("Tesla P100-SXM2-16GB", (6, 0), False), ("Quadro RTX 6000", (7, 5), False), ("NVIDIA A100", (8, 0), True),
     ("NVIDIA L40S", (8, 9), True), ("NVIDIA B200", (10, 0), True)],
)  # fmt: skip
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_a_rank_asks_its_own_gpu_for_the_precision(
    name: str,
    capability: tuple[int, int],
    has_it: bool,
    precision: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also a GPU that hardware.yaml does not know. Rank 3's GPU may be another than rank 0's."""
    monkeypatch.setattr(
        torch.cuda, "get_device_name", lambda index: name if index == 3 else "NVIDIA H100"
    )
    monkeypatch.setattr(
        torch.cuda, "get_device_capability", lambda index: capability if index == 3 else (9, 0)
    )
    request = request_of_gpus(8)
    training = msgspec.structs.replace(request.training, precision=precision)
    request = msgspec.structs.replace(request, training=training)
    require_precision(request, 0, "cuda")
    if has_it:
        require_precision(request, 3, "cuda")
        return
    with pytest.raises(
        ConfigError,
        match=f"precision is {precision}, which {name} does not have .*; take fp32, such as"
        r".*, or a GPU that has it \(`gpu_type: TYPE` in the cluster's file\)$",
    ):
        require_precision(request, 3, "cuda")


@pytest.mark.parametrize(("is_told", "num_started"), [(True, 0), (False, 8)])
def test_a_rank_alone_among_8_gpus_starts_no_process_for_each(
    monkeypatch: pytest.MonkeyPatch, is_told: bool, num_started: int
) -> None:
    """By fairseq's own decision. Without our flag it starts 8, each with a whole batch."""
    for name in list(os.environ):
        if name.startswith(("SLURM_", "MASTER_")) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    flags = flags_of(TRAINING, device="cuda")
    flags += rank_flags(ALONE, "cuda") if is_told else []
    arguments = fairseq.options.parse_args_and_arch(
        fairseq.options.get_training_parser(), input_args=flags
    )
    main = mock.Mock()
    with mock.patch("torch.multiprocessing.spawn") as spawn:
        distributed_utils.call_main(convert_namespace_to_omegaconf(arguments), main)
    assert [call.kwargs["nprocs"] for call in spawn.call_args_list] == [num_started] * (
        num_started > 0
    )
    assert main.call_count == (0 if num_started else 1)


@pytest.fixture
def in_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let a job believe that it is rank 0 of a Slurm job on the node n1. What it sets in the
    environment goes.
    """
    environment = SimpleNamespace(
        name=lambda: "slurm",
        hostnames=["n1"],
        paths=SimpleNamespace(result_pickle=tmp_path / "7_0_result.pkl"),
        global_rank=0,
        num_tasks=1,
        job_id="7",
        local_rank=0,
    )
    monkeypatch.setattr(submitit, "JobEnvironment", lambda: environment)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")


@pytest.mark.usefixtures("in_slurm")
@pytest.mark.parametrize(("gpus_per_node", "visible"), [(0, ""), (2, "0,1")])
def test_a_slurm_job_sees_no_gpu_that_it_did_not_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus_per_node: int, visible: str
) -> None:
    """Where the site does not confine devices, `device: auto` would take other people's."""
    seen: list[str | None] = []
    monkeypatch.setattr(
        "aiayn.train.train.train_rank",
        lambda *_: seen.append(os.environ.get("CUDA_VISIBLE_DEVICES")),
    )
    request = msgspec.structs.replace(make_request(tmp_path), gpus_per_node=gpus_per_node)
    TrainingJob(request)._train(StopFlag())
    assert seen == [visible]


@pytest.mark.usefixtures("in_slurm")
def test_a_job_by_other_code_than_was_submitted_is_refused_and_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image has an aiayn of its own, and PYTHONPATH does not reach it."""
    monkeypatch.setattr("aiayn.train.train.train_rank", lambda *_: pytest.fail("trained"))
    request = msgspec.structs.replace(
        make_request(tmp_path), code_folder=str(tmp_path / "code" / "abc")
    )
    with pytest.raises(LaunchError, match="let PYTHONPATH reach Python in the container"):
        TrainingJob(request)._train(StopFlag())
    (noted,) = RunFolder(tmp_path).rank_errors()
    imported = Path(aiayn.__file__).resolve().parent
    assert (
        f"aiayn was imported from {imported}, expected from {tmp_path}/code/abc, the copy of the"
        " code" in noted
    )


def test_the_code_as_submitted_is_taken_by_any_name(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(Path(aiayn.__file__).parents[1])
    require_own_code(str(tmp_path / "link"))
    require_own_code(None)  # of a request that does not say


@pytest.mark.usefixtures("in_slurm")
@pytest.mark.parametrize(
    ("own", "agreed", "is_requeued"),
    [
        (None, signal.SIGUSR2, True),  # only another node's ranks had the signal yet
        (signal.SIGUSR2, signal.SIGINT, False),  # another rank was asked to end
        (signal.SIGUSR2, None, False),  # it came after the last update: nothing is left to do
    ],
)
def test_rank_0_requeues_its_job_by_what_the_ranks_agreed_on(
    own: signal.Signals | None,
    agreed: signal.Signals | None,
    is_requeued: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    slurm: FakeSlurm,
) -> None:
    def end_training(request: TrainingRequest, rank: Rank, stop: StopFlag) -> None:
        stop.signal_number, stop.agreed = own, agreed

    monkeypatch.setattr("aiayn.train.train.train_rank", end_training)
    TrainingJob(make_request(tmp_path))._train(StopFlag())
    assert slurm.calls("scontrol") == ["requeue 7"] * is_requeued


@pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("lscpu") is None, reason="another kernel's words"
)
def test_a_record_names_the_machines_cpu(finished: TrainRecord) -> None:
    """What a training cost means little without it."""
    words = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
    (name,) = [
        line.partition(":")[2].strip()
        for line in words.splitlines()
        if line.startswith("Model name:")
    ]
    assert finished.hardware.cpu == name != ""


def test_cudnn_computes_no_attention_on_a_gpu() -> None:
    # On H100 cuDNN plans 40 to 400 ms for nearly every batch.
    torch.backends.cuda.enable_cudnn_sdp(True)
    prepare_device("cpu")
    assert torch.backends.cuda.cudnn_sdp_enabled()
    prepare_device("cuda")
    assert not torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.parametrize("name", [None, "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_the_allocator_of_a_gpu_grows_its_blocks_unless_the_user_chose(
    name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Batches of many sizes leave gaps that only blocks that grow can use.
    for each in GPU_ALLOCATOR_NAMES:
        monkeypatch.delenv(each, raising=False)
    if name is not None:
        monkeypatch.setenv(name, "backend:cudaMallocAsync")
    choose_gpu_variables()
    expected = (
        {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
        if name is None
        else {name: "backend:cudaMallocAsync"}
    )
    assert {
        each: os.environ[each] for each in GPU_ALLOCATOR_NAMES if each in os.environ
    } == expected
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)


STOPPED_AT_TORCH = """
import os, pickle, sys

class AtTorch:
    @staticmethod
    def find_spec(name, *_):
        if name == "torch":
            print("torch finds", os.environ.get("PYTORCH_ALLOC_CONF"), flush=True)
            os._exit(0)

sys.meta_path.insert(0, AtTorch)
pickle.load(sys.stdin.buffer)()
"""


def test_torch_finds_the_allocators_setting_when_a_job_imports_it(tmp_path: Path) -> None:
    """torch reads it once. A job's process ends here where it would import torch."""
    names = ("JOB_ID", "NTASKS", "GLOBALID", "LOCALID", "JOB_NUM_NODES", "NODEID")
    job = {f"SUBMITIT_LOCAL_{name}": "0" for name in names}
    environment = {key: text for key, text in os.environ.items() if key not in GPU_ALLOCATOR_NAMES}
    process = subprocess.run(
        [sys.executable, "-c", STOPPED_AT_TORCH],
        input=pickle.dumps(TrainingJob(make_request(tmp_path))),
        env=environment | job | {"SUBMITIT_EXECUTOR": "local", "PATH": ""},  # no nvidia-smi
        capture_output=True,
        check=False,
    )
    assert process.stdout == b"torch finds expandable_segments:True\n", process.stderr.decode()
