"""Lists every argument that fairseq-train and fairseq-generate print for translation, with its
default by version.

`python -m tests.logs.fairseq_keys FOLDER` reads the unpacked source distributions
`fairseq-<version>/` in FOLDER (from PyPI, 0.6.1 to 0.12.2) and writes fairseq_keys.csv beside this
file. Nothing of fairseq is imported or run: the syntax trees hold the calls of `add_argument`, the
fields of the dataclasses, and the assignments `args.name = ...` by which architectures and the
programs themselves add what no flag has.
"""

import ast
import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path

VERSIONS = (
    "0.6.1", "0.6.2", "0.7.1", "0.7.2", "0.8.0", "0.9.0", "0.10.0", "0.10.1", "0.10.2", "0.11.1", "0.12.0", "0.12.1",
    "0.12.2",
)  # fmt: skip
KEYS_PATH = Path(__file__).with_name("fairseq_keys.csv")
BOTH, TRAIN, GENERATE = ("train", "generate"), ("train",), ("generate",)
# Functions of options.py and dataclasses of dataclass/configs.py, by the programs whose parsers
# call them.
PROGRAMS_BY_PART = {
    "get_parser": BOTH, "add_dataset_args": BOTH, "add_distributed_training_args": BOTH, "add_model_args": TRAIN,
    "add_optimization_args": TRAIN, "add_checkpoint_args": BOTH, "add_generation_args": GENERATE,
    "add_common_eval_args": GENERATE, "CommonConfig": BOTH, "DatasetConfig": BOTH,
    "DistributedTrainingConfig": BOTH, "OptimizationConfig": TRAIN, "CheckpointConfig": BOTH,
    "FairseqBMUFConfig": TRAIN, "GenerationConfig": GENERATE, "CommonEvalConfig": GENERATE,
    "EMAConfig": TRAIN,
}  # fmt: skip
# Other files, with the programs that print their arguments.
FILES = (
    ("tasks/translation.py", BOTH), ("models/transformer.py", TRAIN), ("models/transformer/*.py", TRAIN),
    ("models/lstm.py", TRAIN), ("models/fconv.py", TRAIN), ("optim/*.py", TRAIN),
    ("optim/lr_scheduler/*.py", TRAIN), ("criterions/cross_entropy.py", TRAIN),
    ("criterions/label_smoothed_cross_entropy.py", TRAIN), ("data/encoders/*.py", BOTH), ("scoring/*.py", BOTH),
)  # fmt: skip
# A parser of fairseq-generate has the defaults of these registries, too.
DEFAULT_CLASSES = (
    "optim/nag.py",
    "optim/lr_scheduler/fixed_schedule.py",
    "criterions/cross_entropy.py",
)
REGISTRIES = ("criterion", "tokenizer", "bpe", "optimizer", "lr_scheduler", "scoring")
PREFIX_BY_CLASS = {"QuantNoiseConfig": "quant_noise_", "DecoderConfig": "decoder_"}
# Models of language that share a file with those of translation.
OTHER_PARTS = ("LanguageModel", "_lm", "Align", "_align")
# Names that the programs give to their arguments after parsing, and that are printed with them.
ASSIGNED_FILES = (
    "options.py",
    "distributed_utils.py",
    "distributed/utils.py",
    "../train.py",
    "../fairseq_cli/train.py",
)
NO_DEFAULT = "?"  # computed when the program runs

Found = tuple[str, str, str]  # program, key, default in JSON or NO_DEFAULT


def keys_of_version(root: Path) -> Iterator[Found]:
    """Yield the arguments of one source distribution; `root` is its package fairseq/."""
    for name in ("options.py", "dataclass/data_class.py", "dataclass/configs.py"):
        for part in _tree(root / name).body:
            part_name = getattr(part, "name", "").replace("Params", "Config")
            for program in PROGRAMS_BY_PART.get(part_name, ()):
                yield from ((program, *found) for found in _arguments(part))
    for pattern, programs in FILES:
        for path in sorted(root.glob(pattern)):
            for program in programs:
                yield from ((program, *found) for found in _arguments(_tree(path)))
    for name in DEFAULT_CLASSES:
        yield from (("generate", *found) for found in _arguments(_tree(root / name)))
    for name in REGISTRIES:
        yield from ((program, name, NO_DEFAULT) for program in BOTH)
    for name in ASSIGNED_FILES:
        for key in _assigned(_tree(root / name)):
            yield from ((program, key, NO_DEFAULT) for program in BOTH)


def _tree(path: Path) -> ast.Module:
    return (
        ast.parse(path.read_text(encoding="utf-8"))
        if path.exists()
        else ast.Module(body=[], type_ignores=[])
    )


def _arguments(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (key, default) of every flag, field of a dataclass, and attribute that an architecture
    sets.
    """
    parts = tree.body if isinstance(tree, ast.Module) else [tree]
    translating = [
        part for part in parts if not any(word in getattr(part, "name", "") for word in OTHER_PARTS)
    ]
    for node in (node for part in translating for node in ast.walk(part)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            yield from _of_flag(node)
        elif isinstance(node, ast.ClassDef):
            yield from _of_dataclass(node)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target = node.targets[0]
            is_set = isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "args"
            if is_set and getattr(node.value.func, "id", "") in ("getattr", "safe_getattr"):
                yield (
                    target.attr,
                    _literal(node.value.args[2]) if len(node.value.args) > 2 else NO_DEFAULT,
                )


def _of_flag(call: ast.Call) -> Iterator[tuple[str, str]]:
    names = [
        one.value
        for one in call.args
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    keywords = {one.arg: one.value for one in call.keywords}
    if not names:
        return  # a flag that is made of a name of a registry, or of a field
    dest = keywords.get("dest")
    long_name = next((name for name in names if name.startswith("--")), names[0])
    key = dest.value if isinstance(dest, ast.Constant) else long_name.lstrip("-").replace("-", "_")
    action = getattr(keywords.get("action"), "value", "")
    default = {"store_true": "false", "store_false": "true"}.get(action, "null")
    yield str(key), _literal(keywords["default"]) if "default" in keywords else default


def _of_dataclass(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    is_dataclass = any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    is_registered = any(getattr(base, "id", "") == "FairseqDataclass" for base in node.bases)
    if not is_dataclass and not is_registered:
        return
    prefixes = (
        ("encoder_", "decoder_")
        if node.name == "EncDecBaseConfig"
        else (PREFIX_BY_CLASS.get(node.name, ""),)
    )
    for field in node.body:
        if (
            not isinstance(field, ast.AnnAssign)
            or not isinstance(field.target, ast.Name)
            or field.target.id == "_name"
        ):
            continue
        value = field.value
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "field":
            value = next((one.value for one in value.keywords if one.arg == "default"), None)
        if isinstance(value, ast.Call) and getattr(value.func, "id", "").endswith("Config"):
            continue  # a group of further fields, which its own class lists
        for prefix in prefixes:
            yield prefix + field.target.id, NO_DEFAULT if value is None else _literal(value)


def _literal(node: ast.expr) -> str:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        text = ast.unparse(node)
        try:  # 2 ** 7, 4096 * 1024
            value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})
        except Exception:
            return "0" if text == "MISSING_INT" else NO_DEFAULT
    if isinstance(value, str | int | float | bool | None):
        return json.dumps(value)
    return json.dumps(str(value))


def _assigned(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "args":
                    yield target.attr


def all_keys(folder: Path) -> list[tuple[str, str, str]]:
    """Return (key, program, defaults) over all versions; equal defaults of neighbouring versions
    are one entry.
    """
    default_by_version: dict[tuple[str, str], dict[str, str]] = {}
    for version in VERSIONS:
        for program, key, default in keys_of_version(folder / f"fairseq-{version}" / "fairseq"):
            known = default_by_version.setdefault((key, program), {})
            if known.get(version, NO_DEFAULT) == NO_DEFAULT:
                known[version] = default
    return [(*name, _in_words(defaults)) for name, defaults in sorted(default_by_version.items())]


def _in_words(default_by_version: dict[str, str]) -> str:
    """Return `0.6.1-0.9.0: null; 0.10.0-0.12.2: false`."""
    spans: list[list[str]] = []  # first and last version, default
    for index, version in enumerate(VERSIONS):
        default = default_by_version.get(version)
        is_next = (
            bool(spans)
            and index > 0
            and spans[-1][1] == VERSIONS[index - 1]
            and spans[-1][2] == default
        )
        if default is not None and is_next:
            spans[-1][1] = version
        elif default is not None:
            spans.append([version, version, default])
    return "; ".join(f"{first}-{last}: {default}" for first, last, default in spans)


if __name__ == "__main__":
    with KEYS_PATH.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(("key", "program", "default"))
        writer.writerows(all_keys(Path(sys.argv[1])))
