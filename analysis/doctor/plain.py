"""Brings translations and references into one form: pieces joined, tokens detokenised.
`only_letters` reduces a line to what is left of it in every form.
"""

import functools
import re

import msgspec

from aiayn.data.text.detokenise import join_any_pieces
from aiayn.scoring.outputs.system_output import Treatment, form_of, prepare
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
    sides = {"hyp": read.lines, "ref": read.references}
    normalised, _ = prepare(sides, Treatment(detokenises=True), corpus.target_language)
    return Plain(tuple(normalised["hyp"]), tuple(normalised["ref"]), is_tokens=False)


@functools.lru_cache(maxsize=8)
def _plain(lines: tuple[str, ...], references: tuple[str, ...] | None, language: str) -> Plain:
    sides = {"hyp": [join_any_pieces(line) for line in lines]}
    if references is not None:
        sides["ref"] = [join_any_pieces(line) for line in references]
    forms = [form_of(side) for side in sides.values()]
    if len({form.token_kinds for form in forms}) > 1:
        sides, _ = prepare(sides, Treatment(detokenises=True), language)
    normalised = [tuple(side) for side in sides.values()]
    is_tokens = (
        all(form.is_tokens for form in forms) and len({form.token_kinds for form in forms}) == 1
    )
    return Plain(normalised[0], normalised[1] if len(normalised) > 1 else None, is_tokens)


def only_letters(line: str) -> str:
    """Return only the letters and digits of a line, without case: the same text however its
    punctuation was normalised.
    """
    return re.sub(r"[\W_]+", "", line).casefold()
