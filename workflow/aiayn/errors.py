"""Defines the error classes of this project. Each class is named after the thing that is wrong,
such as CorpusError.

An error message contains the file or flag, the wrong value, the expected value and what the user
can do. Only `aiayn.__main__` turns an error into an exit code.
"""

import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path


def did_you_mean(
    unknown: str, candidates: Iterable[str], otherwise: str = "", *, most: int = 1
) -> str:
    """Return the question "did you mean ...?" with the names in `candidates` that begin with the
    unknown name or are similar to it. Return `otherwise` if no candidate is similar to the unknown
    name.
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
    """Raise an error if a text contains a URL with a user name or a password. The error message
    does not contain the URL.

    A password in a flag or config file would be printed and recorded, and every user of the machine
    could see a flag while the command runs.

    Raises:
        ConfigError: if the text contains a URL with a user name or a password. The message contains
            `location` and a safe way to pass a password.
    """
    if _CREDENTIALS.search(text):
        raise ConfigError(
            f"{location}: a URL with a user name or password, expected a URL without: it would be"
            " recorded and shown; write them into ~/.netrc, or give the whole URL in the"
            " environment variable AIAYN_MIRROR, and change the password if others may have seen it"
        )


class AiaynError(Exception):
    """The base class of all errors that are caused by the input or by a failed check. A command
    that ends with an AiaynError exits with the error's `exit_code`.
    """

    exit_code = 1


class UsageError(AiaynError):
    """The command line contains a flag, value or name that does not exist or does not fit."""

    exit_code = 2


class FileError(AiaynError):
    """A file is not a regular file, is too large or too deeply nested, or cannot be read at all."""


class ConfigError(AiaynError):
    """A file of settings (config, system, corpus or hardware) cannot be read, has a misspelt key or
    value, or contradicts itself.
    """


class CorpusError(AiaynError):
    """The text of a corpus is missing, empty, misaligned or not the expected text."""


class FetchError(AiaynError):
    """A public file cannot be downloaded, or the download differs from the published file."""


class RecordError(AiaynError):
    """A record (the JSON file that a stage writes) is missing, incomplete or has a different schema
    version.
    """


class CheckpointError(AiaynError):
    """A checkpoint is missing or incomplete, or does not fit the model."""


class ScoreError(AiaynError):
    """The hypotheses do not fit the references, or a metric is not defined for them."""


class EvaluationError(AiaynError):
    """Some evaluations of a training failed. The records of its other evaluations were written."""


class TableError(AiaynError):
    """A number or cell of a paper table is missing or malformed, or cannot be shown."""


class LaunchError(AiaynError):
    """A job could not be submitted, or ended without a message. The error message contains the end
    of the job's log.
    """

    exit_code = 3


class RunError(AiaynError):
    """A training ended before its last update. The file attempts.jsonl of its run says what
    happened.
    """

    exit_code = 3


class SpaceError(AiaynError):
    """The disk does not have enough space for a file that is about to be written."""


class StateError(AiaynError):
    """A run or working directory is not in the state that the command needs. A command that ends
    with a StateError has not changed anything.
    """


# What readers of nested, foreign or huge content raise, in addition to errors of their own.
FOREIGN_ERRORS = (RecursionError, KeyError, UnicodeError, MemoryError)


@contextlib.contextmanager
def one_sentence(path: Path | str, expected: str) -> Iterator[None]:
    """Turn an error that the unexpected content of a file causes into a FileError with the file's
    name.

    Raises:
        FileError: if the with block raises an error in FOREIGN_ERRORS. The message of the FileError
            contains the original error and `expected`.
    """
    try:
        yield
    except FOREIGN_ERRORS as error:
        # On one line, because messages are single sentences.
        kind = " ".join(f"{type(error).__name__} {error}".split())[:200]
        raise FileError(
            f"{path}: cannot be read ({kind}); expected {expected}; look at the file"
        ) from error
