"""Names the wings: what stands on the core, registers itself here, and can be deleted by its folders.

The core takes text to Table 3. The folders of a wing NAME are `workflow/aiayn/NAME`, `workflow/aiayn/cli/NAME`,
`analysis/NAME`, `paper_tables/NAME` and its tests, `tests/NAME`: those of them that exist. The core imports none of
them; it asks here, and imports by a dotted string when something is used. A wing of which a package named here is not
there is skipped. A wing uses another only if that one stands before it in WINGS.
"""

import functools
import importlib.util
from collections.abc import Iterator
from typing import Any, Literal

import msgspec


class WingTable(msgspec.Struct, frozen=True):
    """A table of a wing: `layout` is `module:function` of the frame of a scale, which returns a table or None.

    On the page it stands after the core's table `after`.
    """

    layout: str
    after: str


class WingStage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that a wing adds to the DAG where a scale's key `asked_by` is true, with one record a scale.

    `rules` is its file below the package `aiayn`; `record` is `module:type`, read into the frame under the verb.
    """

    verb: str
    asked_by: str
    rules: str
    record: str


class Wing(msgspec.Struct, frozen=True, kw_only=True):
    """A wing: its packages, one line on what it is for, and what it registers.

    A verb's module is `aiayn.cli.NAME.VERB`; so is that of each of the core's verbs that it `replaces` by one that does
    more. The others are `module:function`. Of these there is one in all wings:
    `make_logs_page` of (what was read, output folder, config folder), which makes the page of logs that are not ours
    and returns its path and a sentence for each file not read; `write_figures` of (figures, folder). Each wing may
    have: `scale_figures` of (frame of a scale, log path by run or None for where the runs lie, attention folder or
    None) and `logs_figures` of (root of the logs, log file by path, averaged lines, further figures), which yield
    figures and what makes their frames; `log_reader` of the paths of logs by name, which returns the logs that are the
    wing's alone (as `paper_tables.public_runs.logs.PublicLogs`); `answer` of (frame, drawn figures), HTML that stands
    first on the page of a scale; `cited` of nothing, which returns a sentence to be cited beside verdicts at the
    paper's scale.
    """

    name: str
    summary: str
    packages: tuple[str, ...]
    verbs: dict[str, str] = msgspec.field(default_factory=dict)
    replaces: tuple[str, ...] = ()
    tables: tuple[WingTable, ...] = ()
    stage: WingStage | None = None
    make_logs_page: str = ""
    write_figures: str = ""
    scale_figures: str = ""
    logs_figures: str = ""
    log_reader: str = ""
    answer: str = ""
    cited: str = ""


WINGS = (
    Wing(
        name="outputs",
        summary="translations that are not ours: `aiayn score` of anybody's",
        packages=("analysis.outputs", "aiayn.cli.outputs"),
        replaces=("score",),
    ),
    Wing(
        name="logs",
        summary="logs that are not ours: `aiayn tables --from-logs` of anybody's fairseq",
        packages=("analysis.logs", "paper_tables.logs"),
        make_logs_page="paper_tables.logs.from_logs:make_page_of_logs",
    ),
    Wing(
        name="price",
        summary="the price before the start",
        packages=("aiayn.price", "aiayn.cli.price", "paper_tables.price"),
        verbs={
            "plan": "predict what a config or a system takes: hours, GPU-hours, money, disk, memory",
            "preflight": "check what a config needs before it is started: mirrors, disk, Slurm, versions",
        },
        tables=(WingTable("paper_tables.price.costs:lay_out_costs", after="table3"),),
    ),
    Wing(
        name="figures",
        summary="drawings",
        packages=("aiayn.figures", "aiayn.cli.figures", "paper_tables.figures"),
        verbs={
            "plot": "draw the curves of runs, live or done, or of any fairseq logs",
            "attention": "draw what a trained run attends to in a sentence (Figures 3 to 5)",
        },
        write_figures="paper_tables.figures.registry:write_figures",
        scale_figures="paper_tables.figures.registry:figures_of_scale",
        logs_figures="paper_tables.figures.registry:figures_of_logs",
    ),
    Wing(
        name="conclusions",
        summary="which of the paper's conclusions hold here",
        packages=("analysis.conclusions", "paper_tables.conclusions"),
        tables=(
            WingTable("paper_tables.conclusions.table:lay_out_conclusions", after="table3"),
            WingTable("paper_tables.conclusions.testsets:lay_out_testsets", after="table3"),
        ),
        scale_figures="paper_tables.conclusions.figure:figures_of_scale",
        answer="paper_tables.conclusions.answer:answer_of_scale",
    ),
    Wing(
        name="variants",
        summary="other readings of the paper's model, recurrence and convolution, beside base",
        packages=("paper_tables.variants",),
        tables=(
            WingTable("paper_tables.variants.compared:lay_out_variants", after="table3"),
            WingTable("paper_tables.variants.compared:lay_out_architectures", after="table3"),
        ),
    ),
    Wing(
        name="public_runs",
        summary="how much seeds vary at the paper's scale: MLPerf's runs",
        packages=("analysis.public_runs", "paper_tables.public_runs"),
        tables=(WingTable("paper_tables.public_runs.table:lay_out_shipped_runs", after="table4"),),
        scale_figures="paper_tables.public_runs.figure:figures_of_scale",
        log_reader="paper_tables.public_runs.logs:read_public_logs",
        cited="analysis.public_runs.shipped:spread_sentence",
    ),
    Wing(
        name="questions",
        summary="one question about a number",
        packages=("aiayn.cli.questions", "paper_tables.questions"),
        verbs={
            "explain": "explain what a BLEU means beside the paper's, without any run",
            "where": "show where a cell of a table comes from: runs, digests, commit, commands",
        },
        tables=(WingTable("paper_tables.questions.tables:lay_out_reference", after="table4"),),
    ),
    Wing(
        name="doctor",
        summary="why is BLEU too low",
        packages=("aiayn.cli.doctor", "analysis.doctor", "paper_tables.doctor"),
        verbs={"doctor": "find out why a run's BLEU is too low, from its log, data-bin and translations"},
    ),
    Wing(
        name="tools",
        summary="what a run is used for besides",
        packages=("aiayn.tools", "aiayn.cli.tools", "analysis.tools", "paper_tables.tools"),
        verbs={
            "evaluate": "translate a test set with any fairseq model, and score it",
            "search": "try beam sizes and length penalties on the development set (section 6.1)",
            "pack": "pack what finished runs left, small enough to ship, with the tables of these files",
            "export": "export a run's averaged model to safetensors",
            "measure": "time the layers of Table 1, without a training",
        },
        stage=WingStage(
            verb="measure",
            asked_by="has_layer_timing",
            rules="tools/measure.smk",
            record="aiayn.tools.records:MeasureRecord",
        ),
        tables=(
            WingTable("paper_tables.tools.toy_en_es:lay_out_toy", after="replications"),
            WingTable("paper_tables.tools.table1:lay_out_table1", after="runs"),
        ),
    ),
)


@functools.cache
def present_wings() -> tuple[Wing, ...]:
    """Return the wings all of whose packages are there, in their order."""
    return tuple(wing for wing in WINGS if all(_is_there(package) for package in wing.packages))


def _is_there(package: str) -> bool:
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None  # a folder of __pycache__ alone is a namespace, without origin


def wing_of_verb(verb: str) -> Wing | None:
    """Return the wing that has the module of a verb, or None."""
    return next((wing for wing in present_wings() if verb in wing.verbs or verb in wing.replaces), None)


def load(target: str) -> Any:
    """Import what `module:name` names."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def find_target(kind: Literal["make_logs_page", "write_figures"]) -> str:
    """Return what a wing that is there registers as this, for `load`; '' if there is none."""
    targets = (str(getattr(wing, kind)) for wing in present_wings())
    return next(filter(None, targets), "")


def present_stages() -> list[WingStage]:
    """Return the stages of the wings that are there."""
    return [wing.stage for wing in present_wings() if wing.stage is not None]


def asked_stages(scale: Any) -> list[WingStage]:
    """Return those that a scale (`aiayn.spec.system.ScaleSpec`) asks for."""
    return [stage for stage in present_stages() if getattr(scale, stage.asked_by)]


def tables_after(name: str) -> Iterator[Any]:
    """Yield the layouts of the wings' tables that stand after a table of the core."""
    for wing in present_wings():
        yield from (load(table.layout) for table in wing.tables if table.after == name)


def registered(kind: Literal["scale_figures", "logs_figures", "log_reader", "answer", "cited"]) -> Iterator[Any]:
    """Yield what the wings that are there register as this, in their order."""
    yield from (load(getattr(wing, kind)) for wing in present_wings() if getattr(wing, kind))
