"""Builds the paths of records and other files below `results/<scale>/`.

All rules and modules get these paths from the functions here.
"""

import importlib.metadata
import logging
import re
import shlex
from pathlib import Path

import msgspec

from aiayn.errors import UsageError
from aiayn.packed import glob, is_dir, is_file
from aiayn.spec.sheet import TrainingKey
from aiayn.spec.system import IS_CHECKOUT, PACKED_WORKFLOW, SCALES, TABLES_FOLDER

logger = logging.getLogger(__name__)
RESULTS_FOLDER = Path("results")  # in the working directory, unless a flag states a folder
RECORD_NAME = "record.json"
EXPORT_RECORD_NAME = "config.json"  # next to the tensors of a safetensors export
TENSORS_NAME = "model.safetensors"
PACK_README_NAME, PACK_RUNS_NAME = "README.md", "runs"
ALPHA_MARK = "-alpha"  # val-alpha1.4: test set val, searched with alpha 1.4
SHIPPED_FOLDER = TABLES_FOLDER / "measured"  # results that come with the project


def shown_path(path: Path) -> Path:
    """Return a path as a user would type it: relative to the working directory if it is below this
    directory.
    """
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def install_command(extra: str) -> str:
    """Return the command that installs an extra of pyproject.toml. The command is for messages, so
    it is in backquotes.

    Outside a checkout the command calls pip with the requirements of the installed package. fairseq
    is the last requirement, because its setup.py imports torch. The variable READTHEDOCS=1 stops
    fairseq from compiling extensions, which are not needed here.
    """
    if IS_CHECKOUT:
        return f"`make {'core' if extra == 'figures' else 'install'}` in the checkout"
    # A line of the metadata is, for example, `torch<2.14,>=2.11; extra == "train"`.
    names = []
    fairseq = ""
    for line in importlib.metadata.requires("aiayn") or []:
        requirement, _, condition = line.partition(";")
        if f'extra == "{extra}"' in condition:
            name = shlex.quote(requirement.replace(" ", ""))
            if name.startswith("fairseq"):
                fairseq = name
            else:
                names.append(name)
    command = f"pip install {' '.join(names)}"
    if fairseq:
        command += " setuptools wheel && READTHEDOCS=1 pip install --no-build-isolation " + fairseq
    return f"`{command}`"


def workflow_command(scale: str, configfile: Path) -> str:
    """Return the command that makes the results of a scale (a size of the experiment), for
    messages. For the paper's own scale, which takes GPU-months, return the command that predicts
    the cost.
    """
    if scale == "paper":
        return f"`aiayn plan --configfile {shown_path(configfile)}` says what making it takes"
    begin = "it is made by"
    # An installed package has no place for results, so the workflow is first written to a folder.
    if configfile.is_relative_to(PACKED_WORKFLOW):
        begin = "`aiayn init FOLDER` writes the workflow, and in FOLDER it is made by"
        configfile = configfile.relative_to(PACKED_WORKFLOW)
    return f"{begin} `snakemake --profile profiles/local --configfile {shown_path(configfile)}`"


def results_or_shipped(results_folder: Path, scale: str) -> Path:
    """Return `results_folder` or, if it is the default folder and does not contain results of the
    scale, the folder of the results that come with this project. In the second case a message is
    logged.
    """
    # A folder that the user gave is used even if it does not contain the scale.
    is_named = results_folder != RESULTS_FOLDER
    if is_named or (results_folder / scale).is_dir() or not (SHIPPED_FOLDER / scale).is_dir():
        return results_folder
    logger.info(f"no {results_folder / scale} here: these are the shipped numbers of this scale")
    return SHIPPED_FOLDER


class CellKey(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """The corpus, system, average (averaged checkpoint) and test set of an evaluation, without the
    seed.

    `role` is what the test set is used for: `dev` or `test`. Rows of Table 3 have two more roles:
    `further` (a further test set) and `alpha` (the dev set, decoded with a different length
    penalty). The alpha of this length penalty is part of `testset` (see `split_alpha`). `average`
    is `last<n>`, the mean of the last n checkpoints.
    """

    corpus: str
    system: str
    average: str
    testset: str
    role: str
    language_pair: str

    @property
    def has_perplexity(self) -> bool:
        """Whether the perplexity is measured on this test set: on the dev set (for Table 3) and on
        further test sets.
        """
        return self.role in ("dev", "further")

    @property
    def key(self) -> "CellKey":
        """Return this evaluation as a `CellKey`, without the seed."""
        return CellKey(**{name: getattr(self, name) for name in CellKey.__struct_fields__})


class Evaluation(CellKey, frozen=True, kw_only=True, order=True):
    """An evaluation of one training: a `CellKey` and a seed. A training has several evaluations."""

    seed: int

    @property
    def training(self) -> TrainingKey:
        """The key (corpus, system, seed) of the training that this evaluation belongs to."""
        return TrainingKey(self.corpus, self.system, self.seed)


def split_alpha(testset: str) -> tuple[str, float | None]:
    """Split a name such as `val-alpha1.4` into the name of the corpus's test set and the length
    penalty's alpha.

    The alpha is None if the name does not contain an alpha. Without an alpha in the name, the beam
    search uses the system's own alpha.

    Raises:
        UsageError: if the alpha is not a number that is at least 0.
    """
    name, mark, alpha = testset.partition(ALPHA_MARK)
    if not mark:
        return testset, None
    # As `experiment` writes it, also 1e-05. `float` would accept nan, inf and negative numbers.
    if re.fullmatch(r"\d{1,9}(\.\d+)?(e-\d\d)?", alpha) is None:
        expected = f"a number of 0 or more, as in {ALPHA_MARK}1.4"
        raise UsageError(f"test set {testset!r}: alpha {alpha!r}; expected {expected}")
    return name, float(alpha)


def num_averaged(average: str) -> int:
    """Return the number of checkpoints in an average: 20 for `last20`. Return 0 for a name that is
    not `last<n>`.
    """
    number = average.removeprefix("last")
    return int(number) if number != average and number.isdecimal() else 0


def is_averaged(average: str) -> bool:
    """Return whether several checkpoints are averaged: False for `last1`, the last checkpoint
    alone.
    """
    return num_averaged(average) > 1


def corpus_record(results_folder: Path, scale: str, verb: str, corpus: str) -> Path:
    """Return the path of the record that a data stage (fetch, clean, segment or binarize) writes
    for a corpus.
    """
    return results_folder / scale / verb / corpus / RECORD_NAME


def train_record(
    results_folder: Path, scale: str, corpus: str, system: str, seed: int | str
) -> Path:
    """Return the path of the record of a training."""
    return results_folder / scale / "train" / corpus / system / f"seed{seed}.json"


def average_record(
    results_folder: Path, scale: str, corpus: str, system: str, seed: int | str, average: str
) -> Path:
    """Return the path of the record of an averaged checkpoint. The checkpoint has the same path
    with the ending `.pt`.
    """
    return results_folder / scale / "average" / corpus / system / f"seed{seed}" / f"{average}.json"


def evaluation_record(results_folder: Path, scale: str, verb: str, evaluation: Evaluation) -> Path:
    """Return the path of the record that the verb decode, perplexity or score writes for an
    evaluation.
    """
    system_folder = results_folder / scale / verb / evaluation.corpus / evaluation.system
    name = f"{evaluation.testset}.json"
    return system_folder / f"seed{evaluation.seed}" / evaluation.average / name


def evaluations_record(
    results_folder: Path, scale: str, corpus: str, system: str, seed: int | str
) -> Path:
    """Return the path of the record that lists all records of a training's evaluations."""
    return results_folder / scale / "evaluations" / corpus / system / f"seed{seed}.json"


def baselines_record(results_folder: Path, scale: str, corpus: str, testset: str) -> Path:
    """Return the path of the record of the baselines (translations made without training) on a test
    set.
    """
    return results_folder / scale / "baselines" / corpus / f"{testset}.json"


def scale_record(results_folder: Path, scale: str, verb: str) -> Path:
    """Return the path of the record that a stage writes if it runs only once for a scale."""
    return results_folder / scale / verb / RECORD_NAME


def model_folder(packs_folder: Path, scale: str, run: str) -> Path:
    """Return the folder of the exported model (safetensors) of a run in a pack."""
    return packs_folder / scale / "models" / run


def is_pack(folder: Path) -> bool:
    """Return whether a folder is a pack (the finished runs and results of a scale) of any version
    of this project. A pack has a README and a folder of runs.
    """
    return is_file(folder / PACK_README_NAME) and is_dir(folder / PACK_RUNS_NAME)


def is_scale_folder(folder: Path) -> bool:
    """Return whether a folder is a `results/<scale>/`, judged by its name and the records in it."""
    if folder.resolve().name not in SCALES:
        return False
    # The name is not enough: any folder may be called `demo`.
    return bool(glob(folder, "train/*/*/seed*.json") or glob(folder, f"*/*/{RECORD_NAME}"))
