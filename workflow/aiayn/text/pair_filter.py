"""Why a training pair is dropped: an empty side, its lengths, a word that is none; clean counts them by these reasons.

The limits are those of Moses' clean-corpus-n.perl, but its other habits are not taken over: it deletes `|` from every
line (unless the first pair has one) and turns a no-break space into a blank. Here a pair is kept as it is or dropped.
"""

from aiayn.corpus_spec import CleanSpec

REASONS = ("empty_side", "too_long", "length_ratio", "long_word", "duplicate")


def reason_to_drop(source: str, target: str, clean: CleanSpec) -> str | None:
    """Return which of REASONS drops a pair, the first that holds, or None; duplicates are not looked for.

    Limits in pieces, which do not exist yet, are left to binarize.
    """
    if not source.strip() or not target.strip():
        return "empty_side"
    if clean.unit == "pieces":
        return None
    reason = length_reason(num_words(source), num_words(target), clean)
    if reason is None and clean.max_word_characters is not None:
        is_long = any(_has_longer_word(line, clean.max_word_characters) for line in (source, target))
        return "long_word" if is_long else None
    return reason


def _has_longer_word(line: str, max_characters: int) -> bool:
    return len(line) > max_characters and max(map(len, line.split(" "))) > max_characters


def length_reason(num_source: int, num_target: int, clean: CleanSpec) -> str | None:
    """Return `too_long`, `length_ratio` or None for the sides' numbers of words.

    The ratio is of the longer side to the shorter, and a pair of just the limit stays, as in clean-corpus-n.perl.
    """
    shorter, longer = (num_source, num_target) if num_source < num_target else (num_target, num_source)
    if clean.max_words is not None and longer > clean.max_words:
        return "too_long"
    if clean.max_length_ratio is not None and (shorter == 0 or longer / shorter > clean.max_length_ratio):
        return "length_ratio"
    return None


def num_words(line: str) -> int:
    """Return the number of words, that is, of what blanks (U+0020 alone) separate."""
    words = line.split(" ")
    return len(words) - words.count("")
