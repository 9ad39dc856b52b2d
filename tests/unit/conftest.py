"""What all unit tests share: tables are made without figures, unless a test is marked `figures`."""

import pytest


@pytest.fixture(autouse=True)
def _without_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the extra for missing where the tables ask for it: drawing takes 5 s of a CPU each time."""
    if request.node.get_closest_marker("figures") is None:
        monkeypatch.setattr("paper_tables.render.tables.has_figures", lambda: False)
