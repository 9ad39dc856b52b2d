"""Finds system outputs: of a run below a results folder, or in a file; and the references of their test set."""

from pathlib import Path

import msgspec

from aiayn.data.sources.testsets import public_references, target_language_of
from aiayn.data.text.detokenise import detokenise
from aiayn.data.text.lines import read_lines
from aiayn.errors import CorpusError, RecordError, ScoreError, UsageError
from aiayn.packed import find_packed, unpacked_sha256
from aiayn.paths import corpus_record, num_averaged, split_alpha
from aiayn.records import Hypotheses, RawCorpus, read_record
from aiayn.runs.names import match_run
from aiayn.spec.system import read_corpus
from analysis.outputs.system_output import Treatment, find_form_mismatch, read_output


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """A run's hypotheses on a test set, and whose they are."""

    scale: str
    corpus: str
    hypotheses: Hypotheses


def find_decoded(results_folder: Path, run: str, *, testset: str | None, average: str | None) -> Decoded:
    """Return the hypotheses of the run whose name begins with `run`; of its longest average, unless one is named.

    Raises:
        RecordError: if no run, or more than one, is meant, or it was decoded on no or more than one such test set.
    """
    found = []
    for path in sorted(results_folder.glob("*/decode/*/*/seed*/last*/*.json")):
        if split_alpha(path.stem)[1] is None:  # not by another search than the system's
            scale, _, corpus, *_ = path.relative_to(results_folder).parts
            found.append(Decoded(scale=scale, corpus=corpus, hypotheses=read_record(path, Hypotheses)))
    names = {one.hypotheses.run for one in found}
    name = match_run(run, names, place=str(results_folder), unknown="is neither a file nor a decoded run")
    of_run = [one for one in found if one.hypotheses.run == name]
    fitting = [
        one for one in of_run if testset in (None, one.hypotheses.testset) and average in (None, one.hypotheses.average)
    ]
    if len({one.hypotheses.testset for one in fitting}) != 1:
        had = ", ".join(f"{one.hypotheses.testset} ({one.hypotheses.average})" for one in of_run)
        raise RecordError(f"{name}: decoded on {had}; choose one with --testset and, where it has several, --average")
    return max(fitting, key=lambda one: num_averaged(one.hypotheses.average))


def read_references(results_folder: Path, scale: str, corpus_name: str, testset: str) -> list[str]:
    """Return the references of a corpus's test set, detokenised where the corpus came in pieces.

    Raises:
        RecordError: if the record of fetch is not there.
    """
    raw = read_record(corpus_record(results_folder, scale, "fetch", corpus_name), RawCorpus)
    corpus = read_corpus(corpus_name)
    path = raw.pair_by_split[testset].path_by_language[corpus.target_language]
    if not corpus.is_segmented:
        return list(read_lines(path))
    return [detokenise(line, corpus) for line in read_lines(path)]


class ComparedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A system output: its name in messages, its lines, their digest, and the search of a run ('' for a file)."""

    name: str
    lines: list[str]
    sha256: str
    search: str = ""


class References(msgspec.Struct, frozen=True, kw_only=True):
    """Reference lines and their test set; `is_segmented`: published as tokens, scored as given."""

    lines: list[str]
    place: str
    testset: str
    target_language: str
    is_segmented: bool = False


def read_compared_outputs(
    names: tuple[str, str],
    *,
    references_path: Path | None,
    testset: str | None,
    average: str | None,
    language_pair: str,
    results_folder: Path,
) -> tuple[ComparedOutput, ComparedOutput, References]:
    """Return baseline, system and references. A name is a file's path, else a run's name or a unique prefix of one.

    The references are those of `references_path`, else of the runs' corpus, else of the public test set. The target
    language of runs is their corpus's; of two files it is `language_pair`'s.

    Raises:
        UsageError: if two files come without references and test set.
        CorpusError: if the references of the runs' corpus are not there.
        RecordError: if a run is not found, or the runs were decoded on different test sets.
        ScoreError: if numbers of lines differ, or the texts are of different forms: plain, tokens, pieces.
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
    baseline, system = (_read_output(name, one) for name, one in zip(names, decoded, strict=True))
    for output in (baseline, system):
        if len(output.lines) != len(references.lines):
            raise ScoreError(
                f"{output.name}: {len(output.lines)} lines, {references.place} has {len(references.lines)}; expected "
                "one line a segment, split at LF alone; compare translations of this test set"
            )
    # Tokens beside text, or lower case beside case: a difference of forms is none of systems.
    lines_by_name = {baseline.name: baseline.lines, system.name: system.lines, references.place: references.lines}
    mismatch = find_form_mismatch(lines_by_name, Treatment(is_as_given=references.is_segmented))
    if mismatch is not None and not (baseline.search and system.search):
        raise ScoreError(f"{mismatch}; expected plain text in all files; see `aiayn score --detokenise, --join-pieces`")
    return baseline, system, references


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
        try:
            lines = read_references(results_folder, first.scale, first.corpus, first.hypotheses.testset)
        except CorpusError as error:  # packed results have no references
            raise CorpusError(f"{error}, or give --references FILE") from error
        place = f"{first.corpus}, {first.hypotheses.testset},"
    else:
        lines, place = read_output(references_path).lines, str(references_path)
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
        lines, place = read_output(references_path).lines, str(references_path)
        testset = testset or references_path.name
    elif testset is not None:
        lines, place = public_references(testset, language_pair), testset
    else:
        raise UsageError("two files need --references FILE, or --testset NAME of a public test set; see --help")
    return References(lines=lines, place=place, testset=testset, target_language=target_language)


def _read_output(name: str, decoded: Decoded | None) -> ComparedOutput:
    if decoded is None:
        return ComparedOutput(name=name, lines=read_output(Path(name)).lines, sha256=unpacked_sha256(Path(name)))
    found = decoded.hypotheses
    path = find_packed(found.path)
    if path is None:
        raise ScoreError(f"{found.path}: no such file, the translations of {found.run}; rerun `decode` for it")
    lines, sha256 = read_output(path, may_be_blank=True).lines, unpacked_sha256(path)
    if sha256 != found.hypotheses_sha256:
        raise ScoreError(
            f"{path}: sha256 {sha256}, its record says {found.hypotheses_sha256}; expected the translations of "
            f"{found.run}; rerun `decode` for it"
        )
    return ComparedOutput(name=f"{found.run}, {found.average}", lines=lines, sha256=sha256, search=found.signature)
