"""Refuses a text whose form, not its translation, decides the BLEU: pieces, escapes, lists, tags.

One rule finds every such form: the letters of the lines match the references, and their words do
not. Both are BLEU's mean over n-grams, as a share of the references' n-grams: of 1 to 4 words, and
of 3, 6, 11 and 16 letters, without blanks, marks, accents and case. For plain sentences they are
nearly equal, whatever their quality: words are 0.93 to 1.01 of letters over 64 outputs of
Multi30k's models, and 0.88 to 1.2 over the oracle's, also with words dropped, swapped and repeated,
and with wrong lines. A text without short words, as in telegrams, has 0.65 to 0.69 and is refused.

`FORMS` holds the known forms. They add the shell command that undoes a form, and they find a form
that costs little (a tag before each line).
"""

import html
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from aiayn.errors import ScoreError

WORD_ORDERS, LETTER_ORDERS = (1, 2, 3, 4), (3, 6, 11, 16)
MIN_RATIO = 0.85  # of words to letters; decomposed or missing umlauts have 0.77 to 0.82
MIN_LETTER_MATCH = 5.0  # percent; below it not even letters match: a bad translation
MIN_LETTERS = 1000  # of the references; fewer are too few n-grams to compare
MIN_MARKS = 20  # accents or punctuation marks of the references
MAX_MISSING = 0.05  # of the references' share, below which an output has none
PLAIN_SHARE = 0.1  # of lines with a full stop or comma after a word
# A letter of a script that parts words by blanks: not of Thai, Lao, Khmer, Chinese, Japanese.
_LETTER = r"[^\W\d_\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
_NOT_TEXT = re.compile(r"</?\w+>|[\u0120\u2581]")  # tags and marks of pieces that hold letters
_TO_FOLD = {"\u00df": "ss", "ae": "a", "oe": "o", "ue": "u"}


class Form(NamedTuple):
    """A known form: what a message calls it, a pattern that its lines contain, and the command that
    undoes it as a filter of stdin. `min_share` is the share of lines from which a text has it.
    """

    words: str
    pattern: str
    command: str
    min_share: float = 0.1
    is_tokens: bool = False  # a form of tokens, which --as-given scores if both sides have it


def _python(imports: str, line_expression: str) -> str:
    """Return a filter that replaces each line by an expression of `line`."""
    program = f"import sys, {imports}\nfor line in sys.stdin: print({line_expression})"
    return f"python3 -c {shlex.quote(program)}"


FORMS = (
    Form("pieces of subword-nmt (`@@ `)", r"@@(?: |$)", "sed -E 's/@@( |$)//g'"),
    Form("pieces of sentencepiece (U+2581)", "\u2581", "sed 's/ //g; s/\u2581/ /g; s/^ //'"),
    Form("pieces with `_` before words", r"^_\S* _", "sed 's/ //g; s/_/ /g; s/^ //'"),
    Form("pieces of tensor2tensor (`_` after words)", r"\w_ .*_$", "sed 's/ //g; s/_/ /g; s/ $//'"),
    Form("pieces with `</w>`", "</w>", "sed 's/ //g; s|</w>| |g; s/ $//'"),
    Form(
        "the compound split (`##AT##-##AT##`)", "##AT##", "sed 's/ ##AT##-##AT## /-/g'", 0.05, True
    ),
    Form("pieces of WordPiece (` ##`)", r"\w ##\w", "sed 's/ ##//g'"),
    Form("joiners (U+FFED)", "\uffed", "sed -E 's/ ?\uffed ?//g'"),
    Form("byte-level pieces (U+0120)", "\u0120", "sed 's/ //g; s/\u0120/ /g; s/^ //'"),
    Form(
        "symbols (`<s>`, `<pad>`)",
        r"</?s>|<(?:pad|bos|eos)>|\[(?:CLS|SEP|PAD)\]",
        r"sed -E 's/ *(<\/?s>|<(pad|bos|eos)>|\[(CLS|SEP|PAD)\]) *//g'",
    ),
    Form("segments of sgm (`<seg>`)", "<seg", "sed -E 's/<[^>]*>//g'"),
    Form("language tags (`>>de<<`)", r"^>>\w+<<", r"sed -E 's/^>>\w+<< ?//'"),
    Form("Python lists", r"""^\[['"].*\]$""", _python("ast", "*ast.literal_eval(line)")),
    Form(
        "Python byte strings",
        r"""^b['"].*['"]$""",
        _python("ast", "ast.literal_eval(line).decode()"),
    ),
    Form("JSON objects", r"^\{.*\}$", _python("json", "json.loads(line)['translation']")),
    Form("JSON strings or quoted CSV", r'^".*"$', _python("json", "json.loads(line)"), 0.5),
    Form("quoted lines", r"^'.*'$", "sed -E \"s/^'|'$//g\"", 0.5),
    Form(
        "escapes (`\\u00fc`)",
        r"\\u[0-9a-f]{4}|\\x[0-9a-f]{2}",
        _python("codecs", "codecs.decode(line.strip(), 'unicode_escape')"),
    ),
    Form("n-best lists (` ||| `)", r" \|\|\| ", r"awk -F ' \\|\\|\\| ' '{print $2}'"),
    Form("columns with tabs", "\t", "cut -f 2"),
    Form("line numbers", r"^\W*\d+\W", r"sed -E 's/^\W*[0-9]+\W+//'", 0.9),
    Form(
        "UTF-8 that was read as Latin-1 (mojibake)",
        "\u00c3[\u0080-\u00bf\u0152-\u02dc\u2013-\u2122]|\u00e2\u20ac",
        "iconv -f UTF-8 -t WINDOWS-1252",
    ),
    Form(
        "decomposed characters (NFD)",
        "[a-zA-Z][\u0300-\u0308]",
        _python("unicodedata", "unicodedata.normalize('NFC', line), end=''"),
    ),
    Form(
        "invisible characters",
        "[\u00ad\u200b-\u200f\u2060\ufeff]",
        _python("re", r"re.sub(r'[\u00ad\u200b-\u200f\u2060\ufeff]', '', line), end=''"),
    ),
    Form(
        "Moses' tokens (marks apart from words)",
        rf"{_LETTER} [.,](?= |$)",
        "sacremoses -l {language} detokenize",
        0.5,
        is_tokens=True,
    ),
    Form(
        "HTML entities",
        r"&(?:amp|quot|apos|lt|gt|#\d+);",
        _python("html", "html.unescape(line), end=''"),
        is_tokens=True,
    ),
)


class FormFault(NamedTuple):
    """Why the form of a text is wrong, and the command that undoes it, '' if none is known.

    `word_match` and `letter_match` are percentages of the references' n-grams.
    """

    words: str
    word_match: float
    letter_match: float
    side: str = "hypotheses"
    command: str = ""

    @property
    def figures(self) -> str:
        """Return both figures in words."""
        return (
            f"{self.word_match:.1f} % of the references' n-grams match by words,"
            f" {self.letter_match:.1f} % by letters"
        )


def find_form_fault(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str = "de",
    is_as_given: bool = False,
) -> FormFault | None:
    """Return why a score of these lines would be the form's; None for plain text on both sides."""
    word_match = ngram_match(
        [_split(line) for line in hypotheses], [_split(line) for line in references], WORD_ORDERS
    )
    letters = [_letters(line) for line in references]
    letter_match = ngram_match([_letters(line) for line in hypotheses], letters, LETTER_ORDERS)
    found = _known_form(hypotheses, references, is_as_given)
    if found is not None:
        form, side, share = found
        command = form.command.format(language=language) if form.is_tokens else form.command
        statement = f"{share:.0%} of the lines have {form.words}"
        return FormFault(statement, word_match, letter_match, side, command)
    if sum(map(len, letters)) < MIN_LETTERS or letter_match < MIN_LETTER_MATCH:
        return None
    missing = _missing_marks(hypotheses, references)
    if missing:
        return FormFault(missing, word_match, letter_match)
    if word_match < MIN_RATIO * letter_match:
        statement = "the letters match the references and the words do not"
        return FormFault(statement, word_match, letter_match)
    return None


def check_form(
    hypotheses: Sequence[str],
    references: Sequence[str],
    paths: tuple[str, str],
    *,
    language: str,
    is_as_given: bool,
) -> None:
    """Check that the form of the lines does not decide their score; `paths` are the two files.

    Raises:
        ScoreError: with the matches of words and of letters, and the next step.
    """
    fault = find_form_fault(hypotheses, references, language=language, is_as_given=is_as_given)
    if fault is None:
        return
    path = paths[0] if fault.side == "hypotheses" else paths[1]
    step = "write plain sentences, as the references are"
    if fault.command:
        step = f"undo it: {fault.command} < {shlex.quote(path)} > plain.txt, then score plain.txt"
    raise ScoreError(
        f"{path}: {fault.words}; {fault.figures}, which are nearly equal for plain sentences;"
        f" {step}; --no-warning scores the lines as they are"
    )


def check_as_given(sides: Sequence[Sequence[str]]) -> None:
    """Check that texts which are scored as given are not plain text.

    Raises:
        ScoreError: if no side is tokens, and each side has full stops and commas that are attached.
    """
    has_tokens = any(_share(r"\w [.,](?= |$)", lines) >= PLAIN_SHARE for lines in sides)
    has_attached = all(_share(r"\w[.,](?= |$)", lines) >= PLAIN_SHARE for lines in sides)
    if has_attached and not has_tokens:
        raise ScoreError(
            "--as-given: hypotheses and references are plain text, not tokens; omit the flag"
        )


def _known_form(
    hypotheses: Sequence[str], references: Sequence[str], is_as_given: bool
) -> tuple[Form, str, float] | None:
    """Return the first form that either side has, the side and its share of lines."""
    for form in FORMS:
        shares = {
            side: _share(form.pattern, lines)
            for side, lines in (("hypotheses", hypotheses), ("references", references))
        }
        is_expected = is_as_given and form.is_tokens
        if is_expected and abs(shares["hypotheses"] - shares["references"]) < form.min_share:
            continue
        for side, share in shares.items():
            if share >= form.min_share:
                return form, side, share
    return None


def _share(pattern: str, lines: Sequence[str]) -> float:
    """Return the share of the lines with text that contain a pattern."""
    full = [line for line in lines if line.strip()]
    expression = re.compile(pattern)
    return sum(expression.search(line) is not None for line in full) / max(1, len(full))


def _missing_marks(hypotheses: Sequence[str], references: Sequence[str]) -> str:
    """Return which marks of the references the hypotheses lack throughout."""
    kinds = (("accents or umlauts", _is_accented), ("punctuation", _is_punctuation))
    for words, is_mark in kinds:
        expected = sum(map(is_mark, "".join(references)))
        number = sum(map(is_mark, "".join(hypotheses)))
        if expected >= MIN_MARKS and number <= MAX_MISSING * expected:
            return f"there are {number:,} {words}, the references have {expected:,}"
    return ""


def _is_accented(character: str) -> bool:
    return character.isalpha() and (
        character == "\u00df" or len(unicodedata.normalize("NFD", character)) > 1
    )


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def _split(line: str) -> tuple[str, ...]:
    """Return words and marks, without case and with plain quotation marks, which differ among good
    outputs.
    """
    line = re.sub("[\u201c-\u201f\u00ab\u00bb]", '"', line.lower())
    return tuple(re.findall(r"\w+|[^\w\s]", re.sub("[\u2018-\u201b]", "'", line)))


def _letters(line: str) -> str:
    """Return the letters and digits of a line, without case, accents and blanks."""
    text = unicodedata.normalize("NFKD", _NOT_TEXT.sub("", html.unescape(line)).lower())
    text = "".join(filter(str.isalnum, text))
    for letters, folded in _TO_FOLD.items():
        text = text.replace(letters, folded)
    return text


def ngram_match(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    orders: Sequence[int],
) -> float:
    """Return how many percent of the references' n-grams the hypotheses have: the geometric mean
    over the orders.
    """
    shares = []
    for order in orders:
        num_matches, num_expected = 0, 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            expected = _count_ngrams(reference, order)
            num_matches += (_count_ngrams(hypothesis, order) & expected).total()
            num_expected += expected.total()
        shares.append(num_matches / max(1, num_expected))
    return 100 * float(prod(shares) ** (1 / len(orders)))


def _count_ngrams(units: Sequence[str], order: int) -> Counter[Sequence[str]]:
    return Counter(units[begin : begin + order] for begin in range(len(units) - order + 1))
