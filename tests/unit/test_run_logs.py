"""`aiayn logs` prints the end of a run's log and follows it, whatever becomes of the file."""

import lzma
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import aiayn.runs.logs
from aiayn.__main__ import main
from aiayn.packed import packed_bytes
from aiayn.runs.attempts import DONE_NAME, LOG_NAME
from aiayn.runs.log import last_lines, read_end, read_validations
from aiayn.runs.logs import follow
from aiayn.runs.run_folder import RunFolder
from tests.run_folders import (
    ended,
    make_run,
    started,
    statistics_line,
    submitted,
    write_done,
    write_log,
)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return make_run(tmp_path, "demo_en_de-base-seed1-0a1b2c3d", events=[started(1, 0)])


def add(folder: Path, text: str) -> None:
    with (folder / LOG_NAME).open("a", encoding="utf-8", newline="\n") as log:
        log.write(text)


def followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object], num_lines: int = 5
) -> tuple[list[str], list[str]]:
    """Return the lines and notes of following a run in whose log a step is made between two looks,
    until it is done.
    """
    left = [*steps, (folder / DONE_NAME).touch]
    monkeypatch.setattr(aiayn.runs.logs.time, "sleep", lambda seconds: left and left.pop(0)())
    notes: list[str] = []
    return list(follow(RunFolder(folder), num_lines=num_lines, note=notes.append)), notes


def test_last_lines_are_found_from_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        "".join(f"{number} {'x' * 1000}\n" for number in range(500)) + "torn", encoding="utf-8"
    )
    end = read_end(path, 3)
    assert [line.split(" ")[0] for line in end.lines] == ["497", "498", "499"]
    assert path.read_bytes()[end.torn_at :] == b"torn"
    assert end.torn == "torn"
    assert read_end(path, 0).lines == []
    assert len(read_end(path, 1000).lines) == 500
    assert [line.split(" ")[0] for line in last_lines(path, 2)] == ["499", "torn"]
    assert last_lines(tmp_path / "no such log", 2) == []


def test_a_packed_log_is_printed_too(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(run_folder, ["first", statistics_line(10, 3.4, "12:00:00")])
    log_path = run_folder / LOG_NAME
    log_path.with_name(f"{LOG_NAME}.xz").write_bytes(packed_bytes(log_path.read_bytes()))
    arguments = ["logs", run_folder.name, "--runs-folder", str(run_folder.parent), "--lines", "1"]
    printed = []
    for is_packed in (False, True):
        if is_packed:
            log_path.unlink()
        assert main(arguments) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != ""
    packed_path = log_path.with_name(f"{LOG_NAME}.xz")
    packed_path.write_bytes(packed_path.read_bytes()[:-30])
    assert main(arguments) == 1
    assert "train.log.xz: not a whole .xz file" in capsys.readouterr().err


def test_following_prints_whole_lines_and_ends_with_the_last_when_the_run_is_done(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(run_folder, ["1", "2", "3"])

    def end() -> None:
        add(run_folder, "last\n")
        write_done(run_folder, updates=1, tokens=1, wall_seconds=1)

    steps = (lambda: add(run_folder, "4\nhal"), lambda: add(run_folder, "f\n"), end)
    assert followed(run_folder, monkeypatch, *steps, num_lines=2)[0] == [
        "2",
        "3",
        "4",
        "half",
        "last",
    ]


def test_following_goes_on_through_a_stop_and_another_attempt(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(run_folder, ["1"])
    run = RunFolder(run_folder)
    lines, notes = followed(
        run_folder,
        monkeypatch,
        lambda: run.append_event(ended(1, 5, "stopped", update=20, reason="asked by SIGUSR2")),
        lambda: run.append_job(submitted("slurm", "23", minutes=5)),
        lambda: run.append_event(started(2, 6, job="23", host="n2", update=20)),
        lambda: add(run_folder, "2\n"),
    )
    assert lines == ["1", "2"]
    assert notes == [
        "== attempt 1 stopped 2026-01-01T12:05:00+00:00, at update 20: asked by SIGUSR2",
        f"== job 23 has begun no attempt yet; it prints into {run.output_path('23')}",
        "== attempt 2 began 2026-01-01T12:06:00+00:00 on n2, job 23, at update 20",
    ]


@pytest.mark.parametrize("change", ["moved away", "cut", "not there yet"])
def test_following_survives_a_change_of_the_file(
    run_folder: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [] if change == "not there yet" else ["old 1", "old 2"]
    if old:
        write_log(run_folder, old)
    steps = [lambda: write_log(run_folder, ["new"]), lambda: add(run_folder, "and more\n")]
    if change == "moved away":  # as `--fresh` does
        steps.insert(0, lambda: (run_folder / LOG_NAME).rename(run_folder / "aside.log") and None)
    assert followed(run_folder, monkeypatch, *steps)[0] == [*old, "new", "and more"]


def test_ctrl_c_ends_following(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> Iterator[str]:
        yield "a line"
        raise KeyboardInterrupt

    monkeypatch.setattr("aiayn.cli.logs.follow", interrupted)
    assert main(["logs", "demo", "--follow", "--runs-folder", str(run_folder.parent)]) == 130
    assert capsys.readouterr().out == "a line\n"


def test_validations_come_by_update_the_later_counts_and_what_is_no_number_is_passed_over(
    tmp_path: Path,
) -> None:
    def line(update: int, bits: str) -> str:
        return (
            f'2026-01-01 10:00:00 | INFO | valid | {{"valid_nll_loss": "{bits}",'
            f' "valid_num_updates": "{update}"}}'
        )

    lines = [
        line(40, "5.0"),
        line(20, "9.5"),
        "2026-01-01 10:00:00 | INFO | train_inner | {}",
        line(40, "4.0"),
    ]
    lines += [line(60, "3.0")[:-20], line(60, "nan"), line(80, "inf"), "| valid | 3", ""]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert list(read_validations(path).items()) == [(20, 9.5), (40, 4.0)]
    assert read_validations(tmp_path / "absent.log") == {}
    packed = lzma.compress(path.read_bytes())
    (tmp_path / "packed.log.xz").write_bytes(packed)
    assert list(read_validations(tmp_path / "packed.log").items()) == [(20, 9.5), (40, 4.0)]
    (tmp_path / "torn.log.xz").write_bytes(packed[:-20])
    assert read_validations(tmp_path / "torn.log") in (
        {},
        {20: 9.5, 40: 4.0},
    )  # what could be unpacked
