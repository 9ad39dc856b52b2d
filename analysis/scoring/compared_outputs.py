"""Reads the two sides of a comparison, each a file or a run, with the references that both are held against."""

from pathlib import Path

import msgspec

from aiayn.data.sources.testsets import public_references, target_language_of
from aiayn.errors import ScoreError, UsageError
from aiayn.provenance import file_sha256
from aiayn.runs.finished import Decoded, corpus_references, find_decoded
from aiayn.spec.system import read_corpus
from analysis.scoring.system_output import Treatment, read_output, unlike_sides


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One system's translations: what to call them, their lines, their digest, and a run's search ('' of a file)."""

    name: str
    lines: list[str]
    sha256: str
    search: str = ""


class References(msgspec.Struct, frozen=True, kw_only=True):
    """Reference lines and what they are of; `is_segmented`: tokens of others, to be scored as given."""

    lines: list[str]
    place: str
    testset: str
    target_language: str
    is_segmented: bool = False


def read_sides(
    names: tuple[str, str],
    *,
    references_path: Path | None,
    testset: str | None,
    average: str | None,
    language_pair: str,
    results_folder: Path,
) -> tuple[Side, Side, References]:
    """Return baseline, system and references; what is no file's path is a run's name or a unique beginning of one.

    The references are those of `references_path`, else of the runs' corpus, else of the public test set. The target
    language of runs is their corpus's; of two files it is `language_pair`'s.

    Raises:
        UsageError: if two files come without references and test set.
        RecordError: if a run is not found, or the runs were decoded on unlike test sets.
        ScoreError: if the numbers of lines are unlike, or what the sides are: plain text, tokens, pieces.
    """
    decoded = [
        None if Path(name).is_file() else find_decoded(results_folder, name, testset=testset, average=average)
        for name in names
    ]
    runs = [one for one in decoded if one is not None]
    if runs:
        references = _references_of_runs(runs, references_path, results_folder)
    else:
        references = _references_of_files(references_path, testset, language_pair)
    baseline, system = (_read_side(name, one) for name, one in zip(names, decoded, strict=True))
    for side in (baseline, system):
        if len(side.lines) != len(references.lines):
            raise ScoreError(
                f"{side.name}: {len(side.lines)} lines, {references.place} has {len(references.lines)}; expected one "
                "line a segment on all sides, split at LF alone; compare translations of that test set"
            )
    _refuse_unlike(baseline, system, references)
    return baseline, system, references


def _refuse_unlike(baseline: Side, system: Side, references: References) -> None:
    """Refuse sides of which one is tokens, pieces or lower-cased: they would differ by that, not by the systems."""
    lines_by_side = {baseline.name: baseline.lines, system.name: system.lines, references.place: references.lines}
    unlike = unlike_sides(lines_by_side, Treatment(is_as_given=references.is_segmented))
    if unlike is not None and not (baseline.search and system.search):
        raise ScoreError(f"{unlike}; expected plain text on all sides; see `aiayn score --detokenise, --join-pieces`")


def _references_of_runs(runs: list[Decoded], references_path: Path | None, results_folder: Path) -> References:
    first = runs[0]
    for other in runs[1:]:
        if (other.corpus, other.hypotheses.testset) != (first.corpus, first.hypotheses.testset):
            raise ScoreError(
                f"{other.hypotheses.run}: of {other.corpus}, {other.hypotheses.testset}; the baseline is of "
                f"{first.corpus}, {first.hypotheses.testset}; expected the same sentences; choose with --testset"
            )
    corpus = read_corpus(first.corpus)
    if references_path is None:
        lines, place = corpus_references(results_folder, first), f"{first.corpus}, {first.hypotheses.testset},"
    else:
        lines, place = _read_file(references_path), str(references_path)
    return References(
        lines=lines,
        place=place,
        testset=first.hypotheses.testset,
        target_language=corpus.target_language,
        is_segmented=corpus.is_segmented,
    )


def _references_of_files(references_path: Path | None, testset: str | None, language_pair: str) -> References:
    target_language = target_language_of(language_pair)
    if references_path is not None:
        lines, place = _read_file(references_path), str(references_path)
        testset = testset or references_path.name
    elif testset is not None:
        lines, place = public_references(testset, language_pair), testset
    else:
        raise UsageError("two files need --references FILE, or --testset NAME of a public test set; see --help")
    return References(lines=lines, place=place, testset=testset, target_language=target_language)


def _read_side(name: str, decoded: Decoded | None) -> Side:
    if decoded is None:
        return Side(name=name, lines=_read_file(Path(name)), sha256=file_sha256(Path(name)))
    found = decoded.hypotheses
    path = found.path
    sha256 = file_sha256(path) if path.is_file() else "no such file"
    if sha256 != found.hypotheses_sha256:
        raise ScoreError(
            f"{path}: sha256 {sha256}, its record says {found.hypotheses_sha256}; expected the translations of "
            f"{found.run}; rerun `decode` for it"
        )
    return Side(
        name=f"{found.run}, {found.average}",
        lines=read_output(path, may_be_blank=True).lines,
        sha256=sha256,
        search=found.signature,
    )


def _read_file(path: Path) -> list[str]:
    return read_output(path).lines
