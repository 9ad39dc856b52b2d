"""Score translations by every definition of BLEU that applies, and by chrF. Each score is printed
with its signature (the settings of the metric).

For any translations, give --hypotheses, --testset and --language-pair. The file of hypotheses has
one line for each segment of the test set. The file of hypotheses may also be an .sgm file, a gzip
file or the log of fairseq-generate. --references replaces the public references and works without a
network. The workflow uses --decoded, --raw and --record.

The text is scored as it is. A text that is not plain translated lines (subword pieces, tokens, JSON
lines, shifted lines) would get a wrong score, so it is refused. If a command can turn the text into
plain lines, the error message has this command. Smaller problems of the text are printed as
warnings.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aiayn.cli.flags import LANGUAGE_PAIR, RECORD, flag
from aiayn.errors import ScoreError, UsageError
from aiayn.provenance import gather_provenance
from aiayn.records import (
    Hypotheses,
    RawCorpus,
    ScoreRecord,
    ScoreRecords,
    read_record,
    write_record,
)
from aiayn.scoring.outputs.form import check_as_given, check_form
from aiayn.scoring.outputs.line_match import check_order, find_doubts
from aiayn.scoring.outputs.system_output import SystemOutput, check_num_lines, read_output
from aiayn.scoring.recorded import score_translations
from aiayn.scoring.score import default_metrics, score_hypotheses
from aiayn.terminal import json_text

EXAMPLE = "aiayn score --hypotheses output.de --testset newstest2014 --language-pair en-de"


class TextFlags:
    """The flags that the verbs `score` and `evaluate` share, about references and text."""

    testset: str | None = flag(
        "newstest2013, newstest2014 (full), newstest2014_filtered, any of sacreBLEU's (wmt17, ...),"
        " or, with --references, any name",
        heading="references and text",
    )
    references: Path | None = flag("references to use instead of the public ones", "FILE")
    language_pair: str = LANGUAGE_PAIR
    as_given: bool = flag("translations and references are tokens already: do not tokenise them")
    no_warning: bool = flag("score the lines as they are: neither refuse nor doubt their form")
    json: bool = flag("print a JSON list of objects: metric, value, signature")


class Flags(TextFlags):
    hypotheses: Path | None = flag("translations, one a line", "FILE", heading="translations")
    decoded: Path | None = flag("record of decode", "RECORD", heading="in the pipeline")
    raw: Path | None = flag("record of fetch, which has the references", "RECORD")
    record: Path | None = RECORD


def run(args: Flags) -> None:
    """Score translations, and write the record of the scores or print them."""
    hypotheses, decoded, raw, record = args.hypotheses, args.decoded, args.raw, args.record
    if hypotheses is None and decoded is not None and raw is not None and record is not None:
        score_run(decoded, raw, record)
    elif hypotheses is not None and (decoded, raw, record) == (None, None, None):
        output = read_output(hypotheses)
        references, references_name = read_references(args, output)
        print_output_scores(args, output, references, references_name)
    else:
        raise UsageError(
            "give --hypotheses FILE with --testset NAME or --references FILE, or --decoded, --raw"
            " and --record; see --help"
        )


def score_run(decoded_path: Path, raw_path: Path, record_path: Path) -> None:
    """Score the translations of a decode record against the references of a fetch record, and write
    the record of the scores.
    """
    decoded = read_record(decoded_path, Hypotheses, "--decoded")
    raw = read_record(raw_path, RawCorpus, "--raw")
    record = ScoreRecords(
        provenance=gather_provenance([decoded_path, raw_path], stage="score"),
        run=decoded.run,
        testset=decoded.testset,
        scores=score_translations(decoded, raw),
    )
    write_record(record, record_path)


def print_output_scores(
    args: TextFlags,
    output: SystemOutput,
    references: Sequence[str],
    references_name: str,
    *,
    search: str = "",
) -> None:
    """Score translations, and print the scores. Raise an error if the lines are not plain text (for
    example subword pieces), because their score would be wrong.

    `references_name` is the name of the references in messages. `search` is the part of the score's
    signature that describes the beam search.
    """
    # Imported here, because this module can download, which the pipeline's scores never do.
    from aiayn.data.sources.testsets import target_language_of

    target_language = target_language_of(args.language_pair)
    metrics = default_metrics(target_language, args.as_given)
    # This check comes first. If the numbers of lines differ, the checks below would compare lines
    # that do not belong together.
    check_num_lines(output, len(references), references_name)
    # On standard error: standard output has the scores, which a program may read as JSON.
    if output.kind != "lines":
        print(
            f"{output.path}: read as {output.kind}, {len(output.lines):,} lines in the order of the"
            " source",
            file=sys.stderr,
        )

    # Tokens may be scored as they are, but only if both sides are tokens.
    if args.as_given:
        check_as_given([output.lines, references])
    if not args.no_warning:
        sides = (output.lines, references)
        check_form(
            *sides,
            (output.path, references_name),
            language=target_language,
            is_as_given=args.as_given,
        )
        check_order(*sides, path=output.path)
        _print_doubts(output, references)
    scores = score_hypotheses(
        output.lines,
        references,
        metrics=metrics,
        target_language=target_language,
        hypotheses_sha256=output.sha256,
        # The signature contains the test set. A private test set is called by the name of its file.
        testset=args.testset or Path(args.references or output.path).name,
    )
    # A search or an unchecked form changes the score, so the signature must show it.
    added = f"|{search}" if search else ""
    added += "|form:unchecked" if args.no_warning else ""
    signed = [
        msgspec.structs.replace(record, signature=f"{record.signature}{added}") for record in scores
    ]
    print_scores(signed, as_json=args.json)


def _print_doubts(output: SystemOutput, references: Sequence[str]) -> None:
    """Print one line for each possible mistake in the translations."""
    doubts = find_doubts(output.lines, references)
    if output.has_several:
        doubts.append("sentences occur twice: two decodings in one file? The first one is scored")
    # Warnings only: a doubt may also come from a bad translation, whose BLEU is right.
    for doubt in doubts:
        print(f"aiayn score: warning: {output.path}: {doubt}", file=sys.stderr)


def read_references(args: TextFlags, output: SystemOutput | None) -> tuple[list[str], str]:
    """Return the lines of the references, and the name of the references for messages. The file of
    the translations may contain the references, too.
    """
    # References of a generate log are its T- lines, which may be missing: the log of a decoding
    # without a target side has only S- and H- lines.
    if args.references is not None:
        file = read_output(args.references)
        if file.kind != "generate log":
            return file.lines, str(args.references)
        if file.references is None:
            raise ScoreError(
                f"{args.references}: fairseq-generate's log has no T- lines (references); name a"
                " file of references"
            )
        return file.references, str(args.references)
    if args.testset is not None:
        from aiayn.data.sources.testsets import public_references

        # Without a file the references are downloaded, or read from the cache of sacreBLEU.
        return public_references(args.testset, args.language_pair), args.testset
    if output is not None and output.references is not None:
        return output.references, f"{output.path} (its T- lines)"
    raise UsageError("give --testset NAME of a public test set, or --references FILE; see --help")


def print_scores(scores: list[ScoreRecord], *, as_json: bool) -> None:
    """Print the scores as JSON, or each score and its signature on one line."""
    if as_json:
        objects = [
            {"metric": score.metric, "value": score.value, "signature": score.signature}
            for score in scores
        ]
        print(json_text(objects), end="")
        return
    width = max(len(score.metric) for score in scores)
    for score in scores:
        print(f"{score.metric:<{width}}  {score.value:6.2f}  {score.signature}")
