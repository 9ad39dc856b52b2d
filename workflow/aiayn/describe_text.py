"""Renders a system's description for a terminal: aligned, at most 100 columns wide but for long paths."""

import itertools
import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from aiayn.cost import SOURCE_TOKENS_PER_SENTENCE
from aiayn.describe import PAPER_SCALE, Difference, SystemDescription
from aiayn.hardware import NUM_PAPER_GPUS, PAPER_GPU
from aiayn.terminal import WIDTH, table, wrapped

INDENT = "  "
NUM_COLUMNS = 2
UNREAD, DIFFERENT = "-", "*"


def render_description(found: SystemDescription) -> str:
    """Return the whole description, each line ended by LF."""
    title = f"{found.name}, scale {found.scale}: {found.description}"
    lines = [title, "=" * len(title), "", *_difference_lines(found)]
    for part, spec in (("Training", found.training), ("Decoding", found.decoding)):
        lines += ["", part, *_spec_lines(msgspec.structs.asdict(spec), found)]
    lines += [*_legend(found), "", *_size_lines(found), "", *_cost_lines(found)]
    lines += ["", "Unlike the paper's in any case", *(INDENT + text for text in found.staying_differences)]
    return "\n".join([*lines, "", *_command_lines(found)]) + "\n"


def format_setting(value: Any) -> str:
    """Return a value as a system's file writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):  # YAML reads 1e-9 as text
        mantissa, mark, exponent = repr(value).partition("e")
        return f"{mantissa}{'' if '.' in mantissa else '.0'}e{int(exponent)}" if mark else mantissa
    return f"{value:,}" if isinstance(value, int) else str(value)


def _difference_lines(found: SystemDescription) -> list[str]:
    """Return what the system changes, and what it has unlike the paper's, each as an aligned block."""
    lines = []
    if found.scale == PAPER_SCALE and found.inherits == found.paper_system:
        heading = f"Unlike {found.inherits}, the paper's, which it inherits from"
        return _differences_of(heading, found.differences_from_paper)
    if found.inherits:
        heading = f"Unlike {found.inherits}, which it inherits from"
        lines += [*_differences_of(heading, found.differences_from_inherited), ""]
    if found.name == found.paper_system and found.scale == PAPER_SCALE and not found.differences_from_paper:
        return [*lines, "Unlike the paper's: nothing, this is the paper's own"]
    return lines + _differences_of(f"Unlike the paper's {found.paper_system}", found.differences_from_paper)


def _differences_of(heading: str, differences: Sequence[Difference]) -> list[str]:
    if not differences:
        return [f"{heading}: nothing"]
    rows = [(one.key, format_setting(one.value), f"instead of {format_setting(one.other)}") for one in differences]
    return [heading, *table(rows, indent=INDENT)]


def _spec_lines(values: dict[str, Any], found: SystemDescription) -> list[str]:
    """Return keys and values in columns to be read downwards, each with its mark before it."""
    different = {one.key for one in found.differences_from_inherited}
    marks = {key: UNREAD if key in found.unread_keys else DIFFERENT if key in different else " " for key in values}
    entries = [(f"{marks[key]} {key}", format_setting(value)) for key, value in values.items()]
    height = -(-len(entries) // NUM_COLUMNS)
    columns = [entries[start : start + height] for start in range(0, len(entries), height)]
    rows = itertools.zip_longest(*columns, fillvalue=("", ""))
    return table([(*first, "", *second) for first, second in rows])


def _legend(found: SystemDescription) -> list[str]:
    """Return what the marks before keys mean, for those that are there."""
    lines = []
    if found.differences_from_inherited:
        lines.append(f"{DIFFERENT} unlike {found.inherits}")
    if found.unread_keys:
        lines.append(f"{UNREAD} not read by architecture {found.training.architecture}: changes nothing")
    return ["", *lines] if lines else []


def _size_lines(found: SystemDescription) -> list[str]:
    dictionaries = "one vocabulary" if found.is_joint else "either vocabulary"
    rows = [
        ("V", f"{found.vocabulary_size:,}", f"entries of {dictionaries}, {found.vocabulary_source}"),
        ("parameters", f"{found.num_parameters:,}", f"{found.num_parameters / 1e6:.2f} x 10^6"),
        ("operations a target token", _power_of_ten(found.flops_per_token, 2),
         f"forward and backward, sentences of {SOURCE_TOKENS_PER_SENTENCE:g} tokens"),
    ]  # fmt: skip
    return ["Size", *table(rows, right=[1], indent=INDENT)]


def _cost_lines(found: SystemDescription) -> list[str]:
    cost, training = found.cost, found.training
    rate = f"{cost.sustained_flops_per_second / 1e12:g} TFLOP/s"
    rows = [
        ("operations counted", _power_of_ten(cost.counted_flops),
         f"{training.updates:,} updates of {cost.target_tokens_per_update:,} target tokens, every batch full"),
    ]  # fmt: skip
    if cost.hours is None or cost.estimated_flops is None or cost.utilisation_fraction is None:
        rows.append(("time", "-", f"a {PAPER_GPU} has no {training.precision}; `aiayn plan` says it for others"))
    else:
        rows += [
            ("time", _time(cost.hours),
             f"at {cost.utilisation_fraction:.0%} of {rate} ({cost.utilisation_source})"),
            ("cost as Table 2 counts it", _power_of_ten(cost.estimated_flops),
             f"time x {NUM_PAPER_GPUS} GPUs x {rate}"),
        ]  # fmt: skip
    if cost.printed_hours is not None and cost.printed_flops is not None:
        rows += [
            ("the paper's time", _time(cost.printed_hours), "section 5.2"),
            ("the paper's cost", cost.printed_flops, "Table 2, one cell for both languages"),
        ]
    return [
        f"Whole training on the paper's {NUM_PAPER_GPUS} {PAPER_GPU}, predicted",
        *table(rows, right=[1], indent=INDENT),
    ]


def _power_of_ten(value: float, decimals: int = 1) -> str:
    """Return a cost as the paper prints it: 3.3e18."""
    mantissa, exponent = f"{value:.{decimals}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _time(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * 3600:.2g} s"


def _command_lines(found: SystemDescription) -> list[str]:
    """Return the command line, to be pasted: a flag and its value never part."""
    if not found.command:
        return ["No fairseq-train command line", *wrapped(found.refusal, INDENT)]
    groups: list[list[str]] = []
    for word in found.command:
        if word.startswith("--") or len(groups) <= 1:
            groups.append([])
        groups[-1].append(word)
    lines = [""]
    for group in groups:
        text = shlex.join(group)
        if len(lines[-1]) + 1 + len(text) > WIDTH - len(" \\") and lines[-1]:
            lines.append(INDENT)
        lines[-1] += text if not lines[-1].strip() else f" {text}"
    return ["Command line on one GPU (`aiayn train` gives fairseq the same)", " \\\n".join(lines)]
