"""Outputs are whole or absent, and records say how they were made."""

import contextlib
import hashlib
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import aiayn.provenance
from aiayn.errors import SpaceError
from aiayn.provenance import (
    commit_label,
    gather_provenance,
    partial_path_of,
    remove_abandoned,
    replace_on_success,
    replace_outputs_on_success,
    require_free_space,
)
from aiayn.runs.attempts import append_json_line

Replace = Callable[[Path], contextlib.AbstractContextManager[Path]]


@pytest.fixture
def fresh_commit() -> Iterator[Callable[[], None]]:
    """Forget the commit that this process has found out, and return what forgets the next."""
    forget = aiayn.provenance._commit.cache_clear
    forget()
    yield forget
    forget()


@pytest.mark.parametrize(
    ("half_written", "error"),
    [
        (lambda path: path.write_bytes(b"ha") / 0, ZeroDivisionError),
        (lambda path: None, FileNotFoundError),  # an output that was never written is an error, too
        (
            lambda path: (path.symlink_to("/dev/full"), path.write_bytes(b"x")),
            OSError,
        ),  # no space left on device
    ],
)
def test_a_failure_leaves_the_earlier_output_and_nothing_half_written(
    half_written: Callable[[Path], object], error: type[Exception], tmp_path: Path
) -> None:
    path = tmp_path / "output"
    path.write_bytes(b"earlier")
    with pytest.raises(error), replace_on_success(path) as partial_path:
        half_written(partial_path)
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]


def killed_while(work: Callable[[], contextlib.AbstractContextManager[Path]]) -> None:
    """Enter a context in a fork of this process, write there, and be killed."""
    child = os.fork()
    if child == 0:
        try:
            with work() as partial:
                (partial / "half" if partial.is_dir() else partial).write_bytes(b"ha")
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("replace", [replace_on_success, replace_outputs_on_success])
def test_what_a_killed_process_left_goes_at_the_next_start(
    replace: Replace, tmp_path: Path
) -> None:
    killed_while(lambda: replace(tmp_path / "record.json"))
    killed_while(lambda: replace(tmp_path / "other.json"))
    (left,) = tmp_path.glob(".record.json.*.partial")
    (of_another_output,) = tmp_path.glob(".other.json.*.partial")
    with replace(tmp_path / "record.json") as partial:
        assert not left.exists()
        (partial / "text" if partial.is_dir() else partial).write_bytes(b"whole")
    assert [path for path in tmp_path.iterdir() if path.name.endswith(".partial")] == [
        of_another_output
    ]


def test_files_of_a_process_that_may_run_stay(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    mine = partial_path_of(path := tmp_path / "record.json")
    prefix = f".record.json.{platform.node()}."
    kept = [
        tmp_path / f"{prefix}{child.pid}.partial",
        tmp_path
        / f".record.json.another-host.{2**22 + 1}.partial",  # more than Linux numbers processes
        tmp_path / f"{prefix}x.partial",
        mine,
    ]
    gone = tmp_path / f"{prefix}{2**22 + 1}.partial"
    try:
        for left in (*kept, gone):
            left.touch()
        remove_abandoned(path)
        assert sorted(tmp_path.iterdir()) == sorted(kept)
    finally:
        child.kill()
        child.wait()


def test_provenance_names_its_inputs_and_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"x")
    monkeypatch.setattr(sys, "argv", ["/bin/aiayn", "clean", "--text", "a b"])
    provenance = gather_provenance([path])
    assert provenance.input_sha256_by_path == {path: hashlib.sha256(b"x").hexdigest()}
    assert provenance.command == "aiayn clean --text 'a b'"
    assert provenance.version_by_package["numpy"].count(".") == 2
    assert gather_provenance(command="aiayn train").command == "aiayn train"


def test_the_commit_is_the_drivers_or_gits_or_unknown(
    fresh_commit: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIAYN_COMMIT", "0123+dirty")
    assert commit_label() == "0123+dirty"
    provenance = gather_provenance()
    assert (provenance.commit, provenance.is_dirty) == ("0123", True)
    fresh_commit()
    monkeypatch.delenv("AIAYN_COMMIT")
    folder = Path(aiayn.provenance.__file__).parent
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=False
    )
    expected = head.stdout.strip() if head.returncode == 0 else "unknown"
    assert commit_label().removesuffix("+dirty") == expected
    fresh_commit()
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # outside of a checkout
    assert commit_label() == "unknown"


def test_what_the_disk_cannot_hold_is_refused_beforehand(tmp_path: Path) -> None:
    not_yet_made = tmp_path / "runs" / "run"
    require_free_space(not_yet_made, 1, "a run's checkpoints")
    with pytest.raises(
        SpaceError, match=r"run: 1000000000\.00 GB needed for a run's checkpoints, .* GB free; make"
    ):
        require_free_space(not_yet_made, 10**18, "a run's checkpoints")
    assert os.listdir(tmp_path) == []


@pytest.fixture
def disk_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """Record each fsync with the file's name and size at that moment, and each name that is given
    or taken, in order.

    A kill cannot show what a power cut would: what was written, the kernel holds on to.
    """
    calls: list[tuple[str, str, int]] = []
    fsync, replace, unlink = os.fsync, os.replace, os.unlink

    def recorded_fsync(descriptor: int) -> None:
        calls.append(
            (
                "fsync",
                Path(os.readlink(f"/proc/self/fd/{descriptor}")).name,
                os.fstat(descriptor).st_size,
            )
        )
        fsync(descriptor)

    def recorded_replace(source: str | Path, target: str | Path) -> None:
        replace(source, target)
        calls.append(("replace", Path(target).name, Path(target).stat().st_size))

    def recorded_unlink(path: str | Path, **named: int) -> None:
        unlink(path, **named)
        calls.append(("unlink", Path(path).name, 0))

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    monkeypatch.setattr(os, "unlink", recorded_unlink)
    return calls


def test_an_outputs_bytes_are_on_the_disk_before_its_name_is(
    tmp_path: Path, disk_calls: list[tuple[str, str, int]]
) -> None:
    path = tmp_path / "output"
    with replace_on_success(path) as partial_path:
        partial_path.write_bytes(b"whole")
    assert disk_calls[:2] == [("fsync", partial_path.name, 5), ("replace", "output", 5)]
    # The name, too, is on the disk at the end.
    assert [call[:2] for call in disk_calls[2:]] == [("fsync", tmp_path.name)]


def test_a_stages_bytes_are_on_the_disk_and_its_old_record_gone_before_any_name_is(
    tmp_path: Path, disk_calls: list[tuple[str, str, int]]
) -> None:
    (tmp_path / "record.json").write_text("old", encoding="utf-8")
    with replace_outputs_on_success(tmp_path / "record.json") as folder:
        for name in ("a", "b"):
            (folder / name).write_bytes(name.encode())
    assert disk_calls[:5] == [
        ("fsync", "a", 1),
        ("fsync", "b", 1),
        ("unlink", "record.json", 0),
        ("replace", "a", 1),
        ("replace", "b", 1),
    ]
    assert disk_calls[5][:2] == ("fsync", tmp_path.name)


def test_a_line_is_on_the_disk_when_it_counts_as_appended(
    tmp_path: Path, disk_calls: list[tuple[str, str, int]]
) -> None:
    path = tmp_path / "lines.jsonl"
    append_json_line(path, {"a": 1})
    append_json_line(path, {"a": 2})
    assert disk_calls == [("fsync", "lines.jsonl", 8), ("fsync", "lines.jsonl", 16)]
