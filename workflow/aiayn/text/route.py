"""A line of plain text on its way to a corpus's words: punctuation made plain and Moses' tokens, where the recipe asks.

Training text and test sets take this way, and sentences to be translated; references for scoring stay as they were
published, and translations come back by `aiayn.text.detokenise`.
"""

from aiayn.text.normalise_moses import normalise_line
from aiayn.text.tokenize_moses import Tokenizer


class TextRoute:
    """What a recipe does to each line of a language, before subwords; the values are those of a corpus file."""

    def __init__(self, *, normalise: str, tokenise: str, language: str) -> None:
        """Prepare the steps; nothing grows with the lines."""
        self._language = language
        self._is_normalised = normalise == "moses"
        self._tokenizer = (
            None if tokenise == "none" else Tokenizer(language, is_aggressive=tokenise == "moses_aggressive")
        )

    @property
    def is_identity(self) -> bool:
        """True if lines stay as they are."""
        return not self._is_normalised and self._tokenizer is None

    def prepare(self, line: str) -> str:
        """Return a line as subwords are made of it; tokens have one blank between two and none around them."""
        if self._is_normalised:
            line = normalise_line(line, self._language)
        if self._tokenizer is not None:
            line = " ".join(self._tokenizer.tokenize(line).split())  # a last `.'` leaves blanks behind it
        return line
