"""Prepares raw text as the corpus file says: tokenises all text, and filters the training pairs.

Training text is processed in chunks (blocks of lines) by several processes. The output depends
neither on the number of chunks nor on the number of processes. Test sets are never filtered. If
duplicate pairs are dropped, memory grows by about 100 bytes for each training pair.

The length limits follow Moses' clean-corpus-n.perl. Moses' script also deletes the character `|`
from every line (unless the first pair contains the character) and turns a no-break space into a
blank. This module does not change the text of a pair after tokenisation: it keeps or drops the
pair.
"""

import contextlib
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from aiayn.data.text.chunks import Chunk, map_chunks
from aiayn.data.text.lines import (
    read_lines,
    text_pair,
    text_provenance,
    write_lines,
)
from aiayn.data.text.tokenize_moses import tokenize_line
from aiayn.errors import ConfigError, CorpusError
from aiayn.provenance import replace_outputs_on_success
from aiayn.records import ParallelText, RawCorpus, require_files
from aiayn.spec.corpus import CleanSpec
from aiayn.spec.system import CorpusSpec

REASONS = ("empty_side", "too_long", "length_ratio", "long_word", "duplicate")
_DIGEST_BYTES = 16  # for 40 million pairs, the probability of a collision is 2e-24


def clean_corpus(
    spec: CorpusSpec,
    raw: RawCorpus,
    *,
    record_path: Path,
    num_processes: int = 1,
) -> ParallelText:
    """Write the tokenised and filtered training pairs and the tokenised test sets next to the
    record, and return the record.

    Raises:
        ConfigError: if the corpus was published already cleaned and segmented into subwords.
        CorpusError: if the sides of the training text differ in their number of lines, if a line is
            not UTF-8, if no training pair is left, or if a raw file has changed since it was
            fetched.
    """
    if spec.clean is None:
        raise ConfigError(
            f"corpus {spec.name}: its text comes in pieces, cleaned by others; run `aiayn binarize`"
        )
    with replace_outputs_on_success(record_path) as folder:
        pair_by_split = {}
        for split, pair in raw.pair_by_split.items():
            path_by_language = pair.path_by_language
            require_files(raw, path_by_language.values())
            new_paths = {language: folder / f"{split}.{language}" for language in path_by_language}
            if split == "train":
                # `partial` rather than a lambda, because the function is pickled for each process.
                chunks = map_chunks(
                    functools.partial(clean_chunk, spec),
                    path_by_language,
                    num_processes=num_processes,
                    what=f"clean {spec.name}",
                )
                num_dropped_by_reason = _write_train(chunks, new_paths)
                # `text_pair` would refuse an empty file, too, but would not say which limit dropped
                # the pairs.
                if not all(path.stat().st_size for path in new_paths.values()):
                    names = " and ".join(map(str, path_by_language.values()))
                    raise CorpusError(
                        f"{names}: no training pair is left, dropped: {num_dropped_by_reason};"
                        f" loosen `clean` of corpus {spec.name}"
                    )
            else:  # prepared like training text, but never filtered
                for language, path in path_by_language.items():
                    prepare = preprocessor(spec.tokenise, language)
                    write_lines(map(prepare, read_lines(path)), new_paths[language])
            pair_by_split[split] = text_pair(new_paths, record_path.parent)
    return ParallelText(
        provenance=text_provenance(raw.pair_by_split.values()),
        corpus=spec.name,
        pair_by_split=pair_by_split,
        num_pairs=pair_by_split["train"].num_lines,
        num_dropped_by_reason=num_dropped_by_reason,
    )


class CleanedChunk(msgspec.Struct, frozen=True):
    """The kept sentence pairs of a chunk of training text, and a digest of each pair if duplicates
    are to be dropped.
    """

    lines_by_language: dict[str, list[bytes]]
    digests: list[bytes]
    num_dropped_by_reason: dict[str, int]


def clean_chunk(spec: CorpusSpec, chunk: Chunk) -> CleanedChunk:
    """Tokenise the sentence pairs of a chunk of training text, and drop pairs that exceed a length
    limit.

    Raises:
        CorpusError: if a line is not UTF-8. The message contains the line number.
    """
    assert spec.clean is not None  # clean_corpus has raised an error otherwise
    num_dropped_by_reason = dict.fromkeys(REASONS, 0)
    digests = []
    kept_lines: tuple[list[bytes], list[bytes]] = ([], [])
    sides = (map(preprocessor(spec.tokenise, k), chunk.lines(k)) for k in spec.languages)
    for source, target in zip(*sides, strict=True):
        reason = reason_to_drop(source, target, spec.clean)
        if reason is not None:
            num_dropped_by_reason[reason] += 1
            continue
        kept_lines[0].append(f"{source}\n".encode())
        kept_lines[1].append(f"{target}\n".encode())
        # A digest instead of the text: the process that writes must remember every pair.
        if spec.clean.deduplicate:  # each line has one LF, so different pairs have different bytes
            pair = kept_lines[0][-1] + kept_lines[1][-1]
            digests.append(hashlib.blake2b(pair, digest_size=_DIGEST_BYTES).digest())
    lines_by_language = dict(zip(spec.languages, kept_lines, strict=True))
    return CleanedChunk(lines_by_language, digests, num_dropped_by_reason)


def preprocessor(tokenise: str, language: str) -> Callable[[str], str]:
    """Return the function that prepares a line of text before it is split into subwords.

    The argument `tokenise` is the setting for tokenisation in the corpus file (none or moses). The
    returned function prepares training text, test sets and sentences to be translated. References
    for scoring are not changed, and `aiayn.data.text.detokenise` turns translations back into plain
    text. The returned function joins tokens by single blanks.

    Example: `preprocessor("moses", "de")("Ja, gut.")` returns `Ja , gut .`. To support a further
    tokenizer, add its name to `CorpusSpec.tokenise` and its function here.
    """
    if tokenise == "none":
        return lambda line: line
    # A final `.'` leaves two blanks, which `split` removes.
    return lambda line: " ".join(tokenize_line(line, language).split())


def reason_to_drop(source: str, target: str, clean: CleanSpec) -> str | None:
    """Return the first reason in REASONS for which a sentence pair is dropped, or None if the pair
    is kept. Duplicates are not looked for here, because only `_write_train` sees all pairs.

    The ratio of a pair is the number of words of its longer side divided by the number of its
    shorter side. A pair exactly at a limit is kept, as in Moses' clean-corpus-n.perl.
    """
    if not source.strip() or not target.strip():
        return "empty_side"
    # Both sides are already tokenised here, so a comma counts as a word.
    shorter, longer = sorted((num_words(source), num_words(target)))
    if clean.max_words is not None and longer > clean.max_words:
        return "too_long"
    if clean.max_length_ratio is not None and longer / shorter > clean.max_length_ratio:
        return "length_ratio"
    most = clean.max_word_characters
    if most is not None:
        for line in (source, target):
            # Few lines are that long, so few are split.
            if len(line) > most and max(map(len, line.split(" "))) > most:
                return "long_word"
    return None


def num_words(line: str) -> int:
    """Return the number of words in a line. Only blanks (U+0020) separate words."""
    parts = line.split(" ")
    return len(parts) - parts.count("")


def _write_train(
    chunks: Iterable[CleanedChunk], path_by_language: Mapping[str, Path]
) -> dict[str, int]:
    """Write the training pairs of all chunks without duplicates. Return for each reason the number
    of pairs dropped for it.
    """
    num_dropped_by_reason = dict.fromkeys(REASONS, 0)
    seen: set[bytes] = set()
    with contextlib.ExitStack() as opened:
        texts = {
            language: opened.enter_context(path.open("wb"))
            for language, path in path_by_language.items()
        }
        # Workers cannot see each other's pairs, so duplicates are dropped here, in the only writer.
        for chunk in chunks:
            for reason, count in chunk.num_dropped_by_reason.items():
                num_dropped_by_reason[reason] += count
            # Chunks come in order, so the first of equal pairs is kept, with any number of
            # processes.
            is_first = []
            for digest in chunk.digests:
                is_first.append(digest not in seen)
                seen.add(digest)
            num_dropped_by_reason["duplicate"] += is_first.count(False)
            for language, lines in chunk.lines_by_language.items():
                texts[language].writelines(
                    itertools.compress(lines, is_first) if is_first else lines
                )
    return num_dropped_by_reason
