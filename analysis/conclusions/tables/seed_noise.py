"""Lays out how much public trainings at WMT's scale vary over seeds, by source and setting."""

import itertools
from typing import NamedTuple

from aiayn.scoring.verdict import PooledSd
from paper_tables.frame import Frame
from paper_tables.layout import (
    BITS_DECIMALS,
    BLEU_DECIMALS,
    Field,
    Note,
    Table,
    columns_of,
    label_field,
    printed_field,
    rows_of,
)
from paper_tables.public_seeds import (
    ALGOPERF,
    FULL_UPDATES,
    LOWEST_LEARNED_BLEU,
    MIN_RUNS,
    MLPERF,
    PublicSeed,
    SeedNoise,
    published_means,
    seed_noise,
)

NOISE_DECIMALS = BITS_DECIMALS + 1  # AlgoPerf's settings differ in the fourth decimal of a bit
AVERAGED_WORDS = {"yes": "averaged", "no": "one checkpoint", "not_stated": "not stated"}


class NoiseLine(NamedTuple):
    """A line of the table: a source, a setting of it, or a published mean.

    `first` is a training of the line, or the mean itself.
    """

    source: str
    first: PublicSeed
    setting: str
    num_runs: int
    degrees_of_freedom: int
    sd_bits: str
    sd_bleu: str


def lay_out_seed_noise(frame: Frame) -> Table:
    """Return a line for each source, AlgoPerf's settings, and published means; none are ours."""
    fields: tuple[Field[NoiseLine], ...] = (
        label_field("source", "source", lambda line: line.source),
        label_field("task", "task", lambda line: line.first.task),
        label_field("setting", "system and setting", lambda line: line.setting),
        printed_field("runs", "runs", lambda line: str(line.num_runs)),
        printed_field("df", "df", lambda line: str(line.degrees_of_freedom)),
        printed_field("sd_bits", "sd, bits a subword", lambda line: line.sd_bits),
        printed_field("sd_bleu", "sd, BLEU", lambda line: line.sd_bleu),
        label_field("definition", "definition of BLEU", lambda line: line.first.definition),
        label_field("averaged", "checkpoints", lambda line: AVERAGED_WORDS[line.first.averaged]),
    )
    lines = noise_lines()
    return Table(
        name="seed_noise",
        title="Seed noise at WMT's scale",
        caption=(
            "Standard deviations over seeds of public trainings. A source's first line pools its"
            " settings, with the range over settings in brackets. Bits are of the development set,"
            " BLEU of the test set."
        ),
        columns=columns_of(fields),
        rows=rows_of(fields, lines),
        summary=f"{len(lines)} standard deviations over seeds of public trainings",
        notes=(
            Note(
                f"AlgoPerf: a run counts if it ended at exactly {FULL_UPDATES:,} updates and"
                f" learned (BLEU above {LOWEST_LEARNED_BLEU:g}); a setting counts with at least"
                f" {MIN_RUNS} such runs. Runs that ended elsewhere were stopped at a target or at a"
                " time limit, so their last value was selected. This rule was written after the"
                " values had been seen.",
            ),
            Note(
                "MLPerf: each system at the last epoch that all its runs have; the loss is not"
                " published. Published means: the standard deviation as its authors print it.",
            ),
            Note(
                "Source of every line: paper_tables/published/public_seeds.csv and the README next"
                " to it.",
            ),
        ),
    )


def noise_lines() -> list[NoiseLine]:
    """Return the lines of the table: of each source all settings, then AlgoPerf's, then means."""
    lines = []
    for source in (ALGOPERF, MLPERF):
        noise = seed_noise(source)
        bits, bleu = noise.pooled("bits_dev"), noise.pooled("bleu_test")
        first, *_ = next(iter(noise.runs_by_setting.values()))
        setting = f"all {len(noise.runs_by_setting)} settings"
        degrees_of_freedom = bleu.degrees_of_freedom if bleu else 0
        sds = (_with_range(bits, NOISE_DECIMALS), _with_range(bleu, BLEU_DECIMALS))
        lines.append(NoiseLine(source, first, setting, noise.num_runs, degrees_of_freedom, *sds))
        if source == ALGOPERF:
            lines += itertools.starmap(_setting_line, noise.runs_by_setting.items())
    for mean in published_means():
        setting, sd = f"{mean.system}, {mean.setting}", f"{mean.bleu_sd:.{BLEU_DECIMALS}f}"
        lines.append(
            NoiseLine(mean.source, mean, setting, mean.num_seeds, mean.num_seeds - 1, "", sd)
        )
    return lines


def _setting_line(name: str, runs: list[PublicSeed]) -> NoiseLine:
    """Return the line of one setting of AlgoPerf, whose runs differ in the seed only."""
    noise, first = SeedNoise(ALGOPERF, {name: runs}), runs[0]
    sd_bits = _sd_words(noise.pooled("bits_dev"), NOISE_DECIMALS)
    sd_bleu = _sd_words(noise.pooled("bleu_test"), BLEU_DECIMALS)
    setting = f"{first.system}, {first.setting}"
    return NoiseLine(ALGOPERF, first, setting, len(runs), len(runs) - 1, sd_bits, sd_bleu)


def _sd_words(pooled: PooledSd | None, decimals: int) -> str:
    return f"{pooled.sd:.{decimals}f}" if pooled else ""


def _with_range(pooled: PooledSd | None, decimals: int) -> str:
    """Return a pooled standard deviation and its range over settings; "" where the quantity is not
    published.
    """
    if pooled is None:
        return ""
    low, high = f"{pooled.smallest_sd:.{decimals}f}", f"{pooled.largest_sd:.{decimals}f}"
    return f"{pooled.sd:.{decimals}f} ({low} to {high})"
