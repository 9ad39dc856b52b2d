"""The copy of the code that a job runs: named for its content, whole, and not the checkout's of
tomorrow.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import aiayn
from aiayn.launch.code_snapshot import snapshot_folder, take_snapshot


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a folder of two small packages."""
    for package in ("aiayn", "aiayn_fairseq"):
        (tmp_path / "source" / package / "train").mkdir(parents=True)
        for name in ("__init__.py", "train/__init__.py", "train/model.py"):
            (tmp_path / "source" / package / name).write_text(
                f"WHICH = '{package} {name}'\n", encoding="utf-8"
            )
    (tmp_path / "source" / "aiayn" / "notes.txt").write_text("no code", encoding="utf-8")
    return tmp_path / "source"


def test_all_modules_are_copied_and_nothing_else(tmp_path: Path, source: Path) -> None:
    folder = take_snapshot(tmp_path / "runs", source)
    assert folder == snapshot_folder(tmp_path / "runs", source)
    names = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    assert names == [
        f"{package}/{name}"
        for package in ("aiayn", "aiayn_fairseq")
        for name in ("__init__.py", "train/__init__.py", "train/model.py")
    ]
    assert (folder / "aiayn/train/model.py").read_bytes() == (
        source / "aiayn/train/model.py"
    ).read_bytes()


def test_the_same_code_is_one_copy_and_other_code_another(tmp_path: Path, source: Path) -> None:
    first = take_snapshot(tmp_path / "runs", source)
    assert take_snapshot(tmp_path / "runs", source) == first
    (source / "aiayn/train/model.py").write_text("WHICH = 'edited'\n", encoding="utf-8")
    assert snapshot_folder(tmp_path / "runs", source) != first
    second = take_snapshot(tmp_path / "runs", source)
    assert sorted(path.name for path in (tmp_path / "runs" / "code").iterdir()) == sorted(
        [first.name, second.name]
    )
    assert "edited" not in (first / "aiayn/train/model.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["aiayn/__init__.py", "aiayn/train/model.py", "aiayn_fairseq"])
def test_a_swept_edited_or_unfinished_copy_is_mended(
    tmp_path: Path, source: Path, name: str
) -> None:
    folder = take_snapshot(tmp_path / "runs", source)
    before = {path: path.read_bytes() for path in folder.rglob("*.py")}
    (
        shutil.rmtree(folder / name)
        if (folder / name).is_dir()
        else (folder / name).write_text("WHICH = 'by hand'\n")
    )
    (folder / "aiayn_fairseq" / "__init__.py").unlink(missing_ok=True)
    assert take_snapshot(tmp_path / "runs", source) == folder
    assert {path: path.read_bytes() for path in folder.rglob("*.py")} == before


def test_a_file_that_cannot_be_written_is_absent(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aiayn.provenance.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        take_snapshot(tmp_path / "runs", source)
    assert [path for path in (tmp_path / "runs").rglob("*") if path.is_file()] == []


def test_the_copy_of_this_code_holds_all_that_a_job_imports_and_looks_for_no_wings(
    tmp_path: Path,
) -> None:
    folder = take_snapshot(tmp_path / "runs")
    assert sorted(path.name for path in folder.iterdir()) == ["aiayn", "aiayn_fairseq"]
    program = (
        "import aiayn.train.train, aiayn.launch.job, aiayn_fairseq, sys\nours = [m.__file__ for n,"
        " m in sorted(sys.modules.items()) if n.split('.')[0] in ('aiayn',"
        " 'aiayn_fairseq')]\nprint('\\n'.join(sorted(ours)))\nprint([n for n in ('analysis',"
        " 'paper_tables', 'aiayn.cli', 'aiayn.wings') if n in sys.modules])"
    )
    checkout = str(Path(aiayn.__file__).parents[1])
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder}{os.pathsep}{checkout}",
        "PYTHONSAFEPATH": "1",
    }
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    *paths, others = answer.stdout.rstrip("\n").split("\n")
    assert len(paths) > 20
    assert [path for path in paths if not path.startswith(str(folder))] == []
    assert others == "[]"
