"""Describes a system from its file alone: spec, differences, parameters, operations, hours, command line.

Pure: no model is built, nothing is trained, no run is looked at.
"""

import itertools
import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from aiayn.cost import (
    SOURCE_TOKENS_PER_SENTENCE,
    flops_per_token,
    full_batch_flops,
    num_parameters,
    target_tokens_per_full_update,
    training_flops,
)
from aiayn.errors import ConfigError, UsageError, did_you_mean
from aiayn.plan.machine import machine_of_gpus
from aiayn.plan.prediction import predict_speed
from aiayn.spec.hardware import NUM_PAPER_GPUS, PAPER_GPU, read_hardware
from aiayn.spec.system import (
    CONFIG_FOLDER,
    SCALES,
    CorpusSpec,
    Overrides,
    SystemSpec,
    overridden,
    read_corpus,
    read_scale,
    read_system,
)
from aiayn.spec.training import UNREAD_KEYS_BY_ARCHITECTURE, DecodingSpec, TrainingSpec
from aiayn.terminal import WIDTH, table, wrapped
from aiayn.train.fairseq_args import TrainingData, train_flags

PAPER_SCALE = "paper"

# Table 2's training cost and section 5.2's time, by our name of the system; the cost is one cell for both languages.
PRINTED_COST_BY_SYSTEM = {"base": ("3.3e18", 12.0), "big": ("2.3e19", 84.0), "big_enfr": ("2.3e19", 84.0)}
PAPER_ROW_PREFIX = "table3_"  # other systems are not the paper's: readings by others, or other architectures
STAYING_DIFFERENCES = (
    "the decoder starts from </s>; tensor2tensor's starts from a vector of zeros",
    "no target-space embedding (32 x d_model), which tensor2tensor v1.0.4 adds to the encoder's input",
)
FOREIGN_ARCHITECTURE = "the architecture is fairseq's {architecture}, not the paper's"
FAIRSEQ_TRAIN = "fairseq-train"
DATA_FOLDER, SAVE_FOLDER = "DATA_BIN", "CHECKPOINTS"  # placeholders in the command line
SEED = 1
INDENT = "  "
NUM_COLUMNS = 2
UNREAD, DIFFERENT = "-", "*"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A key whose value is another than the same key's in the system that it is compared with."""

    key: str
    value: Any
    other: Any


class PredictedCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the whole training costs on the paper's 8 P100, predicted: every batch full, `utilisation_fraction` reached.

    `counted_flops` are the operations of the training itself; `estimated_flops` is Table 2's estimate, the time of all
    GPUs at the rate that footnote 5 gives for one, which is what `printed_flops` is. Where a P100 does not have the
    precision, `refusal` says so, and what is predicted is None.
    """

    target_tokens_per_update: int
    counted_flops: float
    sustained_flops_per_second: float
    utilisation_fraction: float | None
    utilisation_source: str
    hours: float | None
    estimated_flops: float | None
    refusal: str
    printed_hours: float | None
    printed_flops: str | None


class SystemDescription(msgspec.Struct, frozen=True, kw_only=True):
    """All that a system's file says or decides, apart from data.

    `paper_system` is the paper's own system that it is compared with. `unread_keys` change nothing, whatever they say,
    as the architecture does not read them. `command` is empty if fairseq cannot train the system; `refusal` says why.
    """

    name: str
    scale: str
    description: str
    inherits: str | None
    training: TrainingSpec
    decoding: DecodingSpec
    differences_from_inherited: list[Difference]
    paper_system: str
    differences_from_paper: list[Difference]
    staying_differences: list[str]
    unread_keys: list[str]
    vocabulary_size: int
    vocabulary_source: str
    is_joint: bool
    num_parameters: int
    flops_per_token: float
    cost: PredictedCost
    command: list[str]
    refusal: str


def describe_system(
    name: str,
    scale: str = PAPER_SCALE,
    *,
    vocabulary_size: int | None = None,
    overrides: Overrides | None = None,
) -> SystemDescription:
    """Return what a system of a scale is and costs; without `vocabulary_size`, with that of its corpus's file.

    What `overrides` sets stands for its file's, and for that of the system that it inherits from: a scale sets it for
    both. The paper's own is compared as it is.

    Raises:
        UsageError: if the scale has no such system (the nearest name is given), or the vocabulary has no entry.
        ConfigError: with file and line, if a config file is wrong.
    """
    if vocabulary_size is not None and vocabulary_size < 1:
        raise UsageError(f"--vocabulary-size {vocabulary_size}: expected the number of entries, 1 or more")
    _check_known(name, scale)
    overrides = overrides or Overrides()
    system = overridden(read_system(name, scale), overrides)
    inherited = overridden(read_system(system.inherits, scale), overrides) if system.inherits else None
    paper = paper_counterpart(name)
    corpus = _corpus_of(name, scale)
    size, source = _vocabulary(corpus, vocabulary_size)
    is_joint = corpus.subword is None or corpus.subword.joint
    command, refusal = _command(system, corpus, is_joint=is_joint)
    return SystemDescription(
        name=name,
        scale=scale,
        description=system.description,
        inherits=system.inherits,
        training=system.training,
        decoding=system.decoding,
        differences_from_inherited=differences(system, inherited) if inherited else [],
        paper_system=paper.name,
        differences_from_paper=differences(system, paper),
        staying_differences=_staying_differences(system.training),
        unread_keys=list(UNREAD_KEYS_BY_ARCHITECTURE[system.training.architecture]),
        vocabulary_size=size,
        vocabulary_source=source,
        is_joint=is_joint,
        num_parameters=num_parameters(system.training, size, is_joint),
        flops_per_token=flops_per_token(system.training, size),
        cost=_cost(system, scale, size),
        command=command,
        refusal=refusal,
    )


def differences(system: SystemSpec, other: SystemSpec) -> list[Difference]:
    """Return the keys of training, then of decoding, with another value than the other system's."""
    found = []
    for part in ("training", "decoding"):
        values, others = (msgspec.structs.asdict(getattr(one, part)) for one in (system, other))
        found += [
            Difference(key=key, value=value, other=others[key]) for key, value in values.items() if value != others[key]
        ]
    return found


def paper_counterpart(name: str) -> SystemSpec:
    """Return the paper's own system of that name if Table 2 or 3 has one, else the paper's base."""
    is_printed = name in PRINTED_COST_BY_SYSTEM or name.startswith(PAPER_ROW_PREFIX)
    has_file = name in system_names(PAPER_SCALE)
    return read_system(name if is_printed and has_file else "base", PAPER_SCALE)


def system_names(scale: str) -> list[str]:
    """Return the names of all systems of a scale."""
    return sorted(path.stem for path in (CONFIG_FOLDER / "systems" / scale).glob("*.yaml"))


def _check_known(name: str, scale: str) -> None:
    if scale not in SCALES:
        raise UsageError(f"--scale {scale}: expected one of {', '.join(SCALES)}")
    known = system_names(scale)
    if name in known:
        return
    elsewhere = [other for other in SCALES if other != scale and name in system_names(other)]
    hint = did_you_mean(name, known, f"expected one of {', '.join(known)}")
    if elsewhere:
        hint = f"but scale {elsewhere[0]} has: add `--scale {elsewhere[0]}`"
    raise UsageError(f"scale {scale} has no system {name!r}; {hint}")


def _corpus_of(name: str, scale: str) -> CorpusSpec:
    """Return the corpus that a system is trained on at a scale: the En-Fr one only if no other is asked for."""
    spec = read_scale(CONFIG_FOLDER / f"{scale}.yaml")
    is_french = name in spec.en_fr_systems and name not in spec.en_de_systems
    return read_corpus(spec.en_fr_corpus if is_french else spec.en_de_corpus)


def _vocabulary(corpus: CorpusSpec, vocabulary_size: int | None) -> tuple[int, str]:
    """Return the number of entries and where it comes from.

    Raises:
        UsageError: if the corpus comes in pieces, so that its file names no size.
    """
    if vocabulary_size is not None:
        return vocabulary_size, "as asked for"
    if corpus.subword is None:
        raise UsageError(f"corpus {corpus.name} names no vocabulary size; give one with --vocabulary-size")
    return corpus.subword.vocabulary_size, f"as {corpus.name} has it"


def _staying_differences(training: TrainingSpec) -> list[str]:
    """Return how a system differs from the paper's beyond any key of its file."""
    if training.architecture in ("lstm", "fconv"):
        return [FOREIGN_ARCHITECTURE.format(architecture=training.architecture)]
    return list(STAYING_DIFFERENCES)


def _cost(system: SystemSpec, scale: str, vocabulary_size: int) -> PredictedCost:
    machine = machine_of_gpus(PAPER_GPU, "section 5.2", NUM_PAPER_GPUS, 1, read_hardware(), "the paper's own")
    rate = machine.rate_by_precision["fp32"].value  # footnote 5: single precision
    training = system.training
    refusal = machine.precision_refusal(training.precision)
    speed = None if refusal else predict_speed(training, vocabulary_size, machine, system=system.name)
    printed = PRINTED_COST_BY_SYSTEM.get(system.name) if scale == PAPER_SCALE else None
    return PredictedCost(
        target_tokens_per_update=target_tokens_per_full_update(training),
        counted_flops=full_batch_flops(training, vocabulary_size),
        sustained_flops_per_second=rate,
        utilisation_fraction=speed.utilisation_fraction if speed else None,
        utilisation_source=speed.utilisation.fraction.source if speed else "",
        hours=speed.hours if speed else None,
        estimated_flops=training_flops(speed.hours * 3600 * NUM_PAPER_GPUS, rate) if speed else None,
        refusal=refusal,
        printed_hours=printed[1] if printed else None,
        printed_flops=printed[0] if printed else None,
    )


def _command(system: SystemSpec, corpus: CorpusSpec, *, is_joint: bool) -> tuple[list[str], str]:
    """Return the command line of fairseq-train on one GPU; or nothing, and why fairseq cannot train the system."""
    data = TrainingData(
        folder=DATA_FOLDER,
        source_language=corpus.source_language,
        target_language=corpus.target_language,
        is_joint=is_joint,
    )
    try:
        flags = train_flags(system.training, data, seed=SEED, save_folder=SAVE_FOLDER, device="cuda")
    except ConfigError as error:
        return [], str(error)
    return [FAIRSEQ_TRAIN, *flags], ""


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
