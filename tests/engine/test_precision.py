"""Precision is what matrices are multiplied in. Weights, Adam's moments and what is saved stay
fp32.
"""

import json
from pathlib import Path

import msgspec
import pytest
import torch

from aiayn.errors import RunError
from aiayn.records import BinarizedCorpus, TrainRecord
from aiayn.runs.checkpoint_names import list_checkpoints
from aiayn.train.checkpoints import load_checkpoint
from tests.engine.tiny_training import make_request, train


def losses_bits(record: TrainRecord) -> list[float]:
    """Return the loss of each update of a run's log, in bits a target token."""
    lines = Path(record.log_path).read_text(encoding="utf-8").split("\n")
    return [
        float(json.loads(line.split(" | ", 3)[3])["loss"])
        for line in lines
        if "| train_inner |" in line
    ]


SHORT = {"updates": 15, "save_interval_updates": 15, "p_drop": 0.0}


@pytest.fixture(scope="module")
def in_bfloat16(tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus) -> TrainRecord:
    """Return the record of the tiny training in bf16."""
    folder = tmp_path_factory.mktemp("bf16") / "run"
    return train(make_request(folder, data, precision="bf16", **SHORT))


@pytest.fixture(scope="module")
def in_fp32(tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus) -> TrainRecord:
    """Return the record of the same training in fp32."""
    return train(make_request(tmp_path_factory.mktemp("fp32") / "run", data, **SHORT))


def test_bf16_trains_as_fp32_does_but_for_rounding(
    in_bfloat16: TrainRecord, in_fp32: TrainRecord
) -> None:
    rough, exact = losses_bits(in_bfloat16), losses_bits(in_fp32)
    assert len(rough) == len(exact) == 15
    assert rough != exact, "nothing was computed in bfloat16"
    assert rough == pytest.approx(exact, rel=0.05)
    assert in_bfloat16.tensors_sha256 != in_fp32.tensors_sha256


def test_bf16_keeps_weights_and_moments_in_fp32(in_bfloat16: TrainRecord) -> None:
    # In bf16 a change below 1/256 of a weight would be lost.
    state = load_checkpoint(
        list_checkpoints(Path(in_bfloat16.run_folder) / "checkpoints", "full")[-1]
    )
    tensors = list(state["model"].values())
    for moments in state["last_optimizer_state"]["state"].values():
        tensors += [moments["exp_avg"], moments["exp_avg_sq"]]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
    assert not state["cfg"]["common"]["bf16"], "fairseq's own --bf16 asks for a TPU"


@pytest.mark.parametrize(("precision", "is_tf32"), [("fp32", False), ("tf32", True)])
def test_tf32_is_switched_on_for_products_of_matrices_alone_when_asked_for(
    precision: str,
    is_tf32: bool,
    data: BinarizedCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has no effect without a GPU, which is why it is refused there. The request itself is
    visible.
    """
    monkeypatch.setattr("aiayn.train.train.require_precision", lambda *_: None)
    request = make_request(
        tmp_path / "run", data, precision=precision, updates=1, save_interval_updates=1
    )
    train(msgspec.structs.replace(request, num_models=1))
    assert torch.backends.cuda.matmul.allow_tf32 is is_tf32


def test_tf32_on_a_cpu_fails_by_name_before_anything_is_trained(
    data: BinarizedCorpus, tmp_path: Path
) -> None:
    request = make_request(tmp_path / "run", data, precision="tf32")
    with pytest.raises(
        RunError, match=r"tiny: precision is tf32, which a CPU does not have .*; take fp32 or bf16"
    ):
        train(request)
    assert not (tmp_path / "run" / "checkpoints").exists()
