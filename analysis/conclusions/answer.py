"""Makes the picture at the top of a scale's results page. The picture has a line for each
conclusion of the paper, and a sentence that says how many conclusions our trainings confirm.
"""

from collections.abc import Sequence

from aiayn.printed import PAPER_SCALE
from aiayn.scoring.scores import BITS_METRIC
from analysis.conclusions.answers import ContrastAnswer
from analysis.conclusions.scale_contrasts import PrintedContrast, draw_contrasts
from paper_tables.frame import Frame
from paper_tables.names import change_of_system, joined, name_of_key
from paper_tables.render.picture import Kind, Picture, PictureLine, place_lines
from paper_tables.rounding import rounded

UNIT = "difference to base, bits a subword"
# The picture has fewer colours than there are answers. The two answers against the paper share a
# kind, and so do the two answers that find no more than a small effect.
KIND_BY_ANSWER: dict[ContrastAnswer, Kind] = {
    ContrastAnswer.AS_PRINTED: "same",
    ContrastAnswer.REVERSED: "other",
    ContrastAnswer.DIFFERS: "other",
    ContrastAnswer.ABSENT: "none",
    ContrastAnswer.TOO_SMALL: "none",
    ContrastAnswer.UNDECIDED: "open",
}
# A sentence about the rows with an answer, for one row and for several. It agrees with names of
# either number, such as "one head" and "learned positions". AS_PRINTED is missing, because the
# picture's main sentence counts it.
WORDS_BY_ANSWER = {
    ContrastAnswer.REVERSED: ("The effect of {} is reversed.", "The effects of {} are reversed."),
    ContrastAnswer.DIFFERS: (
        "The effect of {} differs from what is printed.",
        "The effects of {} differ from what is printed.",
    ),
    ContrastAnswer.ABSENT: ("The effect of {} is absent.", "The effects of {} are absent."),
    ContrastAnswer.TOO_SMALL: (
        "The effect of {} is too small to tell.",
        "The effects of {} are too small to tell.",
    ),
    ContrastAnswer.UNDECIDED: (
        "The effect of {} is undecided.",
        "The effects of {} are undecided.",
    ),
}
SCALE_WORDS = {"demo": "the demo", "multi30k": "Multi30k", PAPER_SCALE: "the paper"}


def picture_of_scale(frame: Frame) -> Picture | None:
    """Return the picture of the paper's conclusions with our differences in bits, or None if no
    difference is measured yet.
    """
    # The contrasts are cached in the frame, because the table `conclusions` needs them, too.
    contrasts = frame.once(draw_contrasts).primary
    if all(contrast.ours is None for contrast in contrasts):
        return None
    return Picture(
        lines=place_lines([_line(contrast) for contrast in contrasts]),
        sentence=_sentence(contrasts, frame.scale),
        details=_details(contrasts),
        unit=UNIT,
        # Fewer bits are better, so the left end of the axis is the good one.
        low_text="\u2190 better",
        high_text="worse \u2192",
    )


def _line(contrast: PrintedContrast) -> PictureLine:
    ours = contrast.ours
    answer = "not measured"
    kind: Kind = "open"
    if contrast.answered is not None:
        answer = str(contrast.answered.answer)
        kind = KIND_BY_ANSWER[contrast.answered.answer]
    # The contrast is measured, but a run did not start, or base has a single seed. The call of
    # decision 0009 says which.
    elif ours is not None:
        answer = str(ours.call)
    return PictureLine(
        row=contrast.row_name,
        words=change_of_system(contrast.row_name),
        printed=contrast.printed_effect,
        printed_text=rounded(contrast.printed_effect, BITS_METRIC, is_signed=True),
        answer=answer,
        kind=kind,
        ours=None if ours is None else ours.difference,
        ours_text=("" if ours is None else rounded(ours.difference, BITS_METRIC, is_signed=True)),
        interval=None if ours is None else ours.interval,
        numbers=contrast.numbers,
    )


def _sentence(contrasts: Sequence[PrintedContrast], scale: str) -> str:
    """Return a sentence that says how many of the paper's conclusions are also found at a scale."""
    # The total includes contrasts that are not measured yet: the sentence is about all conclusions
    # of the paper, also while trainings run.
    num_same = 0
    for contrast in contrasts:
        if contrast.answered is not None:
            num_same += contrast.answered.answer is ContrastAnswer.AS_PRINTED
    counts = f"{num_same} of the paper's {len(contrasts)} conclusions show"
    return f"At the scale of {SCALE_WORDS[scale]}, {counts}."


def _details(contrasts: Sequence[PrintedContrast]) -> str:
    """Return a sentence for each answer except "as printed". The sentence lists the rows of Table 3
    with this answer.
    """
    # The sentences are in the order of the answers, not of the rows.
    names_by_answer: dict[ContrastAnswer, list[str]] = {answer: [] for answer in ContrastAnswer}
    num_open = 0
    for contrast in contrasts:
        if contrast.answered is None:
            num_open += 1
        else:
            names = names_by_answer[contrast.answered.answer]
            names.append(name_of_key(contrast.row_name))
    sentences = []
    for answer, (for_one, for_several) in WORDS_BY_ANSWER.items():
        names = names_by_answer[answer]
        if names:
            words = for_one if len(names) == 1 else for_several
            sentences.append(words.format(joined(names)))
    if num_open:
        sentences.append(f"{num_open} cannot be answered yet.")
    return " ".join(sentences)
