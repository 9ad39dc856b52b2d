"""Turns training text into a model of subword pieces (section 5.1), and a model into what splits lines by it.

Two methods: sentencepiece on plain text (`subword_sentencepiece`), from all lines or a sample; subword-nmt on Moses
tokens (`subword_codes`), from the counts of all words. Memory grows with what is learnt from, and with nothing else.
"""

import resource
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from aiayn.data.text.lines import read_blocks, read_lines, require_corpus, text_provenance, unchanged_paths, write_lines
from aiayn.data.text.subword_codes import CodesEncoder, codes_vocabulary, count_words, learn_codes
from aiayn.data.text.subword_sentencepiece import PieceEncoder, learn_pieces, piece_vocabulary
from aiayn.errors import ConfigError, CorpusError
from aiayn.progress import progress_bar
from aiayn.provenance import replace_outputs_on_success, require_free_space
from aiayn.records import ParallelText, SegmentedText, SubwordTraining
from aiayn.spec.system import CorpusSpec, SubwordSpec

SUFFIX_BY_METHOD = {"sentencepiece": ".model", "subword_nmt": ".codes"}
JOINT_NAME = "joint"
_MODEL_BYTES_PER_PIECE = 100  # sentencepiece's models and vocabularies take about 40
_KIB_PER_MIB = 1024
LINES_PER_DRAW = 1 << 16  # of the sample: another number draws another one


def load_encoders(segmented: SegmentedText) -> dict[str, PieceEncoder | CodesEncoder]:
    """Return each language's encoder, the same object for a joint model.

    Raises:
        CorpusError: if a model is absent or none.
    """
    load = PieceEncoder if segmented.method == "sentencepiece" else CodesEncoder
    encoder_by_path = {path: load(path) for path in set(segmented.model_path_by_language.values())}
    return {language: encoder_by_path[path] for language, path in segmented.model_path_by_language.items()}


def segment_corpus(spec: CorpusSpec, text: ParallelText, *, record_path: Path) -> SegmentedText:
    """Learn the pieces of the training text, write models and vocabularies beside the record, return the record.

    A joint model (`joint.model` or `joint.codes`) learns from both languages; else each language has one by its name.
    `.vocab` has a piece and its rank's score, or its rank, a line.

    Raises:
        ConfigError: if the corpus comes in pieces, or its text and the vocabulary's size do not go together.
        CorpusError: if the text is another corpus's, or has changed since it was cleaned.
        SpaceError: if the disk cannot hold the models.
    """
    subword = spec.subword
    if subword is None:
        raise ConfigError(f"corpus {spec.name}: its text comes in pieces, segmented by others; run `aiayn binarize`")
    require_corpus(text, spec.name)
    path_by_language = unchanged_paths(pair := text.pair_by_split["train"])
    name_by_language = {language: JOINT_NAME if subword.joint else language for language in path_by_language}
    num_bytes = len(path_by_language) * subword.vocabulary_size * _MODEL_BYTES_PER_PIECE
    require_free_space(record_path.parent, num_bytes, "the subword models")
    suffix, learning_by_model = SUFFIX_BY_METHOD[subword.method], {}
    with replace_outputs_on_success(record_path) as folder:
        for name in dict.fromkeys(name_by_language.values()):
            paths = [path for language, path in path_by_language.items() if name_by_language[language] == name]
            begun_at = time.monotonic()
            if subword.method == "sentencepiece":
                num_lines, seed, lines = _lines_to_learn(subword, paths, pair.num_lines)
                model = learn_pieces(lines, subword, " and ".join(map(str, paths)))
                (folder / f"{name}{suffix}").write_bytes(model)
                write_lines(piece_vocabulary(model), folder / f"{name}.vocab")
            else:
                num_lines, seed = pair.num_lines * len(paths), None
                codes = learn_codes(count_words(paths), subword.vocabulary_size, " and ".join(map(str, paths)))
                write_lines(codes, folder / f"{name}{suffix}")
                write_lines(codes_vocabulary(codes), folder / f"{name}.vocab")
            learning_by_model[name] = SubwordTraining(
                num_lines=num_lines,
                sample_seed=seed,
                seconds=time.monotonic() - begun_at,
                memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _KIB_PER_MIB,  # Linux counts in KiB
            )
    place = record_path.parent
    return SegmentedText(
        provenance=text_provenance([pair]),
        corpus=spec.name,
        normalise=spec.normalise,
        tokenise=spec.tokenise,
        method=subword.method,
        model_path_by_language={k: place / f"{name}{suffix}" for k, name in name_by_language.items()},
        vocabulary_path_by_language={k: place / f"{name}.vocab" for k, name in name_by_language.items()},
        learning_by_model=learning_by_model,
    )


def _lines_to_learn(spec: SubwordSpec, paths: list[Path], num_lines_each: int) -> tuple[int, int | None, Iterable[str]]:
    """Return how many lines sentencepiece learns from, the seed of their sample (None: all lines), and the lines."""
    num_lines, seed = num_lines_each * len(paths), None
    lines: Iterable[str] = (line for path in paths for line in read_lines(path))
    if spec.sample_lines is not None and spec.sample_lines < num_lines:
        seed = spec.sample_seed
        lines = sample_lines(paths, [num_lines_each] * len(paths), spec.sample_lines, np.random.default_rng(seed))
        num_lines = spec.sample_lines
    what = f"reading lines to learn {spec.vocabulary_size:,} pieces from"
    return num_lines, seed, _shown(lines, what, num_lines)


def _shown(lines: Iterable[str], what: str, num_lines: int) -> Iterable[str]:
    with progress_bar(what, num_lines, " lines") as bar:
        for line in lines:
            yield line
            bar.update()


def sample_lines(
    paths: Sequence[Path], num_lines_by_path: Sequence[int], num_samples: int, rng: np.random.Generator
) -> Iterator[str]:
    """Yield `num_samples` lines of all the files' together, in their order; all lines, if there are no more.

    How many of a block's lines belong to the sample is hypergeometric, which of them is uniform (Fan, Muller and
    Rezucha 1962, by blocks): memory is a block's, and no list of line numbers is made.

    Raises:
        CorpusError: if a file has not as many lines as it is said to have.
    """
    lines_left = sum(num_lines_by_path)
    samples_left = min(num_samples, lines_left)
    for path, num_lines in zip(paths, num_lines_by_path, strict=True):
        num_read = 0
        for block in read_blocks(path, LINES_PER_DRAW):
            num_read += len(block)
            if num_read > num_lines:
                break
            num_chosen = int(rng.hypergeometric(samples_left, lines_left - samples_left, len(block)))
            chosen = rng.choice(len(block), num_chosen, replace=False, shuffle=False)
            yield from (block[index] for index in np.sort(chosen))
            lines_left -= len(block)
            samples_left -= num_chosen
        if num_read != num_lines:
            raise CorpusError(f"{path}: another number of lines than the {num_lines} recorded; rerun `aiayn clean`")
