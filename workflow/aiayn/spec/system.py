"""Reads the YAML files of systems (rows of the paper's tables), corpora and scales as typed
structs, called specs.

Names are the paper's symbols in ASCII. fairseq's names appear in `train/fairseq_args.py` only.

To add a system, write workflow/config/systems/<scale>/<name>.yaml with the keys that differ from
another system, and add a row to the scale's sheet of trainings (`aiayn.spec.sheet`):

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
    """Return the folder with Snakefile, config and profiles.

    In a checkout this is the checkout itself. For an installed package it is the folder that `aiayn
    init` wrote: the working directory or the nearest folder above it. Without such a folder it is
    the copy inside the package.
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
    """A system, which is a row of a table.

    `inherits` is the system from which this system takes all other keys. Usually 1 to 3 keys
    differ. With `begins_from`, each training begins at the last checkpoint of that system's
    training with the same seed. The two systems may differ in `updates` only. Otherwise the
    training stops with an error when it begins. Equation (3) does not depend on the number of
    updates, so the tensors equal the tensors of an undivided training.
    """

    name: str
    description: str
    training: TrainingSpec
    decoding: DecodingSpec
    inherits: str | None = None
    begins_from: str | None = None


class Overrides(Spec, frozen=True, kw_only=True):
    """Keys of `training` that a scale sets for all its systems. Null keeps each system's value.

    The values enter the run's digest as if the system's file contained them.
    """

    updates: int | None = None
    precision: Precision | None = None

    @property
    def values(self) -> dict[str, object]:
        """The values that are set, by key."""
        return {k: value for k, value in msgspec.structs.asdict(self).items() if value is not None}

    def flags(self, system_training: TrainingSpec) -> list[str]:
        """Return the flags of `aiayn train` for the values that differ from a system's own."""
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
    """The config of a scale of the benchmark (demo, multi30k or paper). Several configs may share a
    scale and differ in the sheet. All values are scalars, because Snakemake merges mappings.

    `trainings` is the sheet, which is the list of trainings: a name in workflow/config/trainings/,
    or the path of a `.tsv` file. `only`, if not null, selects rows and seeds of the sheet, such as
    `base:1,2` (`select_rows`). `updates` and `precision`, if not null, replace every system's own
    values (`overrides`). With `has_layer_timing`, the layers of Table 1 are timed (rule measure).
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
        """The values that the scale sets for every system."""
        return Overrides(updates=self.updates, precision=self.precision)

    def read_rows(self, config_folder: Path = CONFIG_FOLDER) -> list[SheetRow]:
        """Return the selected rows of the sheet.

        Raises:
            ConfigError: if the sheet is wrong, or if `only` selects a row or seed that is not in
                the sheet.
        """
        path = Path(self.trainings)
        if path.suffix != ".tsv":
            path = config_folder / "trainings" / f"{self.trainings}.tsv"
        rows = read_sheet(path)
        return rows if self.only is None else select_rows(rows, self.only)


def overridden(system: SystemSpec, overrides: Overrides) -> SystemSpec:
    """Return a system with the values of `overrides` in its training."""
    return msgspec.structs.replace(
        system, training=msgspec.structs.replace(system.training, **overrides.values)
    )


def _read_inheriting(name: str, folder: Path, kind: str) -> Document:
    """Return the keys of a system or corpus, including the keys that it inherits."""
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
    """Read a system of a scale, with the keys that it inherits.

    Raises:
        ConfigError: if a key or value is wrong, or the file's name is not the system's name. The
            message contains file and line.
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
    """Read a corpus, with the keys that it inherits.

    Raises:
        ConfigError: if a key or value is wrong, or if a split or language lacks a file. The message
            contains file and line.
    """
    document = _read_inheriting(name, config_folder / "corpora", "corpus")
    spec = convert(document, CorpusSpec)
    check_corpus(spec, document.require)
    return spec


def read_scale(path: Path) -> ScaleSpec:
    """Read a scale's config file (workflow/config/<scale>.yaml).

    Raises:
        ConfigError: with file and line, if a key or value is wrong.
    """
    return convert(read_scale_document(path), ScaleSpec)


def read_scale_document(path: Path, config_folder: Path = CONFIG_FOLDER) -> Document:
    """Read a scale's config file without checks of its values.

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
    """Turn Snakemake's merged config (the file and `--config`) into a ScaleSpec. `origin` is the
    name of the config in errors.
    """
    # Snakemake passes some values of `--config` as text.
    return convert(Document(Path(origin), dict(config), {}), ScaleSpec, strict=False)


def spec_digest(spec: msgspec.Struct) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a spec's values. Comments in the file do not
    change them.
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
    """Return `<corpus>-<system>-seed<k>-<digest8>`.

    The digest covers exactly the values that decide the tensors.
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
