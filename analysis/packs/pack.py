"""Packs the finished runs of a scale into a folder that is small enough to be shipped: records,
logs, translations, tables and figures.

A pack has the same layout as `results/<scale>/`, with `runs/<run>/` for the logs and the lists of
attempts. Records, logs and translations are in one archive (`aiayn/packed.py`), in which texts are
compressed by xz. Packing the same runs again gives the same bytes, because the time of packing,
host names and the folders of this machine are not written. The trainings of a table may have run on
several machines, so a run of an earlier pack stays in the pack if the results folder lacks it.
"""

import pkgutil
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from aiayn.errors import RecordError, StateError
from aiayn.launch.launcher import QUEUES
from aiayn.packed import (
    ARCHIVE_NAME,
    UNPACK_ERRORS,
    exists,
    find_packed,
    glob,
    is_file,
    open_unpacked,
    packed_bytes,
    write_archive,
)
from aiayn.paths import (
    EXPORT_RECORD_NAME,
    PACK_RUNS_NAME,
    Evaluation,
    average_record,
    baselines_record,
    corpus_record,
    evaluation_record,
    is_pack,
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
    read_sealed,
    seal,
)
from aiayn.runs.attempts import ATTEMPTS_NAME, LOG_NAME, Event, Started, read_events
from aiayn.runs.finished import FinishedRun
from aiayn.runs.run_folder import RunFolder
from aiayn.scoring.scores import read_trainings
from aiayn.spec.sheet import TrainingKey
from aiayn.spec.system import CHECKOUT, CONFIG_FOLDER, ScaleSpec
from aiayn.wings import present_stages
from analysis.packs.readme import write_tables_of_pack
from paper_tables.scale_results import (
    ScaleResults,
    gather_from_records,
    gather_results,
    text_fault,
)

NOTICE_NAME = "NOTICE"  # shipped with a model: the origin of its text, and the terms


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of packing: what the folder of the pack contains, and what was left out.

    `num_asked` is the number of trainings that the config requests. `missing` has the names and
    states of the trainings that were not packed. Of the `num_runs` packed runs, `num_kept` come
    from the earlier pack, because the results folder lacks them. `left_out` lists trainings and
    models that only the earlier pack has, with the reasons.
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
    model: FinishedRun | None = None,
    config_folder: Path = CONFIG_FOLDER,
) -> Packed:
    """Pack the finished runs of a scale into `<output_folder>/<scale>/`, with the averaged `model`
    of one of these runs.

    Runs of an earlier pack that the results folder lacks are kept if they have the config's spec
    and the same data. The models in the earlier pack are kept if their runs are packed.

    Raises:
        RecordError: if no run is finished, if the run of `model` is not packed, if a log or a list
            of attempts is missing, if scores were computed from different translations, if a
            model's corpus lacks a NOTICE, or if the folder would be larger than `max_bytes`. After
            a RecordError the old pack is unchanged.
        StateError: if a folder with the name of the pack exists and is not a pack.
    """
    target = output_folder / scale.scale
    # The folder is replaced as a whole, so a folder that is not a pack must not be touched.
    if target.exists() and not is_pack(target):
        raise StateError(f"{target}: exists and is not a pack; give another --output")
    results = gather_results(
        scale, results_folder, so_far=True, queues=QUEUES, config_folder=config_folder
    )
    if not results.train_by_key:
        states = Counter(status.state for status in results.status_by_key.values())
        counted = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
        raise RecordError(
            f"{results_folder / scale.scale}: no finished training of this config ({counted});"
            " train first, or give the --config of the trainings"
        )
    kept = _kept(results, output_folder)
    results = msgspec.structs.replace(results, train_by_key=results.train_by_key | kept)
    runs = {train.run for train in results.train_by_key.values()}
    if model is not None and model.checkpoint.run not in runs:
        raise RecordError(
            f"{model.checkpoint.run}: not a finished run of this config; only models of packed runs"
            " are packed"
        )
    # The new pack is written next to the old pack, on the same file system, so that a rename can
    # replace the old pack when everything has succeeded.
    output_folder.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{scale.scale}-", dir=output_folder))
    try:
        packer = _Packer(results, results_folder, output_folder, staging, kept)
        packer.pack()
        # Models are packed after the archive is made: they stay files, because programs open them
        # by path.
        _archive(staging / scale.scale)
        packer.pack_models(config_folder / "corpora", model)
        # The tables are made from the new pack, not from the results, so that everybody can make
        # them again from its files.
        recorded = gather_from_records(scale.scale, [staging], config_folder)
        write_tables_of_pack(recorded, staging / scale.scale)
        packed = _summary(
            results, staging / scale.scale, target, len(kept), packer.num_translations
        )
        if packed.num_bytes > max_bytes:
            raise RecordError(
                f"{packed.folder}: {packed.num_bytes / 1e6:.2f} MB, expected"
                f" {max_bytes / 1e6:.2f} MB at most; ask for fewer runs, or raise --max-mb. Nothing"
                " was changed"
            )
        _replace_folder(target, staging / scale.scale, staging / "before")
    finally:
        shutil.rmtree(staging)
    return packed


def _replace_folder(target: Path, new: Path, before: Path) -> None:
    """Move the folder `target` to `before`, and the folder `new` to `target`. If one of the two
    moves fails, the old folder is moved back to `target`.
    """
    try:
        if target.exists():
            target.rename(before)
        new.rename(target)
    except BaseException:
        # The old pack may have runs that do not exist anywhere else. Ctrl-C may come here, too.
        if before.exists() and not target.exists():
            before.rename(target)
        raise


def _archive(folder: Path) -> None:
    """Move the folders with records, logs and translations of a pack into one zip file."""
    # Files directly in the folder stay outside of the archive: the sheet, and later README and
    # tables.
    folders = [path for path in folder.iterdir() if path.is_dir()]
    paths = [path for path in folder.rglob("*") if path.is_file() and path.parent != folder]
    write_archive(folder, paths, folder / ARCHIVE_NAME)
    for path in folders:
        shutil.rmtree(path)


def _kept(results: ScaleResults, earlier_folder: Path) -> dict[TrainingKey, TrainRecord]:
    """Return the trainings of an earlier pack that the results folder lacks, if they have the same
    spec and data as the config.
    """
    scale = results.experiment.scale.scale
    runs_folder = earlier_folder / scale / PACK_RUNS_NAME
    earlier = read_trainings(_missing(results), earlier_folder, scale, runs_folder)
    train_by_key = {}
    for key, train in earlier.items():
        spec = results.experiment.system_by_name[train.system].training
        if is_trained_as(train, spec) and _has_same_data(results, earlier_folder, train.corpus):
            train_by_key[key] = train
    return train_by_key


def _missing(results: ScaleResults) -> list[TrainingKey]:
    """Return the trainings that the config requests but that are not finished."""
    return [key for key in results.status_by_key if key not in results.train_by_key]


def _has_same_data(results: ScaleResults, earlier_folder: Path, corpus: str) -> bool:
    """Return whether the runs of an earlier pack used the same data-bin as the results folder.

    Return False if the pack has no record of its data-bin. Return True if only the results folder
    has no record of the data-bin.
    """
    path = corpus_record(earlier_folder, results.experiment.scale.scale, "binarize", corpus)
    if not exists(path):
        return False
    binarized = results.binarized_by_corpus.get(corpus)
    return binarized is None or read_record(path, BinarizedCorpus).digest == binarized.digest


def _summary(
    results: ScaleResults, folder: Path, target: Path, num_kept: int, num_translations: int
) -> Packed:
    missing = [f"{key}: {results.status_by_key[key].state}" for key in _missing(results)]
    return Packed(
        folder=target,
        num_runs=len(results.train_by_key),
        num_kept=num_kept,
        num_asked=len(results.status_by_key),
        num_translations=num_translations,
        num_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        missing=tuple(missing),
        left_out=tuple(_left_out(results, folder, target)),
    )


def _left_out(results: ScaleResults, folder: Path, earlier: Path) -> Iterator[str]:
    """Yield the trainings and models that are in the earlier pack but not in the new pack, each
    with the reason.
    """
    for path in glob(earlier, "train/*/*/seed*.json"):
        if not exists(folder / path.relative_to(earlier)):
            seed = int(path.stem.removeprefix("seed"))
            # The path is train/<corpus>/<system>/seed<k>.json.
            key = TrainingKey(path.parts[-3], path.parts[-2], seed)
            is_asked = key in results.status_by_key
            reason = "another spec or other data" if is_asked else "not asked for"
            yield f"{key}: {reason}"
    for path in sorted(earlier.glob("models/*")):
        if not exists(folder / path.relative_to(earlier)):
            yield f"model {path.name}: its run is not packed"


@dataclass
class _Packer:
    """Writes the records, logs and translations of a scale to `<folder>/<scale>/`.

    The runs of the trainings in `kept` are copied from the earlier pack.
    """

    results: ScaleResults
    results_folder: Path
    earlier_folder: Path
    folder: Path
    kept: Container[TrainingKey]
    num_translations: int = 0

    def __post_init__(self) -> None:
        """Set the scale's name, its runs folder, and the patterns that remove host names and
        folders of this machine.
        """
        self.scale = self.results.experiment.scale.scale
        self.runs_folder = Path(self.results.experiment.scale.runs_folder)
        self._replacements = _replacements([self.results_folder, self.runs_folder])

    def pack(self) -> None:
        """Write the records, logs and translations of all runs."""
        self.results.experiment.write_sheet(self.folder)
        for corpus in self.results.experiment.corpora:
            # With the same data, the records that the earlier pack's runs were made from stay.
            is_kept = _has_same_data(self.results, self.earlier_folder, corpus)
            folders = (
                (self.earlier_folder, self.results_folder) if is_kept else (self.results_folder,)
            )
            for verb, record_type in DATA_RECORD_BY_VERB.items():
                self._copy(corpus_record(Path(), self.scale, verb, corpus), record_type, *folders)
        folders = (self.results_folder, self.earlier_folder)
        # A machine that only trained some runs may lack these records. Then the records of the
        # earlier pack are taken.
        for corpus, testset in self.results.experiment.baselines:
            self._copy(
                baselines_record(Path(), self.scale, corpus, testset), BaselineRecords, *folders
            )
        for stage in present_stages():
            self._copy(
                scale_record(Path(), self.scale, stage.verb),
                pkgutil.resolve_name(stage.record),
                *folders,
            )
        earlier_runs_folder = self.earlier_folder / self.scale / PACK_RUNS_NAME
        for key, train in self.results.train_by_key.items():
            is_kept = key in self.kept
            self._pack_run(earlier_runs_folder if is_kept else self.runs_folder, train.run)
            self._copy(train_record(Path(), self.scale, *key), TrainRecord, self._folder_of(key))
        for evaluation in self.results.experiment.evaluations:
            if evaluation.training in self.results.train_by_key:
                self._pack_evaluation(evaluation)

    def pack_models(self, notices_folder: Path, model: FinishedRun | None) -> None:
        """Write `model`, and copy the models of the packed runs from the earlier pack, each with
        the NOTICE of its corpus.
        """
        for train in self.results.train_by_key.values():
            inside = model_folder(Path(), self.scale, train.run)
            folder = self.earlier_folder
            # The same run gives the same tensors, so a model in the earlier pack stays as it is.
            if not (folder / inside).is_dir():
                if model is None or model.checkpoint.run != train.run:
                    continue
                from analysis.packs.heavy_export import export_model

                folder = self.folder / "exported"
                export_model(model, folder / inside)
            # Vocabulary and weights were made from the corpus, so its origin and its terms are
            # shipped with them.
            notice_path = notices_folder / f"{train.corpus}.{NOTICE_NAME}"
            if not notice_path.exists():
                raise RecordError(
                    f"{notice_path}: no such file; write the origin of the text and its terms"
                    " there, then pack"
                )
            shutil.copytree(folder / inside, self.folder / inside)
            self._copy(inside / EXPORT_RECORD_NAME, ExportRecord, folder)
            shutil.copyfile(notice_path, self.folder / inside / NOTICE_NAME)

    def _folder_of(self, key: TrainingKey) -> Path:
        """Return the folder from which a training's records are copied: the results folder or the
        earlier pack.
        """
        return self.earlier_folder if key in self.kept else self.results_folder

    def _copy(self, inside: Path, record_type: type[Record], *folders: Path, run: str = "") -> bool:
        """Copy a record from the first of `folders` that contains it, without host names and
        folders of this machine.

        Return whether the record was copied. If `run` is given, the record is copied only if this
        run wrote it.
        """
        paths = [folder / inside for folder in folders if exists(folder / inside)]
        if not paths:
            return False
        path = paths[0]
        # A record of an earlier training may still be on the disk. It must not be packed with the
        # new training.
        if run not in ("", getattr(read_record(path, record_type), "run", "")):
            return False
        # The checksum at the end of a record covers its other lines, so a changed record needs a
        # new one.
        text = read_sealed(path)[0].decode("utf-8")
        values = msgspec.json.decode(self._neutral(text), type=dict[str, Any])
        values["provenance"]["host"] = ""
        target = self.folder / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(seal(msgspec.json.encode(values)))
        return True

    def _pack_run(self, runs_folder: Path, run: str) -> None:
        source, target = runs_folder / run, self.folder / self.scale / PACK_RUNS_NAME / run
        # The log is `train.log`, or `train.log.xz` in an earlier pack.
        log_path = find_packed(source / LOG_NAME)
        if log_path is None or not is_file(source / ATTEMPTS_NAME):
            missing = source / (LOG_NAME if log_path is None else ATTEMPTS_NAME)
            next_step = "restore it in the earlier pack, or delete the run's record there"
            if runs_folder == self.runs_folder:
                next_step = (
                    "set `runs_folder` to the folder above the run's (--config runs_folder=...)"
                )
            raise RecordError(
                f"{missing}: no such file; {run} is not packed without it; {next_step}"
            )
        target.mkdir(parents=True)
        for event in read_events(source):
            RunFolder(target).append_event(self._neutral_event(event))
        # A log may contain bytes that are not UTF-8, for example in the output of a library.
        # `surrogateescape` keeps them as they are.
        text = self._neutral(_read_unpacked(log_path).decode("utf-8", errors="surrogateescape"))
        # A run may have been trained in a different folder than the folder it is packed from. In
        # `/data/aiayn/runs/<run>/checkpoints` this finds `/data/aiayn`.
        elsewhere = set(re.findall(rf"(/[^\s'\",=]+)/[^/\s'\"]+/{re.escape(run)}/", text))
        # The record of a moved run contains its former folder. Later records may contain it, too.
        for folder in sorted(elsewhere):
            self._replacements += _replacements_of(folder, ".")
        text = self._neutral(text)
        (target / f"{LOG_NAME}.xz").write_bytes(
            packed_bytes(text.encode("utf-8", errors="surrogateescape"))
        )

    def _pack_evaluation(self, evaluation: Evaluation) -> None:
        key = evaluation.training
        folder = self._folder_of(key)
        run = self.results.train_by_key[key].run
        average = average_record(Path(), self.scale, *key, evaluation.average)
        self._copy(average, CheckpointRecord, folder, run=run)
        # A translation without scores is packed. Scores without their translations are not, because
        # nobody could check them.
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
        """Return the text of a record or a log with the names of this machine's folders removed."""
        for pattern, replacement in self._replacements:
            text = pattern.sub(replacement, text)
        return text

    def _neutral_event(self, event: Event) -> Event:
        """Return an event of a run without host names and folders of this machine. The event also
        loses its copy of the last log lines, because the pack contains the whole log.
        """
        if isinstance(event, Started):
            return msgspec.structs.replace(event, host="", job="")
        return msgspec.structs.replace(event, reason=self._neutral(event.reason), log_tail=[])


def _read_unpacked(path: Path) -> bytes:
    """Return the whole content of a file, which may be compressed or in an archive.

    Raises:
        RecordError: if a compressed file is truncated.
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
    """Return the patterns that remove the folders of this machine from a text, each with its
    replacement.

    The address of the mirror and the paths of the working folder and of the checkout are removed.
    `folders` and the home folder are replaced by a short name.
    """
    # Later entries replace earlier entries: the working folder is removed even if it is the home
    # folder.
    name_by_folder = {str(folder): folder.name for folder in folders if folder.is_absolute()}
    name_by_folder |= {str(Path.home()): "~", str(CHECKOUT): ".", str(Path.cwd()): "."}
    # The address of a mirror may be private. It occurs in the commands of records, such as
    # `aiayn fetch --mirror=https://host/copy`.
    replacements = [(re.compile(r"(?<=--mirror=)[^\s'\"]+"), "")]
    # Longer paths come first, because a shorter path may be the beginning of a longer path.
    for folder in sorted(name_by_folder, key=len, reverse=True):
        replacements += _replacements_of(folder, name_by_folder[folder])
    return replacements


def _replacements_of(folder: str, name: str) -> list[tuple[re.Pattern[str], str]]:
    # In a container the working folder may be `/`, which is in every path.
    if folder == "/":
        return []
    inside = "" if name == "." else f"{name}/"
    return [
        # The first pattern shortens a path inside the folder: /home/ann/aiayn/runs/x becomes
        # runs/x. The second replaces the folder itself. It does not match /home/ann/aiayn2.
        (re.compile(rf"{re.escape(folder)}/+"), inside),
        (re.compile(rf"{re.escape(folder)}(?![\w.-])"), name),
    ]
