"""`aiayn train --launcher slurm` as a process: with how much memory it waits, how it leaves; Slurm is a stand-in."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiayn.runs.run_folder import RunFolder
from tests.fake_slurm import FakeSlurm
from tests.unit.test_launch_slurm import data_record

LONGEST_WAIT_SECONDS = 60.0
MOST_MEGABYTES = 80.0  # thirty drivers wait at once, on a machine that is there for logging in


@pytest.fixture
def start_driver(tmp_path: Path, slurm: FakeSlurm) -> Iterator[Callable[[], "subprocess.Popen[str]"]]:
    """Return what starts a driver, which waits for its Slurm job; what is left of them is killed in the end."""
    record_path = data_record(tmp_path)
    arguments = ["train", "--scale", "paper", "--corpus", "wmt14_en_de", "--system", "base", "--seed", "1"]
    arguments += ["--binarized", str(record_path), "--record", str(tmp_path / "seed1.json")]
    arguments += ["--runs-folder", str(tmp_path / "runs"), "--launcher", "slurm", "--cluster", "cpu"]
    drivers: list[subprocess.Popen[str]] = []

    def start() -> "subprocess.Popen[str]":
        num_asked = len(slurm.calls("squeue"))
        driver = subprocess.Popen(
            [sys.executable, "-m", "aiayn", *arguments], stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        drivers.append(driver)
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        while not (slurm.num_submitted() and len(slurm.calls("squeue")) > num_asked and recorded_jobs(tmp_path)):
            assert driver.poll() is None, driver.stderr and driver.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return driver

    yield start
    for driver in drivers:
        driver.kill()
        driver.communicate()


def recorded_jobs(tmp_path: Path) -> list[str]:
    """Return the jobs that drivers have noted."""
    folders = [path for path in (tmp_path / "runs").glob("*-seed1-*") if path.is_dir()]
    return [job.job for folder in folders for job in RunFolder(folder).jobs()]


def test_a_waiting_driver_is_small(start_driver: Callable[[], "subprocess.Popen[str]"]) -> None:
    """With submitit loaded, which has just submitted."""
    driver = start_driver()
    status = Path(f"/proc/{driver.pid}/status")
    if not status.exists():
        pytest.skip("no /proc to read a process's memory from")
    lines = status.read_text(encoding="utf-8").split("\n")
    (most_kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    assert 10 < most_kilobytes / 1024 < MOST_MEGABYTES


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 3)])
def test_a_signal_ends_a_driver_at_once_and_cancels_nothing(
    number: signal.Signals, status: int, start_driver: Callable[[], "subprocess.Popen[str]"], slurm: FakeSlurm
) -> None:
    driver = start_driver()
    begin = time.monotonic()
    os.killpg(driver.pid, number)  # as a terminal does
    _, message = driver.communicate(timeout=LONGEST_WAIT_SECONDS)
    assert time.monotonic() - begin < 5
    assert driver.returncode == status
    assert (
        "its Slurm job continues without this driver; the same command attaches to it: `aiayn train --scale" in message
    )
    assert "scancel --name=wmt14_en_de-base-seed1-" in message
    assert slurm.calls("scancel") == []


def test_two_drivers_at_once_submit_once(
    start_driver: Callable[[], "subprocess.Popen[str]"], slurm: FakeSlurm, tmp_path: Path
) -> None:
    """The second waits for the first one's lock, and attaches when the first is gone."""
    first = start_driver()
    second = start_driver()
    killer = threading.Timer(LONGEST_WAIT_SECONDS, second.kill)
    killer.start()
    assert any("another driver is at work on this run; waiting for it" in line for line in second.stderr or ())
    first.kill()
    first.wait()
    assert any("attached to Slurm job 7, which was submitted before" in line for line in second.stderr or ())
    killer.cancel()
    assert slurm.num_submitted() == 1
