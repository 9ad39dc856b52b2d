"""The ends of a training's log, and its validations, are read from plain and packed logs."""

import lzma
from pathlib import Path

from aiayn.runs.log import last_lines, read_validations


def test_last_lines_are_found_from_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        "".join(f"{number} {'x' * 1000}\n" for number in range(500)) + "torn", encoding="utf-8"
    )
    assert len(last_lines(path, 1000)) == 501
    for num_lines in range(1, 200):  # of several blocks; each line is whole
        lines = last_lines(path, num_lines)
        assert [line.split(" ")[0] for line in lines] == [
            *(str(number) for number in range(501 - num_lines, 500)),
            "torn",
        ]
    assert [line.split(" ")[0] for line in last_lines(path, 2)] == ["499", "torn"]
    assert last_lines(tmp_path / "no such log", 2) == []


def test_validations_come_by_update_the_later_counts_and_what_is_no_number_is_passed_over(
    tmp_path: Path,
) -> None:
    def line(update: int, bits: str) -> str:
        return (
            f'2026-01-01 10:00:00 | INFO | valid | {{"valid_nll_loss": "{bits}",'
            f' "valid_num_updates": "{update}"}}'
        )

    lines = [
        line(40, "5.0"),
        line(20, "9.5"),
        "2026-01-01 10:00:00 | INFO | train_inner | {}",
        line(40, "4.0"),
    ]
    lines += [line(60, "3.0")[:-20], line(60, "nan"), line(80, "inf"), "| valid | 3", ""]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert list(read_validations(path).items()) == [(20, 9.5), (40, 4.0)]
    assert read_validations(tmp_path / "absent.log") == {}
    packed = lzma.compress(path.read_bytes())
    (tmp_path / "packed.log.xz").write_bytes(packed)
    assert list(read_validations(tmp_path / "packed.log").items()) == [(20, 9.5), (40, 4.0)]
    (tmp_path / "torn.log.xz").write_bytes(packed[:-20])
    assert read_validations(tmp_path / "torn.log") in (
        {},
        {20: 9.5, 40: 4.0},
    )  # what could be unpacked
