"""Lists the definitions of BLEU, and chrF, as data: the one place where a definition is added.

| metric | procedure |
|---|---|
| bleu_tok_moses | tokenizer.perl before 2018-11, then multi-bleu.perl |
| bleu_tok_moses_lc | the same, multi-bleu.perl -lc (ASCII letters: it reads bytes) |
| bleu_tok_compound_split | tokenizer, hyphenated words split on both sides, multi-bleu: the paper's En-De (2017) |
| bleu_tok_compound_split_2018 | the same, hypotheses first through replace-unicode-punctuation.perl: T2T since 2018 |
| bleu_tok_compound_split_quotes | the same, the reference too: the "tweaked" reference with plain quotes |
| bleu_fairseq | tokenizer, then fairseq-score's arithmetic |
| bleu_as_given | fairseq-score's arithmetic on the tokens as given: text published as tokens, `@@ ` removed |
| bleu_sacre_13a, _13a_lc, bleu_sacre_intl, chrf | sacreBLEU's own; the lower-cased one is NVIDIA's |
| bleu_sacre_zh, _ja_mecab, _ko_mecab | sacreBLEU's own for Chinese, Japanese, Korean, which 13a does not split |

A new definition is an entry of PROCEDURE_BY_METRIC and a line of this table, for example:

    "bleu_tok_lc_split": Procedure(case="lc-ascii", split="at-at"),
"""  # noqa: E501

from dataclasses import dataclass
from typing import Literal

Treatment = Literal["raw", "replace-unicode-punctuation"]


@dataclass(frozen=True, kw_only=True)
class Procedure:
    """How hypotheses and references are treated before n-grams are counted; a signature prints the
    values.
    """

    case: Literal["mixed", "lc-ascii"] = "mixed"
    tok: Literal["moses-pre2018", "none"] = "moses-pre2018"
    split: Literal["no", "at-at"] = "no"
    ref: Treatment = "raw"
    hyp: Treatment = "raw"
    count: Literal["multi-bleu", "fairseq-score"] = "multi-bleu"


PROCEDURE_BY_METRIC = {
    "bleu_tok_moses": Procedure(),
    "bleu_tok_moses_lc": Procedure(case="lc-ascii"),
    "bleu_tok_compound_split": Procedure(split="at-at"),
    "bleu_tok_compound_split_2018": Procedure(split="at-at", hyp="replace-unicode-punctuation"),
    "bleu_tok_compound_split_quotes": Procedure(
        split="at-at", hyp="replace-unicode-punctuation", ref="replace-unicode-punctuation"
    ),
    "bleu_fairseq": Procedure(count="fairseq-score"),
    "bleu_as_given": Procedure(tok="none", count="fairseq-score"),
}
# Arguments of sacreBLEU's BLEU; None for its chrF.
SACREBLEU_OPTIONS_BY_METRIC: dict[str, dict[str, object] | None] = {
    "bleu_sacre_13a": {"tokenize": "13a"},
    "bleu_sacre_13a_lc": {"tokenize": "13a", "lowercase": True},
    "bleu_sacre_intl": {"tokenize": "intl"},
    "chrf": None,
    "bleu_sacre_zh": {"tokenize": "zh"},
    "bleu_sacre_ja_mecab": {"tokenize": "ja-mecab"},
    "bleu_sacre_ko_mecab": {"tokenize": "ko-mecab"},
}
# sacreBLEU's choice of a tokeniser by the target language, where it is not 13a.
SACREBLEU_METRIC_BY_LANGUAGE = {
    "zh": "bleu_sacre_zh",
    "ja": "bleu_sacre_ja_mecab",
    "ko": "bleu_sacre_ko_mecab",
}
CASE_SUFFIX = "_lc"  # of definitions that ignore case
COMPOUND_SPLIT_LANGUAGES = (
    "de",
)  # get_ende_bleu.sh; no procedure is published for the paper's En-Fr
ALL_METRICS: tuple[str, ...] = (*PROCEDURE_BY_METRIC, *SACREBLEU_OPTIONS_BY_METRIC)
METRICS = tuple(
    metric for metric in ALL_METRICS if metric not in SACREBLEU_METRIC_BY_LANGUAGE.values()
)
