"""Learns subword models from training text (section 5.1), and loads them as encoders of lines.

Two libraries, sentencepiece and subword-nmt, learn byte-pair encoding (BPE). The memory of both
libraries grows with the text that they learn from.

sentencepiece learns from plain text, all lines or a sample, and needs about 0.7 GB for a million
lines of 24 words. sentencepiece does not normalise the text here (its rule is identity, and not its
default nmt_nfkc). Only repeated blanks and blanks at the ends of a line are lost, and U+2581,
sentencepiece's mark for a blank, comes back as a blank. Characters that are not in the training
text are spelt in UTF-8 bytes, with a subword for each byte (`<0x00>` to `<0xFF>`). White space
characters except the blank (NBSP, CR, U+2028, ...) are also spelt in bytes. White space other than
the blank is removed from the text that the model is learnt from, because fairseq's dictionaries and
readers would split a subword at such a character.

subword-nmt (Sennrich, Haddow and Birch 2016), which the recipes of 2016 and 2017 use, learns BPE
codes from Moses tokens. subword-nmt learns from words and their counts, so the order of words and
languages does not matter. subword-nmt needs 1.7 KB of memory for each different word. WMT14 may
have three million different words, which need about 5 GB.
"""

import contextlib
import io
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import sentencepiece

from aiayn.data.text.encoder import LineEncoder
from aiayn.data.text.lines import (
    blocks_of,
    read_lines,
    text_provenance,
    write_lines,
)
from aiayn.errors import ConfigError, CorpusError
from aiayn.progress import progress_bar
from aiayn.provenance import file_sha256, replace_outputs_on_success
from aiayn.records import ParallelText, SegmentedText, SubwordTraining, require_files
from aiayn.spec.system import CorpusSpec, SubwordSpec

SUFFIX_BY_METHOD = {"sentencepiece": ".model", "subword_nmt": ".codes"}
JOINT_NAME = "joint"
_KIB_PER_MIB = 1024
LINES_PER_DRAW = 1 << 16  # a different number would draw a different sample
_LINES_PER_BLOCK = 8192

NUM_RESERVED_PIECES = 3 + 256  # <unk> <s> </s>, and a piece for each byte
# sentencepiece's default of 16 would cut frequent German compounds. Section 5.1 has no limit.
MAX_PIECE_CHARACTERS = 64
MAX_LINE_BYTES = 1 << 24  # sentencepiece skips longer lines, by default lines above 4192 bytes
WORD_BEGIN = "\u2581"
_WHITE_SPACE = re.compile(r"\s")

CODES_HEADER = "#version: 0.2"  # older files encode the end of a word as a separate symbol


class PieceEncoder(LineEncoder):
    """Splits lines into subwords with a learnt sentencepiece model.

    A caller can split a line word by word and cache the words (`words`, `numbers`). Splitting word
    by word is several times as fast as passing whole lines to sentencepiece, and gives the same
    subwords, because no learnt subword spans two words. A line that contains sentencepiece's mark
    U+2581 counts as a single word.
    """

    def __init__(self, model_path: Path) -> None:
        """Load a sentencepiece model.

        Raises:
            CorpusError: if the file at `model_path` is absent or is not a sentencepiece model.
        """
        try:
            content = model_path.read_bytes()
            if not content:  # sentencepiece accepts it, and fails later
                raise RuntimeError("it is empty")
            self._model = sentencepiece.SentencePieceProcessor(model_proto=content)
        except (FileNotFoundError, RuntimeError) as error:
            raise CorpusError(
                f"{model_path}: not a sentencepiece model: {error}; rerun `aiayn segment`"
            ) from error
        self.end = self._model.eos_id()
        # Listed once, because `binarize` asks for all pieces in every chunk of text.
        self._symbols = [
            self._model.id_to_piece(index) for index in range(self._model.get_piece_size())
        ]

    def words(self, line: str) -> list[str]:
        """Return the list of a line's words, which blanks separate. No subword spans two words."""
        return [line] if WORD_BEGIN in line else line.split(" ")

    def pieces(self, line: str) -> str:
        """Return a line's subwords as a string, separated by blanks."""
        return " ".join(self._model.encode(line, out_type=str))

    def numbers(self, word: str) -> list[int]:
        """Return the ids of a word's subwords in the sentencepiece model."""
        numbers: list[int] = self._model.encode(word)
        return numbers

    def symbols(self) -> list[str]:
        """Return all subwords of the sentencepiece model, in the order of their ids."""
        return self._symbols


class CodesEncoder(LineEncoder):
    """Splits tokenised lines into subwords, with BPE codes that this project, subword-nmt or
    fastBPE has learnt.
    """

    def __init__(self, codes_path: Path) -> None:
        """Load codes.

        Raises:
            CorpusError: if the file at `codes_path` is absent or does not contain BPE codes.
        """
        from subword_nmt.apply_bpe import BPE  # not needed for models of sentencepiece

        super().__init__()
        # Checked here, because subword-nmt ends the process at a line that it does not know.
        lines = list(read_lines(codes_path))
        has_header = lines[:1] == [CODES_HEADER]
        merges = [line.split(" ") for line in (lines[1:] if has_header else lines)]
        # A codes file of fastBPE lacks a header, and its third column is the count of each pair.
        is_fastbpe = not has_header and all(len(m) == 3 and m[2].isdecimal() for m in merges)
        if not merges or not (is_fastbpe or all(len(merge) == 2 for merge in merges)):
            expected = (
                f"{CODES_HEADER!r} (or no header) and lines of two symbols, or fastBPE's lines of"
                " two symbols and a count"
            )
            raise CorpusError(
                f"{codes_path}: not codes of subword-nmt: expected {expected}; rerun `aiayn"
                " segment`, or give the file of the model"
            )
        # Only version 0.1 of the format has a separate symbol, `</w>`, for the end of a word. It
        # lacks a header. Version 0.2 appends `</w>` to the last symbol of the word.
        is_first_version = not has_header and any("</w>" in merge[:2] for merge in merges)
        header = [] if is_first_version else [CODES_HEADER]
        pairs = [f"{first} {second}" for first, second, *_ in merges]
        codes = "".join(f"{line}\n" for line in [*header, *pairs])
        self._bpe = BPE(io.StringIO(codes, newline="\n"))
        self._path = codes_path

    def pieces(self, line: str) -> str:
        """Return a line's subwords as a string, separated by blanks. A subword that is not the last
        of its word ends in the mark `@@`.
        """
        words = [word for word in line.split(" ") if word]
        for word in words:
            _require_one_token(word, str(self._path))
        pieces: list[str] = self._bpe.segment_tokens(words)
        self._bpe.cache.clear()  # subword-nmt's cache would grow with the text
        return " ".join(pieces)


def load_encoders(segmented: SegmentedText) -> dict[str, PieceEncoder | CodesEncoder]:
    """Return each language's encoder (which splits lines into subwords). With a joint subword
    model, both languages have the same encoder object.

    Raises:
        CorpusError: if a subword model is absent, has changed since it was learnt, or cannot be
            read.
    """
    require_files(segmented, segmented.model_path_by_language.values())
    load = PieceEncoder if segmented.method == "sentencepiece" else CodesEncoder
    # `binarize` gives languages with the same encoder object a joint dictionary, so a model that
    # both languages share must be loaded only once.
    encoder_by_path = {path: load(path) for path in set(segmented.model_path_by_language.values())}
    return {
        language: encoder_by_path[path]
        for language, path in segmented.model_path_by_language.items()
    }


def segment_corpus(spec: CorpusSpec, text: ParallelText, *, record_path: Path) -> SegmentedText:
    """Learn subword models from the training text, write the models next to the record, and return
    the record.

    A joint subword model (`joint.model` or `joint.codes`) is learnt from both languages. Without a
    joint model, each language has its own model, `<language>.model` or `<language>.codes`.

    Raises:
        ConfigError: if the corpus is published already segmented, or if the text is too short for
            the size of the vocabulary.
        CorpusError: if the text is from a corpus other than `spec`, or has changed since the stage
            clean wrote it.
    """
    subword = spec.subword
    if subword is None:
        raise ConfigError(
            f"corpus {spec.name}: its text comes in pieces, segmented by others; run `aiayn"
            " binarize`"
        )
    pair = text.pair_by_split["train"]
    path_by_language = pair.path_by_language
    require_files(text, path_by_language.values())
    name_by_language = {
        language: JOINT_NAME if subword.joint else language for language in path_by_language
    }
    suffix = SUFFIX_BY_METHOD[subword.method]
    learning_by_model = {}
    with replace_outputs_on_success(record_path) as folder:
        # A joint model has one name for both languages. It is learnt once, from both files.
        for name in dict.fromkeys(name_by_language.values()):
            paths = [
                path
                for language, path in path_by_language.items()
                if name_by_language[language] == name
            ]
            origin = " and ".join(map(str, paths))
            # The fields of SubwordTraining. Only sentencepiece samples lines.
            begun_at = time.monotonic()
            num_all = pair.num_lines * len(paths)
            num_lines = num_all
            seed = None
            if subword.method == "sentencepiece":
                num_lines = min(subword.sample_lines or num_all, num_all)
                seed = subword.sample_seed if num_lines < num_all else None
                # Each model draws with a new generator, so its sample does not depend on the other
                # model.
                rng = np.random.default_rng(subword.sample_seed)
                lines = sample_lines(paths, [pair.num_lines] * len(paths), num_lines, rng)
                model = learn_pieces(lines, subword, origin)
                (folder / f"{name}{suffix}").write_bytes(model)
            else:
                codes = learn_codes(count_words(paths), subword.vocabulary_size, origin)
                write_lines(codes, folder / f"{name}{suffix}")
            learning_by_model[name] = SubwordTraining(
                num_lines=num_lines,
                sample_seed=seed,
                seconds=time.monotonic() - begun_at,
                memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                // _KIB_PER_MIB,  # Linux counts in KiB
            )
    # At the end of the block above the models were moved from the temporary folder to this folder.
    model_folder = record_path.parent
    model_path_by_language = {
        language: model_folder / f"{name}{suffix}" for language, name in name_by_language.items()
    }
    return SegmentedText(
        provenance=text_provenance([pair]),
        corpus=spec.name,
        tokenise=spec.tokenise,
        method=subword.method,
        model_path_by_language=model_path_by_language,
        model_sha256_by_language={
            language: file_sha256(path) for language, path in model_path_by_language.items()
        },
        learning_by_model=learning_by_model,
    )


def sample_lines(
    paths: Sequence[Path],
    num_lines_by_path: Sequence[int],
    num_samples: int,
    rng: np.random.Generator,
) -> Iterator[str]:
    """Yield a random sample of `num_samples` lines from several files together, in the order of the
    files, or all lines if the files have fewer.

    For each block of lines, the number of lines to take is drawn from a hypergeometric
    distribution, and then so many lines of the block are drawn uniformly (Fan, Muller and Rezucha
    1962, by blocks). Only one block of lines is therefore in memory at a time, and no list of line
    numbers is needed.

    Raises:
        CorpusError: if a file does not have the number of lines that `num_lines_by_path` states.
    """
    lines_left = sum(num_lines_by_path)
    samples_left = min(num_samples, lines_left)
    with progress_bar("reading lines to learn pieces from", samples_left, " lines") as bar:
        for path, num_lines in zip(paths, num_lines_by_path, strict=True):
            num_read = 0
            for block in blocks_of(read_lines(path), LINES_PER_DRAW):
                num_read += len(block)
                # A file that has grown since it was recorded would make the counts below negative,
                # which numpy refuses. The error after the loop is clearer.
                if num_read > num_lines:
                    break
                num_chosen = int(
                    rng.hypergeometric(samples_left, lines_left - samples_left, len(block))
                )
                # `choice` returns indices in any order. They are sorted to keep the order of the
                # text.
                chosen = rng.choice(len(block), num_chosen, replace=False, shuffle=False)
                yield from (block[index] for index in np.sort(chosen))
                bar.update(num_chosen)
                lines_left -= len(block)
                samples_left -= num_chosen
            if num_read != num_lines:
                raise CorpusError(
                    f"{path}: not {num_lines} lines, which its record says; rerun `aiayn clean`"
                )


def learn_pieces(lines: Iterable[str], spec: SubwordSpec, origin: str) -> bytes:
    """Learn a BPE model with sentencepiece from lines, and return the content of the model file.
    The same lines and the same `spec` always give a model file with the same bytes.

    Raises:
        ConfigError: if the lines have too few subwords to fill the vocabulary, or more different
            characters than the vocabulary has room for.
    """
    # The model is written to memory: the caller decides where it is stored.
    model = io.BytesIO()
    try:
        # White space inside a piece would split it when fairseq reads the dictionary. `minloglevel`
        # 2 prints errors only, because the progress of the training would fill a log.
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(_WHITE_SPACE.sub(" ", line) for line in lines),
            model_writer=model,
            model_type="bpe",
            vocab_size=spec.vocabulary_size + NUM_RESERVED_PIECES,
            character_coverage=1.0,  # every character seen is a piece
            byte_fallback=True,
            normalization_rule_name="identity",
            max_sentencepiece_length=MAX_PIECE_CHARACTERS,
            max_sentence_length=MAX_LINE_BYTES,
            num_threads=1,  # the model file holds this number; the pieces do not depend on it
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ConfigError(
            f"{origin}: subword.vocabulary_size is {spec.vocabulary_size}; with"
            f" {NUM_RESERVED_PIECES} control symbols and bytes added, sentencepiece says: {error};"
            " correct the size, or look at the text"
        ) from error
    return model.getvalue()


def count_words(paths: Sequence[Path]) -> Iterator[str]:
    """Yield a line with a word and its count (`word count`) for each different word of all files.

    Raises:
        CorpusError: if a word contains a white space character other than the blank.
    """
    count_by_word: Counter[str] = Counter()
    for path in paths:
        for block in blocks_of(read_lines(path), _LINES_PER_BLOCK):
            count_by_word.update(" ".join(block).split(" "))
    del count_by_word[""]  # the empty word between two blanks
    # Checked once for each different word, which is much less work than once for each line.
    for word, count in count_by_word.items():
        _require_one_token(word, " and ".join(map(str, paths)))
        yield f"{word} {count}"


def _require_one_token(word: str, place: str) -> None:
    if word.split() != [word]:
        raise CorpusError(
            f"{place}: the word {word!r} contains white space, where fairseq would split its"
            " pieces; expected only blanks between words; set `tokenise: moses`"
        )


def learn_codes(count_lines: Iterable[str], num_merges: int, origin: str) -> list[str]:
    """Learn BPE codes from lines with a word and its count (`word count`), and return the lines of
    the codes file, header first.

    Raises:
        ConfigError: if the text allows fewer BPE merges than requested, because only pairs that
            occur at least twice are merged. The message contains `origin`, the name of the text.
    """
    from subword_nmt.learn_bpe import learn_bpe

    codes = io.StringIO(newline="\n")
    # The progress bar of learn_bpe would fill a log. In a text without any pair of characters,
    # learn_bpe computes `max` of no values, which raises ValueError.
    progress = sys.stderr if sys.stderr.isatty() else io.StringIO()
    with contextlib.redirect_stderr(progress), contextlib.suppress(ValueError):
        learn_bpe(count_lines, codes, num_merges, is_dict=True)
    lines = codes.getvalue().removesuffix("\n").split("\n")
    # subword-nmt stops early without an error if no pair is left that occurs twice.
    if len(lines) - 1 != num_merges:
        raise ConfigError(
            f"{origin}: subword.vocabulary_size is {num_merges} merges; expected at most"
            f" {len(lines) - 1}, which this text yields; lower it"
        )
    return lines
