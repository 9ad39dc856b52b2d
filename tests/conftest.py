"""What all tests share: a fake Slurm, a driven run; tests of the core without wings; tables without
figures, unless a test is marked `figures`.

Where pytest itself runs in the background of a shell, which has SIGINT ignored, tests can interrupt
processes, too.
"""

import gc
import os
import signal
import urllib.parse
import urllib.request
from collections.abc import Generator, Iterator
from pathlib import Path
from unittest import mock

import msgspec
import pytest

import analysis
from aiayn.spec.cluster import read_cluster
from aiayn.wings import present_wings
from tests.driven_run import DrivenRun
from tests.fake_slurm import FakeSlurm, install
from tests.support.slurm_cluster import cluster, on_cluster  # noqa: F401, fixtures
from tests.unit.test_launch import make_request

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# torch reads it when it is first imported, here and in the commands that tests start. Models of
# tests are so small that a second thread mostly waits: two processes of tests on two cores took
# 59 CPU seconds for the tests of the beam search, and take 14 with one thread each. Where a test
# asks for two, the second sleeps between products: it would look for work without a pause.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the tests without garbage collection, and leave out of later ones what they imported.

    Imports leave no garbage, but many objects to look through: with it collecting all tests took
    10 CPU seconds in each process, without it 6. Later ones are rarer than Python's, which would
    take 4 % of the time of the tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


# These tests are of the core alone. Others are of a wing, of documents, or run whole commands.
CORE_TESTS = ("unit", "engine", "facts", "known_good", "logs", "oracle")


@pytest.fixture(autouse=True, scope="module")
def _without_wings(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hide the folders of the wings while a module of CORE_TESTS runs, as if they were deleted."""
    folders = analysis.__path__
    if request.path.relative_to(Path(__file__).parent).parts[0] in CORE_TESTS:
        analysis.__path__ = []
        present_wings.cache_clear()
    yield
    analysis.__path__ = folders
    present_wings.cache_clear()


@pytest.fixture(autouse=True, scope="session")
def _without_waiting_for_the_disk() -> Iterator[None]:
    """Let no test of this process wait until bytes are on the disk: none cuts the power. Tests of
    the calls put functions of their own in place of this one.
    """
    with mock.patch("os.fsync", return_value=None):
        yield


@pytest.fixture(autouse=True)
def _without_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the extra for missing where the tables ask for it: drawing takes 5 s of a CPU each time."""
    if request.node.get_closest_marker("figures") is None:
        monkeypatch.setattr("paper_tables.render.draw.has_figures", lambda: False)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Return a fake Slurm that is first on PATH."""
    return install(tmp_path / "slurm", monkeypatch)


@pytest.fixture
def driven(tmp_path: Path, slurm: FakeSlurm) -> DrivenRun:
    """Return a run that may have three jobs, in a folder whose name a shell would split."""
    folder = tmp_path / "my runs" / "run"
    (folder / "checkpoints").mkdir(parents=True)
    request = msgspec.structs.replace(make_request(folder), command="aiayn train --seed 1")
    spec = msgspec.structs.replace(read_cluster("cpu"), max_num_jobs=3, time_limit_minutes=1440)
    return DrivenRun(request, spec, slurm, tmp_path / "seed1.json")


@pytest.fixture(scope="session")
def newstest() -> Path:
    """Return the folder of published test sets of the mirror that AIAYN_MIRROR names, or skip: it
    is not there.
    """
    base = urllib.parse.urlsplit(os.environ.get("AIAYN_MIRROR", ""))
    folder = Path(urllib.request.url2pathname(base.path)) / "newstest"
    if base.scheme != "file" or not folder.is_dir():
        pytest.skip(
            "AIAYN_MIRROR is no file:// folder with newstest/: published test sets are not read"
        )
    return folder
