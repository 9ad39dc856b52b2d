"""Translate sentences from standard input, one sentence a line, with the model of a finished run.
Each output line has the score, a tab and the translation.

RUN is a run's name or any unique beginning of this name (default: the newest finished run, or the
shipped model if there is no run). If no run in the folder --results has the name, the model is
looked up in paper_tables/measured, which contains shipped models that are ready to use. The score
is the score of the beam search: the log-probability (nats) divided by the length penalty. A score
nearer to 0 is better. --plain prints only the translation. Input and output are plain text, with
one exception: if the run's corpus was published already split into subwords, the input must be
subword pieces, and the output is tokens.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from aiayn.cli.flags import AVERAGE, DEVICE, RESULTS, RUN, Device, flag
from aiayn.data.text.clean import preprocessor
from aiayn.data.text.detokenise import join_line, remove_marks
from aiayn.data.text.lines import blocks_of
from aiayn.errors import CorpusError
from aiayn.runs.finished import FinishedRun, find_finished

EXAMPLE = "echo 'The dog sees the cat.' | aiayn translate demo_en_de-base-seed1"
# Sentences of a file that beam search translates as one batch.
LINES_AT_ONCE = 64


class Flags:
    run: str | None = RUN
    results: Path = RESULTS
    average: str | None = AVERAGE
    device: Device = DEVICE
    plain: bool = flag("print translations only, without scores")
    json: bool = flag("print a JSON object a line: score, translation")


def run(args: Flags) -> None:
    """Translate each line at once at a terminal, and many lines together from a pipe or file."""
    # Before the imports, which take seconds: a misspelt name is reported at once.
    finished = find_finished(args.results, args.run, args.average)

    from aiayn.decode.decode import Translator
    from aiayn.train.device import resolve_device

    split = text_splitter(finished, finished.data.source_language)
    join = text_joiner(finished)
    device = resolve_device(args.device)
    translator = Translator(
        finished.checkpoint, finished.data.folder, finished.decoding, device=device
    )
    search = finished.decoding.signature
    checkpoint = finished.checkpoint
    print(
        f"{checkpoint.run}, {checkpoint.average}, {search}, from {checkpoint.path}", file=sys.stderr
    )
    if finished.segmented is None:
        print(
            "this run reads text in pieces (`@@ ` inside words), as its corpus was published",
            file=sys.stderr,
        )
    if sys.stdin.isatty():
        print("one sentence a line; Ctrl-D ends", file=sys.stderr)
    # A person waits for each line. A file is faster in batches.
    for lines in blocks_of(_read_input(), 1 if sys.stdin.isatty() else LINES_AT_ONCE):
        for hypothesis in translator.translate([translator.number(split(line)) for line in lines]):
            text = join(" ".join(hypothesis.pieces))
            line = text if args.plain else f"{hypothesis.score:.4f}\t{text}"
            if args.json:
                line = json.dumps({"score": hypothesis.score, "translation": text})
            # Flushed, so that a program behind a pipe gets a translation when it is made.
            print(line, flush=True)


def text_splitter(finished: FinishedRun, language: str) -> Callable[[str], str]:
    """Return the function that splits a line of a language into subwords, in the same way as the
    run's corpus was split.
    """
    from aiayn.data.text.subword import load_encoders

    segmented = finished.segmented
    # The corpus was published in pieces. Its subword model does not exist here.
    if segmented is None:
        return lambda line: line
    # In the order of the stages: `clean` makes tokens, and `segment` learns subwords from them.
    prepare = preprocessor(segmented.tokenise, language)
    encoder = load_encoders(segmented)[language]
    return lambda line: encoder.pieces(prepare(line))


def text_joiner(finished: FinishedRun) -> Callable[[str], str]:
    """Return the function that joins the subwords of a translation to a line of text."""
    segmented = finished.segmented
    if segmented is None:
        return remove_marks
    language = finished.data.target_language
    return lambda pieces: join_line(pieces, segmented.method, segmented.tokenise, language)


def _read_input() -> Iterator[str]:
    """Yield the lines of standard input, split only at LF."""
    # In text mode Python also ends a line at a bare CR. Translations would no longer match lines.
    for line_number, line in enumerate(iter(sys.stdin.buffer.readline, b""), start=1):
        try:
            yield line.removesuffix(b"\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"standard input, line {line_number}: not UTF-8: {error}; convert it first"
            ) from error
