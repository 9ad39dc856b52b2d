"""Reads the wanted members (files) of a tar or zip archive as streams.

Archives are verified by their checksums before they are read. A file name inside an archive is
never used as the name of a written file. A tar is read in one pass from front to back.
"""

import gzip
import posixpath
import tarfile
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

from aiayn.errors import CorpusError

_MAX_NAMES_SHOWN = 6


def open_members(path: Path, wanted: Collection[str]) -> Iterator[tuple[str, BinaryIO]]:
    """Yield (name, stream) of each wanted member (a file in the archive), in the archive's order.

    A member with a name that ends in `.gz` is decompressed. The caller must read each stream before
    it requests the next stream, because a tar is read from front to back.

    Raises:
        CorpusError: if a wanted member is missing, is not a file, or occurs twice. The message
            contains the archive and the member.
        RuntimeError: the error of Python's zipfile for a member that needs a password.
    """
    names = []
    for written_name, stream in open_files(path):
        # Archives write the same name as `./a` or `a`.
        name = posixpath.normpath(written_name)
        # Extracting such an archive would keep the last of the two, so it is not clear which one
        # the recipe means.
        if name in wanted and name in names:
            raise CorpusError(f"{path}: holds {name!r} twice; expected one; fetch it again")
        names.append(name)
        if name in wanted and stream is not None:
            with stream:
                unpacked = gzip.GzipFile(fileobj=stream) if name.endswith(".gz") else stream
                yield name, cast(BinaryIO, unpacked)
    # Only after the last member is it known that a member is missing: a tar has no table of
    # contents.
    for name in wanted:
        if name not in names:
            num_others = len(names) - _MAX_NAMES_SHOWN
            more = f" and {num_others} more" if num_others > 0 else ""
            raise CorpusError(
                f"{path}: no member {name!r}; it holds"
                f" {', '.join(names[:_MAX_NAMES_SHOWN]) or 'nothing'}{more};"
                " correct member_by_language in the corpus file"
            )


def open_files(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the names and streams of all files of an archive. Links and folders in a tar are
    skipped.
    """
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield name, archive.open(name)
        return
    # `r|*` reads from front to back and detects the compression. Random access would unpack a .tgz
    # again and again.
    with tarfile.open(path, "r|*") as tar:
        for entry in tar:
            if (stream := tar.extractfile(entry) if entry.isreg() else None) is not None:
                yield entry.name, stream
