"""Computes a digest of the code of each stage, which comments, docstrings and local names do not change."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2] / "workflow" / "aiayn"

# By stage, the modules that decide what it writes, below workflow/aiayn. What every stage uses (records, paths, specs) is
# typed, and a change of it shows in the records. The stage `tables` has whole golden files instead (tests/golden/tables).
MODULES_BY_STAGE = {
    "fetch": ("data/sources/*.py",),
    "clean": (
        "data/text/clean.py",
        "data/text/tokenize_moses.py",
        "data/text/chunks.py",
        "data/text/lines.py",
    ),
    "segment": ("data/text/subword.py",),
    "binarize": ("data/text/binarize.py", "data/text/encoder.py", "data/text/index.py"),
    "train": ("train/*.py", "!train/average.py", "model/*.py", "schedule.py"),
    "average": ("train/average.py",),
    "decode": (
        "decode/decode.py",
        "decode/beam_search.py",
        "decode/decoder_steps.py",
        "data/text/detokenise.py",
    ),
    "perplexity": ("decode/perplexity.py",),
    "score": ("scoring/score.py",),
    "evaluations": ("cli/evaluations.py",),
    "baselines": ("data/baselines.py",),
}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# Fields that carry no meaning, or that not every version of Python has.
IGNORED_FIELDS = {"type_comment", "type_params", "kind", "type_ignores", "ctx"}


def stage_digest(stage: str, library: Path = LIBRARY) -> str:
    """Return the digest of a stage's modules, 12 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in modules_of(stage, library):
        digest.update(path.relative_to(library).as_posix().encode())
        digest.update(code_of(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:12]


def modules_of(stage: str, library: Path = LIBRARY) -> list[Path]:
    """Return a stage's modules, sorted. A pattern after `!` takes modules out again."""
    paths: set[Path] = set()
    for pattern in MODULES_BY_STAGE[stage]:
        matches = set(library.glob(pattern.removeprefix("!")))
        assert matches, f"stage {stage}: {pattern} matches no module; correct MODULES_BY_STAGE"
        paths = paths - matches if pattern.startswith("!") else paths | matches
    return sorted(paths)


def code_of(source: str) -> str:
    """Return the syntax tree of a module as text, without comments, docstrings and local names.

    Annotations stay, because msgspec reads them.
    """
    return "".join(_dump(ast.parse(source), {}))


def _dump(node: object, names: dict[str, str]) -> Iterator[str]:
    """Yield a tree in parts. `names` has a neutral name for each local variable."""
    if isinstance(node, list):
        for item in node:
            yield from _dump(item, names)
        return
    if not isinstance(node, ast.AST):
        yield f"{node!r},"
        return
    if isinstance(node, ast.Name) and node.id in names:
        yield f"Name({names[node.id]})"
        return
    if isinstance(node, SCOPES):
        names = names | {name: f"local{len(names) + i}" for i, name in enumerate(_locals(node))}
    yield f"{type(node).__name__}("
    for field, value in ast.iter_fields(node):
        if field not in IGNORED_FIELDS and value not in (None, []):
            yield f"{field}="
            yield from _dump(_without_docstring(node, value) if field == "body" else value, names)
    yield ")"


def _locals(scope: ast.AST) -> list[str]:
    """Return the variables that a function assigns, in order. Parameters and globals keep names."""
    kept: set[str] = set()
    stored: dict[str, None] = {}
    for node in ast.walk(scope):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            kept.update(node.names)
        elif isinstance(node, ast.arg):
            kept.add(node.arg)
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] = None
    return [name for name in stored if name not in kept]


def _without_docstring(node: ast.AST, body: object) -> object:
    """Return the statements of a module, class or function without its docstring."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    if isinstance(node, holders) and ast.get_docstring(node, clean=False) is not None:
        return node.body[1:]
    return body
