"""Reads one result file of MLPerf's Transformer benchmark, in the three dialects of its logging.

v0.5 writes `:::MLPv0.5.0 transformer TIME (FILE:LINE) KEY: VALUE`, v0.6 `:::MLL TIME KEY: {...}` and v0.7
`:::MLLOG {...}`. What a log does not state (the number of TPUs, the submitter in v0.5) is taken from the description of
the system that lies beside the results in MLPerf's repositories, where it is there.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from aiayn.errors import AiaynError
from aiayn.packed import UNPACK_ERRORS, open_unpacked

BENCHMARK = "transformer"
TARGET_BLEU = 25.0  # uncased: mlcommons/training, retired_benchmarks/transformer/README.md, "Quality target"
MARK = b":::ML"
Round = Literal["v0.5", "v0.6", "v0.7"]
ROUND_BY_DIALECT: dict[str, Round] = {"MLPv0.5.0": "v0.5", "MLL": "v0.6", "MLLOG": "v0.7"}
_TAGGED = re.compile(r":::(MLPv0\.5\.0|MLLOG|MLL) (.*)")
_V05 = re.compile(r"(?P<benchmark>\w+) (?P<time>[0-9.]+) \(.*?:\d+\) (?P<key>\w+)(?:: (?P<value>.*))?")
_V06 = re.compile(r"(?P<time>[0-9.]+) (?P<key>\w+): (?P<value>\{.*\})")
# What NVIDIA's program prints beside the logging, and so all submitters that used it.
_PRINTED = {
    "tokens_per_gpu": re.compile(r"\| max tokens per GPU = (\d+)"),
    "num_gpus": re.compile(r"\| training on (\d+) GPUs"),
    "num_parameters": re.compile(r"\| num\. model params: (\d+)"),
}
_SPELLING = {"nvidia": "NVIDIA", "google": "Google"}  # as written in v0.5 and v0.6


class PublicRunError(AiaynError):
    """A result file is cut, damaged, of another benchmark, or none of MLPerf's."""


class PublicRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One training; a line of public_runs.csv.

    `batch` is that of an update over all accelerators, in `batch_unit`: `tokens` (padded, of the longer side) or
    `sequences` (into which Google's programs pack several sentences). `learning_rate` is as logged: the peak, or in
    Google's programs a factor of equation (3). A count of 0, an empty seed or name: not stated. `seconds` are from
    run_start to run_stop.
    """

    run: str
    round: Round
    division: str
    submitter: str
    system: str
    accelerator: str
    num_accelerators: int
    seed: str
    batch: int
    batch_unit: Literal["tokens", "sequences", ""]
    optimizer: str
    learning_rate: float
    warmup_steps: int
    num_parameters: int
    status: Literal["success", "aborted"]
    seconds: float
    repository: str = ""
    commit: str = ""
    path: str = ""


class PublicEvaluation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """BLEU in percent, uncased, by MLPerf's definition, after `epoch` epochs and `seconds` since run_start."""

    run: str
    epoch: int
    bleu: float
    seconds: float


class PublicTraining(NamedTuple):
    """A run and its evaluations, in their order."""

    run: PublicRun
    evaluations: tuple[PublicEvaluation, ...]

    def reached(self) -> PublicEvaluation | None:
        """Return the first evaluation at the target or above."""
        return next((one for one in self.evaluations if one.bleu >= TARGET_BLEU), None)


class _Event(NamedTuple):
    line: int
    seconds: float
    key: str
    value: Any
    metadata: dict[str, Any]


def is_mlperf(path: Path) -> bool:
    """Return whether a file has a line of MLPerf's logging near its beginning; False if it cannot be read."""
    try:
        with open_unpacked(path) as content:
            return MARK in content.read(1 << 18)  # 960 ranks print up to 10,000 bytes before the first
    except (*UNPACK_ERRORS, OSError):
        return False


def read_result(path: Path) -> PublicTraining:
    """Return the run of a result file, named by its path, and its evaluations.

    Raises:
        PublicRunError: naming file and line, if it is cut, damaged, of another benchmark, or none of MLPerf's.
    """
    try:
        with open_unpacked(path) as content:
            lines = content.read().decode("utf-8", errors="replace").split("\n")
    except (*UNPACK_ERRORS, OSError) as error:
        raise PublicRunError(f"{path}: cannot be read ({error}); copy the file again") from error
    try:
        return _training(path, lines)
    except (ValueError, TypeError, KeyError, IndexError, SyntaxError) as error:
        what = f"a value of another form ({type(error).__name__}: {error})"
        raise PublicRunError(f"{path}: {what}; expected those of MLPerf's logging; copy the file again") from error


def _training(path: Path, lines: Sequence[str]) -> PublicTraining:
    dialects = {tagged[1]: number for number, line in enumerate(lines, start=1) if (tagged := _TAGGED.search(line))}
    if len(dialects) != 1:
        seen = " and ".join(dialects) or f"{len(lines):,} lines and none of MLPerf's logging"
        raise PublicRunError(f"{path}: {seen}; expected one of {', '.join(ROUND_BY_DIALECT)}; name a result_*.txt")
    dialect = next(iter(dialects))
    log = _Log(path, list(_events(path, lines)))
    log.require_benchmark()
    start, stop = log.only("run_start"), log.only("run_stop")
    evaluations = tuple(_evaluations(log, dialect, start.seconds))
    described, printed = _described(log), _printed(lines)
    num_accelerators = printed["num_gpus"] or described.get("num_accelerators", 0)
    submitter = described.get("submitter") or log.text("submission_org")
    submitter = _SPELLING.get(submitter.lower(), submitter)
    is_reached = any(one.bleu >= TARGET_BLEU for one in evaluations)
    run = PublicRun(
        run=path.as_posix(),
        round=ROUND_BY_DIALECT[dialect],
        division=(described.get("division") or log.text("submission_division")).lower(),
        submitter=submitter,
        system=described.get("system") or log.text("submission_platform"),
        accelerator=described.get("accelerator", ""),
        num_accelerators=num_accelerators,
        seed=log.text("seed", "run_set_random_seed"),
        # v0.5 logs the batch of one GPU
        batch=int(log.number("global_batch_size", "input_batch_size"))
        * (num_accelerators if dialect == "MLPv0.5.0" else 1),
        batch_unit="tokens" if printed["tokens_per_gpu"] else "sequences" if submitter == "Google" else "",
        optimizer=log.text("opt_name").lower(),
        learning_rate=log.number("opt_base_learning_rate", "opt_learning_rate"),
        warmup_steps=int(log.number("opt_learning_rate_warmup_steps")),
        num_parameters=printed["num_parameters"],
        status="success" if stop.metadata.get("status", "success") == "success" and is_reached else "aborted",
        seconds=round(stop.seconds - start.seconds, 1),
    )
    return PublicTraining(run, evaluations)


def _events(path: Path, lines: Iterable[str]) -> Iterator[_Event]:
    """Yield every event; a line that is tagged and cannot be read is an error, as a cut file ends in one."""
    for number, line in enumerate(lines, start=1):
        if (tagged := _TAGGED.search(line)) is None:
            continue
        try:
            yield _event(tagged[1], number, tagged[2].rstrip())
        except (ValueError, KeyError, TypeError) as error:
            place = f"{path}:{number}: {tagged[0][:80]!r}"
            raise PublicRunError(f"{place}; expected an event of {tagged[1]}, whole; copy the file again") from error


def _event(dialect: str, number: int, text: str) -> _Event:
    if dialect == "MLLOG":
        entry = json.loads(text)
        return _Event(number, entry["time_ms"] / 1000, entry["key"], entry["value"], entry.get("metadata") or {})
    matched = (_V06 if dialect == "MLL" else _V05).fullmatch(text)
    if matched is None:
        raise ValueError(text)
    seconds, key = float(matched["time"]), matched["key"]
    value: Any = json.loads(matched["value"]) if matched["value"] else None
    if dialect == "MLL":
        return _Event(number, seconds, key, value["value"], value.get("metadata") or {})
    return _Event(number, seconds, key, value, {"benchmark": matched["benchmark"]})


class _Log(NamedTuple):
    """All events of a file, and what is asked of them."""

    path: Path
    events: list[_Event]

    def require_benchmark(self) -> None:
        """Refuse another benchmark than the Transformer, which v0.5 names in each line."""
        for event in self.events:
            named = event.value if event.key == "submission_benchmark" else event.metadata.get("benchmark")
            if named == BENCHMARK:
                return
            if named is not None:
                place = f"{self.path}:{event.line}: benchmark {named!r}; expected {BENCHMARK!r}"
                raise PublicRunError(f"{place}; name a file of results/<system>/{BENCHMARK}/")
        what = f"no submission_benchmark; expected {BENCHMARK!r}"
        raise PublicRunError(f"{self.path}: {what}; the file is cut: copy it again")

    def only(self, key: str) -> _Event:
        """Return the only event of a key."""
        found = [event for event in self.events if event.key == key]
        if len(found) != 1:
            what = f"{len(found)} times {key}; expected one"
            raise PublicRunError(f"{self.path}: {what}; the file is cut, or holds several runs: copy it again")
        return found[0]

    def value(self, *keys: str) -> Any:
        """Return the first value that is logged under one of the keys, or None."""
        return next((event.value for event in self.events if event.key in keys and event.value is not None), None)

    def text(self, *keys: str) -> str:
        """Return it as text, '' where it is not logged."""
        value = self.value(*keys)
        return "" if value is None else str(value)

    def number(self, *keys: str) -> float:
        """Return it as a number."""
        value = self.value(*keys)
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if not isinstance(value, int | float):
            what = f"{' or '.join(keys)} is {value!r}; expected a number"
            raise PublicRunError(f"{self.path}: {what}; copy the file again")
        return float(value)


def _evaluations(log: _Log, dialect: str, start: float) -> Iterator[PublicEvaluation]:
    """Yield each BLEU with the epoch of the eval_start that it follows: v0.6's own epoch lags behind by one.

    v0.5 counts epochs from -1. One program writes no eval_start, and its own epoch is right. v0.7 logs a fraction.
    """
    epoch, unit = None, 100.0 if dialect == "MLLOG" else 1.0
    if log.value("eval_accuracy") is None:
        raise PublicRunError(f"{log.path}: no eval_accuracy; expected one an epoch; the file is cut: copy it again")
    for event in log.events:
        if event.key == "eval_start":
            epoch = event.value + 2 if dialect == "MLPv0.5.0" else event.metadata.get("epoch_num")
        elif event.key == "eval_accuracy":
            value = event.value["value"] if isinstance(event.value, dict) else event.value
            at = event.metadata.get("epoch_num") if epoch is None else epoch
            bleu, seconds = round(float(value) * unit, 4), round(event.seconds - start, 1)
            if at is None or not 0 <= bleu <= 100:
                place = f"{log.path}:{event.line}: BLEU {bleu:g} at epoch {at}"
                raise PublicRunError(f"{place}; expected 0 to 100 at a number; copy the file again")
            yield PublicEvaluation(run=log.path.as_posix(), epoch=int(at), bleu=bleu, seconds=seconds)


def _printed(lines: Iterable[str]) -> dict[str, int]:
    """Return the numbers that the program prints outside the logging, 0 where it does not."""
    found = dict.fromkeys(_PRINTED, 0)
    for line in lines:
        for name, pattern in _PRINTED.items() if line.startswith("| ") else ():
            if matched := pattern.match(line):
                found[name] = int(matched[1])
    return found


def _described(log: _Log) -> dict[str, Any]:
    """Return what is told of the system: in the log (v0.6's submission_entry), or in the repository.

    A result lies in SUBMITTER/results/SYSTEM/transformer/, its description is SUBMITTER/systems/SYSTEM.json (v0.6,
    v0.7) or lies beside the benchmarks (v0.5, entry.json). A file elsewhere has none.
    """
    described, told = {}, {}
    parents = log.path.absolute().parents
    if len(parents) > 3 and parents[2].name == "results":
        folder, submitter = parents[1], parents[3]
        described = _json_of(submitter / "systems" / f"{folder.name}.json") or _json_of(folder / "entry.json")
        organisation = described.get("submitter") or _json_of(submitter / "submission.json").get("org")
        told = {"submitter": organisation, "system": folder.name, "division": described.get("division")}
    if entry := log.value("submission_entry"):
        described = {"nodes": [ast.literal_eval(ast.literal_eval(entry)["nodes"])]}
    node = described.get("nodes", [{}])[0]  # v0.5 and v0.6; v0.7 has keys of its own
    number = node.get("num_nodes") or described.get("number_of_nodes") or 1
    each = node.get("num_accelerators") or described.get("accelerators_per_node") or 0
    accelerator = node.get("accelerator") or described.get("accelerator_model_name") or ""
    return told | {"accelerator": accelerator, "num_accelerators": int(number) * int(each)}


def _json_of(path: Path) -> dict[str, Any]:
    """Return a file's JSON; nothing if it is not there, or is none, as NVIDIA's of v0.6 are."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document
