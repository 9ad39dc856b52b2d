"""Score a run's translations under every definition of BLEU that applies, and chrF; each number has its signature.

Any other translations: where the wing `outputs` is, it has this verb, with this and more.
"""

from pathlib import Path

import msgspec

from aiayn.cli.flags import RECORD, flag
from aiayn.data.text.detokenise import detokenise
from aiayn.data.text.lines import read_lines
from aiayn.provenance import gather_provenance
from aiayn.records import Hypotheses, RawCorpus, ScoreRecords, read_record, write_record
from aiayn.scoring.score import default_metrics, score_hypotheses
from aiayn.spec.system import read_corpus

EXAMPLE = "aiayn score --decoded DECODED.json --raw FETCHED.json --record SCORES.json"


class Flags:
    decoded: Path = flag("record of decode", "RECORD", heading="in the pipeline")
    raw: Path = flag("record of fetch, which has the references", "RECORD")
    record: Path = RECORD


def run(args: Flags) -> None:
    """Score what decode has translated, whatever it is, and write the record."""
    score_run(args.decoded, args.raw, args.record)


def score_run(decoded_path: Path, raw_path: Path, record_path: Path) -> tuple[list[str], list[str], bool]:
    """Score a run's translations by their record, with the references of fetch's, and write the record.

    Returns both texts as they were scored, and whether they are tokens, as the corpus came.
    """
    decoded = read_record(decoded_path, Hypotheses)
    raw = read_record(raw_path, RawCorpus)
    corpus = read_corpus(raw.corpus)
    reference_path = raw.pair_by_split[decoded.testset].path_by_language[corpus.target_language]
    hypotheses, references = list(read_lines(decoded.path)), list(read_lines(reference_path))
    if corpus.is_segmented:
        references = [detokenise(line, corpus) for line in references]
    scores = score_hypotheses(
        hypotheses,
        references,
        metrics=default_metrics(corpus.target_language, corpus.is_segmented),
        target_language=corpus.target_language,
        hypotheses_sha256=decoded.hypotheses_sha256,
        testset=decoded.testset,
    )
    signed = [msgspec.structs.replace(score, signature=f"{score.signature}|{decoded.signature}") for score in scores]
    provenance = gather_provenance([decoded_path, raw_path])
    write_record(
        ScoreRecords(provenance=provenance, run=decoded.run, testset=decoded.testset, scores=signed), record_path
    )
    return hypotheses, references, corpus.is_segmented
