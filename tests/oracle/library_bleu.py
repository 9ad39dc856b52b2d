"""Writes library_bleu.tsv: what four Python libraries print as BLEU for the files in this folder.

It runs outside the tests, in an environment of its own, because the libraries are not dependencies
of the project. README.md in this folder says how to make that environment.

    PYTHONPATH=workflow python tests/oracle/library_bleu.py METRIC_FOLDER > library_bleu.tsv

METRIC_FOLDER, a folder named `bleu`, holds the metric script that `evaluate.load("bleu")` of
Hugging Face `evaluate` would download from the hub. Every library runs with its default settings,
on lines as they are (`raw`) and on Moses tokens joined by blanks (`tok`).
"""

import lzma
import sys
import types
from collections.abc import Callable
from importlib.metadata import distribution, version
from pathlib import Path

from aiayn.data.text.tokenize_moses import tokenize_lines

FOLDER = Path(__file__).parent
TESTSETS = ("newstest2014.de", "newstest2014-fren.fr")
COLUMNS = ("reference", "tok", "light", "medium", "heavy")  # of the .tsv.xz files
HYPOTHESES = COLUMNS[2:]
Lines = list[str]
LibraryBleu = Callable[
    [Lines, Lines], float
]  # hypotheses, references; BLEU as the library returns it


def evaluate_bleu(metric_folder: str) -> LibraryBleu:
    """Return the metric `bleu` of Hugging Face `evaluate`, which tokenises by its own 13a."""
    import evaluate

    metric = evaluate.load(metric_folder)
    return lambda hypotheses, references: metric.compute(
        predictions=hypotheses, references=[[line] for line in references]
    )["bleu"]


def nltk_bleu(hypotheses: Lines, references: Lines) -> float:
    """Return nltk's BLEU of the words between blanks."""
    from nltk.translate.bleu_score import corpus_bleu

    return corpus_bleu(
        [[line.split()] for line in references], [line.split() for line in hypotheses]
    )


def torchmetrics_bleu(hypotheses: Lines, references: Lines) -> float:
    """Return torchmetrics' BLEU, which splits lines at white space."""
    from torchmetrics.text import BLEUScore

    return BLEUScore()(hypotheses, [[line] for line in references]).item()


def torchmetrics_sacre_bleu(hypotheses: Lines, references: Lines) -> float:
    """Return torchmetrics' own version of sacreBLEU, which tokenises by 13a."""
    from torchmetrics.text import SacreBLEUScore

    return SacreBLEUScore()(hypotheses, [[line] for line in references]).item()


def torchtext_bleu(hypotheses: Lines, references: Lines) -> float:
    """Return torchtext's BLEU of the words between blanks."""
    _skip_compiled_torchtext()
    from torchtext.data.metrics import bleu_score

    return bleu_score(
        [line.split() for line in hypotheses], [[line.split()] for line in references]
    )


def _skip_compiled_torchtext() -> None:
    # The compiled library of torchtext 0.18.0, the last release, cannot be loaded with torch 2.13.
    # Its BLEU needs only Python, so two empty packages with the same search path avoid the library.
    for name in ("torchtext", "torchtext.data"):
        if name not in sys.modules:
            package = types.ModuleType(name)
            package.__path__ = [str(distribution("torchtext").locate_file(name.replace(".", "/")))]
            sys.modules[name] = package


def read_columns(testset: str) -> dict[str, Lines]:
    """Return the columns of a test set's file."""
    content = lzma.decompress((FOLDER / f"{testset}.tsv.xz").read_bytes()).decode("utf-8")
    rows = [line.split("\t") for line in content.split("\n")[:-1]]
    return {name: [row[index] for row in rows] for index, name in enumerate(COLUMNS)}


def main(metric_folder: str) -> None:
    """Print the table: one line for each library, test set, hypotheses and kind of text."""
    calls: list[tuple[str, str, LibraryBleu]] = [
        (
            "evaluate",
            'evaluate.load("bleu").compute(predictions, references)',
            evaluate_bleu(metric_folder),
        ),
        ("nltk", "nltk.translate.bleu_score.corpus_bleu(references, hypotheses)", nltk_bleu),
        ("torchmetrics", "torchmetrics.text.BLEUScore()(preds, target)", torchmetrics_bleu),
        (
            "torchmetrics",
            "torchmetrics.text.SacreBLEUScore()(preds, target)",
            torchmetrics_sacre_bleu,
        ),
        ("torchtext", "torchtext.data.metrics.bleu_score(candidates, references)", torchtext_bleu),
    ]
    print("library", "version", "call", "reference", "hypotheses", "text", "output", sep="\t")
    for testset in TESTSETS:
        raw = read_columns(testset)
        language = testset.rpartition(".")[2]
        tokens = {name: tokenize_lines(raw[name], language) for name in HYPOTHESES}
        tokens["reference"] = raw["tok"]
        for text, columns in (("raw", raw), ("tok", tokens)):
            for hypotheses in HYPOTHESES:
                for library, call, bleu in calls:
                    value = bleu(columns[hypotheses], columns["reference"])
                    print(
                        library, version(library), call, testset, hypotheses, text, value, sep="\t"
                    )


if __name__ == "__main__":
    main(*sys.argv[1:])
