"""Reads the scores of public trainings on WMT data, and computes how much BLEU and loss vary over
seeds.

`published/public_seeds.csv` has a line for each run of AlgoPerf and of MLPerf, and for each
published mean over seeds. `published/README.md` describes the file and its sources. The public
scores do not enter a verdict, because their systems and definitions differ from the paper's. The
public scores only tell how many seeds a verdict would need if our own standard deviation is
unknown.
"""

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from aiayn.errors import TableError
from aiayn.printed import PUBLISHED_FOLDER, Text, read_rows, require_unique
from aiayn.scoring.verdict import PooledSd, Verdict, fewest_seeds_to_decide, pool_sd
from paper_tables.rounding import BLEU, rounded, rounded_range

FILE_NAME = "public_seeds.csv"
ALGOPERF, MLPERF = "AlgoPerf", "MLPerf"
SOURCE_PREFIXES = {ALGOPERF: "algoperf_", MLPERF: "mlperf_"}
FULL_UPDATES = 133_333  # AlgoPerf's full length for WMT: `step_hint` in each run's meta_data_0.json
LOWEST_LEARNED_BLEU = 1.0  # a diverged run of AlgoPerf has a BLEU of 0
# A setting of AlgoPerf with fewer runs does not count.
MIN_RUNS = 3

Quantity = Literal["bits_dev", "bleu_dev", "bleu_test"]
NotStated = Literal[""]


class PublicSeed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One public training, or a published mean over `num_seeds` seeds with its standard deviation
    `bleu_sd`.

    `bits_dev` is the loss per subword on the development set in bits, without label smoothing. An
    empty value means that the source does not state it. An MLPerf run has an `epoch` but no
    `updates`.
    """

    source: Text
    task: Text
    system: Text
    setting: Text
    run: str
    seed: str
    num_seeds: int
    updates: int | NotStated
    epoch: int | NotStated
    bits_dev: float | NotStated
    bleu_dev: float | NotStated
    bleu_test: float | NotStated
    bleu_sd: float | NotStated
    definition: Text
    averaged: Literal["yes", "no", "not_stated"]

    @property
    def setting_name(self) -> str:
        """The name of the run's setting. Two runs have the same name only if they differ in nothing
        but the seed.
        """
        return f"{self.source} {self.system} {self.setting}"


class SeedNoise(NamedTuple):
    """The runs of one source that are used to compute the noise over seeds, by setting."""

    source: str
    runs_by_setting: dict[str, list[PublicSeed]]

    @property
    def num_runs(self) -> int:
        """The number of runs of this source, in all settings together."""
        return sum(map(len, self.runs_by_setting.values()))

    def pooled(self, quantity: Quantity) -> PooledSd | None:
        """Return the standard deviation of a quantity over seeds, pooled over the settings, or None
        if the source does not publish this quantity.
        """
        # Nothing here shows Bartlett's p. Without it, pooling takes a tenth of the time.
        values_by_setting = {}
        for name, runs in self.runs_by_setting.items():
            values_by_setting[name] = values_of(runs, quantity)
        return pool_sd(values_by_setting, with_bartlett=False)


def values_of(runs: Iterable[PublicSeed], quantity: Quantity) -> list[float]:
    """Return the values of a quantity of all runs that state it."""
    # The file has '' where a source does not publish a quantity.
    return [value for run in runs if (value := getattr(run, quantity)) != ""]


# Each verdict without an sd of ours reads this file, which does not change while a command runs.
@functools.cache
def read_public_seeds(folder: Path = PUBLISHED_FOLDER) -> tuple[PublicSeed, ...]:
    """Return the lines of public_seeds.csv, in their order.

    Raises:
        TableError: public_seeds.csv is malformed, a run occurs twice, or a run has several seeds.
    """
    placed = read_rows(folder / FILE_NAME, PublicSeed)
    # A run that was listed twice would make the pooled sd too small.
    require_unique((location, (line.setting_name, line.run)) for location, line in placed)
    for location, line in placed:
        # The sd of a single run does not exist, and a mean without an sd does not say how much
        # seeds vary.
        if (line.num_seeds == 1) == (line.bleu_sd != ""):
            raise TableError(
                f"{location}: num_seeds {line.num_seeds} with bleu_sd {line.bleu_sd!r}; expected a"
                " run of 1 seed without a bleu_sd, or a mean over several seeds with it; collect"
                " the file again"
            )
    return tuple(line for _, line in placed)


def seed_noise(source: str) -> SeedNoise:
    """Return the runs of AlgoPerf or of MLPerf that are used to compute the noise over seeds, by
    setting.

    All runs of MLPerf count. A run of AlgoPerf counts if it ended at exactly FULL_UPDATES updates
    and if the model learned. A run that stopped earlier, at a target or at the time limit, does not
    count, because its score depends on when it stopped. A setting of AlgoPerf counts if it has
    MIN_RUNS runs that count. The conditions for which runs and settings count were written after
    the scores had been seen.
    """
    runs_by_setting: dict[str, list[PublicSeed]] = {}
    for line in read_public_seeds():
        if line.source.startswith(SOURCE_PREFIXES[source]) and (
            source == MLPERF or _is_whole(line)
        ):
            runs_by_setting.setdefault(line.setting_name, []).append(line)
    # MLPerf's values are of the last epoch that all runs of a system have, so the stop at a target
    # did not select any run.
    min_runs = MIN_RUNS if source == ALGOPERF else 1
    return SeedNoise(
        source, {name: runs for name, runs in runs_by_setting.items() if len(runs) >= min_runs}
    )


def _is_whole(run: PublicSeed) -> bool:
    """Return whether a run of AlgoPerf had its full number of updates and learned."""
    # A run that stopped at the target has fewer updates, and some settings were trained for longer.
    # A run that diverged has a BLEU of 0.
    return (
        run.updates == FULL_UPDATES and run.bleu_test != "" and run.bleu_test > LOWEST_LEARNED_BLEU
    )


def published_means() -> list[PublicSeed]:
    """Return the published means over several seeds, for which the scores of single runs were not
    published.
    """
    return [line for line in read_public_seeds() if line.num_seeds > 1]


def seeds_by_public_noise(verdict: Verdict) -> str:
    """Return a text that says how many seeds would decide a verdict with the sd over seeds of
    MLPerf and with the sd of AlgoPerf.

    Return "" if the verdict uses an sd over our own seeds, or if our number is not compared with
    the paper's.
    """
    if verdict.pooled is not None or verdict.difference is None:
        return ""
    # The sources differ in systems and direction, so both are shown and neither is preferred.
    texts = []
    for source, direction in ((MLPERF, "En-De"), (ALGOPERF, "De-En")):
        pooled = seed_noise(source).pooled("bleu_test")
        if pooled is not None:
            number = fewest_seeds_to_decide(verdict.difference, verdict.num_seeds, pooled)
            texts.append(
                f"{number or 'no number'} at {source}'s sd {rounded(pooled.sd, BLEU)} ({direction})"
            )
    return ", ".join(texts)


def noise_sentence() -> str:
    """Return a sentence that says how much scores vary over seeds in public trainings, to be cited
    next to verdicts.
    """
    # This sentence is built from the data, so that it cannot disagree with the file.
    mlperf, algoperf = (seed_noise(source) for source in (MLPERF, ALGOPERF))
    translated, learned = mlperf.pooled("bleu_test"), algoperf.pooled("bleu_test")
    if translated is None or learned is None:
        return ""
    return (
        "Seed noise of public trainings on WMT17's text, newstest2014: MLPerf's"
        f" {mlperf.num_runs} En-De runs of {translated.num_systems} systems have a pooled sd of"
        f" {rounded(translated.sd, BLEU)} BLEU ({_range_words(translated)};"
        " uncased, each system at the last epoch that all its runs have), AlgoPerf's"
        f" {algoperf.num_runs} De-En runs of {learned.num_systems} settings"
        f" {rounded(learned.sd, BLEU)} ({_range_words(learned)}; sacreBLEU,"
        f" {FULL_UPDATES:,} updates). Other systems and definitions than the paper's: they enter no"
        " verdict. Source: mlcommons/training_results_v0.5 to v0.7,"
        " mlcommons/submissions_algorithms (published/public_seeds.csv)."
    )


def _range_words(pooled: PooledSd) -> str:
    return rounded_range(pooled.smallest_sd, pooled.largest_sd, BLEU)
