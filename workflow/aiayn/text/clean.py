"""Prepare text as the recipe says: punctuation and tokens of all splits, and the training pairs that are to be kept.

Training text is gone through in shards, over processes; a killed command goes on with those that are whole. The output
depends neither on the processes nor on the shards. Test sets are never filtered; where nothing is normalised or
tokenised they are copied. Memory does not grow with the corpus: lines stream by, duplicates are found on disk.
"""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from aiayn.errors import ConfigError, CorpusError
from aiayn.provenance import Provenance, gather_provenance, replace_outputs_on_success, require_free_space
from aiayn.records import ParallelText, RawCorpus, TextPair
from aiayn.spec import CorpusSpec
from aiayn.text.cleaned_parts import CleanedParts, make_parts, route_of
from aiayn.text.joined_parts import join_parts
from aiayn.text.lines import agreed_num_lines, read_lines, text_pair, unchanged_paths, write_lines
from aiayn.text.shards import LINES_PER_SHARD, PARTS_FOLDER

_TOKENISED_BYTES_PER_BYTE = 1.25  # Moses' tokens of newstest take 1.03 to 1.10


def clean_corpus(
    spec: CorpusSpec,
    raw: RawCorpus,
    *,
    record_path: Path,
    num_processes: int = 1,
    lines_per_shard: int = LINES_PER_SHARD,
) -> ParallelText:
    """Write the kept training pairs and the test sets beside the record, all as prepared, and return the record.

    Raises:
        ConfigError: if the corpus comes in pieces, which others have cleaned.
        CorpusError: if the sides of training differ in their number of lines, if one is not UTF-8, if no pair is left,
            or if a raw file has changed since it was fetched.
    """
    _check_corpus(spec, raw)
    paths_by_split = {split: unchanged_paths(pair) for split, pair in raw.pair_by_split.items()}
    _require_space(spec, [path for paths in paths_by_split.values() for path in paths.values()], record_path.parent)
    parts_folder = record_path.parent / PARTS_FOLDER
    parts = make_parts(
        spec,
        paths_by_split["train"],
        raw.pair_by_split["train"].sha256_by_language,
        parts_folder=parts_folder,
        num_processes=num_processes,
        lines_per_shard=lines_per_shard,
    )
    parts.find_duplicates()
    if parts.num_kept == 0:
        shutil.rmtree(parts_folder)
        raise _nothing_left(spec, paths_by_split["train"], parts)
    pair_by_split = _write_splits(spec, parts, paths_by_split, record_path)
    shutil.rmtree(parts_folder)
    return ParallelText(
        provenance=_provenance(raw),
        corpus=spec.name,
        pair_by_split=pair_by_split,
        num_pairs=pair_by_split["train"].num_lines,
        num_dropped_by_reason=parts.num_dropped_by_reason(),
    )


def _check_corpus(spec: CorpusSpec, raw: RawCorpus) -> None:
    if spec.clean is None:
        raise ConfigError(f"corpus {spec.name}: its text comes in pieces, cleaned by others; run `aiayn binarize`")
    if raw.corpus != spec.name:
        raise CorpusError(f"the raw record is of corpus {raw.corpus}, expected {spec.name}; name its own")


def _nothing_left(spec: CorpusSpec, train_paths: Mapping[str, Path], parts: CleanedParts) -> CorpusError:
    names, dropped = " and ".join(map(str, train_paths.values())), parts.num_dropped_by_reason()
    return CorpusError(f"{names}: no training pair is left, dropped: {dropped}; loosen `clean` of corpus {spec.name}")


def _require_space(spec: CorpusSpec, paths: Iterable[Path], folder: Path) -> None:
    """Refuse to begin if the disk cannot hold the shards' parts and the text that is made of them."""
    growth = 1.0 if spec.tokenise == "none" else _TOKENISED_BYTES_PER_BYTE
    raw_bytes = sum(path.stat().st_size for path in paths)
    require_free_space(folder, round(2 * growth * raw_bytes), "the cleaned text and its shards")


def _provenance(raw: RawCorpus) -> Provenance:
    """Describe this process; its inputs were hashed when they were compared with their record, and are not again."""
    sha256_by_path = {
        path: pair.sha256_by_language[language]
        for pair in raw.pair_by_split.values()
        for language, path in pair.path_by_language.items()
    }
    return msgspec.structs.replace(gather_provenance(), input_sha256_by_path=sha256_by_path)


def _write_splits(
    spec: CorpusSpec, parts: CleanedParts, paths_by_split: Mapping[str, Mapping[str, Path]], record_path: Path
) -> dict[str, TextPair]:
    """Write all splits beside the record and return them."""
    with replace_outputs_on_success(record_path) as folder:
        return {
            split: _join_train(spec, parts, folder, record_path.parent)
            if split == "train"
            else _write_testset(spec, split, path_by_language, folder, record_path.parent)
            for split, path_by_language in paths_by_split.items()
        }


def _join_train(spec: CorpusSpec, parts: CleanedParts, folder: Path, final_folder: Path) -> TextPair:
    """Write the training text of all parts without duplicates, and return it as it will lie in its final folder."""
    num_lines_by_path, sha256_by_language = {}, {}
    for language in (spec.source_language, spec.target_language):
        name = f"train.{language}"
        marked = ((part / name, parts.duplicates_of(part_index)) for part_index, part in enumerate(parts.folders))
        num_lines, sha256_by_language[language] = join_parts(marked, folder / name)
        num_lines_by_path[final_folder / name] = num_lines
    return TextPair(
        path_by_language={path.name.removeprefix("train."): path for path in num_lines_by_path},
        num_lines=agreed_num_lines(num_lines_by_path),
        sha256_by_language=sha256_by_language,
    )


def _write_testset(
    spec: CorpusSpec, split: str, path_by_language: Mapping[str, Path], folder: Path, final_folder: Path
) -> TextPair:
    """Write a test set, prepared as training text is but never filtered, and return it as it will lie."""
    new_paths = {language: folder / f"{split}.{language}" for language in path_by_language}
    for language, path in path_by_language.items():
        route = route_of(spec, language)
        if route.is_identity:
            shutil.copyfile(path, new_paths[language])
        else:
            write_lines(map(route.prepare, read_lines(path)), new_paths[language])
    return text_pair(new_paths, final_folder)
