"""Renders the origin of a cell for a terminal: what it shows, each seed's origin, the commands to repeat it."""

from collections.abc import Iterable, Mapping

from aiayn.printed import PAPER_SCALE
from aiayn.runs.attempts import Attempt
from aiayn.terminal import table, titled
from paper_tables.layout import format_value
from paper_tables.questions.where import CellTrace, NamedCell, SeedTrace, Step

COLUMN = 13  # of the labels
EDITION_WORDS = {"both": "both editions", "neurips2017": "NeurIPS 2017", "arxiv": "arXiv v5 and later", "": "published"}


def render_trace(trace: CellTrace) -> str:
    """Return the whole answer as lines of text."""
    cell = trace.cell
    title = f"{cell.name}, scale {trace.scale}"
    lines = [
        *titled(title),
        _labelled("printed", _printed(cell)),
        _labelled("definition", cell.metric),
        _labelled("ours", f"{cell.corpus}, {cell.system}, {cell.average}, {cell.testset}"),
    ]
    if trace.scale != PAPER_SCALE and cell.name.startswith("table"):
        lines.append(
            _labelled("NOTE", f"scale {trace.scale} is not the paper's: no reproduction of the printed number")
        )
    for seed in trace.seeds:
        lines += ["", *_seed_lines(trace, seed)]
    lines += ["", *titled("To repeat", "-"), *_repeat_lines(trace)]
    return "\n".join(lines) + "\n"


def render_list(cell_by_name: Mapping[str, NamedCell]) -> str:
    """Return a line a cell: its name, what is printed there, and the definition."""
    return "\n".join([*table([(name, _printed(cell), cell.metric) for name, cell in cell_by_name.items()]), ""])


def _printed(cell: NamedCell) -> str:
    values = [f"{value} ({EDITION_WORDS[edition]})" for edition, value in cell.printed_by_edition.items()]
    return ", ".join(values) or "-"


def _labelled(label: str, text: str) -> str:
    return f"  {label:<{COLUMN}}{text}"


def _indented(text: str) -> str:
    return " " * (COLUMN + 2) + text


def _seed_lines(trace: CellTrace, seed: SeedTrace) -> Iterable[str]:
    value = "no value" if seed.value is None else format_value(seed.value, trace.cell.metric)
    heading = f"Seed {seed.seed}: {value}, {seed.status}"
    yield from (*titled(heading, "-"), _labelled("run", seed.run or "none yet"))
    if seed.signature:
        yield _labelled("signature", seed.signature)
    for attempt in seed.attempts:
        yield _labelled(f"attempt {attempt.attempt}", _attempt_words(attempt))
    if seed.log_line is not None:
        yield _labelled("log", f"{seed.log_line.path}:{seed.log_line.number}, update {seed.log_line.update:,}")
        yield _indented(seed.log_line.text)
    if seed.hypotheses is not None:
        yield _labelled("hypotheses", f"{seed.hypotheses.path} ({seed.hypotheses.state})")
        yield _indented(f"sha256 {seed.hypotheses.sha256}")
    if seed.checkpoint is not None:
        state = "there" if seed.checkpoint.is_there else "missing"
        updates = ", ".join(f"{update:,}" for update in seed.checkpoint.averaged_updates)
        yield _labelled("checkpoint", f"{seed.checkpoint.path} ({state}), of update {updates}")
        yield _indented(f"sha256 of its tensors {seed.checkpoint.tensors_sha256}")
    for commit, verbs in _verbs_by_commit(seed.steps).items():
        yield _labelled("commit", f"{commit} ({', '.join(verbs)})")
    if seed.version_by_package:
        versions = ", ".join(f"{package} {version}" for package, version in seed.version_by_package.items())
        yield _labelled("versions", f"Python {seed.python}, {versions}")
    for problem in seed.problems:
        yield _labelled("NOTE", problem)


def _attempt_words(attempt: Attempt) -> str:
    job = f"job {attempt.job}, " if attempt.job else ""  # a pack has neither jobs nor hosts
    place = f"{attempt.device}, {job}commit {attempt.commit[:12]}"
    place = f"{attempt.host} ({place})" if attempt.host else place
    begun = f"{attempt.began}, update {attempt.first_update:,}, {place}"
    if not attempt.outcome:
        return f"{begun}, no end noted"
    reason = f": {attempt.reason}" if attempt.reason else ""
    return f"{begun}, to {attempt.ended}, update {attempt.last_update:,}, {attempt.outcome}{reason}"


def _verbs_by_commit(steps: Iterable[Step]) -> dict[str, list[str]]:
    verbs: dict[str, list[str]] = {}
    for step in steps:
        verbs.setdefault(step.commit, []).append(step.verb)
    return verbs


def _repeat_lines(trace: CellTrace) -> Iterable[str]:
    """Yield the commands as the records have them, the commit before those that were run at it."""
    steps = [*trace.data_steps, *(step for seed in trace.seeds for step in seed.steps)]
    if not steps:
        yield "  nothing was run yet: `snakemake` makes it"
    commit = None
    for step in steps:
        if step.commit != commit:
            commit = step.commit
            yield f"  git checkout {commit.removesuffix('+dirty')}" + ("  # and changes in no commit" * ("+" in commit))
        yield f"  {step.command}"
