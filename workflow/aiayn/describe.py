"""Says what a system is and costs from its file alone: spec, differences, parameters, operations, hours, command line.

Pure: no model is built, nothing is trained, no run is looked at.
"""

import difflib
from pathlib import Path
from typing import Any

import msgspec

from aiayn.cost import flops_per_token, num_parameters, target_tokens_per_full_update, training_flops
from aiayn.engine.fairseq_args import TrainingData, train_flags
from aiayn.errors import ConfigError, UsageError
from aiayn.hardware import NUM_PAPER_GPUS, PAPER_GPU, read_hardware
from aiayn.plan.machine import machine_of_gpus
from aiayn.plan.speed import predict_speed
from aiayn.spec import (
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
from aiayn.training_spec import UNREAD_KEYS_BY_ARCHITECTURE, DecodingSpec, TrainingSpec

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
    config_folder: Path = CONFIG_FOLDER,
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
    _check_known(name, scale, config_folder)
    overrides = overrides or Overrides()
    system = overridden(read_system(name, scale, config_folder), overrides)
    inherited = overridden(read_system(system.inherits, scale, config_folder), overrides) if system.inherits else None
    paper = paper_counterpart(name, config_folder)
    corpus = _corpus_of(name, scale, config_folder)
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


def paper_counterpart(name: str, config_folder: Path = CONFIG_FOLDER) -> SystemSpec:
    """Return the paper's own system of that name if Table 2 or 3 has one, else the paper's base."""
    is_printed = name in PRINTED_COST_BY_SYSTEM or name.startswith(PAPER_ROW_PREFIX)
    has_file = name in system_names(PAPER_SCALE, config_folder)
    return read_system(name if is_printed and has_file else "base", PAPER_SCALE, config_folder)


def system_names(scale: str, config_folder: Path = CONFIG_FOLDER) -> list[str]:
    """Return the names of all systems of a scale."""
    return sorted(path.stem for path in (config_folder / "systems" / scale).glob("*.yaml"))


def _check_known(name: str, scale: str, config_folder: Path) -> None:
    if scale not in SCALES:
        raise UsageError(f"--scale {scale}: expected one of {', '.join(SCALES)}")
    known = system_names(scale, config_folder)
    if name in known:
        return
    elsewhere = [other for other in SCALES if other != scale and name in system_names(other, config_folder)]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"expected one of {', '.join(known)}"
    if elsewhere:
        hint = f"but scale {elsewhere[0]} has: add `--scale {elsewhere[0]}`"
    elif near:
        hint = f"did you mean {near[0]!r}?"
    raise UsageError(f"scale {scale} has no system {name!r}; {hint}")


def _corpus_of(name: str, scale: str, config_folder: Path) -> CorpusSpec:
    """Return the corpus that a system is trained on at a scale: the En-Fr one only if no other is asked for."""
    spec = read_scale(config_folder / f"{scale}.yaml")
    is_french = name in spec.en_fr_systems and name not in spec.en_de_systems
    return read_corpus(spec.en_fr_corpus if is_french else spec.en_de_corpus, config_folder)


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
    tokens = target_tokens_per_full_update(training)
    printed = PRINTED_COST_BY_SYSTEM.get(system.name) if scale == PAPER_SCALE else None
    return PredictedCost(
        target_tokens_per_update=tokens,
        counted_flops=training.updates * tokens * flops_per_token(training, vocabulary_size),
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
