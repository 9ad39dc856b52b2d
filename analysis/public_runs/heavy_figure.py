"""Draws MLPerf's public runs: BLEU by epoch, a line a system, and each run's BLEU at the last epoch of all runs."""

import statistics
from collections.abc import Iterator, Sequence

import altair as alt
import pandas as pd

from analysis.figures.heavy_registry import Drawable
from analysis.public_runs.mlperf import TARGET_BLEU, PublicTraining
from analysis.public_runs.shipped import by_system, read_public_runs, values_at_common_epoch
from analysis.public_runs.table import NOT_COMPARABLE
from paper_tables.render.figure import FAINT, PALETTE, WIDTH, Figure

COLUMNS = ("round", "submitter", "system", "label", "batch", "run", "epoch", "bleu", "is_common", "sd")
LABEL_WIDTH, SD_WIDTH, ROW_HEIGHT, CURVE_HEIGHT = 150, 26, 12, 150
PLOT_WIDTH = WIDTH - LABEL_WIDTH + 30
LOWEST_DRAWN = 14.0  # BLEU: first epochs of large batches lie below, near 0
LARGE_TOKENS, LARGE_SEQUENCES = 600_000, 2_048
BATCHES = ("tokens, up to 163,840", "tokens, 614,400 or more", "sequences, 512", "sequences, 2,048")


def batch_group(batch: int, unit: str) -> str:
    """Return which of the batches a run has: what decides after how many epochs it ends."""
    is_tokens = unit != "sequences"
    return BATCHES[(0 if is_tokens else 2) + (batch >= (LARGE_TOKENS if is_tokens else LARGE_SEQUENCES))]


def public_runs_frame(read: Sequence[PublicTraining] = ()) -> pd.DataFrame:
    """Return a line an evaluation, of the runs that were `read` and the shipped ones.

    `is_common`: at the last epoch that all runs of its system have; `sd` is that of the system there.
    """
    lines: list[tuple[object, ...]] = []
    for trainings, suffix in ((read, ", read"), (read_public_runs(), "")):
        for (round_name, submitter, system), group in by_system(trainings).items():
            common = values_at_common_epoch(group)
            epoch, values = common or (None, [])
            sd = statistics.stdev(values) if len(values) > 1 else None
            short = system.partition("_ngc")[0].removesuffix("_pytorch")
            label = f"{round_name} {submitter} {short}{suffix}"
            run = group[0].run
            head = (round_name, submitter, system, label, batch_group(run.batch, run.batch_unit))
            lines += [
                (*head, one.run, one.epoch, one.bleu, one.epoch == epoch, sd)
                for training in group
                for one in training.evaluations
            ]
    return pd.DataFrame(lines, columns=list(COLUMNS))


def draw_public_runs(frame: pd.DataFrame) -> alt.VConcatChart:
    """Return means by epoch, as far as all runs of a system go, above the values at the last of these epochs."""
    last = frame[frame["is_common"]].groupby("label")["epoch"].first()
    whole = frame[frame["epoch"] <= frame["label"].map(last)]
    means = whole.groupby(["label", "batch", "epoch"], sort=False, as_index=False)["bleu"].mean()
    colour = alt.Color(
        "batch:N", scale=alt.Scale(domain=list(BATCHES), range=list(PALETTE[: len(BATCHES)])), sort=list(BATCHES),
        legend=alt.Legend(title="batch of an update", columns=2, symbolType="stroke", symbolOpacity=1.0),
    )  # fmt: skip
    target = pd.DataFrame({"bleu": [TARGET_BLEU]})
    y = alt.Y("bleu:Q", title=None, scale=alt.Scale(domain=[LOWEST_DRAWN, 26.0], nice=False))
    epochs = alt.X("epoch:Q", title="epoch", axis=alt.Axis(tickMinStep=1, grid=False, format="d"))
    curves = (
        alt.Chart(means).mark_line(clip=True, opacity=0.7, strokeWidth=1.3).encode(epochs, y, colour, detail="label:N")
    )
    rule = alt.Chart(target).mark_rule(strokeDash=[3, 3], opacity=FAINT, aria=False).encode(y)
    title = "BLEU (uncased), mean over runs, until the first run stops"
    top = alt.layer(rule, curves).properties(width=PLOT_WIDTH + SD_WIDTH, height=CURVE_HEIGHT, title=title)
    common = frame[frame["is_common"]]
    order = list(dict.fromkeys(common["label"]))
    axis = alt.Axis(domain=False, ticks=False, grid=False, labelFontSize=9, labelLimit=LABEL_WIDTH,
                    minExtent=LABEL_WIDTH, maxExtent=LABEL_WIDTH)  # fmt: skip
    rows = alt.Y("label:N", sort=order, title=None, axis=axis)
    low, high = float(common["bleu"].min()), float(common["bleu"].max())
    at = alt.X(
        "bleu:Q",
        title="BLEU (uncased) at that epoch",
        scale=alt.Scale(domain=[low - 0.2, high + 0.2], nice=False, zero=False),
    )
    tooltip = ["label:N", "run:N", "epoch:Q", alt.Tooltip("bleu:Q", format=".2f"), alt.Tooltip("sd:Q", format=".2f")]
    dots = (
        alt.Chart(common)
        .mark_point(filled=True, size=22, opacity=0.6, aria=False)
        .encode(at, rows, colour, tooltip=tooltip)
    )
    vertical = alt.Chart(target).mark_rule(strokeDash=[3, 3], opacity=FAINT, aria=False).encode(at)
    sds = common.drop_duplicates("label").dropna(subset=["sd"])
    words = alt.Chart(sds).mark_text(align="right", fontSize=9).encode(
        rows, x=alt.value(PLOT_WIDTH + SD_WIDTH), text=alt.Text("sd:Q", format=".2f")
    )  # fmt: skip
    bottom = alt.layer(vertical, dots, words).properties(
        width=PLOT_WIDTH,
        height=alt.Step(ROW_HEIGHT),
        title="Each run at the last epoch that all have; right: sd over seeds",
    )
    return alt.vconcat(top, bottom, spacing=12)


def describe_public_runs(frame: pd.DataFrame) -> str:
    """Return the number of runs and systems, and how far seeds lie apart."""
    sds = frame[frame["is_common"]].drop_duplicates("label").set_index("label")["sd"].dropna()
    words = [f"BLEU by epoch of {frame['run'].nunique()} runs of {frame['label'].nunique()} systems."]
    if len(sds):
        words.append(
            f"At the last epoch that all runs of a system have, the sd over seeds is {sds.min():.2f} ({sds.idxmin()}) "
            f"to {sds.max():.2f} ({sds.idxmax()}), {sds.median():.2f} in the middle."
        )
    return " ".join(words)


def figures_of_scale(*_of_scale: object) -> Iterator[Drawable]:
    """Yield the figure of the shipped runs, as it stands on the page of every scale."""
    yield PUBLIC_RUNS, public_runs_frame


PUBLIC_RUNS = Figure(
    name="public_runs",
    title="Public runs at the paper's scale (MLPerf)",
    caption=f"How much seeds vary at WMT14's scale, by the runs that MLPerf published. {NOT_COMPARABLE} A run's last "
    "value is selected by that stop, so the spread is taken at the last epoch that all runs of a system have. Means "
    f"below {LOWEST_DRAWN:g} are cut off.",
    draw=draw_public_runs,
    describe=describe_public_runs,
)
