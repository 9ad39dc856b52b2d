"""A command's cost is that of all its processes."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.benchmarks.measuring import Command, CommandFailedError, Cost, run_measured

# Two processes at a time, each of which holds 60 MiB of its own; a third that both share is the parent's.
FAMILY = """
import os, time
shared = bytearray(b"x") * (60 << 20)
children = []
for _ in range(2):
    if not (pid := os.fork()):
        own = bytearray(b"x") * (60 << 20)
        time.sleep(2.0)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
"""
BUSY = """
import os, time
if not os.fork():
    while time.process_time() < 0.5:
        pass
    os._exit(0)
os.wait()
"""


def measured(folder: Path, code: str) -> Cost:
    """Return what a piece of Python costs."""
    command = Command([sys.executable, "-IS", "-c", code])
    return run_measured(command, log_path=folder / "log", environment=dict(os.environ))


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's /proc")
def test_memory_is_of_all_processes_and_shared_pages_count_once(tmp_path: Path) -> None:
    assert 180 <= measured(tmp_path, FAMILY).peak_mib < 180 + 60


def test_cpu_time_is_of_children_too_and_sleep_is_none(tmp_path: Path) -> None:
    assert 0.5 <= measured(tmp_path, BUSY).cpu_seconds < 1.5
    asleep = measured(tmp_path, "import time; time.sleep(0.5)")
    assert asleep.cpu_seconds < 0.4
    assert asleep.wall_seconds >= 0.5


def test_costs_add_up_and_memory_does_not() -> None:
    assert Cost(1.0, 2.0, 30.0).then(Cost(10.0, 20.0, 3.0)) == Cost(11.0, 22.0, 30.0)


def test_input_output_and_log_are_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"b\na\n")
    code = "import sys; print('told', file=sys.stderr); print(sys.stdin.read().upper(), end='')"
    command = Command([sys.executable, "-IS", "-c", code], tmp_path / "in", tmp_path / "out")
    run_measured(command, log_path=tmp_path / "log", environment=dict(os.environ))
    assert (tmp_path / "out").read_bytes() == b"B\nA\n"
    assert (tmp_path / "log").read_bytes() == b"told\n"


def test_a_command_that_fails_shows_its_last_words(tmp_path: Path) -> None:
    begun_at = time.monotonic()
    with pytest.raises(CommandFailedError, match=r"(?s)exited with 3; the end of .*log:\nlast words"):
        measured(tmp_path, "import sys; print('last words', file=sys.stderr); sys.exit(3)")
    assert time.monotonic() - begun_at < 30


def test_a_measured_command_ends_with_a_killed_benchmark(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom tests.benchmarks.measuring import Command, run_measured\n"
        f"path = Path({str(tmp_path)!r})\n"
        'child = \'import os, time; open("pid.partial", "w").write(str(os.getpid())); '
        'os.rename("pid.partial", "pid"); time.sleep(60)\'\n'
        "run_measured(Command([sys.executable, '-c', child]), log_path=path / 'log', environment=dict(os.environ))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    benchmark = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment)
    while not (tmp_path / "pid").exists():
        assert benchmark.poll() is None
        time.sleep(0.02)
    benchmark.kill()
    benchmark.wait()
    process_folder = Path("/proc") / (tmp_path / "pid").read_text(encoding="utf-8")
    for _ in range(500):
        if not process_folder.exists() or "State:\tZ" in (process_folder / "status").read_text(encoding="utf-8"):
            return
        time.sleep(0.02)
    pytest.fail("the command goes on without the benchmark")
