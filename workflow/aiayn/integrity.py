"""Compares the files of a results folder, runs folder or pack (archive of finished runs) with the
SHA-256 in their records.

The comparison is needed because Snakemake compares the times of files, and never their content. A
record has the SHA-256 of its own lines and of the files that its stage wrote. For a checkpoint, the
SHA-256 is computed from the tensors. A record that an earlier version wrote does not have the
SHA-256 of its own lines, but most records contain the SHA-256 of the records that their stage read.
Only files below the folder are compared. A pack (made by `aiayn pack`) does not contain texts and
checkpoints, so missing texts and checkpoints are not reported in a pack.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from aiayn.data.text.binarize import data_bin_digest, data_bin_files
from aiayn.errors import AiaynError, ScoreError
from aiayn.packed import NO_FILE, exists, file_problem, walk
from aiayn.paths import is_pack
from aiayn.progress import progress_bar
from aiayn.records import (
    TYPE_BY_NAME,
    Hypotheses,
    RawCorpus,
    Record,
    ScoreRecords,
    TrainRecord,
    name_of_type,
    read_record,
    read_sealed,
    recorded_files,
)
from aiayn.scoring.recorded import score_translations

TOLERANCE = 1e-6  # of a score that is computed again


def check_folder(folder: Path, counts: Counter[str], *, with_scores: bool = False) -> Iterator[str]:
    """Compare all files below a folder with their records. Yield a sentence for each file or record
    that differs or is missing.

    A progress bar shows how many files are done. The function adds the numbers of compared and left
    out records and files to `counts`. With `with_scores`, the scores are computed again from the
    translations and the references.
    """
    # Without `..`, because paths that were read from records have none, and would not be below it.
    root = Path(os.path.abspath(folder))
    done = set[Path]()
    paths: list[Path] = []
    packs: list[Path] = []
    unread: list[OSError] = []
    for parent, names, files in walk(root, unread.append, follows_links=False):
        # Snakemake's own folder has thousands of files that no record describes.
        names[:] = [name for name in names if not name.startswith(".")]
        packs += [parent] if is_pack(parent) else []
        paths += [parent / name for name in files if name.endswith(".json") and name[0] != "."]
    for error in unread:
        yield f"{error.filename}: this folder cannot be read ({error.strerror}); make it readable"
    # Sorted, so that the same folder gives the same report.
    paths.sort()
    with progress_bar("check", len(paths), " files of JSON") as bar:
        for path in paths:
            bar.update()
            is_packed = any(map(path.is_relative_to, packs))
            try:
                record = _read(path, counts)
                if record is None:
                    continue
                if isinstance(record, ScoreRecords) and record.provenance.input_sha256_by_path:
                    _require_scores(path, record, with_scores=with_scores)
                if not is_packed:
                    yield from _changed_inputs(path, record, root, done)
            except AiaynError as error:
                yield str(error)
                continue
            except OSError as error:  # for example, a broken link
                yield f"{path}: cannot be read ({error.strerror}); restore it from a copy"
                continue
            for file, sha256 in recorded_files(record).items():
                if file in done or not file.is_relative_to(root):
                    continue
                done.add(file)
                # Each file is read once, although several records may state its digest.
                problem = _problem(file, sha256)
                if problem == NO_FILE and is_packed:
                    counts["files left out of the pack"] += 1
                    continue
                counts["files"] += 1
                if problem:
                    yield f"{file}: {problem}; {record.remedy}"


def _read(path: Path, counts: Counter[str]) -> Record | None:
    """Return the record in a JSON file, or None if the file is not a record or is the record of a
    wing (an optional package).

    Raises:
        RecordError: if the file cannot be read, or if the checksum in its last line does not fit
            the other lines.
    """
    content, is_sealed = read_sealed(path)
    name = name_of_type(content)
    if not name and not is_sealed:
        return None
    counts["records"] += 1
    counts["records of earlier versions, without a checksum"] += not is_sealed
    record_type = TYPE_BY_NAME.get(name)
    return None if record_type is None else read_record(path, record_type)


def _changed_inputs(path: Path, record: Record, root: Path, done: set[Path]) -> Iterator[str]:
    """Yield a sentence for each input record of this record that has changed since this record was
    made. Only input records without a checksum of their own are compared.

    The inputs of a training's record are not compared: they may be made again after the training,
    and the record keeps the old SHA-256.
    """
    for name, sha256 in record.provenance.input_sha256_by_path.items():
        source = Path(name)
        # Texts are compared through the record that describes them, and a record with a checksum
        # through its checksum.
        if source.suffix != ".json" or isinstance(record, TrainRecord):
            continue
        if not source.is_relative_to(root) or not exists(source) or read_sealed(source)[1]:
            continue
        if source not in done and file_problem(source, sha256):
            done.add(source)
            yield (
                f"{source}: changed since {path} was made from it; restore it from a copy, or rerun"
                " its stage, and then the same snakemake"
            )


def _problem(path: Path, sha256: str) -> str:
    """Return a text on how a file, checkpoint or data-bin differs from its recorded digest, or ''
    if it does not differ.
    """
    if path.is_dir():
        found_digest = data_bin_digest(data_bin_files(path))
        return "" if found_digest == sha256 else f"digest {found_digest}, its record says {sha256}"
    if path.suffix != ".pt" or not path.exists():
        return file_problem(path, sha256)
    # Imported here, because it loads torch, and most folders have no checkpoints.
    from aiayn.train.checkpoints import checkpoint_problem

    return checkpoint_problem(path, sha256)


def _require_scores(path: Path, record: ScoreRecords, *, with_scores: bool) -> None:
    """Require that the scores in a record were computed from the translations to which the record
    refers.

    Raises:
        ScoreError: if the scores were computed from different translations, or if a new computation
            gives different scores.
    """
    paths = [Path(name) for name in record.provenance.input_sha256_by_path]
    if len(paths) != 2:
        raise ScoreError(
            f"{path}: made from {len(paths)} files, expected a record of translations and a record"
            f" of references; {record.remedy}"
        )
    decoded_path, raw_path = paths
    decoded = read_record(decoded_path, Hypotheses)
    again = record.scores
    if with_scores:
        again = score_translations(decoded, read_record(raw_path, RawCorpus))
    metrics = [score.metric for score in record.scores]
    expected = [score.metric for score in again]
    if metrics != expected:
        raise ScoreError(
            f"{path}: has {', '.join(metrics)}, expected {', '.join(expected)}; {record.remedy}"
        )
    for score, computed in zip(record.scores, again, strict=True):
        is_same = score.hypotheses_sha256 == decoded.hypotheses_sha256
        if not is_same or abs(score.value - computed.value) > TOLERANCE:
            raise ScoreError(
                f"{path}: {score.metric} {score.value} of the translations"
                f" {score.hypotheses_sha256[:16]}; {decoded_path} gives {computed.value} of"
                f" {decoded.hypotheses_sha256[:16]}; {record.remedy}"
            )
