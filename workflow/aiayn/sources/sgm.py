"""The segments of an .sgm file (WMT's dev and test sets): what stands between <seg ...> and </seg>, by the markup.

It looks like XML and is none: a bare `&` or `<` is text ("S&P", "Standard & Poor's"), so an XML reader refuses it, and
as `&amp;` may be what a sentence says, nothing is unescaped (sacreBLEU's fake_sgml.py and tensorflow/datasets do
neither). Unlike these, a segment may stand anywhere on a line, share one, or go on over several.
"""

import re
from collections.abc import Iterator

from aiayn.errors import CorpusError

# An attribute's value may hold a `>` in its quotes.
_BEGIN = re.compile(r"""<seg(?=[\s>])(?:[^>"']|"[^"]*"|'[^']*')*>""", re.IGNORECASE)
_END = re.compile(r"</seg\s*>", re.IGNORECASE)
_LINE_BREAK = re.compile(r"[ \t]*\r?\n[ \t]*")


def read_segments(text: str, place: str) -> Iterator[str]:
    """Yield each segment as one line; a line break inside one becomes a blank, all other characters stay.

    Raises:
        CorpusError: with `place` and line, if a segment does not end before the next one or the file does.
    """
    position = 0
    while (begin := _BEGIN.search(text, position)) is not None:
        end = _END.search(text, begin.end())
        following = _BEGIN.search(text, begin.end())
        if end is None or (following is not None and following.start() < end.start()):
            line_number = text.count("\n", 0, begin.start()) + 1
            raise CorpusError(f"{place}:{line_number}: {begin.group()} has no </seg>; the file is torn, fetch it anew")
        yield _LINE_BREAK.sub(" ", text[begin.end() : end.start()].strip("\r\n"))
        position = end.end()
