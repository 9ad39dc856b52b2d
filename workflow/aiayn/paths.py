"""Builds the paths below `results/<scale>/`, for rules and tables alike; no other module spells
them.
"""

from pathlib import Path

import msgspec

from aiayn.spec.system import CHECKOUT, SCALES

RECORD_NAME = "record.json"
EXPORT_RECORD_NAME = "config.json"  # of an export as safetensors, beside its tensors
TENSORS_NAME = "model.safetensors"
ALPHA_MARK = (  # val-alpha1.4: test set val by a search with alpha 1.4 in place of the system's
    "-alpha"
)
SHIPPED_FOLDER = CHECKOUT / "paper_tables" / "measured"  # packs of scales; some ship models


class CellKey(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """What a number is of, whichever its seed: a system on a corpus, an average, the test set of a
    role.

    `role` is `dev` or `test`, as the tables ask; or of rows of Table 3 `further`, on test sets
    beside dev, and `alpha`, on dev by a search with another alpha, which its test set names
    (`split_alpha`). `average` is `last<n>`.
    """

    corpus: str
    system: str
    average: str
    testset: str
    role: str
    language_pair: str

    @property
    def has_perplexity(self) -> bool:
        """Whether its perplexity is asked for: on dev by Table 3, and on further test sets."""
        return self.role in ("dev", "further")

    @property
    def key(self) -> "CellKey":
        """Return what it is of, and nothing else: of an evaluation without its seed."""
        return CellKey(**{name: getattr(self, name) for name in CellKey.__struct_fields__})


class Evaluation(CellKey, frozen=True, kw_only=True, order=True):
    """One seed of what a number is of; a training is evaluated more than once."""

    seed: int


def split_alpha(testset: str) -> tuple[str, float | None]:
    """Return a corpus's test set, and the alpha that is tried on it; None if it is the system's
    own.
    """
    name, mark, alpha = testset.partition(ALPHA_MARK)
    return (name, float(alpha)) if mark else (testset, None)


def num_averaged(average: str) -> int:
    """Return how many checkpoints an average is of: 20 for `last20`; 0 if the name is no
    average's.
    """
    number = average.removeprefix("last")
    return int(number) if number != average and number.isdecimal() else 0


def is_averaged(average: str) -> bool:
    """Return whether several checkpoints are averaged: False for `last1`, the last checkpoint
    alone.
    """
    return num_averaged(average) > 1


def corpus_record(results_folder: Path, scale: str, verb: str, corpus: str) -> Path:
    """Return the record of a data stage: fetch, clean, segment or binarize."""
    return results_folder / scale / verb / corpus / RECORD_NAME


def train_record(
    results_folder: Path, scale: str, corpus: str, system: str, seed: int | str
) -> Path:
    """Return the record of a training."""
    return results_folder / scale / "train" / corpus / system / f"seed{seed}.json"


def average_record(
    results_folder: Path, scale: str, corpus: str, system: str, seed: int | str, average: str
) -> Path:
    """Return the record of an averaged checkpoint; the checkpoint lies beside it, as `.pt`."""
    return results_folder / scale / "average" / corpus / system / f"seed{seed}" / f"{average}.json"


def evaluation_record(results_folder: Path, scale: str, verb: str, evaluation: Evaluation) -> Path:
    """Return the record of decode, perplexity or score for an evaluation."""
    folder = (
        results_folder
        / scale
        / verb
        / evaluation.corpus
        / evaluation.system
        / f"seed{evaluation.seed}"
    )
    return folder / evaluation.average / f"{evaluation.testset}.json"


def baselines_record(results_folder: Path, scale: str, corpus: str, testset: str) -> Path:
    """Return the record of the baselines on a test set."""
    return results_folder / scale / "baselines" / corpus / f"{testset}.json"


def scale_record(results_folder: Path, scale: str, verb: str) -> Path:
    """Return the record of a stage that has one a scale."""
    return results_folder / scale / verb / RECORD_NAME


def model_folder(packs_folder: Path, scale: str, run: str) -> Path:
    """Return the folder of a model that a pack ships: an export as safetensors."""
    return packs_folder / scale / "models" / run


def is_scale_folder(folder: Path) -> bool:
    """Return whether a folder is a `results/<scale>/`: it has a scale's name, and a record where a
    stage writes it.
    """
    if folder.resolve().name not in SCALES:
        return False
    return any(folder.glob("train/*/*/seed*.json")) or any(folder.glob(f"*/*/{RECORD_NAME}"))
