"""Reads the YAML files of systems (rows of the paper's tables), corpora and scales as typed
structs, called specs.

The keys are the paper's symbols, spelt in ASCII. fairseq's names for the same settings appear only
in `train/fairseq_args.py`.

To add a system, write workflow/config/systems/<scale>/<name>.yaml with the keys that differ from an
existing system, and add a row to the scale's list of trainings (the sheet, `aiayn.spec.sheet`):

    name: table3_a_h4
    description: 4 heads.
    inherits: base
    training: {num_heads: 4, d_k: 128, d_v: 128}
"""

import functools
import hashlib
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.errors import ConfigError
from aiayn.spec.corpus import (
    ArchiveSource,
    CleanSpec,
    CorpusSpec,
    ParallelSource,
    PublicFile,
    ShippedSource,
    SubwordSpec,
    check_corpus,
)
from aiayn.spec.sheet import SheetRow, read_sheet, select_rows
from aiayn.spec.strict_yaml import Document, convert, overlay, read_document
from aiayn.spec.training import (
    Count,
    DecodingSpec,
    Precision,
    Spec,
    TrainingSpec,
    check_training,
)

# The specs of the other modules are exported here, too, so that users need only this module.
__all__ = [
    "CONFIG_FOLDER",
    "SCALES",
    "ArchiveSource",
    "CleanSpec",
    "CorpusSpec",
    "DecodingSpec",
    "Overrides",
    "ParallelSource",
    "PublicFile",
    "ScaleSpec",
    "ShippedSource",
    "Spec",
    "SubwordSpec",
    "SystemSpec",
    "TrainingSpec",
    "convert_scale",
    "overridden",
    "read_corpus",
    "read_scale",
    "read_scale_document",
    "read_system",
    "run_name",
    "spec_digest",
]

# The folders above this file: spec, aiayn, workflow or site-packages, and perhaps the checkout.
_FOLDERS = Path(__file__).resolve().parents
IS_CHECKOUT = (_FOLDERS[3] / "workflow" / "config").is_dir()
PACKED_WORKFLOW = _FOLDERS[1] / "checkout"  # of an installed package; setup.py copies it there


def _find_workflow() -> Path:
    """Return the folder that contains the workflow: Snakefile, config and profiles.

    In a checkout, the result is the checkout itself. For an installed package, the result is the
    folder that the command aiayn init wrote: the working directory or the nearest folder above it
    that has the workflow. If none of these folders has the workflow, the result is the copy of the
    workflow inside the package.
    """
    if IS_CHECKOUT:
        return _FOLDERS[3]
    # `init` writes the workflow into a folder, so that users can edit the config of an installed
    # package.
    working_folder = Path.cwd()
    for folder in (working_folder, *working_folder.parents):
        if (folder / "workflow" / "config" / "paper.yaml").is_file():
            return folder
    return PACKED_WORKFLOW


CHECKOUT = _find_workflow()
CONFIG_FOLDER = CHECKOUT / "workflow" / "config"
# The package `paper_tables`, with what was printed and measured.
TABLES_FOLDER = _FOLDERS[3 if IS_CHECKOUT else 2] / "paper_tables"
SCALES = ("demo", "multi30k", "paper")


class SystemSpec(Spec, frozen=True, kw_only=True):
    """A system: a model with its training and search settings, which is a row of a table of the
    paper.

    A system takes all keys that are not in its own file from the system in the key `inherits`.
    Usually 1 to 3 keys of a system differ. A system can continue the trainings of the system in the
    key `begins_from`: each training starts at the last checkpoint of the other system's training
    with the same seed. Only the number of updates may differ between the training settings of a
    system and of the system in its key `begins_from`. If a different training setting differs, the
    training stops with an error at its start. The learning rate of equation (3) does not depend on
    the total number of updates, so the weights after a training in two parts equal the weights
    after a training in one part.
    """

    name: str
    description: str
    training: TrainingSpec
    decoding: DecodingSpec
    inherits: str | None = None
    begins_from: str | None = None


class Overrides(Spec, frozen=True, kw_only=True):
    """Training settings that a scale sets for all its systems. For a key with the value null, each
    system keeps its own value.

    The training settings of a scale change the digest in a run's name, as they would if they were
    in the system's file.
    """

    updates: int | None = None
    precision: Precision | None = None

    @property
    def values(self) -> dict[str, object]:
        """The training settings that the scale sets (not null), by key."""
        return {k: value for k, value in msgspec.structs.asdict(self).items() if value is not None}

    def flags(self, system_training: TrainingSpec) -> list[str]:
        """Return the flags of `aiayn train` for the scale's settings that differ from a system's
        own settings.
        """
        flags = []
        for key, value in self.values.items():
            if getattr(system_training, key) != value:
                flags += [f"--{key}", str(value)]
        return flags


# The tables do not depend on where trainings run or which file lists them. So
# `paper_tables.scale_results` reads a scale with these neutral values.
PLACE: dict[str, object] = {
    "trainings": "",
    "only": None,
    "runs_folder": "",
    "cluster": "",
    "mirror": None,
    "allow_long_runs": False,
}


class ScaleSpec(Spec, frozen=True, kw_only=True):
    """The config of a scale, which is one size of the experiment (demo, multi30k or paper). Several
    configs may have the same scale and differ in their list of trainings. No value of a scale's
    config is a list or a mapping, because Snakemake would merge mappings.

    The key `trainings` selects the sheet, which is the list of trainings: a name in
    workflow/config/trainings/, or the path of a `.tsv` file. If the key `only` is not null, it
    selects rows and seeds of the sheet, as in `base:1,2` (function `select_rows`). If the keys
    `updates` and `precision` are not null, they replace the values of every system (`overrides`).
    If `has_layer_timing` is true, the rule measure of the workflow times the layers of Table 1.
    """

    scale: Literal["demo", "multi30k", "paper"]
    trainings: str
    runs_folder: str
    has_baselines: bool
    cluster: str
    only: str | None = None
    has_layer_timing: bool = False
    updates: Count | None = None
    precision: Precision | None = None
    mirror: str | None = None
    allow_long_runs: bool = False

    @property
    def overrides(self) -> Overrides:
        """The training settings that the scale sets for every system."""
        return Overrides(updates=self.updates, precision=self.precision)

    def read_rows(self, config_folder: Path = CONFIG_FOLDER) -> list[SheetRow]:
        """Return the rows of the scale's sheet (its list of trainings) that the key `only` selects,
        or all rows.

        Raises:
            ConfigError: if the sheet has an error, or if the key `only` selects a row or seed that
                is not in the sheet.
        """
        path = Path(self.trainings)
        if path.suffix != ".tsv":
            path = config_folder / "trainings" / f"{self.trainings}.tsv"
        rows = read_sheet(path)
        return rows if self.only is None else select_rows(rows, self.only)


def overridden(system: SystemSpec, overrides: Overrides) -> SystemSpec:
    """Return a copy of a system in which the settings in `overrides` replace the system's own
    training settings.
    """
    return msgspec.structs.replace(
        system, training=msgspec.structs.replace(system.training, **overrides.values)
    )


def _read_inheriting(name: str, folder: Path, kind: str) -> Document:
    """Return the keys in the YAML file of a system or corpus, with the keys that it inherits."""
    documents = [read_document(folder / f"{name}.yaml")]
    own_document = documents[0]
    names = [name]
    # Each file inherits from one other. The chain ends at a file without `inherits`.
    while (base_name := documents[-1].values.get("inherits")) is not None:
        location = documents[-1].location("inherits")
        if not isinstance(base_name, str):
            raise ConfigError(
                f"{location}: inherits is {base_name!r}; expected the name of a {kind}"
            )
        # Without this check a circle would be read for ever.
        if base_name in names:
            raise ConfigError(
                f"{location}: inherits in a circle: {' -> '.join([*names, base_name])}; remove"
                " `inherits` from the base"
            )
        names.append(base_name)
        try:
            documents.append(read_document(folder / f"{base_name}.yaml"))
        except ConfigError as error:
            raise ConfigError(
                f"{location}: inherits {base_name!r}, which cannot be read: {error}"
            ) from error
    for key in ("name", "description"):  # are never inherited
        own_document.require(
            key,
            key in own_document.values,
            own_document.values.get(key),
            f"a {key} in its own file",
        )
    written = own_document.values["name"]
    own_document.require("name", written == name, written, f"{name!r}, the name of the file")
    # The base comes first, and each file's keys replace the keys of the files before it.
    return functools.reduce(overlay, reversed(documents))


def read_system(name: str, scale: str, config_folder: Path = CONFIG_FOLDER) -> SystemSpec:
    """Read the YAML file of a system of a scale, with the keys that the system inherits.

    Raises:
        ConfigError: if a key or value is wrong, or if the name of the file is not the system's
            name. The message contains file and line.
    """
    if scale not in SCALES:
        raise ConfigError(f"scale {scale!r}: expected one of {', '.join(SCALES)}")
    folder = config_folder / "systems" / scale
    document = _read_inheriting(name, folder, f"system of scale {scale}")
    spec = convert(document, SystemSpec)

    def check(key: str, is_right: bool, expected: str) -> None:
        document.require(f"training.{key}", is_right, getattr(spec.training, key), expected)

    # Types allow single values. Rules that involve several keys are checked here.
    check_training(spec.training, check)
    return spec


def read_corpus(name: str, config_folder: Path = CONFIG_FOLDER) -> CorpusSpec:
    """Read a corpus file (YAML), with the keys that the corpus inherits.

    Raises:
        ConfigError: if a key or value is wrong, or if no text file is given for a split or
            language. The message contains file and line.
    """
    document = _read_inheriting(name, config_folder / "corpora", "corpus")
    spec = convert(document, CorpusSpec)
    check_corpus(spec, document.require)
    return spec


def read_scale(path: Path) -> ScaleSpec:
    """Read a scale's config file (workflow/config/<scale>.yaml).

    Raises:
        ConfigError: if a key or value is wrong. The message contains file and line.
    """
    return convert(read_scale_document(path), ScaleSpec)


def read_scale_document(path: Path, config_folder: Path = CONFIG_FOLDER) -> Document:
    """Read a scale's config file without checking its values.

    Raises:
        ConfigError: if the file is not a mapping, or if it is absent (with a list of the existing
            config files).
    """
    if path.exists():
        return read_document(path)
    existing = []
    # Other YAML files are next to the scales, such as hardware.yaml.
    for other in sorted(config_folder.glob("[!.]*.yaml")):
        if "\nscale:" in f"\n{other.read_text(encoding='utf-8')}":
            is_below = other.is_relative_to(Path.cwd())
            existing.append(str(other.relative_to(Path.cwd()) if is_below else other))
    raise ConfigError(f"{path}: no such file; existing configs: {', '.join(existing)}")


def convert_scale(config: dict[str, object], origin: str) -> ScaleSpec:
    """Turn Snakemake's merged config (the config file and the command line's `--config`) into a
    ScaleSpec. The argument `origin` is the name of the config in error messages.
    """
    # Snakemake passes some values of `--config` as text.
    return convert(Document(Path(origin), dict(config), {}), ScaleSpec, strict=False)


def spec_digest(spec: msgspec.Struct) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a spec's values. Comments in the
    spec's YAML file do not change these digits.
    """
    # `deterministic` sorts mappings, so their order in the file does not change the digest.
    return hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:16]


def run_name(
    *,
    corpus: str,
    system: str,
    seed: int,
    training: TrainingSpec,
    data_digest: str,
    stage_version: int,
) -> str:
    """Return the name of a run, from corpus, system, seed and digest:
    `<corpus>-<system>-seed<k>-<digest8>`.

    The digest in a run's name is computed from exactly the values that the trained weights depend
    on.
    """
    # A change of this list, or of its format, would rename all runs. tests/contracts/run_names.tsv
    # has the names.
    parts = [
        msgspec.json.encode(training, order="deterministic").decode(),
        str(seed),
        data_digest,
        str(stage_version),
    ]
    digest8 = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
    return f"{corpus}-{system}-seed{seed}-{digest8}"
