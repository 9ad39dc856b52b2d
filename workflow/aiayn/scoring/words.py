"""Splits a tokenised line into the words whose n-grams multi-bleu.perl or fairseq-score would
count.

multi-bleu.perl, fairseq-score and sacreBLEU without smoothing compute BLEU by the same formula
(Papineni, Roukos, Ward and Zhu 2002), so here sacreBLEU computes every BLEU from the words of this
module. multi-bleu.perl and fairseq-score differ in what counts as a word:

| | multi-bleu.perl | fairseq-score |
|---|---|---|
| words are separated by | ASCII white space (perl's `split` of bytes) | Unicode white space |
| words in an empty line | 0 | 1, the end of sentence; two empty lines match |
| `<unk>` in the reference | is a word | never matches |
| `<pad>` first, `</s>` or `<pad>` last | are words | are trimmed |
| -lc | ASCII letters only | not used here |

If the hypotheses have no words, multi-bleu.perl dies, and BLEU is 0 here.

A defect of fairseq-score is not repeated here: its libbleu.cpp compares hashes of n-grams, computed
over the bytes of the words' ids as the C++ type char. If the type char is signed, as on x86, many
bigrams share a hash ("il faut" and "faut il", for example), and the BLEU of fairseq-score is up to
0.01 too high. Here n-grams are compared by their words. Tests in tests/oracle show that nothing
else differs from fairseq-score.
"""

_UNKNOWN_IN_REFERENCE = "\ud800"  # a lone surrogate, which no text in UTF-8 has


def perl_words(line: bytes) -> list[str]:
    """Return the words of a line that multi-bleu.perl would count, each word as the hexadecimal
    digits of its bytes.

    Python's `bytes.split` splits at ASCII white space only, as perl's `split` does. sacreBLEU would
    split a word again at other white space. The hexadecimal digits of a word contain no white
    space, so sacreBLEU does not split them.
    """
    return [word.hex() for word in line.split()]


def fairseq_words(line: str, *, is_reference: bool) -> list[str]:
    """Return the words of a line that fairseq-score would count (Dictionary.encode_line, then
    bleu_trim in libbleu.cpp).

    Padding symbols (`<pad>`) are removed at the beginning of the line, padding and end-of-sentence
    symbols (`</s>`) at its end. The list of words is never empty: for an empty line it contains the
    end-of-sentence symbol.
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
