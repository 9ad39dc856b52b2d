"""Packs a scale's finished runs into a small folder: records, logs, translations, their tables and
figures.

The folder is laid out as `results/<scale>/` is, with `runs/<run>/` for logs and attempts, texts
packed by xz. The same runs give the same bytes: no time of packing, and neither hosts nor the
folders of this machine, are written. Runs of the pack before that are no longer here stay in it: a
table may be trained on several machines.
"""

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from aiayn.errors import RecordError, StateError
from aiayn.packed import UNPACK_ERRORS, find_packed, open_unpacked, packed_bytes
from aiayn.paths import (
    EXPORT_RECORD_NAME,
    Evaluation,
    average_record,
    baselines_record,
    corpus_record,
    evaluation_record,
    model_folder,
    scale_record,
    train_record,
)
from aiayn.records import (
    DATA_RECORD_BY_VERB,
    BaselineRecords,
    BinarizedCorpus,
    CheckpointRecord,
    ExportRecord,
    Hypotheses,
    PerplexityRecord,
    Record,
    ScoreRecords,
    TrainRecord,
    is_trained_as,
    read_record,
)
from aiayn.runs.attempts import ATTEMPTS_NAME, LOG_NAME, Event, Started, read_events
from aiayn.runs.run_folder import RunFolder
from aiayn.scoring.scores import TrainingKey, read_trainings, training_key
from aiayn.spec.system import CHECKOUT, CONFIG_FOLDER, PLACE, ScaleSpec
from aiayn.wings import load, present_stages
from analysis.tools.readme import write_tables_of_pack
from paper_tables.logs.pages import make_tables_from_logs
from paper_tables.render.draw import has_figures
from paper_tables.render.drawn import FIGURES_FOLDER
from paper_tables.scale_results import (
    REQUEST_NAME,
    RUNS_NAME,
    ScaleResults,
    gather_from_records,
    gather_results,
    text_fault,
)

NOTICE_NAME = "NOTICE"  # beside a shipped model: where its text is from, and its terms
NO_MODELS: Mapping[str, Callable[[Path], object]] = MappingProxyType({})
FIGURES = ("forest_bleu", "forest_bits", "bleu_cost")  # of those of a page: what came out


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """The packed folder; `num_asked` trainings were requested, `missing` gives the states of those
    not packed.

    `num_kept` of the `num_runs` were in the pack before, and are not in the results; `left_out`
    names the trainings of the pack before that are not in this one, and why.
    """

    folder: Path
    num_runs: int
    num_kept: int
    num_asked: int
    num_translations: int
    num_bytes: int
    missing: tuple[str, ...]
    left_out: tuple[str, ...]


def pack_scale(
    scale: ScaleSpec,
    results_folder: Path,
    output_folder: Path,
    *,
    max_bytes: int,
    config_folder: Path = CONFIG_FOLDER,
    export_by_run: Mapping[str, Callable[[Path], object]] = NO_MODELS,
) -> Packed:
    """Pack the finished runs of a scale into `<output_folder>/<scale>/`.

    Of a pack that is there, what the results lack is kept: runs that are of the config's spec and
    of the same data. `export_by_run` has what writes a run's model, as safetensors, to a new
    folder. Models of the pack that is there are kept with their runs.

    Raises:
        RecordError: if nothing is finished, a log or attempts are missing, scores are not of the
            translations beside them, a model is of no packed run or its corpus has no NOTICE, or
            the folder would be larger than `max_bytes`; then nothing is changed.
        StateError: if there is a folder of that name that is not such a pack.
    """
    target = output_folder / scale.scale
    if target.exists() and not (target / REQUEST_NAME).exists():
        raise StateError(
            f"{target}: exists and has no {REQUEST_NAME}, so it is not a pack; name another"
            " --output"
        )
    results = gather_results(scale, results_folder, so_far=True, config_folder=config_folder)
    if not results.train_by_key:
        states = Counter(state.status for state in results.state_by_key.values())
        counted = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
        raise RecordError(
            f"{results_folder / scale.scale}: no finished training of this config ({counted});"
            " train first, or give the --config of the trainings"
        )
    kept = _kept(results, output_folder)
    results = msgspec.structs.replace(results, train_by_key=results.train_by_key | kept)
    output_folder.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{scale.scale}-", dir=output_folder))
    try:
        packer = _Packer(results, results_folder, output_folder, staging, kept)
        packer.pack()
        packer.pack_models(export_by_run, config_folder / "corpora")
        recorded = gather_from_records(scale.scale, [staging], config_folder)
        write_tables_of_pack(recorded, staging / scale.scale)
        if has_figures():
            _add_figures(staging / scale.scale, staging / "again", config_folder)
        packed = _summary(
            results, staging / scale.scale, target, len(kept), packer.num_translations
        )
        _check_size(packed, staging / scale.scale, max_bytes)
        if target.exists():
            target.rename(staging / "before")
        (staging / scale.scale).rename(target)
    finally:
        shutil.rmtree(staging)
    return packed


def _kept(results: ScaleResults, earlier_folder: Path) -> dict[TrainingKey, TrainRecord]:
    """Return the trainings of an earlier pack that the results lack, if they are of the same spec
    and data.
    """
    scale = results.experiment.scale.scale
    lacking = [key for key in results.state_by_key if key not in results.train_by_key]
    found = read_trainings(
        lacking, earlier_folder, scale, runs_folder=earlier_folder / scale / RUNS_NAME, so_far=True
    )
    return {
        key: train
        for key, train in found.items()
        if is_trained_as(train, results.experiment.system_by_name[train.system].training)
        and _has_same_data(results, earlier_folder, train.corpus)
    }


def _has_same_data(results: ScaleResults, earlier_folder: Path, corpus: str) -> bool:
    """Return whether an earlier pack is of the data-bin that the results have, or of the only
    one.
    """
    path = corpus_record(earlier_folder, results.experiment.scale.scale, "binarize", corpus)
    binarized = results.binarized_by_corpus.get(corpus)
    return path.exists() and (
        binarized is None or read_record(path, BinarizedCorpus).digest == binarized.digest
    )


def _add_figures(folder: Path, again_folder: Path, config_folder: Path) -> None:
    """Add the figures, as SVG and numbers, that the packed files give by themselves."""
    make_tables_from_logs([folder], again_folder, config_folder)
    (folder / FIGURES_FOLDER).mkdir()
    for name in FIGURES:
        for path in sorted((again_folder / folder.name / FIGURES_FOLDER).glob(f"{name}.*")):
            if path.suffix in (".svg", ".tsv"):
                shutil.copyfile(path, folder / FIGURES_FOLDER / path.name)


def _summary(
    results: ScaleResults, folder: Path, target: Path, num_kept: int, num_translations: int
) -> Packed:
    missing = [key for key in results.state_by_key if key not in results.train_by_key]
    return Packed(
        folder=target,
        num_runs=len(results.train_by_key),
        num_kept=num_kept,
        num_asked=len(results.state_by_key),
        num_translations=num_translations,
        num_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        missing=tuple(f"{_name(key)}: {results.state_by_key[key].status}" for key in missing),
        left_out=tuple(_left_out(results, folder, target)),
    )


def _left_out(results: ScaleResults, folder: Path, earlier: Path) -> Iterator[str]:
    """Yield the trainings of an earlier pack that the new one lacks, and why."""
    for path in sorted(earlier.glob("train/*/*/seed*.json")):
        if not (folder / path.relative_to(earlier)).exists():
            key = (path.parts[-3], path.parts[-2], int(path.stem.removeprefix("seed")))
            is_asked = key in results.state_by_key
            yield (
                f"{_name(key)}: {'of another spec or other data' if is_asked else 'not asked for'}"
            )


def _name(key: TrainingKey) -> str:
    corpus, system, seed = key
    return f"{corpus} {system} seed {seed}"


def _check_size(packed: Packed, folder: Path, max_bytes: int) -> None:
    if packed.num_bytes <= max_bytes:
        return
    largest = sorted(
        (path for path in folder.rglob("*") if path.is_file()),
        key=lambda path: -path.stat().st_size,
    )[:3]
    named = ", ".join(
        f"{path.relative_to(folder)} {path.stat().st_size / 1e6:.2f} MB" for path in largest
    )
    raise RecordError(
        f"{packed.folder}: {packed.num_bytes / 1e6:.2f} MB, expected {max_bytes / 1e6:.2f} MB at"
        f" most; the largest: {named}; ask for fewer runs, or raise --max-mb. Nothing was changed"
    )


@dataclass
class _Packer:
    """Writes the files behind the results of a scale below `<folder>/<scale>/`, `kept` runs from
    the earlier pack.
    """

    results: ScaleResults
    results_folder: Path
    earlier_folder: Path
    folder: Path
    kept: Container[TrainingKey]
    num_translations: int = 0

    def __post_init__(self) -> None:
        """Note the scale, and what of this machine is left out of texts."""
        self.scale = self.results.experiment.scale.scale
        self.runs_folder = Path(self.results.experiment.scale.runs_folder)
        self._replacements = _replacements([self.results_folder, self.runs_folder])

    def pack(self) -> None:
        """Write everything."""
        request = msgspec.structs.replace(self.results.experiment.scale, **PLACE)
        path = self.folder / self.scale / REQUEST_NAME
        path.parent.mkdir(parents=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(request), indent=1) + b"\n")
        for corpus in self.results.experiment.corpora:
            # Of the same data the records that the earlier pack's runs were made from.
            is_kept = _has_same_data(self.results, self.earlier_folder, corpus)
            folders = (
                (self.earlier_folder, self.results_folder) if is_kept else (self.results_folder,)
            )
            for verb, record_type in DATA_RECORD_BY_VERB.items():
                self._copy(corpus_record(Path(), self.scale, verb, corpus), record_type, *folders)
        folders = (self.results_folder, self.earlier_folder)
        for corpus, testset in self.results.experiment.baselines:
            self._copy(
                baselines_record(Path(), self.scale, corpus, testset), BaselineRecords, *folders
            )
        for stage in present_stages():
            self._copy(scale_record(Path(), self.scale, stage.verb), load(stage.record), *folders)
        for key, train in self.results.train_by_key.items():
            is_kept = key in self.kept
            self._pack_run(
                self.earlier_folder / self.scale / RUNS_NAME if is_kept else self.runs_folder,
                train.run,
            )
            self._copy(train_record(Path(), self.scale, *key), TrainRecord, self._folder_of(key))
        for evaluation in self.results.experiment.evaluations:
            if training_key(evaluation) in self.results.train_by_key:
                self._pack_evaluation(evaluation)

    def pack_models(
        self, export_by_run: Mapping[str, Callable[[Path], object]], notices_folder: Path
    ) -> None:
        """Write the models that are asked for, each with its corpus's NOTICE; copy those of the
        earlier pack's runs.
        """
        corpus_by_run = {train.run: train.corpus for train in self.results.train_by_key.values()}
        for run in sorted(set(export_by_run) - set(corpus_by_run)):
            raise RecordError(
                f"{run}: no run of this pack, so its model is not packed; name one that the config"
                " asks for"
            )
        for run, corpus in sorted(corpus_by_run.items()):
            earlier = model_folder(self.earlier_folder, self.scale, run)
            inside = model_folder(Path(), self.scale, run)
            if run in export_by_run:
                notice_path = notices_folder / f"{corpus}.{NOTICE_NAME}"
                if not notice_path.exists():
                    raise RecordError(
                        f"{notice_path}: no such file; write where the text is from and its terms,"
                        " then pack"
                    )
                export_by_run[run](self.folder / inside)
                self._copy(inside / EXPORT_RECORD_NAME, ExportRecord, self.folder)
                shutil.copyfile(notice_path, self.folder / inside / NOTICE_NAME)
            elif earlier.is_dir():
                shutil.copytree(earlier, self.folder / inside)

    def _folder_of(self, key: TrainingKey) -> Path:
        """Return where the records of a training lie."""
        return self.earlier_folder if key in self.kept else self.results_folder

    def _copy(self, inside: Path, record_type: type[Record], *folders: Path, run: str = "") -> bool:
        """Copy a record, of the first folder that has it, without this machine's names.

        Return whether it was there, and is of the run if one is given.
        """
        path = next((folder / inside for folder in folders if (folder / inside).exists()), None)
        record = None if path is None else read_record(path, record_type)
        if path is None or (run and getattr(record, "run", "") != run):
            return False
        values = msgspec.json.decode(
            self._neutral(path.read_text(encoding="utf-8")), type=dict[str, Any]
        )
        values["provenance"]["host"] = ""
        target = self.folder / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(msgspec.json.format(msgspec.json.encode(values), indent=1) + b"\n")
        return True

    def _pack_run(self, runs_folder: Path, run: str) -> None:
        source, target = runs_folder / run, self.folder / self.scale / RUNS_NAME / run
        log_path = find_packed(source / LOG_NAME)
        if log_path is None or not (source / ATTEMPTS_NAME).exists():
            missing = source / (LOG_NAME if log_path is None else ATTEMPTS_NAME)
            next_step = (
                "set `runs_folder` to the folder above the run's (--config runs_folder=...)"
                if runs_folder == self.runs_folder
                else "restore it in the earlier pack, or delete the run's record there"
            )
            raise RecordError(
                f"{missing}: no such file; {run} is not packed without it; {next_step}"
            )
        target.mkdir(parents=True)
        for event in read_events(source):
            RunFolder(target).append_event(self._neutral_event(event))
        text = self._neutral(_read_unpacked(log_path).decode("utf-8", errors="surrogateescape"))
        elsewhere = set(re.findall(rf"(/[^\s'\",=]+)/[^/\s'\"]+/{re.escape(run)}/", text))
        if (
            elsewhere
        ):  # it was trained in another folder than it lies in; later records may name that, too
            self._replacements += [
                one for folder in sorted(elsewhere) for one in _replacements_of(folder, ".")
            ]
            text = self._neutral(text)
        (target / f"{LOG_NAME}.xz").write_bytes(
            packed_bytes(text.encode("utf-8", errors="surrogateescape"))
        )

    def _pack_evaluation(self, evaluation: Evaluation) -> None:
        key = training_key(evaluation)
        folder, run = self._folder_of(key), self.results.train_by_key[key].run
        self._copy(
            average_record(Path(), self.scale, *key, evaluation.average),
            CheckpointRecord,
            folder,
            run=run,
        )
        decoded, scored, perplexity = (
            evaluation_record(Path(), self.scale, verb, evaluation)
            for verb in ("decode", "score", "perplexity")
        )
        self._copy(perplexity, PerplexityRecord, folder, run=run)
        if not self._copy(decoded, Hypotheses, folder, run=run):
            return
        if self._copy(scored, ScoreRecords, folder, run=run):
            fault = text_fault(folder / decoded, read_record(folder / scored, ScoreRecords))
            if fault is not None:
                raise RecordError(f"{fault.text}. Nothing was changed")
        text_path = find_packed((folder / decoded).with_suffix(".txt"))
        if text_path is not None:
            packed_path = (self.folder / decoded).with_suffix(".txt.xz")
            packed_path.write_bytes(packed_bytes(_read_unpacked(text_path)))
            self.num_translations += 1

    def _neutral(self, text: str) -> str:
        """Return text, of a record or a log, without the folders of this machine."""
        for pattern, replacement in self._replacements:
            text = pattern.sub(replacement, text)
        return text

    def _neutral_event(self, event: Event) -> Event:
        """Return an event without host, and without the last lines of a log that is packed
        whole.
        """
        if isinstance(event, Started):
            return msgspec.structs.replace(event, host="", job="")
        return msgspec.structs.replace(event, reason=self._neutral(event.reason), log_tail=[])


def _read_unpacked(path: Path) -> bytes:
    """Return the whole content of a file, packed or not.

    Raises:
        RecordError: if a packed file is torn.
    """
    try:
        with open_unpacked(path) as content:
            return content.read()
    except UNPACK_ERRORS as error:
        raise RecordError(
            f"{path}: cannot be unpacked ({error}); restore it, or delete its run. Nothing was"
            " changed"
        ) from error


def _replacements(folders: Iterable[Path]) -> list[tuple[re.Pattern[str], str]]:
    """Return replacements of this machine's mirror and folders: nothing for the mirror, working
    folder and checkout.
    """
    name_by_folder = {
        str(folder.absolute()): folder.name for folder in folders if folder.is_absolute()
    }
    name_by_folder |= {str(Path.home()): "~", str(CHECKOUT): ".", str(Path.cwd()): "."}
    folders_by_length = sorted(name_by_folder, key=len, reverse=True)
    mirror = (re.compile(r"(?<=--mirror=)[^\s'\"]+"), "")
    return [
        mirror,
        *(
            one
            for folder in folders_by_length
            for one in _replacements_of(folder, name_by_folder[folder])
        ),
    ]


def _replacements_of(folder: str, name: str) -> list[tuple[re.Pattern[str], str]]:
    if folder == "/":
        return []
    inside = "" if name == "." else f"{name}/"
    return [
        (re.compile(rf"{re.escape(folder)}/+"), inside),
        (re.compile(rf"{re.escape(folder)}(?![\w.-])"), name),
    ]
