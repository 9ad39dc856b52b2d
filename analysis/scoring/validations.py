"""Reads the validations of a training from its log: perplexity by update, and the update that reaches a target.

fairseq measures perplexity on the dev set (its split `valid`) some twenty times in a training, without dropout or label
smoothing; the lines of its JSON log outlive the training's checkpoints.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path

_MARK = "| valid | "


def read_validations(log_path: Path) -> dict[int, float]:
    """Return perplexity a subword on the dev set by update, in rising order; empty without a log.

    Where a resumed training did updates twice, the later measurement counts; torn lines and values
    that are no number (a diverged training) are skipped.
    """
    if not log_path.is_file():
        return {}
    ppl_by_update: dict[int, float] = {}
    with log_path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            _, is_validation, statistics = line.partition(_MARK)
            if is_validation:
                try:
                    values = json.loads(statistics)
                    ppl_by_update[int(values["valid_num_updates"])] = float(values["valid_ppl"])
                except (ValueError, KeyError, TypeError):
                    continue
    return {update: ppl for update, ppl in sorted(ppl_by_update.items()) if math.isfinite(ppl)}


def updates_to_reach(ppl_by_update: Mapping[int, float], target: float) -> int | None:
    """Return the first validated update with a perplexity of at most `target`; None if there is none."""
    return next((update for update, ppl in sorted(ppl_by_update.items()) if ppl <= target), None)


def common_target(ppl_by_update_by_system: Mapping[str, Mapping[int, float]]) -> float | None:
    """Return the lowest perplexity that every system reached, the worst of their best ones; None if one has none."""
    if not ppl_by_update_by_system or not all(ppl_by_update_by_system.values()):
        return None
    return max(min(ppl_by_update.values()) for ppl_by_update in ppl_by_update_by_system.values())
