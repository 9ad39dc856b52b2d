"""Splits a tokenised line into the words that multi-bleu.perl or fairseq-score would count.

Both programs and sacreBLEU without smoothing have the same arithmetic (Papineni et al. 2002), so
sacreBLEU computes every BLEU from these words. The programs differ in their words:

| | multi-bleu.perl | fairseq-score |
|---|---|---|
| words are separated by | ASCII white space (perl's `split` of bytes) | Unicode white space |
| words in an empty line | 0 | 1, the end of sentence; two empty lines match |
| `<unk>` in the reference | is a word | never matches |
| `<pad>` first, `</s>` or `<pad>` last | are words | are trimmed |
| -lc | ASCII letters only | not used here |

Where multi-bleu.perl dies because the hypotheses have no words, BLEU is 0 here.

A defect of fairseq-score is not repeated: libbleu.cpp compares hashes of n-grams, computed over the
bytes of the words' numbers as `char`. If that type is signed, as on x86, many bigrams share a hash
(`il faut` and `faut il`, for example), and BLEU is up to 0.01 too high. tests/oracle shows that
nothing else differs. Here n-grams are compared by their words.
"""

_UNKNOWN_IN_REFERENCE = "\ud800"  # a lone surrogate, which no text in UTF-8 has


def perl_words(line: bytes) -> list[str]:
    """Return the words that multi-bleu.perl would count, each as the hexadecimal digits of its
    bytes.

    perl's `split` and Python's `bytes.split` both split at ASCII white space only. sacreBLEU would
    split a word at other white space. Hexadecimal digits do not contain white space.
    """
    return [word.hex() for word in line.split()]


def fairseq_words(line: str, *, is_reference: bool) -> list[str]:
    """Return the words of fairseq-score (Dictionary.encode_line, then bleu_trim in libbleu.cpp).

    `<pad>` is trimmed at the beginning, `<pad>` and `</s>` at the end. The list is never empty: an
    empty line keeps its `</s>`.
    """
    pieces = [*line.split(), "</s>"]
    begin = 0
    # The last piece is `</s>`, so the loop ends, and the list is never empty.
    while pieces[begin] == "<pad>":
        begin += 1
    while len(pieces) > begin + 1 and pieces[-1] in ("<pad>", "</s>"):
        pieces.pop()
    return [
        _UNKNOWN_IN_REFERENCE if is_reference and word == "<unk>" else word
        for word in pieces[begin:]
    ]
