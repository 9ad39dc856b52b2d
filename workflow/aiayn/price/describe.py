"""Describes a system from its file alone: spec, differences, parameters, operations, hours, command line.

Pure: no model is built, nothing is trained, no run is looked at.
"""

from typing import Any

import msgspec

from aiayn.cost import training_flops
from aiayn.errors import ConfigError, UsageError, did_you_mean
from aiayn.plan.machine import machine_of_gpus
from aiayn.plan.prediction import predict_speed
from aiayn.price.data import plan_corpus
from aiayn.price.plan import Row, predict_row
from aiayn.printed import PAPER_SCALE
from aiayn.spec.hardware import NUM_PAPER_GPUS, PAPER_GPU, read_hardware
from aiayn.spec.system import (
    CONFIG_FOLDER,
    SCALES,
    Overrides,
    SystemSpec,
    overridden,
    read_corpus,
    read_scale,
    read_system,
)
from aiayn.spec.training import DecodingSpec, TrainingSpec
from aiayn.train.fairseq_args import TrainingData, train_flags

FOREIGN_ARCHITECTURES = ("lstm", "fconv")
# Keys that these ignore.
UNREAD_KEYS = (
    "num_heads", "d_k", "d_v", "norm_order", "norm", "norm_epsilon", "attention", "attention_biases", "positions",
    "embeddings", "initialisation", "p_drop_attention", "p_drop_ffn",
)  # fmt: skip
# Table 2's training cost and section 5.2's time, by our name of the system; the cost is one cell for both languages.
PRINTED_COST_BY_SYSTEM = {"base": ("3.3e18", 12.0), "big": ("2.3e19", 84.0), "big_enfr": ("2.3e19", 84.0)}
PAPER_ROW_PREFIX = "table3_"  # other systems are not the paper's: readings by others, or other architectures
STAYING_DIFFERENCES = (
    "the decoder starts from </s>; tensor2tensor's starts from a vector of zeros",
    "no target-space embedding (32 x d_model), which tensor2tensor v1.0.4 adds to the encoder's input",
)
FAIRSEQ_TRAIN = "fairseq-train"
DATA_FOLDER, SAVE_FOLDER = "DATA_BIN", "CHECKPOINTS"  # placeholders in the command line
SEED = 1


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A key whose value is another than the same key's in the system that it is compared with."""

    key: str
    value: Any
    other: Any


class SystemDescription(msgspec.Struct, frozen=True, kw_only=True):
    """All that a system's file says or decides, apart from data.

    `paper_system` is the paper's own system that it is compared with. `unread_keys` change nothing, whatever they say,
    as the architecture does not read them. `predicted` is one training on the paper's 8 P100; `estimated_flops` is its
    cost as Table 2 estimates it, time x GPUs x `flops_per_second`, the rate that footnote 5 gives for a GPU.
    `command` is empty if fairseq cannot train the system; `refusal` says why.
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
    predicted: Row
    flops_per_second: float
    estimated_flops: float | None
    printed_hours: float | None
    printed_flops: str | None
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
    lists = read_scale(CONFIG_FOLDER / f"{scale}.yaml")
    is_french = name in lists.en_fr_systems and name not in lists.en_de_systems  # of both, the En-De corpus
    corpus = read_corpus(lists.en_fr_corpus if is_french else lists.en_de_corpus)
    if vocabulary_size is None and corpus.subword is None:
        raise UsageError(f"corpus {corpus.name} names no vocabulary size; give one with --vocabulary-size")
    is_joint = corpus.subword is None or corpus.subword.joint
    planned = msgspec.structs.replace(plan_corpus(corpus, scale), is_joint=is_joint)
    if vocabulary_size is not None:
        sizes = {"source_vocabulary_size": vocabulary_size, "vocabulary_size": vocabulary_size}
        planned = msgspec.structs.replace(planned, **sizes)
    machine = machine_of_gpus(PAPER_GPU, "section 5.2", NUM_PAPER_GPUS, 1, read_hardware(), "the paper's own")
    no_precision, size = machine.precision_refusal(system.training.precision), planned.vocabulary_size
    speed = None if no_precision else predict_speed(system.training, size, machine, system=name)
    predicted = predict_row(name, system.training, planned, [SEED], machine, speed, no_precision)
    rate = machine.rate_by_precision["fp32"].value
    data = TrainingData(
        folder=DATA_FOLDER, source_language=corpus.source_language, target_language=corpus.target_language,
        is_joint=is_joint,
    )  # fmt: skip
    command, refusal = [FAIRSEQ_TRAIN], ""
    try:
        command += train_flags(system.training, data, seed=SEED, save_folder=SAVE_FOLDER, device="cuda")
    except ConfigError as error:
        command, refusal = [], str(error)
    printed = PRINTED_COST_BY_SYSTEM.get(name) if scale == PAPER_SCALE else None
    architecture = system.training.architecture
    is_foreign = architecture in FOREIGN_ARCHITECTURES
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
        staying_differences=[f"the architecture is fairseq's {architecture}, not the paper's"]
        if is_foreign
        else list(STAYING_DIFFERENCES),
        unread_keys=list(UNREAD_KEYS) if is_foreign else [],
        vocabulary_size=planned.vocabulary_size,
        vocabulary_source=f"as {corpus.name} has it" if vocabulary_size is None else "by --vocabulary-size",
        is_joint=is_joint,
        predicted=predicted,
        flops_per_second=rate,
        estimated_flops=training_flops(predicted.hours * 3600 * NUM_PAPER_GPUS, rate) if speed else None,
        printed_hours=printed[1] if printed else None,
        printed_flops=printed[0] if printed else None,
        command=command,
        refusal=refusal,
    )


def differences(system: SystemSpec, other: SystemSpec) -> list[Difference]:
    """Return the keys of training, then of decoding, with another value than the other system's."""
    values, others = (
        msgspec.structs.asdict(spec.training) | msgspec.structs.asdict(spec.decoding) for spec in (system, other)
    )
    return [
        Difference(key=key, value=value, other=others[key]) for key, value in values.items() if value != others[key]
    ]


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
