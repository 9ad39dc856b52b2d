"""Turns lines of text that is already segmented into numbered subwords. The module `subword` has
the encoders of learnt models.
"""


class LineEncoder:
    """Splits lines into words and words into pieces (subwords). Pieces are numbered in order of
    occurrence.

    An encoder can be pickled. To add a method of segmentation, write a subclass with `pieces`:

        class CharacterEncoder(LineEncoder):
            def pieces(self, line: str) -> str:
                return " ".join(line.replace(" ", "_"))
    """

    end = 0  # the number of `</s>`, which ends each line

    def __init__(self) -> None:
        """Begin with `</s>` as the only piece."""
        self._number_by_symbol = {"</s>": self.end}

    def words(self, line: str) -> list[str]:
        """Return the words of a line, separated by blanks (U+0020). No piece spans two words."""
        return line.split(" ")

    def pieces(self, line: str) -> str:
        """Return a line's pieces, separated by blanks."""
        raise NotImplementedError

    def numbers(self, word: str) -> list[int]:
        """Return the numbers of a word's pieces."""
        # Segmented text has no model with numbers, so a symbol gets the next free number when it
        # first occurs. `filter` drops the empty strings between two blanks.
        number_by_symbol = self._number_by_symbol
        pieces = filter(None, self.pieces(word).split(" "))
        return [number_by_symbol.setdefault(p, len(number_by_symbol)) for p in pieces]

    def symbols(self) -> list[str]:
        """Return all pieces so far, by their numbers."""
        return list(self._number_by_symbol)


class WordEncoder(LineEncoder):
    """Encodes text that was published already split into pieces. As in fairseq, any white space
    separates pieces.
    """

    def words(self, line: str) -> list[str]:
        """Return the words of a line."""
        return line.split()

    def pieces(self, line: str) -> str:
        """Return the words of a line, separated by blanks."""
        return " ".join(line.split())
