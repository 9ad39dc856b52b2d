"""Explain a BLEU without any run: the paper's number in its definition, published numbers near it, what to check.

The answer comes from published numbers alone, each with its source: differences between definitions of BLEU,
replications, and causes of lost BLEU. No number is converted: the paper's is given as a range in your definition.
"""

import argparse

from aiayn.terminal import json_text
from paper_tables.questions.explain import explain
from paper_tables.questions.explain_text import render_explanation

EXAMPLE = "aiayn explain --bleu 26.9 --metric bleu_sacre_13a --testset newstest2014 --system big"
TESTSET = "newstest2014"
LANGUAGE_PAIR = "en-de"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn explain`."""
    parser.add_argument("--bleu", type=float, required=True, metavar="PERCENT", help="your number, such as 26.9")
    parser.add_argument("--system", required=True, help="base, big, or a row of Table 3")
    parser.add_argument(
        "--metric", help="its definition, as `aiayn score` names it (default: the one in which the paper's is printed)"
    )
    parser.add_argument("--testset", default=TESTSET, help=f"its test set (default: {TESTSET}, all 3,003 lines)")
    parser.add_argument("--language-pair", default=LANGUAGE_PAIR, help=f"en-de or en-fr (default: {LANGUAGE_PAIR})")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> None:
    """Print the explanation."""
    explanation = explain(
        bleu=args.bleu,
        metric=args.metric,
        testset=args.testset,
        language_pair=args.language_pair,
        system=args.system,
    )
    print(json_text(explanation) if args.json else render_explanation(explanation), end="")
