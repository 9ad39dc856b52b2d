"""The package outside of a checkout: what to install, where the workflow is, and `init`."""

import importlib.metadata
import subprocess
from pathlib import Path

import pytest

import aiayn.__main__
import aiayn.cli.init
import aiayn.paths
import aiayn.provenance
import aiayn.spec.system
from aiayn.__main__ import main

REQUIREMENTS = [
    "numpy",
    'torch<2.14,>=2.11; extra == "train"',
    'fairseq-fixed==0.12.3.1; extra == "train"',
    'torch<2.14,>=2.11; extra == "translate"',
    'sentencepiece; extra == "translate"',
]


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Take this for an installed package, called in a folder without a workflow. Return its copy."""
    packed = tmp_path / "packed"
    (packed / "workflow" / "config").mkdir(parents=True)
    (packed / "workflow" / "config" / "paper.yaml").write_text("scale: paper\n")
    (packed / "profiles" / "slurm").mkdir(parents=True)
    (packed / "profiles" / "slurm" / "config.yaml").write_text("executor: slurm\n")
    for module in (aiayn.spec.system, aiayn.paths, aiayn.cli.init):
        monkeypatch.setattr(module, "IS_CHECKOUT", False)
        monkeypatch.setattr(module, "PACKED_WORKFLOW", packed)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(aiayn.spec.system, "CHECKOUT", aiayn.spec.system._find_workflow())
    return packed


def test_the_command_installs_an_extra_and_fairseq_last(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: REQUIREMENTS)
    assert aiayn.paths.install_command("train") == (
        "`pip install 'torch<2.14,>=2.11' setuptools wheel && READTHEDOCS=1 pip install"
        " --no-build-isolation fairseq-fixed==0.12.3.1`"
    )
    error = ModuleNotFoundError("torch", name="torch")
    assert aiayn.__main__._explain_missing_package(error, "translate") == (
        "needs torch, which is not installed: type `pip install 'torch<2.14,>=2.11' sentencepiece`"
    )


@pytest.mark.parametrize(
    "command",
    [
        "fetch --corpus demo_en_de --record x.json",
        "average --train x.json --last 1 --record y.json",
    ],
)
def test_a_stage_outside_a_workflow_names_init(
    packed: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main(command.split()) == 1
    error = capsys.readouterr().err
    assert "`aiayn init FOLDER` writes one" in error
    assert error.count("\n") == 1


def test_a_missing_result_outside_names_init(packed: Path) -> None:
    advice = aiayn.paths.workflow_command("demo", packed / "workflow" / "config" / "demo.yaml")
    assert advice == (
        "`aiayn init FOLDER` writes the workflow, and in FOLDER it is made by `snakemake --profile"
        " profiles/local --configfile workflow/config/demo.yaml`"
    )


def test_init_writes_the_workflow_which_is_then_found(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["init", "flow"]) == 0
    flow = Path.cwd() / "flow"
    written = {path.relative_to(flow).as_posix() for path in flow.rglob("*.yaml")}
    assert written == {"workflow/config/paper.yaml", "profiles/slurm/config.yaml"}
    assert (flow / "slurm" / "config.yaml").read_text() == "executor: slurm\n"
    (flow / "below").mkdir()
    monkeypatch.chdir(flow / "below")
    assert aiayn.spec.system._find_workflow() == flow


@pytest.mark.parametrize("place", ["full", "full/file", "."])
def test_init_writes_into_a_new_or_empty_folder_only(
    packed: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    Path("full").mkdir()
    Path("full/file").write_text("mine\n")
    before = sorted(packed.parent.rglob("*"))
    assert main(["init", place]) == 2
    assert "nothing was written" in capsys.readouterr().err
    assert sorted(packed.parent.rglob("*")) == before


def test_init_fills_an_empty_folder(packed: Path) -> None:
    Path("empty").mkdir()
    assert main(["init", "empty"]) == 0
    assert Path("empty/workflow/config/paper.yaml").is_file()


def test_a_checkout_has_the_workflow_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "flow")]) == 2
    assert "has the workflow already" in capsys.readouterr().err
    assert not (tmp_path / "flow").exists()


def test_the_commit_of_another_repository_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment lies in the folder of a project of the user's."""
    monkeypatch.delenv("AIAYN_COMMIT", raising=False)
    names = ["-c", "user.name=x", "-c", "user.email=x"]
    for arguments in (["init"], [*names, "commit", "--allow-empty", "--message", "x"]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)
    (tmp_path / "provenance.py").touch()
    monkeypatch.setattr(aiayn.provenance, "__file__", str(tmp_path / "provenance.py"))
    assert aiayn.provenance._commit.__wrapped__() == ("unknown", False)
