"""Whether a job may follow is decided by its outcome, its end, its signal and its progress."""

from typing import Any

import msgspec
import pytest

from aiayn.runs.following import EndedJob, what_follows
from tests.case_tables import read_cases

NOTHING_KNOWN = EndedJob()


@pytest.mark.parametrize("case", read_cases("following.toml"), ids=lambda case: case["name"])
def test_what_follows_a_job(case: dict[str, Any]) -> None:
    known = {key: value for key, value in case.items() if key not in ("name", "follows")}
    job = msgspec.convert(msgspec.to_builtins(NOTHING_KNOWN) | known, EndedJob)
    assert what_follows(job) == case["follows"]
