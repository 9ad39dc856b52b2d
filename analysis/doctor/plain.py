"""Brings translations and references into one form: pieces joined, tokens detokenised.
`only_letters` reduces a line to what is left of it in every form.
"""

import functools
import re

import msgspec

from aiayn.data.text.detokenise import join_any_pieces
from aiayn.data.text.tokenize_moses import detokenize_line
from aiayn.scoring.outputs.repairs import detokenised
from aiayn.scoring.outputs.system_output import form_of
from aiayn.spec.system import CorpusSpec
from analysis.doctor.types import Translation


class Plain(msgspec.Struct, frozen=True):
    """Translations and references without pieces. `is_tokens` says that both sides are tokens of
    the same kind; otherwise both are text.
    """

    lines: tuple[str, ...]
    references: tuple[str, ...] | None
    is_tokens: bool


def plain(output: Translation, corpus: CorpusSpec) -> Plain:
    """Return the translations and their references in one form."""
    return _plain(output.lines, output.references, corpus.target_language)


def as_text(output: Translation, corpus: CorpusSpec) -> Plain:
    """Return translations and references as they were scored, but tokens detokenised, because the
    definitions of printed numbers begin with text.
    """
    read = plain(output, corpus)
    if not read.is_tokens or read.references is None:
        return Plain(output.lines, output.references, is_tokens=False)
    language = corpus.target_language
    lines = tuple(detokenize_line(line, language) for line in read.lines)
    references = tuple(detokenize_line(line, language) for line in read.references)
    return Plain(lines, references, is_tokens=False)


@functools.lru_cache(maxsize=8)
def _plain(lines: tuple[str, ...], references: tuple[str, ...] | None, language: str) -> Plain:
    sides = [[join_any_pieces(line) for line in lines]]
    if references is not None:
        sides.append([join_any_pieces(line) for line in references])
    forms = [form_of(side) for side in sides]
    is_alike = len({form.token_kinds for form in forms}) == 1
    normalised = [side if is_alike else detokenised(side, language) or side for side in sides]
    return Plain(
        tuple(normalised[0]),
        tuple(normalised[1]) if references is not None else None,
        is_tokens=is_alike and forms[0].is_tokens,
    )


def only_letters(line: str) -> str:
    """Return only the letters and digits of a line, without case: the same text however its
    punctuation was normalised.
    """
    return re.sub(r"[\W_]+", "", line).casefold()
