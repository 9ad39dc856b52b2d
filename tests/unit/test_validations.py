"""What a training's log says of its validations, line by line."""

from pathlib import Path

from analysis.logs.curves import common_target, read_validations, updates_to_reach

PREFIX = "2026-11-21 18:09:19 | INFO | "


def write_log(path: Path, *lines: str) -> Path:
    """Write a log of these lines."""
    path.write_text("".join(f"{PREFIX}{line}\n" for line in lines), encoding="utf-8")
    return path


def valid(update: int, ppl: str) -> str:
    """Return fairseq's line of a validation."""
    return f'valid | {{"epoch": 1, "valid_loss": "8.0", "valid_ppl": "{ppl}", "valid_num_updates": "{update}"}}'


def test_only_validations_count_in_the_order_of_updates(tmp_path: Path) -> None:
    training = 'train_inner | {"epoch": 1, "ppl": "1.00", "num_updates": "30"}'
    log_path = write_log(tmp_path / "train.log", valid(20, "9.5"), training, valid(40, "4.25"))
    assert read_validations(log_path) == {20: 9.5, 40: 4.25}


def test_a_resumed_trainings_later_measurement_counts(tmp_path: Path) -> None:
    log_path = write_log(tmp_path / "train.log", valid(20, "9.5"), valid(40, "5.0"), valid(40, "4.0"))
    assert read_validations(log_path) == {20: 9.5, 40: 4.0}


def test_torn_lines_and_diverged_values_are_passed_over(tmp_path: Path) -> None:
    torn = valid(40, "5.0")[:30]
    log_path = write_log(
        tmp_path / "train.log", valid(20, "9.5"), torn, valid(60, "nan"), valid(80, "inf"), "valid | 3"
    )
    assert read_validations(log_path) == {20: 9.5}


def test_without_a_log_there_is_nothing(tmp_path: Path) -> None:
    assert read_validations(tmp_path / "train.log") == {}


def test_a_target_is_reached_at_the_first_validation_that_is_as_good() -> None:
    ppl_by_update = {60: 3.0, 20: 9.0, 40: 4.0, 80: 3.5}
    assert [updates_to_reach(ppl_by_update, target) for target in (9.0, 4.0, 3.4, 2.9)] == [20, 40, 60, None]


def test_the_common_target_is_the_worst_of_the_best() -> None:
    assert common_target({"fast": {20: 5.0, 40: 2.0}, "slow": {20: 9.0, 40: 4.0, 60: 4.5}}) == 4.0
    assert common_target({"fast": {20: 5.0}, "silent": {}}) is None
    assert common_target({}) is None
