"""Makes the parts of README.md and docs/measured.md that follow from the shipped pack of Multi30k.

    python -m tests.measured_page

writes them between their marks, `<!-- measured: NAME -->` and `<!-- /measured -->`. A test holds
pages and pack together.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from aiayn.packed import find_packed, open_unpacked
from aiayn.paths import CellKey
from aiayn.records import CheckpointRecord, read_record
from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.verdict import reaches
from aiayn.spec.system import CHECKOUT, CONFIG_FOLDER
from analysis.conclusions.answers import Answer
from analysis.conclusions.contrasts import Call, Contrast
from analysis.conclusions.horizon import (
    CONFIRMATORY_SEEDS,
    HORIZON_UPDATES,
    PREDICTED_BITS,
    HorizonContrast,
    compare_at_horizon,
    long_runs,
)
from analysis.conclusions.one_run import bits_noises, bleu_noises, printed_differences
from analysis.conclusions.rates import read_rate_probes
from analysis.conclusions.readings import Reading
from analysis.conclusions.scale_contrasts import (
    NOT_MEASURED,
    Contrasts,
    PrintedContrast,
    draw_contrasts,
)
from analysis.conclusions.scale_readings import BLEU_METRIC
from paper_tables.frame import Frame, Numbers, Run, group_runs
from paper_tables.layout import SACRE_METRIC, format_value
from paper_tables.make_frame import make_frame
from paper_tables.scale_results import TRAIN_SPLIT, ScaleResults, gather_from_records

PACK = Path("paper_tables/measured/multi30k")
PAGES = ("README.md", "docs/measured.md")
BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n)(.*?)(<!-- /measured -->\n)", re.DOTALL)
SHORT_WORDS = 3
ROW = re.compile(r"table3_[a-e]_([a-z_]+?)(\d+)")
SYMBOL_BY_WORD = {"h": "h", "dk": "d_k", "n": "N", "dmodel": "d_model", "dff": "d_ff"}
NAME_BY_ROW = {
    "table3_d_pdrop0": "no dropout", "table3_d_els0": "no smoothing", "table3_e_learned": "learned positions",
    "table3_d_pdrop02": "P_drop 0.2", "table3_d_els02": "eps_ls 0.2", "big": "big",
}  # fmt: skip
IN_EVERY_READING = "as printed in every reading below"
IN_BITS = "as printed in bits, not in every BLEU"
FRAGILE = "as printed, not in every reading in bits"


def pages_of(pack: Path, config_folder: Path = CONFIG_FOLDER) -> dict[str, str]:
    """Return each page as it should be: with what follows from a pack between its marks."""
    results = gather_from_records(pack.name, [pack.parent], config_folder).results
    frame = make_frame(results)
    drawn = draw_contrasts(frame)
    blocks = {
        "picture": picture(frame, drawn),
        "answer": answer(drawn),
        "noise": noise(frame, drawn, parameters_a_token(results)),
        "effects": effects(drawn),
        "readings": readings(drawn),
        "horizon": horizon(frame),
        "rates": rates(frame, drawn),
        "runs": runs(frame),
        "anomalies": anomalies(frame, drawn, pack),
        "one_run": one_run(),
    }
    texts = {name: (CHECKOUT / name).read_text(encoding="utf-8") for name in PAGES}
    return {
        name: BLOCK.sub(lambda m: m[1] + blocks[m[2]] + m[4], text) for name, text in texts.items()
    }


def picture(frame: Frame, drawn: Contrasts) -> str:
    """Return README's picture, the forest in bits, with two lines below it; a sentence as long as
    no row is in.
    """
    if not any(contrast.ours for contrast in drawn.primary):
        return "As soon as rows of Table 3 are trained, a picture of their effects appears here.\n"
    counts = ", ".join(f"{len(some)} {name}" for name, some in drawn.by_answer.items() if some)
    updates = frame.system_by_name["base"].training.updates
    return (
        f'<img src="{PACK}/figures/forest_bits.svg" width="400" alt="Table 3, printed and'
        f' ours"><br>\nSmall scale, {updates:,} updates, bits: {counts}. BLEU:'
        f" {bleu_count(drawn)}.<br>\nLeft is better. Diamond: printed; filled: as printed; hollow:"
        " includes 0; triangle: differs.\n"
    )


def bleu_count(drawn: Contrasts) -> str:
    """Return how many of the primary contrasts hold in BLEU on dev, in the paper's direction."""
    rows = {contrast.row_name for contrast in drawn.primary}
    calls = [
        contrast.ours.call
        for contrast in drawn.contrasts
        if contrast.metric == BLEU_METRIC
        and contrast.table == 3
        and contrast.row_name in rows
        and contrast.ours
    ]
    return f"{calls.count(Call.HOLDS)} hold"


def short_name(row: str) -> str:
    """Return a row's name for narrow tables: `h 1`, `d_model 256`, `no dropout`."""
    match = ROW.fullmatch(row)
    if row in NAME_BY_ROW or match is None or match[1] not in SYMBOL_BY_WORD:
        return NAME_BY_ROW.get(row, row)
    return f"{SYMBOL_BY_WORD[match[1]]} {match[2]}"


def answer(drawn: Contrasts) -> str:
    """Return the first screen: the contrasts by answer, in bits and in BLEU, those as printed by
    what they survive.
    """
    groups: dict[str, list[PrintedContrast]] = {IN_EVERY_READING: [], IN_BITS: [], FRAGILE: []}
    for name, some in drawn.by_answer.items():
        if name != Answer.AS_PRINTED:
            groups[name] = some
            continue
        for contrast in some:
            group = IN_BITS if contrast.differing else IN_EVERY_READING
            if any(not reading.startswith("BLEU") for reading in contrast.differing):
                group = FRAGILE
            groups[group].append(contrast)
    bleu = {
        contrast.row_name: contrast.ours
        for contrast in drawn.contrasts
        if contrast.metric == BLEU_METRIC and contrast.table == 3
    }
    rows = []
    for name, some in groups.items():
        if not some or name == NOT_MEASURED:
            continue
        ordered = sorted(
            some, key=lambda contrast: -abs(contrast.ours.difference if contrast.ours else 0.0)
        )
        bits = [
            f"{short_name(one.row_name)} {one.ours.difference:+.2f}{_aside(one, name)}"
            for one in ordered
            if one.ours
        ]
        bleus = [
            f"{ours.difference:+.1f}"
            for one in ordered
            if (ours := bleu.get(one.row_name)) is not None
        ]
        rows.append((name, ", ".join(bits), ", ".join(bleus)))
    head = (
        "answer",
        f"row minus base, bits a subword{_reach(drawn, BITS_METRIC)}",
        f"BLEU on dev{_reach(drawn, BLEU_METRIC)}",
    )
    calls = Counter(contrast.ours.call for contrast in drawn.primary if contrast.ours)
    corrected = Counter(contrast.ours.corrected for contrast in drawn.primary if contrast.ours)
    lines = [
        f"By the rule of decision 0009: {calls[Call.HOLDS]} hold, {calls[Call.REVERSED]} reversed,"
        f" {calls[Call.TOO_CLOSE]} too close to call; after Holm's correction"
        f" {corrected[Call.HOLDS]} hold."
    ]
    for contrast in drawn.primary:
        if contrast.ours and contrast.ours.effect_at_control_updates is not None:
            effect = contrast.ours.effect_at_control_updates
            lines.append(
                f"After base's number of updates {short_name(contrast.row_name)} has {effect:+.2f}."
            )
    return table(head, rows) + "\n" + " ".join(lines) + "\n"


def _aside(contrast: PrintedContrast, group: str) -> str:
    """Return in brackets what a reader must know: the printed effect if it is another, few seeds, a
    moving effect.
    """
    words = (
        []
        if group in (IN_EVERY_READING, IN_BITS, FRAGILE)
        else [f"printed {contrast.printed_effect:+.2f}"]
    )
    words += ["1 seed"] if contrast.ours and contrast.ours.num_compared == 1 else []
    words += ["moving"] if contrast.is_moving else []
    return f" ({', '.join(words)})" if words else ""


def _reach(drawn: Contrasts, metric: str) -> str:
    """Return the reach of most rows in a metric; '' if it is not known."""
    reached = [
        contrast.ours.reach
        for contrast in drawn.contrasts
        if contrast.metric == metric
        and contrast.table == 3
        and contrast.ours
        and contrast.ours.reach
    ]
    if not reached:
        return ""
    decimals = 3 if metric == BITS_METRIC else 1
    return f", +- {statistics.median_low(reached):.{decimals}f}"


def noise(frame: Frame, drawn: Contrasts, ratio: float | None) -> str:
    """Return the numbers that the page's reasons and limits rest on, a line each."""
    spread = next(
        (s for (_, metric), s in drawn.spread_by_place.items() if metric == BITS_METRIC), None
    )
    pooled = None if spread is None else spread.started or spread.everything
    finished = sum(run.train is not None for run in (*frame.runs, *frame.later_runs))
    lines = [f"* {finished} of {len(frame.runs) + len(frame.later_runs)} trainings are in."]
    if pooled is not None:
        lines.append(
            f"* The sd over seeds, pooled, is {pooled.sd:.4f} bits (df"
            f" {pooled.degrees_of_freedom})."
        )
        scatter = _scatter_over_texts(frame, drawn)
        number = next((one.ours for one in drawn.primary if one.ours), None)
        if scatter is not None and number is not None:
            error = pooled.sd * math.sqrt(
                1 / number.num_compared + 1 / number.num_compared_controls
            )
            both = reaches(math.hypot(error, scatter), pooled.degrees_of_freedom)[1]
            lines.append(
                f"* Over dev and both test sets an effect scatters by {scatter:.3f} bits: seeds and"
                f" sentences together reach {both:.3f}."
            )
    slope = _fall_of_base(frame)
    if slope is not None:
        lines.append(
            f"* Base itself still falls by {slope:.3f} bits in the last fifth of its updates."
        )
    moving = [short_name(contrast.row_name) for contrast in drawn.primary if contrast.is_moving]
    lines.append(
        "* Still moving, by the slopes of the last 40 % of the updates:"
        f" {', '.join(moving) or 'none'}."
    )
    if ratio is not None:
        lines.append(
            f"* Base has {ratio:.1f} parameters for each target token of its text; the paper's"
            " about 0.5."
        )
    return "\n".join(lines) + "\n"


def _scatter_over_texts(frame: Frame, drawn: Contrasts) -> float | None:
    """Return the sd of an effect over dev and the further test sets, each in units of base's bits
    on dev.
    """
    if drawn.readings is None:
        return None
    control = next(
        number for contrast in drawn.primary if contrast.answered for number in contrast.numbers[1:]
    )
    bits_by_testset = {
        key.testset: statistics.mean(number.value_by_seed.values())
        for (key, metric), number in frame.numbers.items()
        if (key.system, key.average, metric)
        == (control.key.system, control.key.average, BITS_METRIC)
        and number.values
    }
    further = [reading for reading in drawn.readings.readings if reading.kind == "text"]
    variances = []
    for contrast in drawn.primary:
        if contrast.answered is None or not further:
            continue
        effects_on_texts = [contrast.answered.estimate.difference]
        for reading in further:
            unit = (
                bits_by_testset[control.key.testset]
                / bits_by_testset[drawn.readings.place_by_name[reading.name][0]]
            )
            effects_on_texts.append(
                reading.estimate_by_row[contrast.numbers[0].key.system].difference * unit
            )
        variances.append(statistics.variance(effects_on_texts))
    return math.sqrt(statistics.mean(variances)) if variances else None


def _fall_of_base(frame: Frame) -> float | None:
    """Return by how much base falls over the last fifth of its updates, mean over seeds; None
    without logs.
    """
    falls = []
    for run in frame.runs_by_system.get((frame.corpus_by_pair["en-de"], "base"), []):
        updates = run.train.updates if run.train else 0
        ends = [run.bits_by_update.get(update) for update in (round(0.8 * updates), updates)]
        if None not in ends:
            falls.append(ends[0] - ends[1])  # type: ignore[operator]
    return statistics.mean(falls) if falls else None


def parameters_a_token(results: ScaleResults) -> float | None:
    """Return base's parameters for each target token of the training text; None without both."""
    corpus = results.experiment.scale.en_de_corpus
    trains = [
        train for key, train in sorted(results.train_by_key.items()) if key[:2] == (corpus, "base")
    ]
    binarized = results.binarized_by_corpus.get(corpus)
    if not trains or binarized is None:
        return None
    return (
        trains[0].num_parameters
        / binarized.num_tokens_by_split_by_language[TRAIN_SPLIT][binarized.target_language]
    )


def effects(drawn: Contrasts) -> str:
    """Return a row for each primary contrast: printed, ours, answer, p-values, margins and
    differing readings.
    """
    rows = []
    for contrast in drawn.primary:
        ours, own = contrast.ours, contrast.answered
        cells = ["", "", "", "", "", ""]
        if ours is not None:
            cells[0] = f"{ours.difference:+.3f}"
            cells[1] = str(ours.call)
            cells[4] = ", ".join(
                "" if effect is None else f"{effect:+.2f}" for effect in ours.effects
            )
        if own is not None:
            cells[1] = f"{own.answer}{', moving' if contrast.is_moving else ''}"
            cells[2] = f"{own.holm_difference:.2g}; {own.holm_within:.2g}"
            if own.is_within_margin:
                cells[3] = f"{own.smallest_margin:.3f}; {own.corrected_smallest_margin:.3f}"
            cells[5] = ", ".join(map(_short_reading, contrast.differing))
        rows.append((short_name(contrast.row_name), f"{contrast.printed_effect:+.3f}", *cells))
    head = (
        "row",
        "printed",
        "ours",
        "answer",
        "p by Holm: difference; within 0.05",
        "smallest margin: plain; for 15",
        "at 60, 80, 100 %",
        "other readings",
    )
    return table(head, rows)


def _short_reading(name: str) -> str:
    """Return a reading's name for narrow tables."""
    short = (
        name.replace("test_", "")
        .replace("_flickr", "")
        .replace(" of the updates", "")
        .replace("BLEU on ", "BLEU ")
    )
    return short.replace("Welch with Holm", "Welch-Holm")


def readings(drawn: Contrasts) -> str:
    """Return a line for each reading: its reach, and the contrasts with another direction. Left-out
    seeds share one.
    """
    if drawn.readings is None:
        return "No contrast is answered yet.\n"
    rows, agreeing = [], []
    left_out = [
        reading for reading in drawn.readings.readings if reading.name.startswith("without ")
    ]
    for reading in drawn.readings.readings:
        if reading in left_out[1:]:
            continue
        together = left_out if reading in left_out else [reading]
        names = {one.name for one in together}
        others = [
            short_name(contrast.row_name)
            for contrast in drawn.primary
            if names & {*contrast.differing}
        ]
        name = (
            f"a seed of base left out, {len(left_out)} ways"
            if reading in left_out
            else _short_reading(reading.name)
        )
        if others:
            rows.append((name, _reaches_of(together), ", ".join(others)))
        else:
            agreeing.append(f"{name} ({_reaches_of(together)})")
    text = table(("reading", "reach of a row", "another direction"), rows) if rows else ""
    return text + (
        f"\nNo contrast has another direction in these (reach): {'; '.join(agreeing)}.\n"
        if agreeing
        else ""
    )


def _reaches_of(some: Sequence[Reading]) -> str:
    """Return the reach of most rows, the least and the largest of several readings."""
    decimals = 3 if some[0].less_is_better else 2
    found = []
    for reading in some:
        reaches_of_rows = [estimate.reach for estimate in reading.estimate_by_row.values()]
        found.append(statistics.median_low(reaches_of_rows))
    return " to ".join(dict.fromkeys(f"{value:.{decimals}f}" for value in (min(found), max(found))))


def horizon(frame: Frame) -> str:
    """Return what was predicted for 16,000 updates and what came; what is missing is named."""
    found = long_runs(frame)
    rows = [_horizon_row(contrast) for contrast in compare_at_horizon(found)]
    missing = []
    for system, seeds in CONFIRMATORY_SEEDS.items():
        trained = {run.seed for run in found.get(system, [])}
        missing += [f"{short_name(system)} seed {seed}" for seed in seeds if seed not in trained]
    predicted = ", ".join(
        f"{short_name(system)} {bits:+.2f}" for system, bits in PREDICTED_BITS.items()
    )
    lines = [] if rows else [f"Predicted at {HORIZON_UPDATES:,} updates, minus base: {predicted}."]
    lines += (
        [f"Not trained to {HORIZON_UPDATES:,} updates yet: {', '.join(missing)}."]
        if missing
        else []
    )
    head = (
        "minus base, equal updates",
        "seeds",
        "predicted",
        f"at {HORIZON_UPDATES:,}",
        "95 %",
        "best validation",
    )
    text = table(head, rows) + "\n" if rows else ""
    return text + "".join(f"{line}\n" for line in lines)


def _horizon_row(contrast: HorizonContrast) -> tuple[str, ...]:
    interval = ""
    if contrast.estimate is not None:
        ends = (
            contrast.difference - contrast.estimate.reach,
            contrast.difference + contrast.estimate.reach,
        )
        interval = " to ".join(f"{end:+.3f}" for end in ends)
    return (
        f"{short_name(contrast.system)} ({contrast.kind})",
        ", ".join(str(run.seed) for run in contrast.runs),
        f"{PREDICTED_BITS[contrast.system]:+.2f}",
        f"{contrast.difference:+.3f}",
        interval,
        f"{contrast.best_difference:+.3f}",
    )


def rates(frame: Frame, drawn: Contrasts) -> str:
    """Return base's bits at each rate that was probed, and each probed row's with its difference;
    or a sentence.
    """
    probes = read_rate_probes(frame.scale)
    probed = [(contrast, contrast.at_rates) for contrast in drawn.primary if contrast.at_rates]
    if probes is None or not probed:
        return "No probe at another rate is in yet.\n"
    _, first = probed[0]
    times = sorted(first.control)
    rows: list[tuple[str, ...]] = [("base", *(f"{first.control[one]:.3f}" for one in times), "")]
    for contrast, at_rates in probed:
        both = at_rates.by_times_peak
        cells = (
            f"{at_rates.row[one]:.3f} ({both[one]:+.3f})" if one in both else "" for one in times
        )
        at_best = (
            f"{at_rates.at_best:+.3f}{', at this rate' if contrast.flips_at_best_rate else ''}"
        )
        rows.append((short_name(contrast.row_name), *cells, at_best))
    head = (
        f"bits after {probes.updates:,} updates (minus base)",
        *(f"{one:g} x the peak" for one in times),
    )
    return table((*head, "each at its best"), rows)


def runs(frame: Frame) -> str:
    """Return a row for each system: its values in order of seed, and the hours taken; later seeds
    in rows below.
    """
    rows = _rows_of_runs(frame.runs, frame.numbers, "")
    rows += _rows_of_runs(frame.later_runs, frame.later_numbers, "later: ")
    every = (*frame.runs, *frame.later_runs)
    hours = math.fsum(run.train.wall_seconds for run in every if run.train) / 3600
    return (
        table(("system", "seeds", "dev, bits", "dev, BLEU (13a)", "hours"), rows)
        + f"\n{hours:.1f} hours in all.\n"
    )


def _rows_of_runs(all_runs: Iterable[Run], numbers: Numbers, mark: str) -> list[tuple[str, ...]]:
    rows = []
    for (corpus, system), asked in group_runs(all_runs).items():
        trains = [run.train for run in asked if run.train]
        dev = next(
            (
                key
                for key, _ in numbers
                if (key.corpus, key.system, key.role) == (corpus, system, "dev")
            ),
            None,
        )
        if trains:
            rows.append(
                (
                    f"{mark}{short_name(system)}",
                    ", ".join(str(train.seed) for train in trains),
                    *(_values(numbers, dev, metric) for metric in (BITS_METRIC, SACRE_METRIC)),
                    ", ".join(f"{train.wall_seconds / 3600:.1f}" for train in trains),
                )
            )
    return rows


def _values(numbers: Numbers, key: CellKey | None, metric: str) -> str:
    """Return the values of a number in order of seed; '' without any."""
    number = None if key is None else numbers.get((key, metric))
    return (
        ""
        if number is None
        else ", ".join(format_value(value, metric) for _, value in number.values)
    )


def anomalies(frame: Frame, drawn: Contrasts, pack: Path) -> str:
    """Return why a seed of d_model 256 and big's average look odd; a sentence without their files."""
    lines = [*_short_translations(frame, pack), *_averaging(frame, drawn, pack)]
    return "\n".join(lines) + "\n" if lines else "Neither d_model 256 nor big is in.\n"


def _short_translations(frame: Frame, pack: Path) -> list[str]:
    key = frame.compared("table3_c_dmodel256")
    folder = pack / "decode" / key.corpus / key.system
    texts = {}
    for seed in (5, 6):
        path = find_packed(folder / f"seed{seed}" / key.average / f"{key.testset}.txt")
        if path is None:
            return []
        with open_unpacked(path) as lines:
            texts[seed] = [line.decode("utf-8").split() for line in lines]
    short = {}
    for seed, text in texts.items():
        short[seed] = sum(len(words) <= SHORT_WORDS for words in text)
    bleu = frame.numbers[key, BLEU_METRIC].value_by_seed
    return [
        f"* **d_model 256, seed 6**, has the bits of seed 5 and {bleu[5] - bleu[6]:.1f} BLEU less:"
        f" {short[6]} of its {len(texts[6]):,} translations have at most three words (seed 5:"
        f" {short[5]}), and {sum(not words for words in texts[6])} are empty."
    ]


def _averaging(frame: Frame, drawn: Contrasts, pack: Path) -> list[str]:
    test = frame.find("en-de", "big", "last20", "test")
    folder = pack / "average" / test.corpus / "big"
    averaged = sorted(folder.glob("seed*/last20.json"))
    path = averaged[0] if averaged else None
    last = frame.numbers.get(
        (msgspec.structs.replace(test, average="last1", role="further"), BLEU_METRIC)
    )
    averages = [
        contrast.ours
        for contrast in drawn.contrasts
        if (contrast.row_name, contrast.table) == ("big", 2)
    ]
    on_last = next(
        (
            one.by_testset.get(test.testset)
            for one in drawn.contrasts
            if (one.row_name, one.table, one.metric) == ("big", 3, BLEU_METRIC)
        ),
        None,
    )
    if path is None or last is None or averages[0] is None or on_last is None:
        return []
    updates = read_record(path, CheckpointRecord).averaged_updates
    if len(averaged) == len([*folder.glob("seed*/last1.json")]):
        gain = averages[0].difference - on_last.difference
        comparison = f": averaging helps base more, by {-gain:.2f}"
    else:  # other seeds: a difference would be of seeds, too
        names = ", ".join(name.parent.name.removeprefix("seed") for name in averaged)
        comparison = f" (of seed {names} only: the other kept five checkpoints)"
    share = (updates[-1] - updates[0]) / updates[-1]
    return [
        f"* **Big's average of 20** covers updates {updates[0]:,} to {updates[-1]:,},"
        f" {100 * share:.0f} % of its run (the paper's: 200 minutes of 3.5 days). Big minus base on"
        f" {test.testset} is {_with_reach(on_last)} BLEU by last checkpoints and"
        f" {_with_reach(averages[0])} by averages{comparison}."
    ]


def one_run() -> str:
    """Return how many printed differences of Table 3 are above the reach of one run against one
    run, by noise.
    """
    differences = printed_differences()
    rows = []
    for unit, decimals, noises in (("bits", 4, bits_noises()), ("BLEU", 2, bleu_noises())):
        for noise in noises:
            sizes = [
                one.smallest_bits if unit == "bits" else one.smallest_bleu for one in differences
            ]
            counts = []
            for tests in (1, len(differences)):
                counts.append(sum(size > noise.reach(tests) for size in sizes))
            rows.append(
                (
                    f"{noise.name}, {unit}",
                    f"{noise.sd:.{decimals}f} (df {noise.degrees_of_freedom})",
                    f"{counts[0]}; {counts[1]}",
                )
            )
    head = ("seed noise of", "sd", f"distinguishable of {len(differences)}: plain; corrected")
    return table(head, rows)


def _with_reach(contrast: Contrast) -> str:
    return f"{contrast.difference:+.2f}" + (
        "" if contrast.reach is None else f" +- {contrast.reach:.2f}"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


if __name__ == "__main__":
    for name, text in pages_of(CHECKOUT / PACK).items():
        (CHECKOUT / name).write_text(text, encoding="utf-8", newline="\n")
        print(name)
