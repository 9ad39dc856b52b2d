"""Types of what a log lacks: a check, and the finding on a log that fails it."""

from typing import Literal

import msgspec

Severity = Literal["error", "apart", "note"]


class LogCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A check of a log, a row of checks.csv: what it says of a log that fails it, and what to do,
    as templates.

    An `error` keeps the log's number out of the tables, `apart` gives the number a line of its own,
    a `note` is printed next to it.
    """

    check: str
    severity: Severity
    title: str
    fix: str


class Finding(LogCheck, frozen=True, kw_only=True):
    """A check that a log fails, in words; `label` distinguishes it from others in a few words."""

    line: int
    label: str

    def text(self, path: str) -> str:
        """Return the whole message: place, what is wrong, next step."""
        place = f"{path}:{self.line}" if self.line else path
        return f"{place}: {self.title} [{self.check}]; {self.fix}"
