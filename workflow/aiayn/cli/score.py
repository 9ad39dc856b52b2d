"""Score translations under every definition of BLEU that applies, and chrF; each number has its
signature.

Any translations: give --hypotheses (one line a segment; .sgm, gzip and the log of fairseq-generate
are recognised), --testset and --language-pair. --references replaces the public references and
needs no network. The pipeline uses --decoded, --raw and --record instead.

The files are scored as they are. If either is in another form (subword pieces, tokens, JSON lines,
shifted lines) and a repair raises the score by more than 2 BLEU and 10 %, the repair is named with
its score and its command.
"""

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aiayn.cli.flags import LANGUAGE_PAIR, RECORD, flag
from aiayn.errors import ScoreError, UsageError, did_you_mean
from aiayn.provenance import gather_provenance
from aiayn.records import (
    Hypotheses,
    RawCorpus,
    ScoreRecord,
    ScoreRecords,
    read_record,
    write_record,
)
from aiayn.scoring.definitions import CASE_SUFFIX
from aiayn.scoring.outputs.line_match import find_doubt
from aiayn.scoring.outputs.repairs import REPAIRS, SHIFT, Repaired, best_repair, repair_sides
from aiayn.scoring.outputs.system_output import (
    SystemOutput,
    check_num_lines,
    check_tokens,
    read_output,
    unlike_forms,
)
from aiayn.scoring.recorded import score_translations
from aiayn.scoring.score import default_metrics, score_hypotheses
from aiayn.terminal import json_text

EXAMPLE = "aiayn score --hypotheses output.de --testset newstest2014 --language-pair en-de"


class TextFlags:
    """The flags of `score` and `evaluate` on the references and on the form of the text."""

    testset: str | None = flag(
        "newstest2013, newstest2014 (full), newstest2014_filtered, any of sacreBLEU's (wmt17, ...),"
        " or, with --references, any name",
        heading="references and text",
    )
    references: Path | None = flag("references to use instead of the public ones", "FILE")
    language_pair: str = LANGUAGE_PAIR
    as_given: bool = flag("translations and references are tokens already: do not tokenise them")
    repair: list[str] | None = flag(
        "repairs to make first, each on the side that needs it: pieces, detokenise, ..."
        " (docs/tables.md)",
        "NAME",
    )
    no_warning: bool = flag(
        "try no repairs, and do not say why a score near 0 may not be the model's"
    )
    json: bool = flag(
        "print a JSON list of objects: metric, value, signature, and of what a repair gives, repair"
    )


class Flags(TextFlags):
    hypotheses: Path | None = flag("translations, one a line", "FILE", heading="translations")
    decoded: Path | None = flag("record of decode", "RECORD", heading="in the pipeline")
    raw: Path | None = flag("record of fetch, which has the references", "RECORD")
    record: Path | None = RECORD


def run(args: Flags) -> None:
    """Score, and write the record or print the numbers."""
    if args.decoded is not None and args.raw is not None and args.record is not None:
        score_run(args.decoded, args.raw, args.record)
    elif args.hypotheses is not None:
        output = read_output(args.hypotheses)
        references, place = read_references(args, output)
        given = ["--testset", args.testset] if args.testset else []
        given += ["--references", str(args.references)] if args.references else []
        given += ["--language-pair", args.language_pair]
        given += ["--as-given"] if args.as_given else []
        command = shlex.join(["aiayn", "score", "--hypotheses", str(args.hypotheses), *given])
        print_output_scores(args, output, references, place, command=command)
    else:
        raise UsageError(
            "give --hypotheses FILE with --testset NAME or --references FILE, or --decoded, --raw"
            " and --record; see --help"
        )


def score_run(decoded_path: Path, raw_path: Path, record_path: Path) -> None:
    """Score a run's translations by their record, with the references of fetch's, and write the
    record.
    """
    decoded = read_record(decoded_path, Hypotheses, "--decoded")
    raw = read_record(raw_path, RawCorpus, "--raw")
    record = ScoreRecords(
        provenance=gather_provenance([decoded_path, raw_path]),
        run=decoded.run,
        testset=decoded.testset,
        scores=score_translations(decoded, raw),
    )
    write_record(record, record_path)


def print_output_scores(
    args: TextFlags,
    output: SystemOutput,
    references: Sequence[str],
    place: str,
    *,
    command: str,
    search: str = "",
) -> None:
    """Score translations as they are or after the repairs of the flags, and print the scores.

    If none is requested, the repair that raises the score most is printed to stderr, as an addition
    to `command`. `place` names the references in messages, `search` is the signature's part of a
    decoding.
    """
    from aiayn.data.sources.testsets import (
        target_language_of,
    )  # downloads, which the pipeline's scores never do

    target_language = target_language_of(args.language_pair)
    repairs = _checked_repairs(args.repair or [])
    metric = default_metrics(target_language, args.as_given)[0]
    given = Repaired("", "", output.lines, references)
    if repairs:
        repaired = repair_sides(repairs, output.lines, references, target_language)
        if repaired is None:
            raise ScoreError(
                f"--repair {' '.join(repairs)}: at least one changes nothing here; omit it"
            )
        given = repaired
    helpful = None
    if not (args.no_warning or repairs):
        helpful = _helpful_repair(given, target_language, metric)
    if helpful is None or len(output.lines) == len(references):
        check_num_lines(output._replace(lines=list(given.hypotheses)), len(given.references), place)
    if output.kind != "lines":
        print(
            f"{output.path}: {output.words}, {len(output.lines):,} in the order of the source",
            file=sys.stderr,
        )
    testset = args.testset or Path(args.references or output.path).name

    def score(sides: Repaired) -> list[ScoreRecord]:
        return _score_sides(
            sides, args, target_language, sha256=output.sha256, testset=testset, search=search
        )

    scores = score(given) if len(given.hypotheses) == len(given.references) else []
    if helpful is not None:
        repaired, value = helpful
        before = next(
            (f"{one.value:.2f}" for one in scores if one.metric == metric),
            "unknown (other numbers of lines)",
        )
        both = f"{metric} is {before} as given, and {value:.2f} with {repaired.words}"
        flags = f"--repair {repaired.name.replace('+', ' ')}"
        print(f"aiayn score: {output.path}: {both}: {command} {flags}", file=sys.stderr)
        if args.json or not scores:
            scores += score(repaired)
    elif not args.no_warning and not repairs:
        _warn_near_zero(output, references, scores)
    print_scores(scores, as_json=args.json)


def _checked_repairs(names: Sequence[str]) -> list[str]:
    known = (*(repair.name for repair in REPAIRS), SHIFT)
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known, "choose one of these")
            raise UsageError(
                f"--repair {name}: unknown; expected some of {', '.join(known)}; {hint}"
            )
    return list(names)


def _helpful_repair(
    sides: Repaired, target_language: str, metric: str
) -> tuple[Repaired, float] | None:
    """Return the repair that raises the score most, with its score; None if none helps."""

    def score(hypotheses: Sequence[str], references: Sequence[str]) -> float:
        (one,) = score_hypotheses(
            hypotheses,
            references,
            metrics=[metric],
            target_language=target_language,
            hypotheses_sha256="",
            testset="",
        )
        return one.value

    hypotheses, references = sides.hypotheses, sides.references
    given = score(hypotheses, references) if len(hypotheses) == len(references) else None
    return best_repair(hypotheses, references, target_language, score, given)


def _warn_near_zero(
    output: SystemOutput, references: Sequence[str], scores: Sequence[ScoreRecord]
) -> None:
    keeps_case = [score for score in scores if not score.metric.endswith(CASE_SUFFIX)] or scores
    highest = max(
        (score.value for score in keeps_case if score.metric.startswith("bleu")), default=100.0
    )
    doubt = find_doubt(output.lines, references, highest)
    if doubt:
        print(
            f"aiayn score: warning: {output.path}: {doubt}. --no-warning leaves this out",
            file=sys.stderr,
        )


def _score_sides(
    sides: Repaired,
    args: TextFlags,
    target_language: str,
    *,
    testset: str,
    sha256: str,
    search: str,
) -> list[ScoreRecord]:
    """Return the scores; the signature names the repairs, and how the sides differ."""
    hypotheses, references = sides.hypotheses, sides.references
    unlike = unlike_forms({"hyp": hypotheses, "ref": references}, is_as_given=args.as_given)
    if args.as_given:
        check_tokens([hypotheses, references])
    scores = score_hypotheses(
        hypotheses,
        references,
        metrics=default_metrics(target_language, args.as_given),
        target_language=target_language,
        hypotheses_sha256=sha256,
        testset=testset,
    )
    added = f"|{search}" if search else ""
    added += f"|repaired:{sides.name}" if sides.name else ""
    added += f"|unlike:{unlike}" if unlike else ""
    return [
        msgspec.structs.replace(score, signature=f"{score.signature}{added}") for score in scores
    ]


def read_references(args: TextFlags, output: SystemOutput | None) -> tuple[list[str], str]:
    """Return the reference lines and what to call them; they may be in the output itself."""
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

        return public_references(args.testset, args.language_pair), args.testset
    if output is not None and output.references is not None:
        return output.references, f"{output.path} (its T- lines)"
    raise UsageError("give --testset NAME of a public test set, or --references FILE; see --help")


def print_scores(scores: list[ScoreRecord], *, as_json: bool = False) -> None:
    """Print the scores, one a line with its signature, or as JSON."""
    if as_json:
        found = [re.search(r"\|repaired:([^|]+)", score.signature) for score in scores]
        objects = [
            {"metric": score.metric, "value": score.value, "signature": score.signature}
            | ({"repair": repair[1]} if repair else {})
            for score, repair in zip(scores, found, strict=True)
        ]
        print(json_text(objects), end="")
        return
    width = max(len(score.metric) for score in scores)
    for score in scores:
        print(f"{score.metric:<{width}}  {score.value:6.2f}  {score.signature}")
