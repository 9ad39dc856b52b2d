"""Splits text into pieces and numbers them: published pieces here, learnt models in `subword_*`."""


class Encoder:
    """Splits lines into words, and each word by itself into pieces, numbered as they come. It can
    be pickled.
    """

    end = 0  # the number of `</s>`, which ends each line

    def __init__(self) -> None:
        """Begin with no piece but the end of a line."""
        self._number_by_symbol = {"</s>": self.end}

    def words(self, line: str) -> list[str]:
        """Return the words of a line, which blanks (U+0020 alone) separate; no piece spans two."""
        return line.split(" ")

    def pieces(self, line: str) -> str:
        """Return a line's pieces, separated by blanks."""
        raise NotImplementedError

    def numbers(self, words: list[str]) -> list[list[int]]:
        """Return the numbers of each word's pieces."""
        known = self._number_by_symbol
        pieces_by_word = (filter(None, self.pieces(word).split(" ")) for word in words)
        return [
            [known.setdefault(piece, len(known)) for piece in pieces] for pieces in pieces_by_word
        ]

    def symbols(self) -> list[str]:
        """Return all pieces so far, by their numbers."""
        return list(self._number_by_symbol)


class WordEncoder(Encoder):
    """Takes the words of text that comes in pieces; fairseq's words: what white space of any kind
    separates.
    """

    def words(self, line: str) -> list[str]:
        """Return the words of a line."""
        return line.split()

    def pieces(self, line: str) -> str:
        """Return the words of a line, separated by blanks."""
        return " ".join(line.split())
