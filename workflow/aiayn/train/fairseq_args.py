"""Translates the settings of a training, which have the paper's symbols, to flags of fairseq. This
module does not import torch or fairseq.

`aiayn train` passes these flags to fairseq unchanged. fairseq's command `fairseq-train` takes the
same flags.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiayn.errors import ConfigError
from aiayn.spec.system import TrainingSpec
from aiayn.spec.training import MAX_POSITIONS

USER_FOLDER = Path(__file__).resolve().parents[2] / "aiayn_fairseq"

# Processes that make batches. A batch of 25,000 + 25,000 tokens takes a core 24 ms (2026, Zen 4).
LOADERS_PER_GPU = 2

# The number of validations in a training that saves its checkpoints by updates, not by epochs.
NUM_VALIDATIONS = 20


def refuse_untrainable(system: str, training: TrainingSpec, *, num_ranks: int = 1) -> None:
    """Raise an error if fairseq cannot do a training exactly as specified, or not on this number of
    ranks (processes).

    Raises:
        ConfigError: if two settings contradict each other, or if an update's batches cannot be
            divided among the ranks.
    """
    if training.patience_epochs is not None and training.save_interval_updates is not None:
        raise ConfigError(
            f"{system}: patience_epochs {training.patience_epochs} with save_interval_updates"
            f" {training.save_interval_updates}: patience counts at ends of epochs, where nothing"
            " is then saved; set one of them to null"
        )
    # Either each rank computes several whole batches of an update, or several ranks share each
    # batch (`_batch_flags`).
    if training.batches_per_update % num_ranks and num_ranks % training.batches_per_update:
        raise ConfigError(
            f"{system}: batches_per_update {training.batches_per_update} cannot be shared by"
            f" {num_ranks} ranks; expected a divisor or a multiple of"
            f" {training.batches_per_update} for --num-ranks"
        )


def train_flags(
    training: TrainingSpec,
    *,
    data_folder: str,
    source_language: str,
    target_language: str,
    is_joint: bool,
    seed: int,
    save_folder: str,
    device: str,
    num_ranks: int = 1,
) -> list[str]:
    """Return the arguments of the command fairseq-train for a training.

    `is_joint` says whether both languages of the data-bin share a dictionary. `device` must be
    `cpu` or `cuda`, not `auto`.

    Raises:
        ConfigError: for the same reasons as in `refuse_untrainable`.
    """
    refuse_untrainable("this system", training, num_ranks=num_ranks)
    # The order of the flags does not matter to fairseq. The folder is its only positional argument.
    flags = [data_folder]
    flags += _flags_of(
        {
            "user-dir": USER_FOLDER,
            "task": "aiayn_translation",
            "source-lang": source_language,
            "target-lang": target_language,
            "precision": training.precision,
        }
    )
    flags += model_flags(training, is_joint=is_joint) + _optimiser_flags(training)
    flags += _batch_flags(training, num_ranks=num_ranks, device=device) + _saving_flags(training)
    flags += _flags_of(
        {
            "save-dir": save_folder,
            "seed": seed,
            "log-format": "json",
            "log-interval": log_interval(training),
        }
    )
    return [*flags, "--cpu"] if device == "cpu" else flags


def _flags_of(value_by_name: Mapping[str, object]) -> list[str]:
    """Convert a dictionary of names and values into command line flags, in the same order."""
    flags = []
    for name, value in value_by_name.items():
        flags += [f"--{name}", str(value)]
    return flags


def model_flags(training: TrainingSpec, *, is_joint: bool) -> list[str]:
    """Return the flags of the architecture (sections 3.1 to 3.5 and 5.4)."""
    if training.architecture == "transformer":
        return _our_flags(training, is_joint=is_joint)
    make_flags = {
        "fairseq_transformer": _fairseq_transformer_flags,
        "lstm": _lstm_flags,
        "fconv": _fconv_flags,
    }
    return make_flags[training.architecture](training, is_joint=is_joint)


def transformer_values(training: TrainingSpec, *, is_joint: bool) -> dict[str, Any]:
    """Return the fields of `TransformerConfig` that the settings of a training determine."""
    # Section 3.4 ties both embeddings and the output. With two dictionaries the source has other
    # symbols, so only the decoder's two matrices are tied.
    shared = "none"
    if training.tied_embeddings:
        shared = "all" if is_joint else "decoder"
    return {
        "num_layers": training.num_layers,
        "d_model": training.d_model,
        "d_ff": training.d_ff,
        "num_heads": training.num_heads,
        "d_k": training.d_k,
        "d_v": training.d_v,
        "norm_order": training.norm_order,
        "norm": training.norm,
        "norm_epsilon": training.norm_epsilon,
        "attention": training.attention,
        "attention_biases": training.attention_biases,
        "positions": training.positions,
        "max_positions": MAX_POSITIONS,
        "embeddings": training.embeddings,
        "initialisation": training.initialisation,
        "p_drop": training.p_drop,
        "p_drop_attention": training.p_drop_attention,
        "p_drop_ffn": training.p_drop_ffn,
        "share_embeddings": shared,
    }


def _our_flags(training: TrainingSpec, *, is_joint: bool) -> list[str]:
    # fairseq makes the flag of each field of the config from its name, with dashes.
    values = transformer_values(training, is_joint=is_joint)
    has_biases = values.pop("attention_biases")
    flags = ["--arch", "aiayn_transformer"]
    flags += _flags_of({name.replace("_", "-"): value for name, value in values.items()})
    return flags + (["--attention-biases"] if has_biases else [])


def _fairseq_transformer_flags(training: TrainingSpec, *, is_joint: bool) -> list[str]:
    # The defaults of `transformer` may differ from the system's values, so all values are passed.
    flags = ["--arch", "transformer"]
    for side in ("encoder", "decoder"):
        flags += _flags_of(
            {
                f"{side}-layers": training.num_layers,
                f"{side}-embed-dim": training.d_model,
                f"{side}-ffn-embed-dim": training.d_ff,
                f"{side}-attention-heads": training.num_heads,
            }
        )
        flags += [f"--{side}-learned-pos"] if training.positions == "learned" else []
        flags += [f"--{side}-normalize-before"] if training.norm_order == "pre" else []
    dropouts = {
        "dropout": training.p_drop,
        "attention-dropout": training.p_drop_attention,
        "activation-dropout": training.p_drop_ffn,
    }
    flags += _flags_of(dropouts)
    return flags + _tying_flags(training, is_joint=is_joint) + _flags_of(_POSITION_LIMITS)


def _lstm_flags(training: TrainingSpec, *, is_joint: bool) -> list[str]:
    """Return the flags of fairseq's LSTMs with attention (Luong et al. 2015)."""
    flags = ["--arch", "lstm", *_output_flags(training)]
    for side in ("encoder", "decoder"):
        flags += _flags_of(
            {
                f"{side}-layers": training.num_layers,
                f"{side}-embed-dim": training.d_model,
                f"{side}-hidden-size": training.d_ff,
            }
        )
    return flags + _tying_flags(training, is_joint=is_joint)


def _fconv_flags(training: TrainingSpec, *, is_joint: bool) -> list[str]:
    """Return the flags of fairseq's convolutions (ConvS2S, Gehring et al. 2017), with kernel 3. The
    source embeddings are never tied to the output, because fairseq does not have a flag for this.
    """
    flags = ["--arch", "fconv", *_output_flags(training)]
    # fairseq evaluates this text as a Python list of (channels, kernel width), one for each layer.
    layers = f"[({training.d_ff}, 3)] * {training.num_layers}"
    for side in ("encoder", "decoder"):
        flags += _flags_of({f"{side}-embed-dim": training.d_model, f"{side}-layers": layers})
    flags += ["--share-input-output-embed"] if training.tied_embeddings else []
    return flags + _flags_of(_POSITION_LIMITS)


_POSITION_LIMITS: dict[str, object] = {
    "max-source-positions": MAX_POSITIONS,
    "max-target-positions": MAX_POSITIONS,
}


def _output_flags(training: TrainingSpec) -> list[str]:
    # Tied matrices need an output layer as wide as the embeddings. fairseq's default is a fixed
    # width.
    return _flags_of({"dropout": training.p_drop, "decoder-out-embed-dim": training.d_model})


def _tying_flags(training: TrainingSpec, *, is_joint: bool) -> list[str]:
    if not training.tied_embeddings:
        return []
    return ["--share-all-embeddings"] if is_joint else ["--share-decoder-input-output-embed"]


def _optimiser_flags(training: TrainingSpec) -> list[str]:
    """Return the flags of the optimiser and the learning rate (section 5.3) and of label smoothing
    (section 5.4). fairseq's own models are trained with fairseq's Adam and loss.
    """
    values: dict[str, object]
    if training.architecture == "transformer":
        values = {
            "criterion": "aiayn_label_smoothing",
            "optimizer": "aiayn_adam",
            "adam-beta-1": training.adam_beta_1,
            "adam-beta-2": training.adam_beta_2,
            "adam-epsilon": training.adam_epsilon,
        }
    else:
        values = {
            "criterion": "label_smoothed_cross_entropy",
            "optimizer": "adam",
            "weight-decay": 0.0,
            "adam-betas": f"({training.adam_beta_1}, {training.adam_beta_2})",
            "adam-eps": training.adam_epsilon,
        }
    values |= {"label-smoothing": training.eps_ls, "clip-norm": training.clip_norm}
    if training.schedule == "equation_3":
        # The schedule ignores --lr, for which fairseq's default is 0.25.
        values |= {
            "lr-scheduler": "equation_3",
            "schedule-d-model": training.d_model,
            "lr": 1.0,
            "warmup-updates": training.warmup_steps,
        }
    elif training.schedule == "constant":
        # fairseq's own schedules, to try other learning rates and to repeat recipes of other
        # projects. Here `lr` is the peak rate, which equation (3) computes by itself.
        values |= {"lr": training.peak_learning_rate, "lr-scheduler": "fixed"}
    else:
        values |= {
            "lr": training.peak_learning_rate,
            "lr-scheduler": "inverse_sqrt",
            "warmup-init-lr": training.initial_learning_rate,
            "warmup-updates": training.warmup_steps,
        }
    return _flags_of(values)


def _batch_flags(training: TrainingSpec, *, num_ranks: int, device: str) -> list[str]:
    """Return the flags of batches and data loading. With these flags, an update has
    `batches_per_update` batches in total, however many ranks (processes) share them.

    If there are more ranks than batches, several ranks share each batch
    (`AiaynTranslationTask.get_batch_iterator`). In a training on a GPU, separate data loader
    processes make the batches ahead of time and move them to pinned memory. The batches are the
    same as without data loaders.
    """
    # An update is always `batches_per_update` batches of the paper's size, however many ranks there
    # are: with fewer ranks each accumulates several, with more ranks several share one.
    ranks_per_batch = max(1, num_ranks // training.batches_per_update)
    sharing = ["--ranks-per-batch", str(ranks_per_batch)] if ranks_per_batch > 1 else []
    return [
        *sharing,
        "--max-tokens",
        str(training.max_tokens_per_batch),
        "--update-freq",
        str(max(1, training.batches_per_update // num_ranks)),
        "--max-update",
        str(training.updates),
        # Without it a run resumed after its first epoch trains on other batches than an undisturbed
        # one.
        "--update-epoch-batch-itr",
        "True",
        "--num-workers",
        str(LOADERS_PER_GPU if device == "cuda" else 0),
        # Without it fairseq raises an error at a dev sentence that is longer than the model reads.
        "--skip-invalid-size-inputs-valid-test",
    ]


def _saving_flags(training: TrainingSpec) -> list[str]:
    """Return the flags for how often fairseq validates and when it stops early.
    `train/checkpoints.py` decides at which updates checkpoints are saved.
    """
    is_by_epoch = training.save_interval_updates is None
    # fairseq always saves and validates every so many epochs. A number of epochs that no training
    # reaches switches this off.
    num_epochs = "1" if is_by_epoch else str(10**9)
    flags = ["--save-interval", num_epochs, "--validate-interval", num_epochs]
    if not is_by_epoch:
        flags += ["--validate-interval-updates", str(max(1, training.updates // NUM_VALIDATIONS))]
    if training.patience_epochs is not None:
        flags += ["--patience", str(training.patience_epochs)]
    return flags


def log_interval(training: TrainingSpec) -> int:
    """Return how many updates apart fairseq writes a line of statistics to the log: about a hundred
    lines in a run, and at least one line for every hundred updates.
    """
    return max(1, min(100, training.updates // 100))
