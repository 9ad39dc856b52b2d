"""Computes the BLEU and chrF of a file of hypotheses by several definitions of BLEU (section 6.1).

The paper's Tables 2 and 3 have tokenised BLEU, later papers have sacreBLEU. For the same
translations, tokenised BLEU and sacreBLEU differ by up to three points (HAT, En-Fr: 41.8 and 38.9).
Each number therefore has the name and signature of its definition, and numbers of different
definitions are never subtracted.

The definitions of BLEU are in the module `aiayn.scoring.definitions`. Hypotheses and references are
detokenised lines, except for the definition `bleu_as_given` (see `outputs.system_output`). Our
signatures follow sacreBLEU's format: the keys `tok` and `lang` give the tokenizer and its language,
`split` the treatment of hyphens, `ref` and `hyp` the changes made to references and hypotheses
before scoring, `count` the program that defines words and empty lines (see `words`), and `refs` the
beginning of the references' sha256.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence

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
from aiayn.scoring.definitions import (
    COMPOUND_SPLIT_LANGUAGES,
    METRICS,
    PROCEDURE_BY_METRIC,
    SACREBLEU_OPTIONS_BY_METRIC,
    SACREBLEU_TOKENIZER_BY_LANGUAGE,
    Procedure,
    Treatment,
)
from aiayn.scoring.words import fairseq_words, perl_words

SACREBLEU_BY_METRIC: dict[str, Callable[[], BLEU | CHRF]] = {
    # force: no warning about tokenised text, which `outputs.system_output` checks more thoroughly.
    metric: CHRF if options is None else functools.partial(BLEU, force=True, **options)
    for metric, options in SACREBLEU_OPTIONS_BY_METRIC.items()
}
_SHA256_DIGITS = 12  # the length of the references' digest in a signature


class Text:
    """The hypotheses or references of a test set. Each tokenisation of the text is computed only
    once, for all metrics.
    """

    def __init__(self, lines: Sequence[str], language: str) -> None:
        """Store the lines of the text (detokenised, or tokens that are scored as given) and its
        language for the tokenizer (a two-letter code).
        """
        self.lines = lines
        self.language = language
        self._tokenized_by_treatment: dict[Treatment, list[str]] = {}

    def tokenized(self, treatment: Treatment) -> list[str]:
        """Return the Moses tokens of each line, joined by blanks. With the treatment
        `replace-unicode-punctuation`, punctuation is replaced before tokenisation.
        """
        # Several definitions differ only in what they do with the same tokens.
        if treatment not in self._tokenized_by_treatment:
            lines = self.lines
            if treatment == "replace-unicode-punctuation":
                lines = [replace_unicode_punctuation(line) for line in lines]
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
) -> list[ScoreRecord]:
    """Score hypotheses. Return a record with the score for each metric, in the order of `metrics`.
    Scores are in percent.

    The argument `hypotheses_sha256` is the SHA-256 of the file of hypotheses, by default the
    SHA-256 that `lines_sha256` computes.

    Raises:
        ScoreError: if hypotheses and references differ in their number of lines or are empty, or if
            a metric is unknown or is not defined for the target language.

    Example:
        `score_hypotheses(["Ja."], ["Ja."], metrics=["bleu_sacre_13a"], target_language="de",
        testset="mine")`
    """
    _check_lines(hypotheses, references, testset)
    # All metrics are checked before the first is computed, because tokenising a test set takes
    # seconds.
    for metric in metrics:
        _check_metric(metric, target_language)
    hypotheses_sha256 = hypotheses_sha256 or lines_sha256(hypotheses)
    references_sha256 = lines_sha256(references)
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
    """Return the SHA-256 that a file with these lines would have, each line ended by LF."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode("utf-8")).hexdigest()


def default_metrics(target_language: str, is_segmented: bool) -> list[str]:
    """Return all metrics that are defined for a corpus, in the order of METRICS.

    For a corpus that was published tokenised, lower-cased and segmented (`is_segmented`), the only
    metric is `bleu_as_given`, because the other definitions of BLEU need raw text, which does not
    exist.

    Raises:
        ScoreError: for Chinese, Japanese and Korean, because no definition here splits their text
            into words.
    """
    if is_segmented:
        return ["bleu_as_given"]
    if target_language in SACREBLEU_TOKENIZER_BY_LANGUAGE:
        tokenizer = SACREBLEU_TOKENIZER_BY_LANGUAGE[target_language]
        raise ScoreError(
            f"target language {target_language!r}: no definition here finds its words; use"
            f" sacreBLEU: `sacrebleu REFERENCES -i HYPOTHESES -m bleu chrf --tokenize {tokenizer}`"
        )
    return [
        metric
        for metric in METRICS
        if metric != "bleu_as_given" and _is_defined(metric, target_language)
    ]


def procedure_bleu(procedure: Procedure, hypotheses: Text, references: Text) -> BLEUScore:
    """Return the BLEU of hypotheses by a procedure (a definition of BLEU), with precisions, brevity
    penalty and lengths.
    """
    return words_bleu(
        _words(procedure, hypotheses, procedure.hyp, is_reference=False),
        _words(procedure, references, procedure.ref, is_reference=True),
    )


def words_bleu(
    hypotheses: Iterable[Iterable[str]], references: Iterable[Iterable[str]]
) -> BLEUScore:
    """Return the BLEU of lines that are already split into words, without smoothing."""
    # With `none`, sacreBLEU splits at white space, and the words of `aiayn.scoring.words` contain
    # no white space. multi-bleu.perl and fairseq-score do not smooth.
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    return bleu.corpus_score(list(map(" ".join, hypotheses)), [list(map(" ".join, references))])


def _words(
    procedure: Procedure, text: Text, treatment: Treatment, *, is_reference: bool
) -> list[list[str]]:
    # The order is that of T2T's script: tokenizer, hyphens, then multi-bleu.perl, which lowers the
    # case if it is called with -lc. The two later programs read bytes (see `tokenize_moses`).
    tokenized = text.lines if procedure.tok == "none" else text.tokenized(treatment)
    lines = [line.encode("utf-8") for line in tokenized]
    if procedure.split == "at-at":
        lines = [split_compounds(line) for line in lines]
    if procedure.case == "lc-ascii":
        lines = [line.lower() for line in lines]  # on bytes: ASCII letters only, like perl's lc
    if procedure.count == "fairseq-score":
        return [fairseq_words(line.decode("utf-8"), is_reference=is_reference) for line in lines]
    return [perl_words(line) for line in lines]


def _procedure_signature(
    procedure: Procedure, language: str, testset: str, references_sha256: str
) -> str:
    import sacremoses  # type: ignore[import-untyped, unused-ignore]

    # The keys nrefs, case, eff, tok, smooth and version have sacreBLEU's meaning (`eff`: effective
    # order). The module's docstring explains the others.
    fields = {
        "nrefs": "1",
        "test": testset,
        "lang": language,
        "case": procedure.case,
        "eff": "no",
        "tok": procedure.tok,
        "split": procedure.split,
        "ref": procedure.ref,
        "hyp": procedure.hyp,
        "count": procedure.count,
        "smooth": "none",
        "refs": references_sha256[:_SHA256_DIGITS],
        "sacremoses": sacremoses.__version__,
        "version": sacrebleu_version,
    }
    # Without a tokenizer neither its language nor its version changes the score.
    if procedure.tok == "none":
        del fields["lang"], fields["sacremoses"]
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
    # All other metrics are sacreBLEU's own, with sacreBLEU's own tokenizer on the raw lines.
    scorer = SACREBLEU_BY_METRIC[metric]()
    score = scorer.corpus_score(hypotheses.lines, [references.lines])
    signature = scorer.get_signature()  # complete only after a score
    signature.update("test", testset)
    signature.update("refs", references_sha256[:_SHA256_DIGITS])
    return score, str(signature)


def _check_lines(hypotheses: Sequence[str], references: Sequence[str], testset: str) -> None:
    if len(hypotheses) != len(references):
        raise ScoreError(
            f"{testset}: {len(hypotheses)} hypotheses, {len(references)} references; expected a"
            " line for each segment in both; rerun `decode`, or name the references of these"
            " hypotheses"
        )
    if not references:
        raise ScoreError(
            f"{testset}: no hypotheses and no references; expected at least 1 line; check both"
            " files"
        )


def _check_metric(metric: str, target_language: str) -> None:
    if metric not in METRICS:
        hint = did_you_mean(metric, METRICS, "choose from these")
        raise ScoreError(
            f"metric {metric!r} is unknown, expected a name among {', '.join(METRICS)}; {hint}"
        )
    if not _is_defined(metric, target_language):
        raise ScoreError(
            f"metric {metric!r} is not defined for target language {target_language!r}, only for"
            f" {', '.join(_languages(metric))}; choose from"
            f" {', '.join(default_metrics(target_language, False))}"
        )


def _is_defined(metric: str, target_language: str) -> bool:
    return not (languages := _languages(metric)) or target_language in languages


def _languages(metric: str) -> tuple[str, ...]:
    """Return the target languages for which a metric is defined. An empty result means all
    languages.
    """
    # sacreBLEU's metrics, and metrics without a tokenizer, do not depend on the language.
    procedure = PROCEDURE_BY_METRIC.get(metric)
    if procedure is None or procedure.tok == "none":
        return ()
    return COMPOUND_SPLIT_LANGUAGES if procedure.split == "at-at" else MOSES_LANGUAGES
