"""Defines the errors of the library. Each error is named after the thing that is wrong, such as
CorpusError.

A message has the place, the value, the expected value and the next step. The library raises errors,
and only `aiayn.__main__` turns an error into an exit code.
"""

import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path


def did_you_mean(
    unknown: str, candidates: Iterable[str], otherwise: str = "", *, most: int = 1
) -> str:
    """Return "did you mean ...?" with known names that begin like the unknown name or are similar
    to it. Without such names, return `otherwise`.
    """
    names = list(candidates)
    # A beginning is tried first: `news` is not similar enough to `newstest2014` for difflib.
    near_names = [name for name in names if unknown and name.startswith(unknown)]
    if not 0 < len(near_names) <= 3:  # a beginning of many names says little
        near_names = difflib.get_close_matches(unknown, names, n=most)
    return f"did you mean {' or '.join(map(repr, near_names))}?" if near_names else otherwise


# Example: `https://user:secret@host/path`. After `://`, the `@` must come before any `/`, `?` or
# `#`, because a path may contain an `@`, too.
_CREDENTIALS = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s]*@", re.IGNORECASE)


def require_no_password(text: str, location: str) -> None:
    """Raise an error if a text contains a URL with a user name or a password. The message does not
    contain the URL.

    Flags and files of a config are printed, recorded and, while a command runs, visible to every
    user of the machine.

    Raises:
        ConfigError: if there is such a URL. The message contains `location` and a safe way to pass
            a password.
    """
    if _CREDENTIALS.search(text):
        raise ConfigError(
            f"{location}: a URL with a user name or password, expected a URL without: it would be"
            " recorded and shown; write them into ~/.netrc, or give the whole URL in the"
            " environment variable AIAYN_MIRROR, and change the password if others may have seen it"
        )


class AiaynError(Exception):
    """Base of all errors caused by the input or a check. The command exits with `exit_code`."""

    exit_code = 1


class UsageError(AiaynError):
    """The command line asks for something that does not exist."""

    exit_code = 2


class FileError(AiaynError):
    """A file is not a regular file, is larger or deeper than expected, or cannot be read at all."""


class ConfigError(AiaynError):
    """A config, system, corpus or hardware file is unreadable, misspelt or contradicts itself."""


class CorpusError(AiaynError):
    """Text is missing, empty, misaligned or not the expected text."""


class FetchError(AiaynError):
    """A public file cannot be downloaded, or differs from the published file."""


class RecordError(AiaynError):
    """A record of an earlier stage is missing, incomplete or of a different schema version."""


class CheckpointError(AiaynError):
    """A checkpoint is missing or incomplete, or does not fit the model."""


class ScoreError(AiaynError):
    """Hypotheses and references do not belong together, or a metric is not defined for them."""


class EvaluationError(AiaynError):
    """Some evaluations of a training failed. The records of the other evaluations are written."""


class TableError(AiaynError):
    """A printed value or a cell cannot be joined or rendered."""


class LaunchError(AiaynError):
    """A job could not be submitted, or died without a message. The error has its log's tail."""

    exit_code = 3


class RunError(AiaynError):
    """A training ended without its last update. Its attempts.jsonl says what happened."""

    exit_code = 3


class SpaceError(AiaynError):
    """The disk cannot hold what is about to be written."""


class StateError(AiaynError):
    """A run or working directory is not in the state that the command needs. The command has
    changed nothing.
    """


# What readers of nested, foreign or huge content raise, in addition to errors of their own.
FOREIGN_ERRORS = (RecursionError, KeyError, UnicodeError, MemoryError)


@contextlib.contextmanager
def one_sentence(path: Path | str, expected: str) -> Iterator[None]:
    """Turn an error about a file from outside this project into a FileError that contains the
    file's name.

    Raises:
        FileError: if the block raises one of FOREIGN_ERRORS. The message contains this error and
            what was expected.
    """
    try:
        yield
    except FOREIGN_ERRORS as error:
        # On one line, because messages are single sentences.
        kind = " ".join(f"{type(error).__name__} {error}".split())[:200]
        raise FileError(
            f"{path}: cannot be read ({kind}); expected {expected}; look at the file"
        ) from error
