"""Lists the definitions of BLEU and chrF as data.

- bleu_tok_moses: Moses' tokenizer.perl in the version before 2018-11, then multi-bleu.perl.
- bleu_tok_moses_lc: like bleu_tok_moses, but in lower case (multi-bleu.perl -lc, ASCII letters
  only, because it reads bytes).
- bleu_tok_compound_split: like bleu_tok_moses, with hyphenated words split in hypotheses and
  references. The paper's En-De scores (2017) have this definition.
- bleu_tok_compound_split_2018: like bleu_tok_compound_split, with replace-unicode-punctuation.perl
  on the hypotheses. tensor2tensor (T2T) has used this definition since 2018.
- bleu_tok_compound_split_quotes: like bleu_tok_compound_split_2018, with
  replace-unicode-punctuation.perl also on the references, so that the references have plain quotes
  (the "tweaked" reference).
- bleu_fairseq: Moses' tokenizer.perl, then BLEU as fairseq-score computes it.
- bleu_as_given: BLEU as fairseq-score computes it on the given tokens, after the marks of subwords
  (`@@ `) were removed. bleu_as_given is for text that was published as tokens.
- bleu_sacre_13a, bleu_sacre_13a_lc (NVIDIA's), bleu_sacre_intl, chrf: computed by sacreBLEU.

To add a definition of BLEU, add an entry to `PROCEDURE_BY_METRIC`, or to
`SACREBLEU_OPTIONS_BY_METRIC` if sacreBLEU computes it, and a line to the list above. For example,
the entry of a lower-cased BLEU with split hyphens would be

    "bleu_tok_compound_split_lc": Procedure(case="lc-ascii", split="at-at"),

and `aiayn score` would print this BLEU with its signature.
"""

from dataclasses import dataclass
from typing import Literal

Treatment = Literal["raw", "replace-unicode-punctuation"]


@dataclass(frozen=True, kw_only=True)
class Procedure:
    """How hypotheses and references are changed and split into words before BLEU counts n-grams.

    The values of the fields appear in the signature of a score.
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
# The arguments of sacreBLEU's BLEU, or None for its chrF.
SACREBLEU_OPTIONS_BY_METRIC: dict[str, dict[str, object] | None] = {
    "bleu_sacre_13a": {"tokenize": "13a"},
    "bleu_sacre_13a_lc": {"tokenize": "13a", "lowercase": True},
    "bleu_sacre_intl": {"tokenize": "intl"},
    "chrf": None,
}
# These languages do not separate words by blanks, so no definition here applies. The error about
# them recommends sacreBLEU with this tokenizer.
SACREBLEU_TOKENIZER_BY_LANGUAGE = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
# From get_ende_bleu.sh. No procedure is published for the paper's En-Fr.
COMPOUND_SPLIT_LANGUAGES = ("de",)
METRICS: tuple[str, ...] = (*PROCEDURE_BY_METRIC, *SACREBLEU_OPTIONS_BY_METRIC)
