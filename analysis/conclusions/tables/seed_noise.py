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
    """A line of the table, as it is shown: a source, a setting of it, or a published mean."""

    source: str
    task: str
    setting: str
    num_runs: int
    degrees_of_freedom: int
    sd_bits: str
    sd_bleu: str
    definition: str
    averaged: str


def lay_out_seed_noise(frame: Frame) -> Table:
    """Return a line for each source, AlgoPerf's settings, and published means; none are ours."""
    fields: tuple[Field[NoiseLine], ...] = (
        label_field("source", "source", lambda line: line.source),
        label_field("task", "task", lambda line: line.task),
        label_field("setting", "system and setting", lambda line: line.setting),
        printed_field("runs", "runs", lambda line: str(line.num_runs)),
        printed_field("df", "df", lambda line: str(line.degrees_of_freedom)),
        printed_field("sd_bits", "sd, bits a subword", lambda line: line.sd_bits),
        printed_field("sd_bleu", "sd, BLEU", lambda line: line.sd_bleu),
        label_field("definition", "definition of BLEU", lambda line: line.definition),
        label_field("averaged", "checkpoints", lambda line: line.averaged),
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
    """Return the lines of the table, in their order."""
    lines = []
    for source in (ALGOPERF, MLPERF):
        noise = seed_noise(source)
        lines.append(_source_line(noise))
        if source == ALGOPERF:
            lines += itertools.starmap(_setting_line, noise.runs_by_setting.items())
    return [*lines, *map(_mean_line, published_means())]


def _source_line(noise: SeedNoise) -> NoiseLine:
    """Return the line that pools all settings of a source."""
    bits, bleu = noise.pooled("bits_dev"), noise.pooled("bleu_test")
    first = next(iter(noise.runs_by_setting.values()))[0]
    return NoiseLine(
        source=noise.source,
        task=first.task,
        setting=f"all {len(noise.runs_by_setting)} settings",
        num_runs=noise.num_runs,
        degrees_of_freedom=bleu.degrees_of_freedom if bleu else 0,
        sd_bits=_with_range(bits, NOISE_DECIMALS),
        sd_bleu=_with_range(bleu, BLEU_DECIMALS),
        definition=first.definition,
        averaged=AVERAGED_WORDS[first.averaged],
    )


def _setting_line(name: str, runs: list[PublicSeed]) -> NoiseLine:
    """Return the line of one setting of AlgoPerf, whose runs differ in the seed only."""
    noise = SeedNoise(ALGOPERF, {name: runs})
    bits, bleu = noise.pooled("bits_dev"), noise.pooled("bleu_test")
    first = runs[0]
    return NoiseLine(
        source=ALGOPERF,
        task=first.task,
        setting=f"{first.system}, {first.setting}",
        num_runs=len(runs),
        degrees_of_freedom=len(runs) - 1,
        sd_bits=_sd_words(bits, NOISE_DECIMALS),
        sd_bleu=_sd_words(bleu, BLEU_DECIMALS),
        definition=first.definition,
        averaged=AVERAGED_WORDS[first.averaged],
    )


def _mean_line(mean: PublicSeed) -> NoiseLine:
    """Return the line of a mean over seeds that was published without its runs."""
    return NoiseLine(
        source=mean.source,
        task=mean.task,
        setting=f"{mean.system}, {mean.setting}",
        num_runs=mean.num_seeds,
        degrees_of_freedom=mean.num_seeds - 1,
        sd_bits="",
        sd_bleu=f"{mean.bleu_sd:.{BLEU_DECIMALS}f}",
        definition=mean.definition,
        averaged=AVERAGED_WORDS[mean.averaged],
    )


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
