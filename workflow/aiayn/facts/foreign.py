"""Recognises logs that this project does not read: logs of other training programs, of MLPerf, and
of fairseq before 0.6.
"""

import re

from aiayn.facts.types import Refusal

_NOT_READ = "this form is not read; give the number to `aiayn explain`"
# A pattern and the kind of program that prints such lines. Example lines of the last two: `{"step":
# 100, "loss": 4.2}` and `Epoch 3, Step 100: loss 4.2`.
_FORMS = (
    (r"^:::ML", "a log of an MLPerf submission, whose task is a different one"),
    (r"\| epoch \d+ \| train loss |\| epoch \d+ \| \d+ updates \|", "a log of fairseq before 0.6"),
    (r"^\| BLEU4 = ", "a score of fairseq before 0.6"),
    (r"^\{'(?:loss|eval_loss|train_runtime)': [\d.]+", "a log of Hugging Face's Trainer"),
    (r"\*{5} Running (?:training|Evaluation|Prediction) \*{5}", "a log of Hugging Face's Trainer"),
    (r"^Epoch \d+: +\d+%\|.*v_num=", "a log of PyTorch Lightning"),
    (r"^wandb: ", "output of Weights & Biases"),
    (
        r"^\s*\{.*\"(?:epoch|step|iter|iteration|global_step)\": ?\d.*\}\s*$",
        "JSON lines of a trainer that is not fairseq",
    ),
    (
        r"^\[?(?:Epoch|epoch|Step|step|Iter|iter)[ :=#\]]*\d+.*\b(?:loss|ppl|bleu)\b",
        "the lines of an own training loop",
    ),
)
_PATTERNS = [(re.compile(pattern.encode()), text) for pattern, text in _FORMS]


def find_foreign_form(number: int, line: bytes) -> Refusal | None:
    """Return the reason why a log is not read, if the line is typical of the log of a different
    program.
    """
    for pattern, text in _PATTERNS:
        if pattern.search(line):
            return Refusal(line=number, text=text, next_step=_NOT_READ)
    return None
