"""One word of a config trains all its systems in another precision: digest, tables, flags, and who
refuses it.
"""

import contextlib
from pathlib import Path

import msgspec
import pytest

import aiayn.plan.machine
from aiayn.__main__ import build_parser
from aiayn.errors import ConfigError
from aiayn.plan.feasibility import check_feasible, check_precision
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.system import (
    Overrides,
    TrainingSpec,
    read_system,
)
from aiayn.spec.training import Precision
from aiayn.train.request import TrainingRequest
from paper_tables.layout import Table
from paper_tables.make_frame import make_frame
from paper_tables.render.tables import lay_out_tables
from paper_tables.scale_results import gather_results
from tests.planned_scales import CPU, MINE, PLAIN
from tests.records_factory import EIGHT_P100, Site, make_site, write_everything
from tests.unit.test_feasibility import DATA
from tests.unit.test_launch import make_request

BF16 = Overrides(precision="bf16")


@pytest.mark.parametrize("overrides", [Overrides(), BF16, Overrides(updates=7, precision="tf32")])
def test_train_understands_the_flags_that_rule_train_gives(overrides: Overrides) -> None:
    flags = overrides.flags(read_system("base", "demo").training)
    train = ["--scale", "demo", "--corpus", "demo_en_de", "--system", "base", "--seed", "1"]
    args = build_parser("train").parse_args([*train, *flags])
    assert Overrides(updates=args.updates, precision=args.precision) == overrides


# ---- who refuses it


def request_of(precision: Precision, folder: Path, device: str = "auto") -> TrainingRequest:
    """Return a request to train the demo's base."""
    changes = {"precision": precision, "device": device}
    training = msgspec.convert(
        msgspec.to_builtins(read_system("base", "demo").training) | changes, TrainingSpec
    )
    return msgspec.structs.replace(make_request(folder / "run"), training=training)


@pytest.mark.parametrize(
    ("devices", "precision", "device"),
    [
        ([], "fp32", ""),
        ([], "bf16", ""),
        ([], "tf32", "CPU"),
        (["Tesla P100-SXM2-16GB"], "bf16", "Tesla P100-SXM2-16GB"),
        (["NVIDIA A100-SXM4-80GB"], "bf16", ""),
        (["NVIDIA L40S"], "bf16", ""),  # not in hardware.yaml: the job itself asks torch
        (MINE, "bf16", "V100"),
        (PLAIN, "bf16", ""),  # names no gpu_type
        (msgspec.structs.replace(PLAIN, gpu_type="nvidia_h100_80gb_hbm3"), "tf32", ""),
        (msgspec.structs.replace(PLAIN, gpu_type="p100"), "tf32", "P100"),
        (CPU, "tf32", "CPU"),
    ],
)
def test_a_precision_that_the_devices_here_or_of_the_cluster_have_not_is_refused_before_anything_is_submitted(
    devices: list[str] | ClusterSpec,
    precision: Precision,
    device: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = devices if isinstance(devices, ClusterSpec) else None
    monkeypatch.setattr(aiayn.plan.machine, "gpu_names", lambda: devices)
    words = rf"^base: precision is {precision}, which a {device} does not have.*take fp32"
    with pytest.raises(ConfigError, match=words) if device else contextlib.nullcontext():
        check_precision(request_of(precision, tmp_path), cluster)
    if cluster is None:
        with pytest.raises(ConfigError, match=r"^base: precision is tf32, which a CPU"):
            check_precision(request_of("tf32", tmp_path, device="cpu"))


def test_a_refused_run_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiayn.plan.machine, "gpu_names", list)
    with pytest.raises(ConfigError, match="a CPU does not have"):
        check_feasible(
            request_of("tf32", tmp_path), DATA, scale="demo", allow_long_runs=False, cluster=None
        )
    assert list(tmp_path.iterdir()) == []


# ---- tables


def tables_of(site: Site) -> list[Table]:
    """Return all tables of whatever is there."""
    results = gather_results(
        site.scale, site.results_folder, so_far=True, queues={}, config_folder=site.config_folder
    )
    return lay_out_tables(make_frame(results))


def notes_of(tables: list[Table], words: str) -> dict[str, list[str]]:
    """Return the notes that have these words, by table."""
    notes_by_table: dict[str, list[str]] = {}
    for table in tables:
        for note in table.notes:
            if words in note.text:
                notes_by_table.setdefault(table.name, []).append(note.text)
    return notes_by_table


def test_tables_say_which_systems_were_trained_in_another_precision(tmp_path: Path) -> None:
    site = make_site(tmp_path, precision="bf16")
    write_everything(site, hardware=EIGHT_P100)
    notes_by_table = notes_of(tables_of(site), "Trained in bf16")
    assert set(notes_by_table) == {"table2", "table3", "verdicts"}
    assert notes_by_table["table3"][0].startswith(
        "Trained in bf16, unlike in the paper: base, 2 layers, big."
    )
    plain = make_site(tmp_path / "plain")
    write_everything(plain, hardware=EIGHT_P100)
    assert notes_of(tables_of(plain), "Trained in") == {}
    cost = "; as the paper counts it, in single precision"
    assert cost not in " ".join(note.text for table in tables_of(plain) for note in table.notes)
