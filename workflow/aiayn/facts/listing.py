"""Finds the files below a folder that may be logs. All other files are listed or counted, so that
no file is omitted silently.

A file with the suffix of a log, also rotated or compressed, counts as a possible log. A file with a
different suffix counts as a possible log if it begins like a fairseq log. A link to a folder is
followed, unless the search finds this folder also without the link.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from aiayn.errors import RecordError
from aiayn.facts.types import LogFile, Refusal
from aiayn.packed import UNPACK_ERRORS, is_dir, is_file, open_unpacked, unpacked_name, walk
from aiayn.paths import is_scale_folder
from aiayn.runs.attempts import ATTEMPTS_NAME, LOG_NAME
from aiayn.stages import STAGE_VERSIONS
from aiayn.wings import present_stages

LOG_SUFFIXES = frozenset({"", ".err", ".log", ".out", ".stderr", ".stdout", ".txt"})
OTHER_PACKERS = frozenset({".bz2", ".zst", ".lz4", ".zip", ".7z", ".rar", ".tar", ".tgz", ".txz"})
# Documents and code may quote a line of a log without being a log.
QUOTING_SUFFIXES = frozenset(
    [
        ".c",
        ".cc",
        ".cpp",
        ".cu",
        ".h",
        ".html",
        ".ipynb",
        ".js",
        ".md",
        ".py",
        ".rst",
        ".sh",
        ".slurm",
        ".sbatch",
        ".tex",
    ]
)
# Examples: `train.log.1`, `train.log-20260131`, `train.out.old`, `train.log~`.
_ROTATED = re.compile(r"(\.log|\.out|\.err|\.txt)(\.\d{1,3}|[.-]\d{8}(-\d+)?|\.old|\.bak|~)$")
_LIKE_A_LOG = re.compile(
    rb"Namespace\([^\n]*\b(?:arch|criterion|beam)=|\{'_name': None, 'common'|epoch"
    rb" \d{3,}[^\n]*num_updates"
    rb"|\"epoch\": \d+,[^\n]*\"num_updates\"|(?m:^)H-\d+\t|Generate \S+ with beam=\d+:"
    rb" BLEU|averaging checkpoints: +\["
)
_NUM_BYTES_LOOKED_AT = 1 << 18
OTHER_FILES = "(other files)"  # the path of the entry that counts them
MAX_KINDS = 12  # suffixes that the count of other files lists


class Listing(msgspec.Struct, frozen=True):
    """The content of a folder: the paths of possible logs, the folders with the results of a scale
    (`results/<scale>/`), and the files that are not read, with the reason. The last entry in the
    list of unread files (`unread`) counts the files that are not logs.
    """

    log_paths: list[str]
    scale_folders: list[Path]
    unread: list[LogFile]


def list_folder(folder: Path) -> Listing:
    """Return the possible logs and the other files below a folder, sorted by path. Hidden files and
    folders are counted, not read.

    In the folder of a run of this project, which contains attempts.jsonl, only train.log is listed.
    In the results folder of a scale (`results/<scale>/`), text files that the stages of the
    workflow wrote are not listed.

    Raises:
        RecordError: if the folder does not exist or cannot be read.
    """
    if is_file(folder):
        raise RecordError(f"{folder}: is a file; name its folder, {folder.parent}")
    if not is_dir(folder):
        raise RecordError(f"{folder}: no such folder; name one with results or logs")
    return _Walk(folder).listing()


class _Walk:
    """Walks through a folder and collects possible logs and other files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log_paths: list[str] = []
        self.scale_folders: list[Path] = []
        self.unread: list[LogFile] = []
        self._root = folder.resolve()
        self._linked: set[Path] = set()
        self._num_by_kind: Counter[str] = Counter()

    def listing(self) -> Listing:
        """Walk through the folder and return its content."""
        stages = {*STAGE_VERSIONS, *(stage.verb for stage in present_stages())}
        for folder, names, files in walk(self.folder, self._unreadable, follows_links=True):
            # The stages' folders hold records and texts, which are read elsewhere.
            if is_scale_folder(folder):
                self.scale_folders.append(folder)
                names[:] = [name for name in names if name not in stages]
            # A run of ours is read as a whole, so its subfolders are not looked at.
            elif ATTEMPTS_NAME in files:
                names.clear()
                self._run_of_ours(folder, files)
                continue
            shown = sorted(name for name in names if not name.startswith("."))
            shown_files = sorted(name for name in files if not name.startswith("."))
            is_ours = any(
                folder.is_relative_to(scale_folder) for scale_folder in self.scale_folders
            )
            if not is_ours:
                num_hidden = len(names) + len(files) - len(shown) - len(shown_files)
                self._num_by_kind["hidden"] += num_hidden
            # `walk` enters only the folders that stay in this list.
            names[:] = [name for name in shown if self._is_followed(folder / name)]
            for name in shown_files:
                self._file(folder / name, is_ours=is_ours)
        unread = sorted(self.unread, key=lambda file: file.path)
        return Listing(sorted(self.log_paths), self.scale_folders, [*unread, *self._others()])

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _skip(self, path: Path, text: str, next_step: str) -> None:
        refusal = Refusal(line=0, text=text, next_step=next_step)
        self.unread.append(LogFile(path=self._relative(path), num_lines=0, refusal=refusal))

    def _unreadable(self, error: OSError) -> None:
        path = Path(os.fsdecode(error.filename))
        text = f"this folder cannot be read ({error.strerror})"
        if path == self.folder:
            raise RecordError(f"{path}: {text}; make it readable") from error
        self._skip(path, text, "make it readable")

    def _is_followed(self, path: Path) -> bool:
        """Return whether the walk through the folders enters a folder. A link to a folder is
        followed, unless the walk reads this folder also without the link.
        """
        if not path.is_symlink():
            return True
        target = path.resolve()
        # A link to a folder above would make the walk endless, and a second link would count logs
        # twice.
        if (
            target in self._linked
            or self._root.is_relative_to(target)
            or target.is_relative_to(self._root)
        ):
            text = f"a link to {target}, which is read there or holds this folder"
            self._skip(path, text, "it is not followed")
            return False
        self._linked.add(target)
        return True

    def _run_of_ours(self, folder: Path, files: list[str]) -> None:
        """Add the log train.log of a run of this project. Other logs in the run's folder are not
        read, because the launcher writes a separate log for each attempt, and train.log covers all
        attempts.
        """
        # The log may be packed, so names are compared without .gz and .xz.
        logs = [name for name in files if unpacked_name(name) == LOG_NAME]
        self.log_paths += [self._relative(folder / name) for name in logs]
        if not logs and folder != self.folder:
            text = f"a run of ours without its {LOG_NAME}: not read"
            self._skip(folder, text, "copy the run's folder again")

    def _file(self, path: Path, *, is_ours: bool) -> None:
        """Add a file to the possible logs, to the list of unread files, or to the count of other
        files.
        """
        suffix = path.suffix.lower()
        name = _ROTATED.sub(r"\1", unpacked_name(path.name.lower()))
        try:
            # A file in an archive has no entry in the file system.
            is_regular = is_file(path) or stat.S_ISREG(path.stat().st_mode)
        except OSError as error:
            if path.is_symlink():
                text = f"a link to {os.readlink(path)} ({error.strerror}): not read"
                self._skip(path, text, "copy the file there")
            else:
                self._skip(path, f"cannot be read ({error.strerror})", "make it readable")
            return
        if not is_regular:
            text = "no regular file but a pipe, a socket or a device: not read"
            self._skip(path, text, "take it out of the folder")
        elif Path(name).suffix in LOG_SUFFIXES:
            self.log_paths.append(self._relative(path))
        elif is_ours:
            return  # records and tables, which are read as such
        # A packed file may be a log, so it is listed instead of counted.
        elif {suffix, Path(name).suffix} & OTHER_PACKERS:
            self._skip(path, "packed: not looked into", "unpack it, or pack it with gzip or xz")
        elif Path(name).suffix not in QUOTING_SUFFIXES and _begins_like_a_log(path):
            self.log_paths.append(self._relative(path))
        else:
            self._num_by_kind[suffix] += 1

    def _others(self) -> Iterator[LogFile]:
        """Yield a single entry that counts all files that are not logs, if there are any. A folder
        may have thousands of other files, so they are counted by suffix.
        """
        common = +self._num_by_kind
        if common:
            kinds = [f"{kind} ({num})" for kind, num in common.most_common(MAX_KINDS)]
            text = f"{common.total():,} files are no logs by name or beginning"
            looked = f"documents, code and hidden files are not looked into: {', '.join(kinds)}"
            refusal = Refusal(line=0, text=text, next_step=looked)
            yield LogFile(path=OTHER_FILES, num_lines=0, refusal=refusal)


def _begins_like_a_log(path: Path) -> bool:
    """Return whether the beginning of a file contains a line that fairseq printed. Return True for
    a file that cannot be read, so that the reader of logs reports the error.
    """
    try:
        with open_unpacked(path) as content:
            return _LIKE_A_LOG.search(content.read(_NUM_BYTES_LOOKED_AT)) is not None
    except (*UNPACK_ERRORS, OSError):
        return True


def reason_not_read(file: LogFile) -> str:
    """Return the reason why a file does not contain a log: the file cannot be read, or has a
    different kind of content. Return '' if the file contains a log.
    """
    refusal = file.refusal
    if refusal is not None:
        position = f"{file.path}:{refusal.line}" if refusal.line else file.path
        return f"{position}: {refusal.text}; {refusal.next_step}"
    if not file.num_lines:
        return f"{file.path}: is empty; copy the log again"
    if file.sections:
        return ""
    return f"{file.path}: not a log of fairseq-train or fairseq-generate"


def not_read(files: Iterable[LogFile]) -> list[str]:
    """Return a sentence for each file or folder that could not be read, with the reason. Files that
    were only counted do not get a sentence.
    """
    refused = [file for file in files if file.refusal is not None]
    refused = [file for file in refused if not file.path.endswith(OTHER_FILES)]
    return [reason_not_read(file) for file in sorted(refused, key=lambda file: file.path)]
