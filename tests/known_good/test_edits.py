"""Clean logs with an edit (edits.toml): its numbers are set apart, and the other logs still fill."""

from pathlib import Path
from typing import Any

import pytest

from tests.known_good.folders import EDITS, edited_texts, filled, judge, problems_of
from tests.logs.factory import write

LOGS = {"first.log", "second.log", "generation.log", "ours/train.log"}


def filling_logs(numbers: dict[str, list[str]]) -> set[str]:
    """Return the logs whose perplexity or BLEU fills a row."""
    return {name for name, found in numbers.items() if {"ppl_per_subword", "bleu"} & set(found)}


def test_the_clean_folder_fills(tmp_path: Path) -> None:
    judged = judge(write(tmp_path, edited_texts({"changes": []})))
    assert filling_logs(filled(judged)) == LOGS


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit["name"])
def test_an_edit_sets_its_numbers_apart(edit: dict[str, Any], tmp_path: Path) -> None:
    judged = judge(write(tmp_path, edited_texts(edit)))
    assert filling_logs(filled(judged)) == LOGS - set(edit["apart"])
    assert edit["problem"] in problems_of(judged, edit["apart"][0])
