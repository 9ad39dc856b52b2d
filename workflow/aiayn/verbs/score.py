"""Score translations under every definition of BLEU that applies, and chrF; each number has its signature.

For any translations: --hypotheses (detokenised, one a line), --testset and --language-pair; --references replaces the
public references of the test set. The pipeline uses --decoded, --raw and --record instead.
"""

import argparse
from pathlib import Path

EXAMPLE = "aiayn score --hypotheses output.de --testset newstest2014 --language-pair en-de"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn score`."""
    anybody = parser.add_argument_group("any translations")
    anybody.add_argument("--hypotheses", type=Path, metavar="FILE", help="detokenised translations, one a line")
    anybody.add_argument(
        "--testset", help="newstest2013, newstest2014 (full), newstest2014_filtered, or a name of your own"
    )
    anybody.add_argument("--references", type=Path, metavar="FILE", help="references to use instead of the public ones")
    anybody.add_argument("--language-pair", choices=("en-de", "en-fr"), default="en-de", help="default: en-de")
    anybody.add_argument(
        "--as-given", action="store_true", help="translations and references are tokens already: do not tokenise them"
    )
    anybody.add_argument("--json", action="store_true", help="print a JSON list of objects: metric, value, signature")
    pipeline = parser.add_argument_group("in the pipeline")
    pipeline.add_argument("--decoded", type=Path, metavar="RECORD", help="record of decode")
    pipeline.add_argument("--raw", type=Path, metavar="RECORD", help="record of fetch, which has the references")
    pipeline.add_argument("--record", type=Path, help="the record to write")


def run(args: argparse.Namespace) -> None:
    """Score, and write the record or print the numbers."""
    from aiayn.errors import UsageError

    if args.decoded is not None and args.raw is not None and args.record is not None:
        _score_run(args)
    elif args.hypotheses is not None and args.testset is not None:
        _score_anybody(args)
    else:
        raise UsageError("give --hypotheses FILE --testset NAME, or --decoded, --raw and --record; see --help")


def _score_run(args: argparse.Namespace) -> None:
    import msgspec

    from aiayn.provenance import gather_provenance
    from aiayn.records import Hypotheses, RawCorpus, ScoreRecords, read_record, write_record
    from aiayn.score import default_metrics, score_hypotheses
    from aiayn.spec import read_corpus
    from aiayn.text.detokenise import detokenise
    from aiayn.text.lines import read_lines

    decoded = read_record(args.decoded, Hypotheses)
    raw = read_record(args.raw, RawCorpus)
    corpus = read_corpus(raw.corpus)
    reference_path = raw.pair_by_split[decoded.testset].path_by_language[corpus.target_language]
    references = list(read_lines(reference_path))
    if corpus.is_segmented:
        references = [detokenise(line, corpus) for line in references]
    scores = score_hypotheses(
        list(read_lines(decoded.path)),
        references,
        metrics=default_metrics(corpus.target_language, corpus.is_segmented),
        target_language=corpus.target_language,
        hypotheses_sha256=decoded.hypotheses_sha256,
        testset=decoded.testset,
    )
    signed = [msgspec.structs.replace(score, signature=f"{score.signature}|{decoded.signature}") for score in scores]
    provenance = gather_provenance([args.decoded, args.raw])
    write_record(
        ScoreRecords(provenance=provenance, run=decoded.run, testset=decoded.testset, scores=signed), args.record
    )


def _score_anybody(args: argparse.Namespace) -> None:
    import json

    from aiayn.errors import ScoreError
    from aiayn.provenance import file_sha256
    from aiayn.score import default_metrics, score_hypotheses
    from aiayn.sources.testsets import public_references
    from aiayn.text.lines import read_lines

    for path in filter(None, (args.hypotheses, args.references)):
        if not path.exists():
            raise ScoreError(f"{path}: no such file; give one line a segment, UTF-8")
    if args.references is not None:
        references = list(read_lines(args.references))
    else:
        references = public_references(args.testset, args.language_pair)
    target_language = args.language_pair.split("-")[1]
    scores = score_hypotheses(
        list(read_lines(args.hypotheses)),
        references,
        metrics=default_metrics(target_language, args.as_given),
        target_language=target_language,
        hypotheses_sha256=file_sha256(args.hypotheses),
        testset=args.testset,
    )
    if args.json:
        print(json.dumps([{"metric": s.metric, "value": s.value, "signature": s.signature} for s in scores], indent=1))
        return
    width = max(len(score.metric) for score in scores)
    for score in scores:
        print(f"{score.metric:<{width}}  {score.value:6.2f}  {score.signature}")
