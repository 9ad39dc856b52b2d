"""Encodes text that is already segmented into subwords: gives each subword a number. The encoders
for learnt subword models are in the module `subword`.
"""


class LineEncoder:
    """Splits lines into words, and words into pieces (subwords). A piece gets its number when it
    first occurs.

    An encoder can be pickled. To add a method of segmentation, write a subclass with `pieces`:

        class CharacterEncoder(LineEncoder):
            def pieces(self, line: str) -> str:
                return " ".join(line.replace(" ", "_"))
    """

    end = 0  # the number of `</s>`, which ends each line

    def __init__(self) -> None:
        """Begin with the end-of-sentence symbol `</s>` as the only numbered piece."""
        self._number_by_symbol = {"</s>": self.end}

    def words(self, line: str) -> list[str]:
        """Return the list of a line's words, which blanks (U+0020) separate. No subword spans two
        words.
        """
        return line.split(" ")

    def pieces(self, line: str) -> str:
        """Return a line's subwords as a string, separated by blanks."""
        raise NotImplementedError

    def numbers(self, word: str) -> list[int]:
        """Return the numbers of a word's subwords."""
        # Segmented text has no model with numbers, so a symbol gets the next free number when it
        # first occurs. `filter` drops the empty strings between two blanks.
        number_by_symbol = self._number_by_symbol
        pieces = filter(None, self.pieces(word).split(" "))
        return [number_by_symbol.setdefault(p, len(number_by_symbol)) for p in pieces]

    def symbols(self) -> list[str]:
        """Return all subwords that have occurred so far, in the order of their numbers."""
        return list(self._number_by_symbol)


class WordEncoder(LineEncoder):
    """Encodes text that was published already split into subwords. As in fairseq, any white space
    separates subwords.
    """

    def words(self, line: str) -> list[str]:
        """Return the list of a line's subwords, which any white space separates."""
        return line.split()

    def pieces(self, line: str) -> str:
        """Return a line's subwords as a string, each separated by a single blank."""
        return " ".join(line.split())
