"""Turns one hypothesis file into BLEU and chrF under every definition, each number with its
signature (section 6.1).

The paper's Tables 2 and 3 print tokenised BLEU, later work sacreBLEU. On one file the two lie up to
three points apart (HAT, En-Fr: 41.8 and 38.9), so a number leaves with the name and the signature
of its definition, and different definitions are never subtracted.

The definitions are in `aiayn.scoring.definitions`. Hypotheses and references are detokenised lines,
but for `bleu_as_given`: see `outputs.system_output`. Our signatures follow sacreBLEU's grammar:
`tok` and `lang` are the tokenizer and its language, `split` is what becomes of hyphens, `ref` and
`hyp` are how each text was changed before, `count` is whose definition of a word and of an empty
line (see `count_ngrams`), `refs` is the beginning of the references' sha256.
"""

import functools
import hashlib
from collections.abc import Callable, Hashable, Sequence

import sacremoses  # type: ignore[import-untyped, unused-ignore]
from sacrebleu import __version__ as sacrebleu_version
from sacrebleu.metrics.base import Score
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF

from aiayn.data.text.tokenize_moses import (
    MOSES_LANGUAGES,
    replace_unicode_punctuation,
    split_compounds,
    tokenize_lines,
)
from aiayn.errors import ScoreError, did_you_mean
from aiayn.records import ScoreRecord
from aiayn.scoring.count_ngrams import (
    Statistics,
    corpus_bleu,
    fairseq_words,
    perl_words,
    segment_statistics,
)
from aiayn.scoring.definitions import (
    ALL_METRICS,
    COMPOUND_SPLIT_LANGUAGES,
    METRICS,
    PROCEDURE_BY_METRIC,
    SACREBLEU_METRIC_BY_LANGUAGE,
    SACREBLEU_OPTIONS_BY_METRIC,
    Procedure,
    Treatment,
)

SACREBLEU_BY_METRIC: dict[str, Callable[[], BLEU | CHRF]] = {
    # force: `aiayn.scoring.outputs.system_output` checks the form of text; sacreBLEU only warns, of
    # full stops alone.
    metric: CHRF if options is None else functools.partial(BLEU, force=True, **options)
    for metric, options in SACREBLEU_OPTIONS_BY_METRIC.items()
}
_SHA256_DIGITS = 12  # of the references' digest in a signature


class Text:
    """Hypotheses or references of a test set; each tokenisation is computed once, however many
    metrics use it.
    """

    def __init__(self, lines: Sequence[str], language: str) -> None:
        """Keep the lines (detokenised, or as given) and the two-letter language of the
        tokenizer.
        """
        self.lines = lines
        self.language = language
        self._tokenized_by_treatment: dict[Treatment, list[str]] = {}

    def tokenized(self, treatment: Treatment) -> list[str]:
        """Moses tokens joined by blanks, after `treatment` of the raw lines."""
        if treatment not in self._tokenized_by_treatment:
            lines = (
                self.lines
                if treatment == "raw"
                else [replace_unicode_punctuation(line) for line in self.lines]
            )
            self._tokenized_by_treatment[treatment] = tokenize_lines(lines, self.language)
        return self._tokenized_by_treatment[treatment]


def score_hypotheses(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    metrics: Sequence[str],
    target_language: str,
    testset: str,
    hypotheses_sha256: str | None = None,
    references_sha256: str | None = None,
) -> list[ScoreRecord]:
    """Return one record a metric, in the order given; values in percent.

    The two sha256 are of files, by default `lines_sha256` of what is given.

    Raises:
        ScoreError: the two sides do not have the same number of lines, or none; a metric is
            unknown, or is not defined for the target language.
    """
    _check_lines(hypotheses, references, testset)
    for metric in metrics:
        _check_metric(metric, target_language)
    hypotheses_sha256 = hypotheses_sha256 or lines_sha256(hypotheses)
    references_sha256 = references_sha256 or lines_sha256(references)
    sides = Text(hypotheses, target_language), Text(references, target_language)
    records = []
    for metric in metrics:
        score, signature = _score_and_signature(metric, *sides, testset, references_sha256)
        records.append(
            ScoreRecord(
                metric=metric,
                value=score.score,
                signature=signature,
                hypotheses_sha256=hypotheses_sha256,
                brevity_penalty=score.bp if isinstance(score, BLEUScore) else None,
            )
        )
    return records


def lines_sha256(lines: Sequence[str]) -> str:
    """Return the digest of lines as a file holds them, each ended by LF."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode("utf-8")).hexdigest()


def default_metrics(target_language: str, is_segmented: bool) -> list[str]:
    """Return all metrics that are defined for a corpus, in the order of METRICS.

    For text published tokenised, lower-cased and segmented (`is_segmented`) it is `bleu_as_given`
    alone: the raw lines that every other definition starts from do not exist. For Chinese, Japanese
    and Korean it is the BLEU that sacreBLEU uses for them, and chrF.
    """
    if is_segmented:
        return ["bleu_as_given"]
    if target_language in SACREBLEU_METRIC_BY_LANGUAGE:
        return [SACREBLEU_METRIC_BY_LANGUAGE[target_language], "chrf"]
    return [
        metric
        for metric in METRICS
        if metric != "bleu_as_given" and _is_defined(metric, target_language)
    ]


def sacrebleu_scorer(metric: str) -> BLEU | CHRF:
    """Return sacreBLEU's object of a metric.

    Raises:
        ScoreError: if the packages that its tokeniser needs are not installed.
    """
    try:
        return SACREBLEU_BY_METRIC[metric]()
    except (
        ImportError,
        RuntimeError,
    ) as error:  # sacreBLEU raises either where MeCab or its dictionary lacks
        language = metric.removeprefix("bleu_sacre_").partition("_")[0]
        raise ScoreError(
            f"metric {metric!r}: sacreBLEU's tokeniser is not installed"
            f" ({' '.join(str(error).split())}); pip install 'sacrebleu[{language}]'"
        ) from error


def procedure_bleu(procedure: Procedure, hypotheses: Text, references: Text) -> BLEUScore:
    """BLEU of a corpus with precisions, brevity penalty and lengths, whether or not the procedure
    is a metric there.
    """
    return corpus_bleu(_procedure_statistics(procedure, hypotheses, references))


def _procedure_statistics(procedure: Procedure, hypotheses: Text, references: Text) -> Statistics:
    return segment_statistics(
        _words(procedure, hypotheses, procedure.hyp, is_reference=False),
        _words(procedure, references, procedure.ref, is_reference=True),
    )


def _words(
    procedure: Procedure, text: Text, treatment: Treatment, *, is_reference: bool
) -> Sequence[Sequence[Hashable]]:
    lines = [
        line.encode("utf-8")
        for line in (text.lines if procedure.tok == "none" else text.tokenized(treatment))
    ]
    if procedure.split == "at-at":
        lines = [split_compounds(line) for line in lines]
    if procedure.case == "lc-ascii":
        lines = [
            line.lower() for line in lines
        ]  # of bytes: ASCII letters alone, as perl's lc does there
    if procedure.count == "fairseq-score":
        return [fairseq_words(line.decode("utf-8"), is_reference=is_reference) for line in lines]
    return [perl_words(line) for line in lines]


def _procedure_signature(
    procedure: Procedure, language: str, testset: str, references_sha256: str
) -> str:
    fields: dict[str, object] = {"nrefs": 1, "test": testset}
    if procedure.tok != "none":
        fields |= {"lang": language}
    fields |= {"case": procedure.case, "eff": "no", "tok": procedure.tok, "split": procedure.split}
    fields |= {
        "ref": procedure.ref,
        "hyp": procedure.hyp,
        "count": procedure.count,
        "smooth": "none",
    }
    fields |= {"refs": references_sha256[:_SHA256_DIGITS]}
    if procedure.tok != "none":
        fields |= {"sacremoses": sacremoses.__version__}
    fields |= {"version": sacrebleu_version}
    return "|".join(f"{key}:{value}" for key, value in fields.items())


def _score_and_signature(
    metric: str, hypotheses: Text, references: Text, testset: str, references_sha256: str
) -> tuple[Score, str]:
    if metric in PROCEDURE_BY_METRIC:
        procedure = PROCEDURE_BY_METRIC[metric]
        bleu = procedure_bleu(procedure, hypotheses, references)
        return bleu, _procedure_signature(
            procedure, references.language, testset, references_sha256
        )
    scorer = sacrebleu_scorer(metric)
    score = scorer.corpus_score(hypotheses.lines, [references.lines])
    signature = scorer.get_signature()  # complete only after a score
    signature.update("test", testset)
    signature.update("refs", references_sha256[:_SHA256_DIGITS])
    return score, str(signature)


def _check_lines(hypotheses: Sequence[str], references: Sequence[str], testset: str) -> None:
    if len(hypotheses) != len(references):
        raise ScoreError(
            f"{testset}: {len(hypotheses)} hypotheses, {len(references)} references; expected one"
            " line a segment in both, split at LF alone; rerun `decode`, or name the references"
            " that belong to these hypotheses"
        )
    if not references:
        raise ScoreError(
            f"{testset}: no hypotheses and no references; expected at least one line; check both"
            " files"
        )


def _check_metric(metric: str, target_language: str) -> None:
    if metric not in ALL_METRICS:
        hint = did_you_mean(metric, ALL_METRICS, "choose one of these")
        raise ScoreError(
            f"metric {metric!r} is unknown, expected one of {', '.join(ALL_METRICS)}; {hint}"
        )
    if not _is_defined(metric, target_language):
        raise ScoreError(
            f"metric {metric!r} is not defined for target language {target_language!r}, only for"
            f" {', '.join(_languages(metric))}; choose from"
            f" {', '.join(default_metrics(target_language, False))}"
        )


def _is_defined(metric: str, target_language: str) -> bool:
    procedure = PROCEDURE_BY_METRIC.get(metric)
    if metric in METRICS and (procedure is None or procedure.tok == "none"):
        return True
    return target_language in _languages(metric)


def _languages(metric: str) -> tuple[str, ...]:
    if metric in SACREBLEU_METRIC_BY_LANGUAGE.values():
        return tuple(
            language for language, of_it in SACREBLEU_METRIC_BY_LANGUAGE.items() if of_it == metric
        )
    is_split = PROCEDURE_BY_METRIC[metric].split == "at-at"
    return COMPOUND_SPLIT_LANGUAGES if is_split else MOSES_LANGUAGES
