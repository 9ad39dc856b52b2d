"""Copies of the checkout with a fake `aiayn`: one a test, one for dry runs, one in which the demo
has run.
"""

from pathlib import Path

import pytest

from tests.pipeline_copy import Pipeline, make_pipeline


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """Return a fresh copy in which nothing has run."""
    return make_pipeline(tmp_path)


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Return a copy for dry runs alone, in which nothing ever runs."""
    return make_pipeline(tmp_path_factory.mktemp("untouched"))


@pytest.fixture(scope="session")
def finished_demo(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Return a copy in which the whole demo has run once. Tests edit it for a dry run and put it
    back.
    """
    finished = make_pipeline(tmp_path_factory.mktemp("finished"))
    outcome = finished.run()
    assert outcome.returncode == 0, outcome.stdout
    (finished.fake_folder / "terminal.txt").write_text(outcome.stdout, encoding="utf-8")
    return finished
