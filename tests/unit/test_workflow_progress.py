"""What a running workflow prints: one writer, no long silence, no flood."""

import io
import itertools
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from aiayn.runs import workflow_progress
from aiayn.runs.workflow_progress import WorkflowProgress

RUN = "demo_en_de-big-seed1-0a1b2c3d"
SETTINGS = "2026-01-01 12:00:00 | INFO | fairseq_cli.train | {'_name': None, 'max_update': 820}\n"


def record(text: str = "", level: int = logging.INFO, **values: Any) -> logging.LogRecord:
    """Return a record of snakemake's log."""
    made = logging.LogRecord("snakemake", level, "", 0, text, None, None)
    vars(made).update(values)
    return made


def begins(
    number: int, rule: str = "train", log: str = "", **wildcards: object
) -> logging.LogRecord:
    """Return the record of a job that begins."""
    return record(
        event="job_info",
        rule_name=rule,
        jobid=number,
        wildcards=wildcards,
        log=[log] if log else [],
    )


def write_log(runs: Path, update: int, run: str = RUN) -> None:
    """Write the log of a training that has made so many updates."""
    (runs / run).mkdir(parents=True, exist_ok=True)
    statistics = f'{{"num_updates": "{update}", "loss": "3.94", "wps": "829", "ups": "2"}}'
    (runs / run / "train.log").write_text(
        f"{SETTINGS}2026-01-01 12:00:10 | INFO | train_inner | {statistics}\n", encoding="utf-8"
    )


@pytest.fixture
def stream() -> io.StringIO:
    """Return what `progress` writes to."""
    return io.StringIO()


@pytest.fixture
def progress(tmp_path: Path, stream: io.StringIO) -> WorkflowProgress:
    """Return the progress of one training, which counts as started."""
    made = WorkflowProgress(tmp_path, stream=stream)
    made.filter(begins(1, corpus="demo_en_de", system="big", seed=1))
    return made


def test_a_training_has_update_loss_and_time_left(
    progress: WorkflowProgress, tmp_path: Path
) -> None:
    begin = progress._job_by_number[1].began
    assert progress.look(begin + 3)[0] == ["demo_en_de big, seed 1: starts, 0m03s"]
    write_log(tmp_path, 256)  # two updates a second, 564 are left
    (line,) = progress.look(begin + 50)[0]
    assert line == "demo_en_de big, seed 1: 256 of 820, loss 3.9 bits, 4m42s left"


def test_another_job_shows_the_bar_of_its_log(progress: WorkflowProgress, tmp_path: Path) -> None:
    log = tmp_path / "decode.log"
    log.write_text("decode:  45%|####5     | 450/1000 [00:12<00:14, 37.5line/s]\n")
    progress.filter(begins(2, "decode", str(log), corpus="demo_en_de", system="base", seed=1))
    assert progress.look(progress._job_by_number[2].began + 12)[0][1] == (
        "decode demo_en_de base, seed 1: 0m12s, 45% done, 00:14 left"
    )
    progress.filter(record(event="job_finished", job_id=2))
    assert len(progress.look(time.monotonic())[0]) == 1


def is_shown(progress: WorkflowProgress, now: float) -> bool:
    """Return whether a line is printed now, and note that it was."""
    _, tenths = progress.look(now)
    if not progress.is_due(now, tenths):
        return False
    progress._last_line, progress._last_tenths = now, tenths
    return True


def test_a_line_is_printed_after_30_seconds_and_at_each_tenth(
    progress: WorkflowProgress, tmp_path: Path
) -> None:
    """Played: a training of 820 updates in 8,200 seconds, which the writer looks at each second."""
    begin = progress._begin
    shown: list[int] = []
    for second in range(0, 8200, 15):
        write_log(tmp_path, max(1, second // 10))
        if is_shown(progress, begin + second):
            shown.append(second)
    assert shown[0] == 30
    assert 9 <= len(shown) <= 11
    gaps = [later - earlier for earlier, later in itertools.pairwise(shown)]
    assert all(600 <= gap <= 900 for gap in gaps)


def test_many_trainings_share_a_line_at_most_every_ten_minutes(
    progress: WorkflowProgress, tmp_path: Path
) -> None:
    # Thirty trainings with a line each would fill a log.
    for seed in range(2, 13):
        progress.filter(begins(seed, corpus="demo_en_de", system="big", seed=seed))
    begin, shown = progress._begin, []
    for second in range(0, 16_000, 200):
        for seed in range(1, 13):
            write_log(
                tmp_path, 1 + (second + 61 * seed) // 30, f"demo_en_de-big-seed{seed}-0a1b2c3d"
            )
        if is_shown(progress, begin + second):
            shown.append(second)
    late = [second for second in shown if second > 6000]
    assert min(b - a for a, b in itertools.pairwise(late)) >= 600


def test_the_terminal_shows_errors_and_tenths_once_it_has_started(
    progress: WorkflowProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert progress.filter(record("the plan, before the start"))
    monkeypatch.setattr(workflow_progress, "LOOK_SECONDS", 60.0)
    progress.start(shows_all=False)
    steps = [progress.filter(record(event="progress", done=n, total=100)) for n in range(101)]
    assert sum(steps) == 10
    assert not progress.filter(record("chatter"))
    assert progress.filter(record("broken", logging.ERROR))
    progress.stop()


def test_after_ctrl_c_the_last_lines_say_what_was_saved(
    progress: WorkflowProgress, stream: io.StringIO, tmp_path: Path
) -> None:
    write_log(tmp_path, 190)
    progress.start(shows_all=False)
    progress.filter(record("Terminating processes on user request, this might take some time."))
    assert not progress.filter(
        record("Error in rule train", logging.ERROR, event="job_error", jobid=1)
    )
    checkpoints = tmp_path / RUN / "checkpoints"
    checkpoints.mkdir()
    (checkpoints / "full_00000191.pt").touch()
    progress.stop()
    assert not progress.filter(record("At least one job did not complete", logging.ERROR))
    assert stream.getvalue().splitlines()[-2:] == [
        "demo_en_de big, seed 1: saved at update 191 of 820",
        "interrupted; the same command resumes it",
    ]


def test_after_ctrl_c_a_training_that_has_not_begun_is_not_called_saved(
    progress: WorkflowProgress, stream: io.StringIO, tmp_path: Path
) -> None:
    (tmp_path / RUN).mkdir()
    (tmp_path / f"{RUN}.tar").touch()  # an archive is no run
    progress.start(shows_all=False)
    progress.filter(record(f"{workflow_progress.INTERRUPTED}, this might take some time."))
    progress.stop()
    assert "demo_en_de big, seed 1: ended before anything was saved\n" in stream.getvalue()


def test_after_ctrl_c_on_a_cluster_nothing_is_called_saved_and_the_drivers_messages_are_shown(
    progress: WorkflowProgress, stream: io.StringIO, tmp_path: Path
) -> None:
    """Trainings on a cluster continue. The whole log is shown there."""
    write_log(tmp_path, 190)
    progress.start(shows_all=True)
    assert progress.filter(record(f"{workflow_progress.INTERRUPTED}, this might take some time."))
    assert progress.filter(record("Error in rule train", logging.ERROR, event="job_error", jobid=1))
    progress.stop()
    assert stream.getvalue() == ""


def test_a_locked_folder_is_explained_without_the_advice_to_unlock(
    progress: WorkflowProgress,
) -> None:
    # The lock may be of a snakemake that is at work.
    locked = record(
        "LockException:\nError: Directory cannot be locked. ... the --unlock argument.", 40
    )
    assert progress.filter(locked)
    assert "aiayn status" in locked.getMessage()
    assert "--unlock" not in locked.getMessage()
