"""What may happen to the driver of a training. Its job runs on and is attached to, never submitted
twice.
"""

import signal

from tests.slurm.fault_scene import EXIT_DONE, EXIT_INPUT_OR_RUN, Scene

EXIT_INTERRUPTED = 130


def _attach_after(scene: Scene, number: signal.Signals, exit_code: int) -> None:
    driver = scene.start_until(15)
    driver.signal(number)
    assert scene.wait_for(driver, 15) == exit_code, driver.output
    assert not driver.record_path.exists()
    if number != signal.SIGKILL:
        assert "the same command attaches" in driver.output
        assert f"scancel --name={scene.run}" in driver.output
    (job,) = scene.live_jobs()
    again = scene.start()
    scene.disturbed(f"{number.name} to the driver, started again")
    scene.must_end(again, EXIT_DONE)
    assert f"attached to Slurm job {job}" in again.output
    assert scene.jobs() == [job]
    assert scene.starts == [0]


def driver_killed(scene: Scene) -> None:
    """The driver has no last word."""
    _attach_after(scene, signal.SIGKILL, -signal.SIGKILL)


def driver_interrupted(scene: Scene) -> None:
    """Ctrl-C."""
    _attach_after(scene, signal.SIGINT, EXIT_INTERRUPTED)


def driver_terminated(scene: Scene) -> None:
    """As by a login node's own limits."""
    _attach_after(scene, signal.SIGTERM, EXIT_INPUT_OR_RUN)


def driver_hung_up(scene: Scene) -> None:
    """The terminal is closed."""
    _attach_after(scene, signal.SIGHUP, EXIT_INPUT_OR_RUN)


def two_drivers(scene: Scene) -> None:
    """Both are started at once, one submits, and both get the record."""
    drivers = [scene.start(), scene.start()]
    scene.disturbed("two drivers started at once")
    for driver in drivers:
        scene.must_end(driver, EXIT_DONE)
    assert len({driver.record_path.read_bytes() for driver in drivers}) == 1
    scene.require_jobs(1)
    assert scene.starts == [0]
