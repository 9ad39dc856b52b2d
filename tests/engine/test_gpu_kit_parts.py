"""Runs the parts of the GPU kit on a CPU, so that a broken part is noticed before the kit is
used on a GPU.

`make test-gpu-kit` tests the kit as a folder, with its wheels and without a network, and runs the
parts of LONG_PARTS, too.
"""

from pathlib import Path

import pytest

from tests.gpu import build, run

pytestmark = pytest.mark.slow

# They take two thirds of the time of all. What they do is tested without the kit: stops and updates of ranks on a
# pretended node, and products in bf16.
LONG_PARTS = ("resume", "step", "precision")
SECONDS = 3000.0  # for a part, on a busy machine
# The beginning of a row that each part prints on a CPU.
ROW_BY_PART = {
    "machine": "| machine | torch | ",
    "parity": "| parity | gradient of table3_e_learned, bf16 for the CPU's fp64, relative | ",
    "synchronisations": "| synchronisations | synchronisations in a step | not measured: no GPU |",
    "decode": "| decode | translations other than the oracle's, of 20 | 0 | 0 |  | yes |",
    "memory": "| memory | peak memory of a step | not measured: no GPU |",
    "node": "| node | TERM after update 4, resumed: the same tensors | True |  |  | yes |",
    "pipeline": "| pipeline | device in the training's record | cpu |  |  | yes |",
}


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the kit's sources and the demo's data-bin. The wheels are those of this environment."""
    folder = tmp_path_factory.mktemp("kit")
    build.copy_sources(folder / "source")
    build.make_corpus("demo_en_de", folder / "data")
    return folder


@pytest.mark.parametrize("part", [part for part in run.PARTS if part not in LONG_PARTS])
def test_each_part_runs_on_a_cpu(part: str, kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "KIT", kit)
    rows, problem = run.run_part(part, SECONDS, "cpu", kit / "out", "unknown", 2)
    assert problem == ""
    assert any(row.startswith(ROW_BY_PART[part]) for row in rows), rows
