"""Lists every argument that fairseq-train and fairseq-generate print for translation, with its
default by version.

`python -m tests.logs.fairseq_keys FOLDER` reads the unpacked source distributions
`fairseq-<version>/` in FOLDER (from PyPI, 0.6.1 to 0.12.2) and writes fairseq_keys.csv beside this
file. Nothing of fairseq is imported: the syntax trees hold the calls of `add_argument`, the fields
of the dataclasses, and the assignments `args.name = ...` by which architectures and the programs
themselves add what no flag has. fairseq_parts.csv has the files, the functions and classes in them
(all without names), and the programs whose parsers call them.
"""

import ast
import csv
import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

VERSIONS = (
    "0.6.1", "0.6.2", "0.7.1", "0.7.2", "0.8.0", "0.9.0", "0.10.0", "0.10.1", "0.10.2", "0.11.1", "0.12.0", "0.12.1",
    "0.12.2",
)  # fmt: skip
KEYS_PATH = Path(__file__).with_name("fairseq_keys.csv")
PARTS_PATH = Path(__file__).with_name("fairseq_parts.csv")
# Models of language, and of alignment, share a file with those of translation.
TRANSLATION = r"(?!.*(LanguageModel|_lm|Align|_align)).*"
REGISTRIES = ("criterion", "tokenizer", "bpe", "optimizer", "lr_scheduler", "scoring")
PREFIXES_BY_CLASS = {
    "QuantNoiseConfig": ("quant_noise_",),
    "DecoderConfig": ("decoder_",),
    "EncDecBaseConfig": ("encoder_", "decoder_"),
}
# Names that the programs give to their arguments after parsing, and that are printed with them.
ASSIGNING = re.compile(r"^\s*args\.(\w+) = ", re.MULTILINE)
ASSIGNING_FILES = (
    "options.py",
    "distributed*/utils.py",
    "distributed_utils.py",
    "../*/train.py",
    "../train.py",
)
NO_DEFAULT = "?"  # computed when the program runs


def keys_of_version(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (key, program, default in JSON) of a source distribution; `root` is its package."""
    with PARTS_PATH.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    for row in rows:
        for path in sorted(root.glob(row["files"])):
            for part in ast.parse(path.read_text(encoding="utf-8")).body:
                if re.fullmatch(row["parts"] or TRANSLATION, getattr(part, "name", "")):
                    for key, default in _arguments(part):
                        yield from ((key, program, default) for program in row["programs"].split())
    names = list(REGISTRIES)
    for pattern in ASSIGNING_FILES:
        for path in root.glob(pattern):
            names += ASSIGNING.findall(path.read_text(encoding="utf-8"))
    for name in names:
        yield from ((name, program, NO_DEFAULT) for program in ("train", "generate"))


def _arguments(part: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (key, default) of every flag, field of a dataclass, and attribute that an architecture
    sets.
    """
    for node in ast.walk(part):
        match node:
            case ast.Call(func=ast.Attribute(attr="add_argument"), args=[ast.Constant(), *_]):
                yield _of_flag(node)
            case ast.ClassDef():
                yield from _of_dataclass(node)
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="args"), attr=key)],
                value=ast.Call(func=ast.Name(id="getattr" | "safe_getattr"), args=[_, _, *default]),
            ):
                yield key, _in_json(default[0]) if default else NO_DEFAULT


def _of_flag(call: ast.Call) -> tuple[str, str]:
    names = [str(one.value) for one in call.args if isinstance(one, ast.Constant)]
    keywords = {one.arg: one.value for one in call.keywords}
    long_name = next((name for name in names if name.startswith("--")), names[0])
    key = getattr(keywords.get("dest"), "value", long_name.lstrip("-").replace("-", "_"))
    action = getattr(keywords.get("action"), "value", "")
    default = {"store_true": "false", "store_false": "true"}.get(action, "null")
    return key, _in_json(keywords["default"]) if "default" in keywords else default


def _of_dataclass(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    if "dataclass" not in ast.unparse([*node.decorator_list, *node.bases]).lower():
        return
    for field in node.body:
        match field:
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if name != "_name":
                if "Config()" in ast.unparse(field):
                    continue  # a group of further fields, which its own class lists
                if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
                    defaults = [one.value for one in value.keywords if one.arg == "default"]
                    value = defaults[0] if defaults else None
                for prefix in PREFIXES_BY_CLASS.get(node.name, ("",)):
                    yield prefix + name, NO_DEFAULT if value is None else _in_json(value)


def _in_json(node: ast.expr) -> str:
    try:  # also 2 ** 7, 4096 * 1024
        value = eval(ast.unparse(node), {"__builtins__": {}, "MISSING_INT": 0})
    except Exception:
        return NO_DEFAULT
    return json.dumps(value if isinstance(value, str | int | float | None) else str(value))


def all_keys(folder: Path) -> list[tuple[str, str, str]]:
    """Return (key, program, defaults) over all versions; equal defaults of neighbouring versions
    are one entry, `0.6.1-0.9.0: null; 0.10.0-0.12.2: false`.
    """
    default_by_version: dict[tuple[str, str], dict[str, str]] = {}
    for version in VERSIONS:
        for key, program, default in keys_of_version(folder / f"fairseq-{version}" / "fairseq"):
            known = default_by_version.setdefault((key, program), {})
            if known.get(version, NO_DEFAULT) == NO_DEFAULT:
                known[version] = default
    rows = []
    for (key, program), known in sorted(default_by_version.items()):
        spans = []
        for default, versions in itertools.groupby(VERSIONS, known.get):
            span = list(versions)
            if default is not None:
                spans.append(f"{span[0]}-{span[-1]}: {default}")
        rows.append((key, program, "; ".join(spans)))
    return rows


if __name__ == "__main__":
    with KEYS_PATH.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(("key", "program", "default"))
        writer.writerows(all_keys(Path(sys.argv[1])))
