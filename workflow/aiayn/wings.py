"""Finds the wings, which are optional packages. A wing adds verbs (subcommands), tables, figures
and stages to the core.

A wing is one folder, `analysis/<wing>/`, with its tests in `tests/<wing>/`. The file `wing.py` of a
wing has a constant WING, which lists the verbs, tables, figures and stages of the wing. `wing.py`
imports only the types of this module. A test requires that no two wings register the same verb,
table, figure or stage. The core does not import wings directly: it finds wings with this module,
and imports a registered function by its name when the function is used. To remove a wing, delete
its folder.

    from aiayn.wings import Wing, WingTable

    WING = Wing(
        summary="predict what a training costs",
        verbs={"plan": "predict hours and disk of a config"},  # analysis/price/verbs/plan.py
        tables=(WingTable("costs", "analysis.price.tables.costs:lay_out_costs", chapter="trainings", place=10),),
    )

Only commands, rules and tables look for wings. The jobs and ranks of a training do not look for
wings, because the copy of the code that they run does not contain `analysis/`.
"""  # noqa: E501

import functools
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from aiayn.errors import ConfigError

PACKAGE = "analysis"
FILE_NAME = "wing.py"


class WingTable(msgspec.Struct, frozen=True):
    """A table of a wing. `layout` is the `module:function` that returns the table for the results
    of a scale (a size of the experiment), or returns None.

    The results page of a scale shows the table in the chapter `chapter`. `place` is the table's
    position in this chapter, among the tables of the core and of all wings. A pack (an archive of
    finished runs) contains the table only if one of our numbers is in the table, or if
    `is_always_packed` is true.
    """

    name: str
    layout: str
    chapter: str
    place: int
    is_always_packed: bool = False


class WingFigure(msgspec.Struct, frozen=True):
    """The position of a wing's figures on the results page of a scale (a size of the experiment).
    The position is for all figures with a name that begins with `name`.
    """

    name: str
    chapter: str
    place: int


class WingStage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that a wing adds to the workflow. The stage runs if the key `asked_by` in the config
    of a scale (a size of the experiment) is true, and writes one record for the scale.

    `rules` is the path of the stage's rule file in the checkout. `record` is the type of the
    stage's record as `module:type`. Tables find the record under the name of the stage's verb.
    """

    verb: str
    asked_by: str
    rules: str
    record: str


class Wing(msgspec.Struct, frozen=True, kw_only=True):
    """The verbs, tables, figures and stages of a wing. `summary` says in one line what the wing is
    for.

    `verbs` maps each verb to its description. The module of a verb is
    `analysis.<wing>.verbs.<verb>`. The fields `scale_figures` and `answer` are texts
    `module:function`:

    * The function `scale_figures` gets the frame (results) of a scale, the log path by run (or None
      for the runs folder), and the attention folder (or None). This function yields pairs of a
      figure and the function that makes the data frame of the figure. The field `figures` has the
      positions of these figures.
    * The function `answer` gets the frame of a scale and returns the picture at the top of the
      scale's page (`paper_tables.render.picture.Picture`), or None. Only one wing may set the field
      `answer`.
    """

    summary: str
    verbs: dict[str, str] = msgspec.field(default_factory=dict)
    tables: tuple[WingTable, ...] = ()
    figures: tuple[WingFigure, ...] = ()
    stage: WingStage | None = None
    scale_figures: str = ""
    answer: str = ""


@functools.cache
def present_wings() -> dict[str, Wing]:
    """Return all wings by the names of their folders, in alphabetical order.

    Raises:
        ConfigError: for the same reasons as in `find_wings`.
    """
    # The package `analysis` may be spread over several folders, or be installed elsewhere.
    paths = importlib.import_module(PACKAGE).__path__
    return {name: wing for path in paths for name, wing in find_wings(Path(path)).items()}


def find_wings(folder: Path) -> dict[str, Wing]:
    """Return the wings in a folder, which is normally the package `analysis`.

    A folder without Python files is not a wing: it may contain the byte code of a deleted wing.

    Raises:
        ConfigError: if a folder has Python files but no `wing.py`, or if a `wing.py` cannot be
            read.
    """
    wings: dict[str, Wing] = {}
    for path in sorted(folder.iterdir()):
        if not path.is_dir() or path.name == "__pycache__":
            continue
        if (path / FILE_NAME).is_file():
            wings[path.name] = _read_wing(path)
        elif any(path.rglob("*.py")):
            raise ConfigError(
                f"{path}: has Python files but no {FILE_NAME}, which says what a wing registers;"
                f" write one as in the other folders of {PACKAGE}, or delete the folder"
            )
    return wings


def _read_wing(folder: Path) -> Wing:
    """Return the constant WING of the file `wing.py` of a wing."""
    try:
        # Any error counts, because a wing is someone else's code, and must not stop commands
        # without a message.
        module = importlib.import_module(f"{PACKAGE}.{folder.name}.{FILE_NAME.removesuffix('.py')}")
        # A struct does not check its own types when it is made, only when it is converted.
        return msgspec.convert(msgspec.to_builtins(module.WING), Wing)  # checks the types
    except Exception as error:
        raise ConfigError(
            f"{folder / FILE_NAME}: cannot be read: {type(error).__name__}: {error}; correct it, or"
            " delete the folder: the rest works without this wing"
        ) from error


def module_of_verb(verb: str) -> str | None:
    """Return the name of the module of a verb that a wing registers, or None if no wing registers
    the verb.
    """
    names = (name for name, wing in present_wings().items() if verb in wing.verbs)
    return next((f"{PACKAGE}.{name}.verbs.{verb}" for name in names), None)


def present_stages() -> list[WingStage]:
    """Return the stages that the wings register."""
    return [wing.stage for wing in present_wings().values() if wing.stage is not None]


# The type is Any, because `aiayn.spec` is in a layer above this module.
def asked_stages(scale: Any) -> list[WingStage]:
    """Return the stages of wings that the config of a scale (`aiayn.spec.system.ScaleSpec`)
    switches on.
    """
    return [stage for stage in present_stages() if getattr(scale, stage.asked_by)]


def wing_tables() -> list[WingTable]:
    """Return the tables that the wings register."""
    return [table for wing in present_wings().values() for table in wing.tables]


def wing_figures() -> list[WingFigure]:
    """Return the positions of figures that the wings register."""
    return [figure for wing in present_wings().values() for figure in wing.figures]


def registered(kind: Literal["scale_figures", "answer"]) -> Iterator[Any]:
    """Yield the functions that the wings register in the field `kind` of their WING."""
    targets = (str(getattr(wing, kind)) for wing in present_wings().values())
    yield from (pkgutil.resolve_name(target) for target in targets if target)
