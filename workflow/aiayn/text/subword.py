"""Learn a corpus's subword pieces (byte-pair encoding, section 5.1) and load what splits its lines into them.

Two methods: sentencepiece on plain text (`subword_sentencepiece`), from all lines or a sample; subword-nmt on Moses
tokens (`subword_codes`), from the counts of all words. Memory grows with what is learnt from, and with nothing else.
"""

import functools
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np

from aiayn.errors import ConfigError, CorpusError
from aiayn.provenance import Provenance, gather_provenance, replace_outputs_on_success, require_free_space
from aiayn.records import ParallelText, SegmentedText, TextPair
from aiayn.spec import CorpusSpec, SubwordSpec, spec_digest
from aiayn.stages import STAGE_VERSIONS
from aiayn.text.learning_watch import Learning, LearningWatch
from aiayn.text.line_sample import sample_lines
from aiayn.text.lines import read_lines, unchanged_paths, write_lines
from aiayn.text.shards import LINES_PER_SHARD, PARTS_FOLDER, map_shards, part_path, split_into_shards
from aiayn.text.subword_codes import (
    CodesEncoder,
    CountedWords,
    codes_vocabulary,
    count_words,
    learn_codes,
    merge_counts,
)
from aiayn.text.subword_sentencepiece import PieceEncoder, learn_pieces, piece_vocabulary
from aiayn.text.word_numbers import Numbered

SUFFIX_BY_METHOD = {"sentencepiece": ".model", "subword_nmt": ".codes"}
JOINT_NAME = "joint"
_MODEL_BYTES_PER_PIECE = 100  # sentencepiece's models and vocabularies take about 40


class Encoder(Protocol):
    """Splits lines into pieces."""

    digest: str

    @property
    def symbols(self) -> list[str]:
        """All pieces (so far), by their numbers."""

    def pieces(self, line: str) -> str:
        """Return a line's pieces, separated by blanks."""

    def number(self, lines: Sequence[str]) -> Numbered:
        """Return the numbers of all lines' pieces, each line ended by `</s>`, and each line's length."""


class _CountKey(msgspec.Struct, frozen=True):
    """What the counts of words depend on."""

    stage_version: int
    sha256_by_language: dict[str, str]


def load_encoders(segmented: SegmentedText) -> dict[str, Encoder]:
    """Return each language's encoder, the same object for a joint model.

    Raises:
        CorpusError: if a model is absent or none.
    """
    load = PieceEncoder if segmented.method == "sentencepiece" else CodesEncoder
    encoder_by_path = {path: load(path) for path in set(segmented.model_path_by_language.values())}
    return {language: encoder_by_path[path] for language, path in segmented.model_path_by_language.items()}


def segment_corpus(
    spec: CorpusSpec, text: ParallelText, *, record_path: Path, num_processes: int = 1,
    lines_per_shard: int = LINES_PER_SHARD,
) -> SegmentedText:  # fmt: skip
    """Learn pieces from the training text and write models and vocabularies beside the record; return the record.

    A joint model, `joint.model` or `joint.codes`, is learnt from both sides; else there is one a language, `en.model`,
    from its own. The `.vocab` beside it is for readers: a piece and its rank's score, or its rank, a line.

    Raises:
        ConfigError: if the corpus comes in pieces, or its text and the vocabulary's size do not go together.
        CorpusError: if the text is another corpus's, or has changed since it was cleaned.
        SpaceError: if the disk cannot hold the models and what they are learnt from.
    """
    subword = _required_subword(spec, text)
    path_by_language = unchanged_paths(pair := text.pair_by_split["train"])
    name_by_language = {language: JOINT_NAME if subword.joint else language for language in path_by_language}
    _require_space(subword, path_by_language.values(), record_path.parent)
    parts_folder = record_path.parent / PARTS_FOLDER
    with replace_outputs_on_success(record_path) as folder:
        if subword.method == "sentencepiece":
            learn = functools.partial(_learn_sentencepiece, subword, pair, name_by_language, folder)
        else:
            parts = _count_all_words(pair, parts_folder, num_processes, lines_per_shard)
            learn = functools.partial(_learn_subword_nmt, subword, pair, name_by_language, folder, parts)
        learning_by_model = {name: learn(name) for name in dict.fromkeys(name_by_language.values())}
    shutil.rmtree(parts_folder, ignore_errors=True)
    suffix, place = SUFFIX_BY_METHOD[subword.method], record_path.parent
    return SegmentedText(
        provenance=_provenance(pair),
        corpus=spec.name,
        normalise=spec.normalise,
        tokenise=spec.tokenise,
        method=subword.method,
        model_path_by_language={k: place / f"{name}{suffix}" for k, name in name_by_language.items()},
        vocabulary_path_by_language={k: place / f"{name}.vocab" for k, name in name_by_language.items()},
        learning_by_model=learning_by_model,
    )


def _required_subword(spec: CorpusSpec, text: ParallelText) -> SubwordSpec:
    if spec.subword is None:
        raise ConfigError(f"corpus {spec.name}: its text comes in pieces, segmented by others; run `aiayn binarize`")
    if text.corpus != spec.name:
        raise CorpusError(f"the text record is of corpus {text.corpus}, expected {spec.name}; name its own")
    return spec.subword


def _require_space(spec: SubwordSpec, paths: Iterable[Path], folder: Path) -> None:
    """Refuse to begin if the disk cannot hold the models and, for codes, the counts of words."""
    paths = list(paths)
    # a word is written once a shard, with its count: of real text far less than the text
    counts_bytes = sum(path.stat().st_size for path in paths) if spec.method == "subword_nmt" else 0
    models_bytes = len(paths) * spec.vocabulary_size * _MODEL_BYTES_PER_PIECE
    require_free_space(folder, models_bytes + counts_bytes, "the subword models and the counts of words")


def _provenance(pair: TextPair) -> Provenance:
    """Describe this process; the text was hashed when it was compared with its record, and is not hashed again."""
    sha256_by_path = {path: pair.sha256_by_language[language] for language, path in pair.path_by_language.items()}
    return msgspec.structs.replace(gather_provenance(), input_sha256_by_path=sha256_by_path)


def _learn_sentencepiece(
    spec: SubwordSpec, pair: TextPair, name_by_language: Mapping[str, str], folder: Path, name: str
) -> Learning:
    """Learn a model from all lines of its languages, or from a sample of them all."""
    paths = [path for language, path in pair.path_by_language.items() if name_by_language[language] == name]
    num_lines = [pair.num_lines] * len(paths)
    if spec.sample_lines is not None and spec.sample_lines < sum(num_lines):
        seed: int | None = spec.sample_seed
        lines = sample_lines(paths, num_lines, spec.sample_lines, np.random.default_rng(seed))
        num_learnt = spec.sample_lines
    else:
        seed, num_learnt = None, sum(num_lines)
        lines = (line for path in paths for line in read_lines(path))
    what = f"learning {spec.vocabulary_size:,} pieces from {num_learnt:,} of {sum(num_lines):,} lines"
    with LearningWatch(what) as watch:
        watch.state = "at work"
        model = learn_pieces(lines, spec, " and ".join(map(str, paths)))
    (folder / f"{name}{SUFFIX_BY_METHOD['sentencepiece']}").write_bytes(model)
    write_lines(piece_vocabulary(model), folder / f"{name}.vocab")
    return watch.learning(num_learnt, seed)


def _count_all_words(pair: TextPair, parts_folder: Path, num_processes: int, lines_per_shard: int) -> list[Path]:
    """Count the words of each language in shards, and return the parts."""
    shards = split_into_shards(pair.path_by_language, lines_per_shard=lines_per_shard)
    key = spec_digest(_CountKey(STAGE_VERSIONS["segment"], pair.sha256_by_language))
    folder = parts_folder / "words"
    map_shards(
        functools.partial(count_words, pair.path_by_language),
        shards,
        CountedWords,
        folder=folder,
        key=key,
        num_processes=num_processes,
        what="counting words",
    )
    return [part_path(folder, key, shard) for shard in shards]


def _learn_subword_nmt(
    spec: SubwordSpec,
    pair: TextPair,
    name_by_language: Mapping[str, str],
    folder: Path,
    part_paths: Sequence[Path],
    name: str,
) -> Learning:
    """Learn codes from the counts of all words of a model's languages."""
    languages = [language for language in pair.path_by_language if name_by_language[language] == name]
    origin = " and ".join(str(pair.path_by_language[language]) for language in languages)
    num_lines = pair.num_lines * len(languages)
    words_path = folder / f"{name}.words"
    with LearningWatch(f"learning {spec.vocabulary_size:,} merges from {num_lines:,} lines") as watch:
        watch.state = "joining the counts of words"
        merge_counts((part / f"{language}.words" for language in languages for part in part_paths), words_path)
        codes = learn_codes(read_lines(words_path), spec.vocabulary_size, origin, watch)
    words_path.unlink()
    write_lines(codes, folder / f"{name}{SUFFIX_BY_METHOD['subword_nmt']}")
    write_lines(codes_vocabulary(codes), folder / f"{name}.vocab")
    return watch.learning(num_lines, None)
