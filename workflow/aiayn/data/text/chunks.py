"""Processes line-aligned text in chunks (blocks of lines), in several processes, and yields the
results in the order of the text.

Only the chunks that are being processed are in memory.
"""

import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from aiayn.data.text.lines import agreed_num_lines, count_lines
from aiayn.errors import CorpusError
from aiayn.progress import progress_bar

LINES_PER_CHUNK = 10_000  # some 1.5 MB a side
LINES_PER_PROCESS = 250_000  # for fewer lines, starting a process takes longer than the work
# The results of this number of chunks per process are in memory at a time. Then the processes wait
# for each other.
_CHUNKS_PER_PROCESS = 8

Result = TypeVar("Result")


class Chunk(msgspec.Struct, frozen=True):
    """The same lines of the source and the target file, given by the byte positions where these
    lines begin and end in each file.

    The chunk's first line number, `first_line`, counts from 1.
    """

    path_by_language: dict[str, Path]
    first_line: int
    num_lines: int
    bounds_by_language: dict[str, tuple[int, int]]

    def lines(self, language: str) -> list[str]:
        """Return the chunk's lines in one language, without their LF.

        Raises:
            CorpusError: if a line is not UTF-8. The message contains file and line.
        """
        begin, end = self.bounds_by_language[language]
        with self.path_by_language[language].open("rb") as content:
            content.seek(begin)
            text = content.read(end - begin)
        # `split` at LF instead of `splitlines`, which also splits at U+2028 and others. The LF of
        # the last line is removed first, because `split` would make an empty line of it.
        try:
            return text.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            # `error.start` is the position of the wrong byte in the chunk, so the LFs before it
            # give the line.
            line_number = self.first_line + text.count(b"\n", 0, error.start)
            location = f"{self.path_by_language[language]}:{line_number}"
            raise CorpusError(
                f"{location}: not UTF-8: {error}; convert or fetch it again"
            ) from error


def map_chunks(
    work: Callable[[Chunk], Result],
    path_by_language: Mapping[str, Path],
    *,
    num_processes: int,
    what: str,
) -> Iterator[Result]:
    """Yield the result of the function `work` for each chunk of line-aligned files, in the order of
    the text.

    Lines end at LF only, and the last line may lack the LF. The function `work` is pickled once for
    each process. Processes are spawned, because a fork can hang when other libraries have threads.
    A short text is processed in the calling process.

    Raises:
        CorpusError: if the files have different numbers of lines or no lines (the message lists the
            numbers of lines), or if a process was killed.
        Exception: any error that the function `work` raises.
    """
    paths = path_by_language.values()
    num_lines = agreed_num_lines({str(path): count_lines(path) for path in paths})
    # Rounded up: a short text still has one process.
    num_processes = min(num_processes, -(-num_lines // LINES_PER_PROCESS))
    # A generator: the files are read while the first chunks are already at work.
    chunks = _find_chunks(path_by_language, num_lines)
    with progress_bar(what, num_lines, " lines") as bar:
        results: Iterator[Result] = map(work, chunks)
        if num_processes > 1:
            results = _work_in_processes(work, chunks, num_processes, what)
        for result in results:
            yield result
            bar.update(min(LINES_PER_CHUNK, num_lines - int(bar.n)))


# A chunk carries positions instead of text. Pickling them is cheap, and each process reads its own
# part of the file.
def _find_chunks(path_by_language: Mapping[str, Path], num_lines: int) -> Iterator[Chunk]:
    with contextlib.ExitStack() as opened:
        sides = {
            language: opened.enter_context(path.open("rb"))
            for language, path in path_by_language.items()
        }
        begins = dict.fromkeys(path_by_language, 0)
        # Reading line by line finds the byte positions of the same lines on both sides, where lines
        # differ in length.
        for first_line in range(1, num_lines + 1, LINES_PER_CHUNK):
            num_chunk_lines = min(LINES_PER_CHUNK, num_lines + 1 - first_line)
            bounds_by_language = {}
            for language, side in sides.items():
                num_bytes = sum(map(len, itertools.islice(side, num_chunk_lines)))
                bounds_by_language[language] = (begins[language], begins[language] + num_bytes)
                begins[language] += num_bytes
            yield Chunk(dict(path_by_language), first_line, num_chunk_lines, bounds_by_language)


def _work_in_processes(
    work: Callable[[Chunk], Result], chunks: Iterator[Chunk], num_processes: int, what: str
) -> Iterator[Result]:
    # `spawn`: see `map_chunks`. The initialiser gives `work` to each process once instead of with
    # each chunk.
    executor = ProcessPoolExecutor(
        num_processes, multiprocessing.get_context("spawn"), _begin_process, (work,)
    )
    try:
        # Executor.map submits everything at once, and the results of fast chunks would pile up in
        # memory. So only a few chunks per process are submitted at a time.
        while some := list(itertools.islice(chunks, _CHUNKS_PER_PROCESS * num_processes)):
            yield from executor.map(_work_on, some)
    except BrokenProcessPool as error:
        raise CorpusError(
            f"{what}: a process of {num_processes} was killed, perhaps for lack of memory; run"
            " the command again, with a smaller --num-processes if memory is short"
        ) from error
    except BaseException:  # Ctrl-C, or an error of `work` or of the caller
        # `shutdown` alone would wait until the chunks at work are done.
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


# The function of this process, in a list so that the initialiser can set it. Only spawned processes
# fill it.
_work_of_process: list[Callable[[Chunk], Any]] = []


def _begin_process(work: Callable[[Chunk], Any]) -> None:
    """Make a worker process ignore Ctrl-C, and exit when its parent process exits, even if SIGKILL
    ended the parent.
    """
    _work_of_process[:] = [work]
    # Ctrl-C goes to all processes of a terminal. The parent ends its children itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None  # it was spawned
    threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()


def _exit_after(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    # `sys.exit` in a thread would end only the thread.
    os._exit(1)


def _work_on(chunk: Chunk) -> Any:
    return _work_of_process[0](chunk)
