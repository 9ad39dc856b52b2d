"""Lays out table `one_run`: Table 3's printed differences next to the reach of one run against one
run.
"""

from collections.abc import Sequence

from analysis.conclusions.one_run import (
    Noise,
    PrintedDifference,
    bits_noises,
    bleu_noises,
    printed_differences,
)
from paper_tables.frame import Frame
from paper_tables.layout import (
    BITS_DECIMALS,
    Field,
    Note,
    Table,
    columns_of,
    label_field,
    printed_field,
    rows_of,
)

YES, NO, ONLY_PLAIN = "yes", "no", "plain only"
REACH_DECIMALS = BITS_DECIMALS + 1


def lay_out_one_run(frame: Frame) -> Table:
    """Return a row for each of the 15 printed contrasts; no number of ours is in it."""
    differences = printed_differences()
    fields: list[Field[PrintedDifference]] = [
        label_field("row", "row minus base", lambda difference: difference.row),
        printed_field(
            "bits", "printed, bits", lambda difference: f"{difference.bits:+.{BITS_DECIMALS}f}"
        ),
        printed_field(
            "smallest_bits",
            "at least",
            lambda difference: f"{difference.smallest_bits:.{BITS_DECIMALS}f}",
        ),
    ]
    reaches = []
    for noise in bits_noises():
        fields.append(_noise_field(noise, "bits", len(differences)))
        reaches.append(_reach_sentence(noise, "bits", differences))
    fields += [
        printed_field("bleu", "printed, BLEU", lambda difference: f"{difference.bleu:+.1f}"),
        printed_field(
            "smallest_bleu", "at least", lambda difference: f"{difference.smallest_bleu:.1f}"
        ),
    ]
    for noise in bleu_noises():
        fields.append(_noise_field(noise, "BLEU", len(differences)))
        reaches.append(_reach_sentence(noise, "BLEU", differences))
    return Table(
        name="one_run",
        title="Table 3's one run a row, next to seed noise",
        caption=(
            "At the seed noise of each source, is a difference of the printed size between one run"
            " and one run distinguishable? The 95 % reach is t(0.975, df) sd sqrt(2); `yes` also"
            f" holds with alpha divided by {len(differences)}, `{ONLY_PLAIN}` without that"
            " correction only. At least: the smallest difference that the rounding of the printed"
            " values allows, which is what is compared."
        ),
        columns=columns_of(fields),
        rows=rows_of(fields, differences),
        summary=(
            f"{len(differences)} printed differences of Table 3, compared with public seed noise"
        ),
        notes=(
            *map(Note, reaches),
            Note(
                "The public trainings differ from the paper's: AlgoPerf translates De-En with"
                " pre-norm models, without dropout in 10 of the 12 settings, and evaluates one"
                " checkpoint; MLPerf's programs have pre-norm and an uncased BLEU of their own. The"
                " noisiest setting is chosen as the largest of all, and has its own degrees of"
                " freedom. AlgoPerf's and MLPerf's BLEU is on a test set, Table 3's on dev. The"
                " authors' own seed noise was not published.",
            ),
        ),
    )


def _noise_field(noise: Noise, quantity: str, num_comparisons: int) -> Field[PrintedDifference]:
    """Return the column of a noise: whether a row's difference is above its reach."""
    name = noise.name.lower().replace("'s ", "_").replace(" ", "_")
    return label_field(
        f"{name}_{quantity.lower()}",
        f"{noise.name}, {quantity}",
        lambda line: answer(_smallest(line, quantity), noise, num_comparisons),
    )


def _smallest(line: PrintedDifference, quantity: str) -> float:
    return line.smallest_bits if quantity == "bits" else line.smallest_bleu


def answer(smallest: float, noise: Noise, num_comparisons: int) -> str:
    """Return whether a difference is above the reach, corrected and plain."""
    if smallest > noise.reach(num_comparisons):
        return YES
    return ONLY_PLAIN if smallest > noise.reach() else NO


def _reach_sentence(noise: Noise, quantity: str, differences: Sequence[PrintedDifference]) -> str:
    """Return the reach of a noise in words, and how many printed differences are above it."""
    sizes = [_smallest(line, quantity) for line in differences]
    plain, corrected = noise.reach(), noise.reach(len(sizes))
    num_plain = sum(size > plain for size in sizes)
    num_corrected = sum(size > corrected for size in sizes)
    return (
        f"At the seed noise of {noise.name} ({noise.sd:.{REACH_DECIMALS}f} {quantity}, df"
        f" {noise.degrees_of_freedom}), the reach is {plain:.{BITS_DECIMALS}f}: {num_plain} of"
        f" {len(sizes)} differences between one run and one run are distinguishable; corrected for"
        f" {len(sizes)}, {corrected:.{BITS_DECIMALS}f}: {num_corrected}."
    )
