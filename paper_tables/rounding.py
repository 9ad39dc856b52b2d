"""Turns numbers into text. Only this module rounds numbers for tables and for the texts of figures.

Templates, tables and notes get the rounded text from this module. Comparisons use the numbers
before rounding.
"""

from collections.abc import Sequence

from aiayn.scoring.seeds import MIN_SEEDS_OF_INTERVAL, summarise_seeds

PLUS_MINUS = "\u00b1"
BLEU, BITS = 2, 3  # decimals
PARAMETER_DIGITS, FLOPS_DIGITS = 3, 2  # significant digits
FLOPS_METRICS = ("training_flops", "model_flops")
# Counts do not depend on the seed, so they are shown without an interval.
COUNT_METRICS = ("num_parameters", "steps", "tokens")
WHOLE_METRICS = (*FLOPS_METRICS, "steps", "tokens", "wall_seconds")
SIGNIFICANT_BY_UNIT = {"p": 2, "flops_per_second": 3, "milliseconds": 3}
SMALLEST_P = 0.001
SEEDS_WORDS = (
    f"mean over seeds with 95 % t-interval; of fewer than {MIN_SEEDS_OF_INTERVAL} seeds the values,"
    " in order of seed"
)


def rounded(value: float, unit: str | int, *, is_signed: bool = False) -> str:
    """Return a number as rounded text. With `is_signed`, a number that is not negative after
    rounding has a plus.

    `unit` is a metric, a key of SIGNIFICANT_BY_UNIT, or the number of decimals. BLEU and perplexity
    are rounded to two decimals, bits to three. Numbers of parameters are in millions, numbers of
    operations in powers of ten.
    """
    if unit == "num_parameters":
        # Three significant digits: 65 million is 65.0, and 213 million is 213. The exponent is that
        # of the rounded number: 9.996 million is 10.0.
        millions = value / 1e6
        exponent = int(f"{millions:.{PARAMETER_DIGITS - 1}e}".split("e")[1])
        return f"{millions:.{max(0, PARAMETER_DIGITS - 1 - exponent)}f}"
    if unit in FLOPS_METRICS and value > 0:
        # Python writes 2.3e+19. The text is 2.3e19, as in published/table2.csv. The templates make
        # a superscript of it.
        mantissa, _, power = f"{value:.{FLOPS_DIGITS - 1}e}".partition("e")
        return f"{mantissa}e{int(power)}"
    if unit in SIGNIFICANT_BY_UNIT:
        return f"{value:.{SIGNIFICANT_BY_UNIT[str(unit)]}g}"
    decimals = BLEU
    if isinstance(unit, int):
        decimals = unit
    elif unit in WHOLE_METRICS:
        decimals = 0
    elif unit.startswith("bits_"):
        decimals = BITS
    # The `z` in the format writes 0.00 instead of -0.00, which Python prints for -0.001.
    sign = "+" if is_signed else ""
    groups = "" if decimals in (BLEU, BITS) else ","
    return f"{value:{sign}z{groups}.{decimals}f}"


def rounded_p(p_value: float) -> str:
    """Return a p-value with three decimals, or `<0.001`."""
    return rounded(p_value, 3) if p_value >= SMALLEST_P else f"<{SMALLEST_P}"


def with_reach(difference: float, reach: float | None, unit: str | int) -> str:
    """Return a difference with half of its interval, such as `+0.60 +- 0.12`. If `reach` (half of
    the interval) is None, only the difference is returned.
    """
    text = rounded(difference, unit, is_signed=True)
    return text if reach is None else f"{text} {PLUS_MINUS} {rounded(reach, unit)}"


def rounded_range(low: float, high: float, unit: str | int, *, is_signed: bool = False) -> str:
    """Return both ends of an interval as text: `+0.48 to +0.72`."""
    ends = [rounded(end, unit, is_signed=is_signed) for end in (low, high)]
    return " to ".join(ends)


def shown_over_seeds(
    values: Sequence[float], unit: str | int, *, is_signed: bool = False
) -> tuple[str, str]:
    """Return two texts: the mean, and half of its 95 % t-interval. For fewer than three seeds,
    return the values and "".

    The mean of a count, such as a number of updates, does not get an interval. `values` are in the
    order of their seeds. If `values` is empty, mean and interval are "".
    """
    if not values:
        return "", ""
    summary = summarise_seeds(values)
    # The t-interval of two seeds would be 9 standard deviations to either side, so the values are
    # shown. A count is the same for all seeds, and is shown once.
    if summary.num_seeds < MIN_SEEDS_OF_INTERVAL:
        texts = [rounded(value, unit, is_signed=is_signed) for value in values]
        return ", ".join(dict.fromkeys(texts) if unit in COUNT_METRICS else texts), ""
    mean = rounded(summary.mean, unit, is_signed=is_signed)
    if summary.half_width is None or unit in COUNT_METRICS:
        return mean, ""
    return mean, f"{PLUS_MINUS} {rounded(summary.half_width, unit)}"


def over_seeds(values: Sequence[float], unit: str | int, *, is_signed: bool = False) -> str:
    """Return the mean over seeds with half of its interval as one text: `27.31 +- 0.42`."""
    return " ".join(filter(None, shown_over_seeds(values, unit, is_signed=is_signed)))
