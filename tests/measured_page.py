"""Makes the parts of README.md and docs/measured.md that follow from the shipped pack of Multi30k.

    python -m tests.measured_page

writes them between their marks, `<!-- measured: NAME -->` and `<!-- /measured -->`. A test holds pages and pack
together.
"""

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from aiayn.paths import CellKey
from aiayn.records import TrainRecord
from aiayn.scoring.scores import BITS_METRIC
from aiayn.spec.system import CHECKOUT, CONFIG_FOLDER
from analysis.conclusions.contrasts import DECIDED, Call, SeedRun, draw_contrast, measure_spread, reach_of
from analysis.conclusions.rates import read_rate_probes
from analysis.conclusions.scale_contrasts import Contrasts, PrintedContrast, draw_contrasts
from paper_tables.frame import Frame
from paper_tables.layout import SACRE_METRIC, format_value
from paper_tables.make_frame import make_frame
from paper_tables.scale_results import TRAIN_SPLIT, ScaleResults, gather_from_records

PACK = Path("paper_tables/measured/multi30k")
PAGES = ("README.md", "docs/measured.md")
BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n)(.*?)(<!-- /measured -->\n)", re.DOTALL)
NOT_MEASURED = "Not measured yet"


def pages_of(pack: Path, config_folder: Path = CONFIG_FOLDER) -> dict[str, str]:
    """Return each page as it should be: with what follows from a pack between its marks."""
    results = gather_from_records(pack.name, [pack.parent], config_folder).results
    frame = make_frame(results)
    blocks = {part.__name__: part(frame) for part in (picture, effects, rates, runs)}
    blocks["answer"] = answer(frame, parameters_a_token(results))
    texts = {name: (CHECKOUT / name).read_text(encoding="utf-8") for name in PAGES}
    return {name: BLOCK.sub(lambda m: m[1] + blocks[m[2]] + m[4], text) for name, text in texts.items()}


def picture(frame: Frame) -> str:
    """Return README's picture, the forest in bits with two lines below it; a line of text as long as no row is in."""
    answers = draw_contrasts(frame).by_answer
    if not any(one.ours for some in answers.values() for one in some):
        return "As soon as rows of Table 3 are trained, a picture of their effects stands here.\n"
    always = ("Held", "Reversed", "Undecided")
    counts = ", ".join(f"{len(some)} {name.lower()}" for name, some in answers.items()
                       if name in always or (some and name != "Still moving"))  # fmt: skip
    return (
        f'<img src="{PACK}/figures/forest_bits.svg" width="400" alt="Table 3, printed and ours">'
        f"<br>\nOf 15 conclusions from Table 3, on 29,000 pairs: {counts}.<br>\n"
        "Bits a subword; left is better. A diamond is printed, a filled mark of ours decided, a bar its 95 % interval."
        "\n"
    )


def answer(frame: Frame, ratio: float | None) -> str:
    """Return, a line each, which contrasts have which answer, and by what spread."""
    drawn = draw_contrasts(frame)
    numbers = f"{sum(run.train is not None for run in frame.runs)} of {len(frame.runs)} trainings are in."
    lines = [f"{numbers} Of the 15 contrasts, by the plain rule and, in brackets, after Holm's correction:", ""]
    corrected = [one.ours.corrected for one in drawn.primary if one.ours]
    by_holm = {"Held": corrected.count(Call.HOLDS), "Reversed": corrected.count(Call.REVERSED)}
    for name, some in drawn.by_answer.items():
        number = f"{len(some)} ({by_holm[name]})" if name in by_holm else f"{len(some)}"
        told = f": {named(some, with_seeds=name == 'Undecided')}." if some and name != NOT_MEASURED else "."
        lines.append(f"* **{name}: {number}**{told}")
    spread = next((s for (_, metric), s in drawn.spread_by_place.items() if metric == BITS_METRIC), None)
    pooled = None if spread is None else spread.started or spread.everything
    if pooled is not None:
        lines.append(
            f"* Pooled over all systems, the sd of seeds is {pooled.sd:.3f} bits (df {pooled.degrees_of_freedom})."
        )
        lines.append(by_base_alone(drawn))
    if ratio is not None:
        lines.append(
            f"* Base has {ratio:.1f} parameters for each target token of its training text, the paper's about 0.5:\n"
            "  where bigger is not better here, the text may be too small for it."
        )
    return "\n".join(lines) + "\n"


def by_base_alone(drawn: Contrasts) -> str:
    """Return a line on what would be undecided if the sd were that of base's own seeds, which the rule pools."""
    left: list[PrintedContrast] = []
    controls: list[SeedRun] = []
    for one in drawn.primary:
        if one.ours is None or one.row is None or one.control is None or one.conclusion is None:
            continue
        runs, controls = (
            [SeedRun(value=value) for value in number.value_by_seed.values()] for number in (one.row, one.control)
        )
        alone = draw_contrast(
            one.conclusion.relation, runs, controls, measure_spread({"base": controls}), is_in_bits=True
        )
        left += [one] if one.ours.call in DECIDED and alone.call not in DECIDED else []
    pooled = measure_spread({"base": controls}).everything
    if pooled is None:
        return "* Base's own sd is not known."
    reach, names = reach_of(pooled, 2, len(controls)), named(left, with_seeds=False) or "none"
    return (
        f"* Base's own sd is {pooled.sd:.3f} (df {pooled.degrees_of_freedom}). By it alone two seeds of a row reach "
        f"{reach:.3f}, and these would be undecided:\n  {names}."
    )


def named(contrasts: Iterable[PrintedContrast], *, with_seeds: bool) -> str:
    """Return the statements of contrasts, each with what it takes to decide it if that is asked and known."""
    words = []
    for one in contrasts:
        seeds = one.ours.num_seeds_to_decide if one.ours and with_seeds else None
        statement = one.conclusion.statement if one.conclusion else one.name
        words.append(f"{statement} ({seeds} seeds would decide)" if seeds else statement)
    return "; ".join(words)


def parameters_a_token(results: ScaleResults) -> float | None:
    """Return base's parameters for each target token of the training text; None without both."""
    corpus = results.experiment.scale.en_de_corpus
    trains = [train for key, train in sorted(results.train_by_key.items()) if key[:2] == (corpus, "base")]
    binarized = results.binarized_by_corpus.get(corpus)
    if not trains or binarized is None:
        return None
    return trains[0].num_parameters / binarized.num_tokens_by_split_by_language[TRAIN_SPLIT][binarized.target_language]


def effects(frame: Frame) -> str:
    """Return a row for each primary contrast: printed, ours, its answer, what weakens it, and what others found."""
    rows = []
    for one in draw_contrasts(frame).primary:
        ours, found = one.ours, one.elsewhere
        shown, interval, calls = "", "", ("not measured yet", "")
        moved = seeds = ""
        if ours is not None:
            shown = f"{ours.difference:+.3f}"
            interval = "" if ours.interval is None else " to ".join(f"{end:+.3f}" for end in ours.interval)
            flags = (
                ("still moving", ours.is_moving), ("late", ours.num_late > 0),
                ("at this rate", one.is_of_rate),
                (f"{ours.num_unstarted} of {ours.num_seeds}", ours.num_unstarted > 0),
            )  # fmt: skip
            calls = (", ".join([str(ours.call), *(word for word, is_so in flags if is_so)]), str(ours.corrected or ""))
            moved = ", ".join("" if effect is None else f"{effect:+.3f}" for effect in ours.effects)
            seeds = str(ours.num_seeds_to_decide or "")
        statement = one.conclusion.statement if one.conclusion else one.name
        elsewhere = f"{found.finding} ({found.source})" if found else ""
        rows.append((statement, f"{one.printed_effect:+.3f}", shown, interval, *calls, moved, seeds, elsewhere))
    return table(
        ("conclusion", "printed", "ours", "95 %", "call", "by Holm", "at 60, 80, 100 %", "seeds that would decide",
         "elsewhere"),
        rows,
    )  # fmt: skip


def rates(frame: Frame) -> str:
    """Return base's bits at each rate that was probed, and each probed row's with its difference; or a sentence."""
    probes = read_rate_probes(frame.scale)
    drawn = [(one, one.at_rates) for one in draw_contrasts(frame).primary if one.at_rates]
    if probes is None or not drawn:
        return "No probe at another rate is in yet.\n"
    _, first = drawn[0]
    times = sorted(first.control)
    rows: list[tuple[str, ...]] = [("base", *(f"{first.control[one]:.3f}" for one in times), "", "")]
    for contrast, at_rates in drawn:
        both = at_rates.by_times_peak
        cells = (f"{at_rates.row[one]:.3f} ({both[one]:+.3f})" if one in both else "" for one in times)
        sign = "at this rate" if contrast.is_of_rate else "the same"
        rows.append((contrast.row_name, *cells, f"{at_rates.at_best:+.3f}", sign))
    head = (f"bits after {probes.updates:,} updates (minus base)", *(f"at {one:g} x the peak" for one in times))
    return table((*head, "each at its best", "sign"), rows)


def runs(frame: Frame) -> str:
    """Return a row for each system: its values in order of seed, and the hours taken, and planned if one was."""
    rows = []
    has_plan = any(run.train and run.train.prediction for run in frame.runs)
    for (corpus, system), asked in frame.runs_by_system.items():
        trains = [run.train for run in asked if run.train]
        keys = [key for key in frame.keys if (key.corpus, key.system) == (corpus, system)]
        dev, test = (next((key for key in keys if key.role == role), None) for role in ("dev", "test"))

        def values(key: CellKey | None, *metrics: str) -> str:
            numbers = [frame.numbers[key, metric] for metric in metrics if key]
            shown = next((number for number in numbers if number.values), None)
            return ", ".join(format_value(value, metrics[0]) for _, value in shown.values) if shown else ""

        if trains:
            rows.append((
                f"{corpus} {system}", ", ".join(str(train.seed) for train in trains), values(dev, BITS_METRIC),
                values(dev, SACRE_METRIC), values(test, SACRE_METRIC, "bleu_as_given"),
                *([planned_hours(trains)] if has_plan else []),
                ", ".join(f"{train.wall_seconds / 3600:.2f}" for train in trains),
            ))  # fmt: skip
    taken = math.fsum(run.train.wall_seconds for run in frame.runs if run.train) / 3600
    head = ("system", "seeds", "val, bits a subword", "val, BLEU (13a)", "test, BLEU (13a), averaged",
            *(["hours planned"] if has_plan else []), "hours taken")  # fmt: skip
    return table(head, rows) + f"\n{taken:.1f} hours in all.\n"


def planned_hours(trains: Iterable[TrainRecord]) -> str:
    """Return the hours that trainings were planned to take; a dash where no plan is recorded."""
    return ", ".join(f"{train.prediction.hours:.2f}" if train.prediction else "-" for train in trains)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


if __name__ == "__main__":
    for name, text in pages_of(CHECKOUT / PACK).items():
        (CHECKOUT / name).write_text(text, encoding="utf-8", newline="\n")
        print(name)
