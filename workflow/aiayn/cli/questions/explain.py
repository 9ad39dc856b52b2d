"""Explain a BLEU without any run: the paper's number in its definition, published numbers near it, what to check.

The answer comes from published numbers alone, each with its source: differences between definitions of BLEU,
replications, and causes of lost BLEU. No number is converted: the paper's is given as a range in your definition.
"""

from aiayn.cli.flags import JSON, flag
from aiayn.terminal import json_text
from paper_tables.questions.explain import explain
from paper_tables.questions.explain_text import render_explanation

EXAMPLE = "aiayn explain --bleu 26.9 --metric bleu_sacre_13a --testset newstest2014 --system big"


class Flags:
    bleu: float = flag("your number, such as 26.9", "PERCENT")
    system: str = flag("base, big, or a row of Table 3")
    metric: str | None = flag(
        "its definition, as `aiayn score` names it (default: the one in which the paper's is printed)"
    )
    testset: str = flag("its test set (default: newstest2014, all 3,003 lines)", default="newstest2014")
    language_pair: str = flag("en-de or en-fr (default: en-de)", default="en-de")
    json: bool = JSON


def run(args: Flags) -> None:
    """Print the explanation."""
    explanation = explain(
        bleu=args.bleu,
        metric=args.metric,
        testset=args.testset,
        language_pair=args.language_pair,
        system=args.system,
    )
    print(json_text(explanation) if args.json else render_explanation(explanation), end="")
