"""Packs a scale's finished runs into a small folder: records, logs, translations, their tables and figures.

The folder is laid out as `results/<scale>/` is, with `runs/<run>/` for logs and attempts, texts packed by xz. The same
runs give the same bytes: no time of packing, and neither hosts nor the folders of this machine, are written.
"""

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from aiayn.errors import RecordError, StateError
from aiayn.packed import packed_bytes
from aiayn.paths import (
    Evaluation,
    average_record,
    baselines_record,
    corpus_record,
    evaluation_record,
    measure_record,
    train_record,
)
from aiayn.records import (
    DATA_RECORD_BY_VERB,
    BaselineRecords,
    CheckpointRecord,
    Hypotheses,
    MeasureRecord,
    PerplexityRecord,
    Record,
    ScoreRecords,
    TrainRecord,
    read_record,
)
from aiayn.runs.attempts import ATTEMPTS_NAME, LOG_NAME, Event, Started, append_event, read_events
from aiayn.spec.system import CONFIG_FOLDER, ScaleSpec
from analysis.scoring.scores import training_key
from paper_tables.figures import has_figures
from paper_tables.render.from_logs import make_tables_from_logs
from paper_tables.render.tables import FIGURES_FOLDER, make_recorded_tables
from paper_tables.scale_results import (
    PLACE,
    REQUEST_NAME,
    ScaleResults,
    gather_from_records,
    gather_results,
    text_fault,
)

RUNS_NAME = "runs"
FIGURES = ("forest_bleu", "forest_perplexity", "bleu_cost", "curves_by_update")  # of those of a page: what came out
CHECKOUT = Path(__file__).resolve().parents[2]


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """The packed folder; `num_asked` trainings were requested, `missing` gives the states of those not packed."""

    folder: Path
    num_runs: int
    num_asked: int
    num_translations: int
    num_bytes: int
    missing: tuple[str, ...]


def pack_scale(
    scale: ScaleSpec, results_folder: Path, output_folder: Path, *, max_bytes: int, config_folder: Path = CONFIG_FOLDER
) -> Packed:
    """Pack the finished runs of a scale into `<output_folder>/<scale>/`, which is replaced as a whole.

    Raises:
        RecordError: if nothing is finished, a log or attempts are missing, scores are not of the translations beside
            them, or the folder would be larger than `max_bytes`; then nothing is changed.
        StateError: if there is a folder of that name that is not such a pack.
    """
    target = output_folder / scale.scale
    if target.exists() and not (target / REQUEST_NAME).exists():
        raise StateError(f"{target}: exists and has no {REQUEST_NAME}, so it is not a pack; name another --output")
    results = gather_results(scale, results_folder, so_far=True, config_folder=config_folder)
    if not results.train_by_key:
        states = Counter(state.status for state in results.state_by_key.values())
        counted = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
        raise RecordError(
            f"{results_folder / scale.scale}: no finished training of this config ({counted}); train first, "
            "or give the --config of the trainings"
        )
    output_folder.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{scale.scale}-", dir=output_folder))
    try:
        packer = _Packer(results, results_folder, staging)
        packer.pack()
        recorded = gather_from_records(scale.scale, [staging], config_folder)
        make_recorded_tables(recorded, staging / scale.scale)
        if has_figures():
            _add_figures(staging / scale.scale, staging / "again", config_folder)
        packed = _summary(results, staging / scale.scale, target, packer.num_translations)
        _check_size(packed, staging / scale.scale, max_bytes)
        if target.exists():
            target.rename(staging / "before")
        (staging / scale.scale).rename(target)
    finally:
        shutil.rmtree(staging)
    return packed


def _add_figures(folder: Path, again_folder: Path, config_folder: Path) -> None:
    """Add the figures, as SVG and numbers, that the packed files give by themselves."""
    make_tables_from_logs([folder], again_folder, None, config_folder)
    (folder / FIGURES_FOLDER).mkdir()
    for name in FIGURES:
        for path in sorted((again_folder / folder.name / FIGURES_FOLDER).glob(f"{name}.*")):
            if path.suffix in (".svg", ".tsv"):
                shutil.copyfile(path, folder / FIGURES_FOLDER / path.name)


def _summary(results: ScaleResults, folder: Path, target: Path, num_translations: int) -> Packed:
    missing = [key for key in results.state_by_key if key not in results.train_by_key]
    return Packed(
        folder=target,
        num_runs=len(results.train_by_key),
        num_asked=len(results.state_by_key),
        num_translations=num_translations,
        num_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        missing=tuple(
            f"{corpus} {system} seed {seed}: {results.state_by_key[(corpus, system, seed)].status}"
            for corpus, system, seed in missing
        ),
    )


def _check_size(packed: Packed, folder: Path, max_bytes: int) -> None:
    if packed.num_bytes <= max_bytes:
        return
    largest = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: -path.stat().st_size)[:3]
    named = ", ".join(f"{path.relative_to(folder)} {path.stat().st_size / 1e6:.2f} MB" for path in largest)
    raise RecordError(
        f"{packed.folder}: {packed.num_bytes / 1e6:.2f} MB, expected {max_bytes / 1e6:.2f} MB at most; the largest: "
        f"{named}; ask for fewer runs, or raise --max-mb. Nothing was changed"
    )


class _Packer:
    """Writes the files behind the results of a scale below `<folder>/<scale>/`."""

    def __init__(self, results: ScaleResults, results_folder: Path, folder: Path) -> None:
        self.results = results
        self.results_folder = results_folder
        self.folder = folder
        self.scale = results.scale.scale
        self.runs_folder = Path(results.scale.runs_folder)
        self.num_translations = 0
        self._replacements = _replacements([results_folder, self.runs_folder])

    def pack(self) -> None:
        """Write everything."""
        request = msgspec.structs.replace(self.results.scale, **PLACE)
        path = self.folder / self.scale / REQUEST_NAME
        path.parent.mkdir(parents=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(request), indent=1) + b"\n")
        for corpus in self.results.corpora:
            for verb, record_type in DATA_RECORD_BY_VERB.items():
                self._copy(corpus_record(Path(), self.scale, verb, corpus), record_type)
        for baselines in self.results.baseline_records:
            self._copy(baselines_record(Path(), self.scale, baselines.corpus, baselines.testset), BaselineRecords)
        self._copy(measure_record(Path(), self.scale), MeasureRecord)
        for key, train in self.results.train_by_key.items():
            self._pack_run(train)
            self._copy(train_record(Path(), self.scale, *key), TrainRecord)
        for evaluation in self.results.evaluations:
            if training_key(evaluation) in self.results.train_by_key:
                self._pack_evaluation(evaluation)

    def _copy(self, inside: Path, record_type: type[Record], run: str = "") -> bool:
        """Copy a record without this machine's names; return whether it existed, and is of the run if one is given."""
        path = self.results_folder / inside
        if not path.exists():
            return False
        record = read_record(path, record_type)
        if run and getattr(record, "run", "") != run:
            return False
        values = msgspec.json.decode(self._neutral(path.read_text(encoding="utf-8")), type=dict[str, Any])
        values["provenance"]["host"] = ""
        target = self.folder / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(msgspec.json.format(msgspec.json.encode(values), indent=1) + b"\n")
        return True

    def _pack_run(self, train: TrainRecord) -> None:
        source, target = self.runs_folder / train.run, self.folder / self.scale / RUNS_NAME / train.run
        for name in (LOG_NAME, ATTEMPTS_NAME):
            if not (source / name).exists():
                raise RecordError(
                    f"{source / name}: no such file; {train.run} is not packed without it; set "
                    "`runs_folder` to the folder above the run's (--config runs_folder=...)"
                )
        target.mkdir(parents=True)
        for event in read_events(source):
            append_event(target, self._neutral_event(event))
        text = self._neutral((source / LOG_NAME).read_bytes().decode("utf-8", errors="surrogateescape"))
        elsewhere = set(re.findall(rf"(/[^\s'\",=]+)/[^/\s'\"]+/{re.escape(train.run)}/", text))
        if elsewhere:  # it was trained in another folder than it lies in; later records may name that, too
            self._replacements += [one for folder in sorted(elsewhere) for one in _replacements_of(folder, ".")]
            text = self._neutral(text)
        (target / f"{LOG_NAME}.xz").write_bytes(packed_bytes(text.encode("utf-8", errors="surrogateescape")))

    def _pack_evaluation(self, evaluation: Evaluation) -> None:
        key = training_key(evaluation)
        run = self.results.train_by_key[key].run
        self._copy(average_record(Path(), self.scale, *key, evaluation.average), CheckpointRecord, run)
        decoded, scored, perplexity = (
            evaluation_record(Path(), self.scale, verb, evaluation) for verb in ("decode", "score", "perplexity")
        )
        self._copy(perplexity, PerplexityRecord, run)
        if not self._copy(decoded, Hypotheses, run):
            return
        text_path = (self.results_folder / decoded).with_suffix(".txt")
        if self._copy(scored, ScoreRecords, run):
            scores = read_record(self.results_folder / scored, ScoreRecords)
            fault = text_fault(self.results_folder / decoded, scores)
            if fault is not None:
                raise RecordError(f"{fault.text}. Nothing was changed")
        if text_path.exists():
            packed_path = (self.folder / decoded).with_suffix(".txt.xz")
            packed_path.write_bytes(packed_bytes(text_path.read_bytes()))
            self.num_translations += 1

    def _neutral(self, text: str) -> str:
        """Return text, of a record or a log, without the folders of this machine."""
        for pattern, replacement in self._replacements:
            text = pattern.sub(replacement, text)
        return text

    def _neutral_event(self, event: Event) -> Event:
        """Return an event without host, and without the last lines of a log that is packed whole."""
        if isinstance(event, Started):
            return msgspec.structs.replace(event, host="", job="")
        return msgspec.structs.replace(event, reason=self._neutral(event.reason), log_tail=[])


def _replacements(folders: Iterable[Path]) -> list[tuple[re.Pattern[str], str]]:
    """Return replacements of the absolute paths of this machine: nothing for the working folder and the checkout."""
    name_by_folder = {str(folder.absolute()): folder.name for folder in folders if folder.is_absolute()}
    name_by_folder |= {str(Path.home()): "~", str(CHECKOUT): ".", str(Path.cwd()): "."}
    folders_by_length = sorted(name_by_folder, key=len, reverse=True)
    return [one for folder in folders_by_length for one in _replacements_of(folder, name_by_folder[folder])]


def _replacements_of(folder: str, name: str) -> list[tuple[re.Pattern[str], str]]:
    if folder == "/":
        return []
    inside = "" if name == "." else f"{name}/"
    return [
        (re.compile(rf"{re.escape(folder)}/+"), inside),
        (re.compile(rf"{re.escape(folder)}(?![\w.-])"), name),
    ]
