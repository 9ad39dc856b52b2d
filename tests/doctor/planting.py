"""Plants a fault in a copy of the checkout and runs the pipeline there, from text to scores;
restartable, because Snakemake makes only what is missing.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aiayn.provenance import commit_label
from aiayn.records import RawCorpus, read_record
from tests.doctor.faults import CLEAN, MISALIGNED_FRACTION, Edit, Fault
from tests.pipeline_copy import DEMO, copy_checkout
from tests.records_factory import write_sealed

SEED = 1
TESTSET = "demo_test"
RESULTS = Path("results/demo")
FETCHED = RESULTS / "fetch/demo_en_de/record.json"
SCORED = f"demo_en_de/base/seed{SEED}"
WORD_BEGIN = "\u2581"  # sentencepiece's
LOWER_CASED = {"bleu_sacre_13a_lc": "bleu_sacre_13a", "bleu_tok_moses_lc": "bleu_tok_moses"}


def run_pipeline(fault: Fault, folder: Path) -> Path:
    """Plant a fault, bring it to its scores, and return the copy of the checkout; a fault that only
    follows the training begins with the clean one's results.
    """
    copy = folder.resolve() / fault.name
    score_path = RESULTS / f"score/{SCORED}/{evaluated_average(fault)}/{TESTSET}.json"
    if not copy.exists():
        partial = copy.with_name(f"{fault.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        if fault.stage in ("train", "data"):
            copy_checkout(partial)
        else:
            shutil.copytree(run_pipeline(CLEAN, folder), partial)
            (partial / score_path).unlink(missing_ok=True)
        plant(fault, partial)
        partial.rename(copy)
    snakemake(copy, score_path)
    if fault.stage == "score":
        rewrite_record(copy / score_path, lower_case)
    return copy


def evaluated_average(fault: Fault) -> str:
    """Return which average the test set is translated with."""
    return "last1" if fault.stage == "average" else "last5"


def snakemake(copy: Path, target: Path) -> None:
    """Make a file of a copy with its own Snakefile and packages."""
    variables = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(copy / "workflow"), str(copy)]),
        "AIAYN_COMMIT": commit_label(),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "snakemake", str(target), "--cores", "1", *DEMO]
    subprocess.run(command, cwd=copy, env=variables, check=True)


def plant(fault: Fault, copy: Path) -> None:
    """Put a fault into a copy: edits of its config, or a change of what its results hold."""
    for edit in fault.edits:
        apply_edit(edit, copy)
    if fault.name == "misaligned_pairs":
        snakemake(copy, FETCHED)
        misalign(copy / FETCHED, MISALIGNED_FRACTION)
    if fault.stage == "text":
        leave_pieces(copy / RESULTS / f"decode/{SCORED}/last5/{TESTSET}.json")
    if fault.stage == "references":
        sort_lines(copy / FETCHED.parent / f"{TESTSET}.de")


def leave_pieces(decoded_path: Path) -> None:
    """Write the translations as a pipeline does that forgot to join them, `@@ ` after each piece
    that goes on.
    """
    pieces_path = decoded_path.with_suffix(".pieces.txt")
    lines = [split_words(line) for line in pieces_path.read_text(encoding="utf-8").split("\n")]
    decoded_path.with_suffix(".txt").write_text("\n".join(lines), encoding="utf-8", newline="\n")


def split_words(pieces: str) -> str:
    """Return sentencepiece's pieces in subword-nmt's notation: what begins no word follows an `@@
    `.
    """
    return pieces.replace(" ", "@@ ").replace(f"@@ {WORD_BEGIN}", " ").replace(WORD_BEGIN, "")


def sort_lines(path: Path) -> None:
    """Put a file's lines into the order of the alphabet."""
    lines = sorted(path.read_text(encoding="utf-8").split("\n")[:-1])
    path.write_text("\n".join([*lines, ""]), encoding="utf-8", newline="\n")


def lower_case(record: Any) -> None:
    """Store each lower-cased score under the name of the score that keeps the case, as happens when
    somebody scores with -lc.
    """
    score_by_metric = {score["metric"]: score for score in record["scores"]}
    for lower, plain in LOWER_CASED.items():
        score_by_metric[plain] |= {
            key: score_by_metric[lower][key] for key in ("value", "signature")
        }


def apply_edit(edit: Edit, folder: Path) -> None:
    """Replace a text that occurs once in a file below a folder."""
    path = folder / edit.path
    text = path.read_text(encoding="utf-8")
    assert text.count(edit.old) == 1, (
        f"{path}: {edit.old!r} occurs {text.count(edit.old)} times; expected once"
    )
    path.write_text(text.replace(edit.old, edit.new), encoding="utf-8", newline="\n")


def rewrite_record(path: Path, change: Callable[[Any], None]) -> None:
    """Change a record's values in place."""
    record = json.loads(path.read_bytes())
    change(record)
    write_sealed(json.dumps(record), path)


def misalign(raw_path: Path, fraction: float) -> None:
    """Pass the target sides of a random fraction of the training pairs on, each to the next chosen
    pair.
    """
    target = read_record(raw_path, RawCorpus).pair_by_split["train"].path_by_language["de"]
    lines = target.read_text(encoding="utf-8").split("\n")[:-1]
    chosen = np.flatnonzero(np.random.default_rng(SEED).random(len(lines)) < fraction)
    moved = [lines[index] for index in np.roll(chosen, 1)]
    for index, line in zip(chosen, moved, strict=True):
        lines[index] = line
    content = "\n".join([*lines, ""]).encode()
    target.write_bytes(content)

    def note_digest(record: Any) -> None:
        digests = record["pair_by_split"]["train"]["sha256_by_language"]
        digests["de"] = hashlib.sha256(content).hexdigest()

    rewrite_record(raw_path, note_digest)
