"""The planted-fault table: each fault, what it cost, whether the doctor found it, and the rank of
the true cause.
"""

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

from aiayn.__main__ import main
from tests.doctor.faults import CLEAN, FAULTS, MULTI30K, Fault
from tests.doctor.fixtures import FIXTURES_FOLDER, assemble, lay_out

TABLE_PATH = Path(__file__).parent / "planted_faults.md"
METRIC = "bleu_tok_compound_split"
CLAIM_OF_MULTI30K = ("--scale", "multi30k", "--system", "base", "--corpus", "multi30k_en_de")
_HEADER = """# What the doctor answers when one thing is wrong

Base at the scale of the demo (En-De, seed 1), trained or evaluated with one fault at a time, under base's name. The
doctor reads log and records, which are fixtures now. A test keeps this table agreed with what it says of them. BLEU is
that of `demo_test` as it was reported, in the paper's definition for En-De ({metric}). Two seeds of the clean base differ
by 0.8: a smaller difference is none, and what helps a training of 700 updates on 12,000 pairs need not help WMT14's.

| fault planted | BLEU reported | beside clean | found | rank of the true cause | all findings, ranked |
|---|---|---|---|---|---|
"""


class Answer:
    """What the doctor says of a fixture: findings in their rank, and the exit code."""

    def __init__(self, name: str, fixtures_folder: Path = FIXTURES_FOLDER) -> None:
        """Ask the command, as a user does."""
        printed = io.StringIO()
        with tempfile.TemporaryDirectory() as temporary:
            if name == MULTI30K:
                asked = [str(fixtures_folder / name), *CLAIM_OF_MULTI30K]
            else:
                made = assemble(name, Path(temporary) / "made", fixtures_folder)
                self.bleu = reported_bleu(made)
                asked = ["--results", str(lay_out(made, Path(temporary)))]
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                self.exit_code = main(["doctor", *asked, "--json"])
        self.diagnosis: dict[str, Any] = json.loads(printed.getvalue())
        self.findings: list[dict[str, Any]] = self.diagnosis["findings"]

    def rank_of(self, fault: Fault) -> int | None:
        """Return the rank of the true cause, 1 for the first; None if it was not found."""
        causes = [finding["cause"] for finding in self.findings]
        return causes.index(fault.cause) + 1 if fault.cause in causes else None


def reported_bleu(folder: Path) -> float:
    """Return the BLEU that a fixture's record of scores reports."""
    scores = json.loads((folder / "scores.json").read_bytes())["scores"]
    return float(next(one["value"] for one in scores if one["metric"] == METRIC))


def render_table(answer_by_name: dict[str, Answer]) -> str:
    """Return the table of all fixtures, Markdown."""
    clean_bleu = answer_by_name[CLEAN.name].bleu
    lines = []
    for fault in (CLEAN, *FAULTS):
        answer = answer_by_name[fault.name]
        rank = answer.rank_of(fault) if fault.cause else None
        bleu = answer.bleu
        found = (
            ("yes" if rank else "no")
            if fault.cause
            else "nothing, rightly"
            if not answer.findings
            else "false alarm"
        )
        listed = (
            "; ".join(f"{place}. {one['title']}" for place, one in enumerate(answer.findings, 1))
            or "none"
        )
        difference = f"{bleu - clean_bleu:+.1f}" if fault is not CLEAN else ""
        lines.append(
            f"| {fault.words} | {bleu:.1f} | {difference} | {found} | {rank or ''} | {listed} |\n"
        )
    multi30k = answer_by_name[MULTI30K]
    alarm = "nothing, rightly" if not multi30k.findings else "false alarm"
    lines.append(f"| none (base of Multi30k) |  |  | {alarm} |  | none |\n")
    return _HEADER.format(metric=METRIC) + "".join(lines)
