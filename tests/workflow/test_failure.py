"""One run that fails, and the tables beside a snakemake that is still at work."""

import subprocess
import sys
import time

import pytest

from aiayn.spec.system import CONFIG_FOLDER, read_scale, read_system
from tests import records_factory
from tests.pipeline_copy import DEMO, Pipeline
from tests.records_factory import Site, write_attempt, write_everything

pytestmark = pytest.mark.slow

FAILING = "train/demo_en_de/table3_c_n2/seed2"
WAITING = "train/demo_en_de/base/seed"
FEWER = (
    "--config",
    "only=demo_en_de/base table3_c_n2",
)  # 2 x 2 seeds
POLL_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 120


def test_one_failed_run_leaves_the_rest_made_and_is_all_that_is_repeated(
    pipeline: Pipeline,
) -> None:
    everything = pipeline.planned(*FEWER)
    outcome = pipeline.run("--keep-going", *FEWER, FAKE_AIAYN_FAILS=FAILING)
    assert outcome.returncode == 1
    assert "Error in rule train" in outcome.stdout
    assert "the run failed: out of memory" in outcome.stdout  # from the job's log
    held_up = {name for name in everything if "/table3_c_n2/seed2" in name} | {"tables"}
    assert set(pipeline.made()) == (everything - held_up) | {FAILING}
    assert not (pipeline.checkout / "results" / "demo" / f"{FAILING}.json").exists()

    pipeline.forget_calls()
    assert pipeline.run(*FEWER).returncode == 0
    made = pipeline.made()
    assert set(made) == held_up
    assert len(made) == len(held_up) == 2 + 1  # train, evaluations; tables


@pytest.fixture
def half_trained(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """Return a pipeline whose fake writes true records of the shipped demo. One run has failed, one
    is running.
    """
    monkeypatch.chdir(pipeline.checkout)
    scale = read_scale(CONFIG_FOLDER / "demo.yaml")
    names = {row.system for row in scale.read_rows()}
    training_by_system = {name: read_system(name, "demo").training for name in names}
    monkeypatch.setattr(records_factory, "TRAINING_BY_SYSTEM", training_by_system)
    ready = Site(scale, CONFIG_FOLDER, pipeline.fake_folder / "ready" / "results")
    write_everything(ready)
    write_attempt(ready, "demo_en_de", "base", 1, update=40, outcome="failed")
    write_attempt(ready, "demo_en_de", "base", 2, update=20)
    return pipeline


def locks_of(pipeline: Pipeline) -> dict[str, str]:
    """Return Snakemake's locks by name."""
    folder = pipeline.checkout / ".snakemake" / "locks"
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def wait_until_called(pipeline: Pipeline, live: subprocess.Popen[str], names: set[str]) -> None:
    """Wait until the fake was called for all names."""
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS
    while not names <= set(pipeline.made()):
        assert live.poll() is None, live.communicate()[0]
        assert time.monotonic() < deadline, pipeline.made()
        time.sleep(POLL_SECONDS)


def tables_so_far(pipeline: Pipeline) -> subprocess.CompletedProcess[str]:
    """Call the true `aiayn tables --so-far`."""
    command = [sys.executable, "-m", "aiayn", "tables", "--so-far", *DEMO]
    return subprocess.run(
        command,
        cwd=pipeline.checkout,
        env=pipeline.variables(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_tables_so_far_are_made_beside_a_live_snakemake_and_leave_its_locks(
    half_trained: Pipeline,
) -> None:
    with subprocess.Popen(
        half_trained.command(*FEWER),
        cwd=half_trained.checkout,
        env=half_trained.variables(FAKE_AIAYN_WAITS=WAITING),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as live:
        try:
            wait_until_called(half_trained, live, {f"{WAITING}1", f"{WAITING}2"})
            locks = locks_of(half_trained)
            tables = tables_so_far(half_trained)
            locks_after = locks_of(half_trained)
            was_alive = live.poll() is None
        finally:
            (half_trained.fake_folder / "go").touch()
            output, _ = live.communicate(timeout=LONGEST_WAIT_SECONDS)
    assert tables.returncode == 0, tables.stderr
    page = (half_trained.checkout / tables.stdout.splitlines()[-1]).read_text(encoding="utf-8")
    for message in ("failed", "out of memory", "lost", "killed, or its machine went down"):
        assert message in page
    assert was_alive
    assert locks, "a live snakemake holds locks"
    assert locks_after == locks
    assert live.returncode == 0, output
    assert half_trained.planned(*FEWER) == set()
