"""Curves out of logs: what each point says, and what a restart does to them."""

import math
from pathlib import Path

from analysis.figures.curves import PERPLEXITY, CurvePoint, read_curves, thin_points
from analysis.figures.heavy_curves import Curve, curve_frame

ARGUMENTS = (
    "{'_name': None, 'common': {'seed': 1, 'log_format': 'json'}, 'optimization': {'lr': [1.0]},"
    " 'checkpoint': {'save_dir': 'x'}, 'model': {'_name': 'aiayn_transformer'}, 'criterion':"
    " {'_name': 'c'}}"
)


def inner(minute: int, update: int, loss: float | str = 4.0, speed: float = 1000.0) -> str:
    """Return a line of statistics within an epoch, printed some minutes after ten."""
    return (
        f'2026-01-01 10:{minute:02}:00 | INFO | train_inner | {{"epoch": 1, "update": 0.1, "loss":'
        f' "{loss}", "nll_loss": "{loss}", "wps": "{speed}", "num_updates": "{update}", "lr":'
        f' "{update / 1000}", "wall": "1"}}'
    )


def valid(minute: int, update: int, nll_bits: float | str = 3.0) -> str:
    """Return the line of a validation."""
    return (
        f'2026-01-01 10:{minute:02}:00 | INFO | valid | {{"epoch": 1, "valid_loss": "4.0",'
        f' "valid_nll_loss": "{nll_bits}", "valid_num_updates": "{update}"}}'
    )


def start(minute: int, resumed_update: int | None = None) -> list[str]:
    """Return the first lines of a start."""
    lines = [f"2026-01-01 10:{minute:02}:00 | INFO | fairseq_cli.train | {ARGUMENTS}"]
    if resumed_update is not None:
        text = f"Loaded checkpoint x/full.pt (epoch 1 @ {resumed_update} updates)"
        lines.append(f"2026-01-01 10:{minute:02}:00 | INFO | fairseq.trainer | {text}")
    return lines


def points_of(folder: Path, lines: list[str]) -> list[CurvePoint]:
    """Write a log of one training and return its points."""
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    curves = read_curves(path)
    assert len(curves) == 1
    return curves[0][1]


def of(points: list[CurvePoint], measure: str) -> dict[int, float]:
    """Return the values of a measure by update."""
    return {point.update: point.value for point in points if point.measure == measure}


def test_each_line_gives_its_numbers_at_its_update(tmp_path: Path) -> None:
    points = points_of(
        tmp_path, [*start(0), inner(6, 10), valid(12, 10), inner(30, 20, 3.5, 2000.0)]
    )
    assert of(points, "loss_bits") == {10: 4.0, 20: 3.5}
    assert of(points, "learning_rate") == {10: 0.01, 20: 0.02}
    assert of(points, "target_tokens_per_second") == {10: 1000.0, 20: 2000.0}
    assert of(points, PERPLEXITY) == {10: 8.0}  # 2 to 3 bits


def test_a_restart_replaces_what_it_does_again(tmp_path: Path) -> None:
    lines = [*start(0), inner(6, 10, 4.0), inner(12, 20, 3.0), inner(18, 30, 9.0)]
    lines += [*start(40, resumed_update=20), inner(46, 30, 2.5), inner(52, 40, 2.0)]
    points = points_of(tmp_path, lines)
    losses = [(point.update, point.value) for point in points if point.measure == "loss_bits"]
    assert losses == [(10, 4.0), (20, 3.0), (30, 2.5), (40, 2.0)]


def test_losses_that_are_no_numbers_stay_points(tmp_path: Path) -> None:
    points = points_of(
        tmp_path, [*start(0), inner(1, 10), inner(2, 20, "nan"), valid(3, 20, "inf")]
    )
    assert math.isnan(of(points, "loss_bits")[20])
    assert math.isnan(of(points, PERPLEXITY)[20])


def test_spans_are_averaged_and_values_that_are_no_numbers_kept() -> None:
    points = [CurvePoint("loss_bits", update, update) for update in range(1, 9)]
    diverged = CurvePoint("loss_bits", 7, math.inf)
    thinned = thin_points([*points, diverged], 4)
    means = [(point.update, point.value) for point in thinned if point != diverged]
    assert means == [(4, 2.5), (8, 6.5)]
    assert diverged in thinned


def test_long_trainings_are_thinned_alike_and_short_ones_are_whole() -> None:
    points = [CurvePoint("loss_bits", update, 1.0) for update in range(1, 10_001)]
    frame = curve_frame([Curve("a", "s", 1, points), Curve("b", "s", 2, points)])
    assert frame.groupby("run").size().to_dict() == {"a": 200, "b": 200}
    assert set(frame[frame["run"] == "a"]["update"]) == set(frame[frame["run"] == "b"]["update"])
    assert len(curve_frame([Curve("a", "s", 1, points[:150])])) == 150
