"""Writes the first part of a scale's page: which of the paper's conclusions hold, and the forest in
bits.
"""

import html
from collections.abc import Iterable

from analysis.conclusions.scale_contrasts import (
    NOT_ANSWERED,
    NOT_MEASURED,
    PrintedContrast,
    draw_contrasts,
)
from paper_tables.frame import Frame
from paper_tables.layout import BITS_DECIMALS
from paper_tables.render.drawn import DrawnFigure
from paper_tables.render.report import card_words, render_cards, render_figure

ANSWER_FIGURE = "forest_bits"  # once it is drawn


def answer_of_scale(frame: Frame, figures: Iterable[DrawnFigure]) -> str:
    """Return the answer as HTML; only a sentence while no contrast is measured."""
    answers = draw_contrasts(frame).by_answer
    total = len({contrast.row_name for contrasts in answers.values() for contrast in contrasts})
    unmeasured, unanswered = answers.pop(NOT_MEASURED), answers.pop(NOT_ANSWERED)
    if len(unmeasured) == total:
        return '<p class="aside">No conclusion of the paper\'s can be called yet.</p>\n'
    answers |= {NOT_ANSWERED: unanswered} if unanswered else {}
    cards = []
    for answer, contrasts in answers.items():
        words = card_words(f"{len(contrasts)} of {total}", map(_answer_words, contrasts))
        cards.append((answer.capitalize(), words))
    if unmeasured:
        cards.append((NOT_MEASURED.capitalize(), card_words(f"{len(unmeasured)} of {total}", [])))
    forests = [figure for figure in figures if figure.name == ANSWER_FIGURE and figure.svg]
    drawn = "".join(map(render_figure, forests))
    return (
        f"<h2>Which of the paper's conclusions hold at scale {frame.scale}?</h2>\n"
        '<p class="caption">Differences to base in bits a subword on the development set, answered'
        " by one "
        'rule (decision 0012); <a href="#conclusions">all of it</a>.</p>\n<div'
        f' class="answer">\n{render_cards(cards)}'
        f"{drawn}</div>\n"
    )


def _answer_words(contrast: PrintedContrast) -> str:
    words = html.escape(contrast.statement)
    if contrast.ours is not None:
        words += f": <b>{contrast.ours.difference:+.{BITS_DECIMALS}f}</b>"
    return words
