"""Loads a trained model with its dictionaries, for translation or for perplexity.

This module reads checkpoints of fairseq 0.6 to 0.12. fairseq itself renames the parameters of
checkpoints from its old versions.
"""

import itertools
import re
import warnings
from pathlib import Path
from typing import Any

from fairseq import models, tasks
from fairseq.checkpoint_utils import _upgrade_state_dict, load_model_ensemble_and_task
from fairseq.data import Dictionary
from fairseq.dataclass.utils import overwrite_args_by_name
from omegaconf import OmegaConf

from aiayn.errors import CheckpointError
from aiayn.records import CheckpointRecord
from aiayn.train import plugin
from aiayn.train.checkpoints import (
    DICTIONARIES_KEY,
    dictionary_sha256s,
    load_checkpoint,
    require_recorded,
)
from aiayn.train.device import evaluated_on

__all__ = ["load_model", "plugin"]

# fairseq 0.12.2 stores each encoder layer twice: in its modules, such as
# `encoder.layers.0.fc1.weight`, and as parameters of the layer itself, such as
# `encoder.layers.0.fc1_weight`. Only the second names have no further dot.
_REPEATED = re.compile(r"encoder\.layers\.\d+\.[a-z0-9_]+_(weight|bias)")


def load_model(
    checkpoint_path: Path,
    data_folder: Path,
    *,
    device: str,
    record: CheckpointRecord | None = None,
) -> tuple[Any, Any]:
    """Load the model of a checkpoint onto a device, in evaluation mode. Return the model and its
    fairseq task, which has the dictionaries in `data_folder`.

    If `record` is given, the checkpoint must be undamaged and have the SHA-256 in this record.

    Raises:
        CheckpointError: if the checkpoint is absent, damaged, or differs from its record, if this
            project does not import its task or architecture from fairseq, or if the dictionaries in
            `data_folder` differ from the dictionaries of the model.
    """
    state = load_checkpoint(checkpoint_path)
    if record is not None:
        require_recorded(checkpoint_path, record)
    # Only a training needs the optimiser's state, which is two thirds of the memory.
    state.pop("last_optimizer_state", None)
    # The checkpoint contains the path of the data-bin of its training, which may be on a different
    # machine. With `eval_bleu` fairseq would also load the training's tokenizer.
    changes = {"data": str(data_folder), "eval_bleu": False}
    # Up to fairseq 0.10 a checkpoint has `args`, a Namespace. From 1.0.0a0 on it has `cfg`.
    if state.get("args") is not None:
        vars(state["args"]).update(changes)
    if state.get("cfg") is not None:
        state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
        overwrite_args_by_name(state["cfg"], changes)
    _require_known(state, checkpoint_path)
    with warnings.catch_warnings():
        # hydra warns about how fairseq calls it, which the user cannot change.
        warnings.simplefilter("ignore", UserWarning)
        state = _upgrade_state_dict(state)
    # Checked first, because fairseq's error for a missing dictionary does not say what to do.
    _require_dictionaries(state["cfg"]["task"], checkpoint_path, data_folder)
    config = state["cfg"]["task"]
    # With `from_checkpoint`, fairseq ignores settings of other versions that it does not know.
    task = tasks.setup_task(config, from_checkpoint=True)
    _check_dictionaries(state, task, checkpoint_path, data_folder)
    state["model"] = {
        name: tensor for name, tensor in state["model"].items() if not _REPEATED.fullmatch(name)
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            (model,), _, _ = load_model_ensemble_and_task(
                [str(checkpoint_path)], task=task, state=state
            )
    except RuntimeError as error:
        # torch raises it for parameters that are missing, superfluous or of a different shape.
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(
            f"{checkpoint_path}: its parameters are not those of its architecture: {reason};"
            " use the program that trained it"
        ) from error
    return evaluated_on(device, model), task


def _require_known(state: dict[str, Any], checkpoint_path: Path) -> None:
    """Raise an error if the checkpoint's task or architecture is not among the parts of fairseq
    that this project imports.
    """
    arguments: Any = state.get("args")
    config: Any = state.get("cfg")
    if arguments is None and config is None:
        raise CheckpointError(
            f"{checkpoint_path}: holds neither 'args' nor 'cfg'; expected a file of fairseq-train"
        )
    # Code of a checkpoint's author is never imported, so only the error mentions it.
    settings = arguments if arguments is not None else config["common"]
    user_folder = getattr(settings, "user_dir", None)
    own_code = f" (it was trained with --user-dir {user_folder}, which is not run)"
    for part, key, registry in (
        ("task", "task", tasks.TASK_REGISTRY),
        ("model", "arch", models.ARCH_MODEL_REGISTRY),
    ):
        if arguments is not None:
            # Early versions had no other task, and did not save its name.
            name = getattr(arguments, key, "translation")
        else:
            settings = config[part]
            name = getattr(settings, "_name", None) or getattr(settings, "arch", None)
        if name not in registry:
            raise CheckpointError(
                f"{checkpoint_path}: {part} {name!r} is not one that is known here; known: "
                f"{', '.join(sorted(registry))}; use fairseq-generate, and `aiayn score` on its log"
                f"{own_code if user_folder else ''}"
            )


def _require_dictionaries(config: Any, checkpoint_path: Path, data_folder: Path) -> None:
    """Raise an error if `data_folder` lacks a dictionary of one of the model's languages, or if a
    dictionary in it differs from the dictionary in the folder of the checkpoint.
    """
    # Without languages fairseq infers them from the files of the data-bin.
    for language in filter(None, (config.source_lang, config.target_lang)):
        path = data_folder / f"dict.{language}.txt"
        next_path = checkpoint_path.parent / path.name
        if not path.exists():
            names = ", ".join(sorted(other.name for other in data_folder.glob("dict.*.txt")))
            raise CheckpointError(
                f"{path}: no such file, and the model of {checkpoint_path} needs it; the folder has"
                f" {names or 'no dictionaries'}; give the model's own data-bin"
            )
        # Published models come with their dictionaries. The checkpoints of this project do not.
        if not next_path.exists():
            continue
        symbol_lists = [Dictionary.load(str(file)).symbols for file in (path, next_path)]
        pairs = itertools.zip_longest(*symbol_lists)
        for index, (symbol, next_symbol) in enumerate(pairs):
            if symbol != next_symbol:
                raise CheckpointError(
                    f"{path}: its symbol {index} is {symbol!r}, but {next_symbol!r} in {next_path},"
                    " which came with the model; make the data-bin again with fairseq-preprocess"
                    " --srcdict and --tgtdict of the model's dictionaries"
                )


def _check_dictionaries(
    state: dict[str, Any], task: Any, checkpoint_path: Path, data_folder: Path
) -> None:
    next_step = (
        f"the dictionaries in {data_folder} are not the model's; give the data-bin that it was"
        " trained on"
    )
    # The number of symbols is compared first: it is known even for models that are not ours.
    rows = tuple(
        len(state["model"][f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder")
    )
    sizes = (len(task.source_dictionary), len(task.target_dictionary))
    if rows != sizes:
        raise CheckpointError(
            f"{checkpoint_path}: embeds {rows} symbols, the data-bin has {sizes}: {next_step}"
        )
    # Dictionaries of the same size may still have different symbols. Only our own checkpoints have
    # the digests that show it.
    trained_with = state["extra_state"].get(DICTIONARIES_KEY)
    if trained_with is not None and trained_with != dictionary_sha256s(task):
        raise CheckpointError(
            f"{checkpoint_path}: embeds {rows} symbols, as many as the data-bin has, but"
            f" {next_step}"
        )
