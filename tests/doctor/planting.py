"""Plants a fault in a copy of the checkout and runs the pipeline's verbs there, from text to
scores; restartable.

What is done is seen by its record: a second call does only what is missing.
"""

import functools
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

CHECKOUT = Path(__file__).resolve().parents[2]
PARTS = ("workflow", "analysis", "paper_tables", "pyproject.toml")
SEED = 1
DATA_RECORDS = {
    verb: f"results/demo/{verb}/demo_en_de/record.json"
    for verb in ("fetch", "clean", "segment", "binarize")
}
TRAIN_RECORD = f"results/demo/train/demo_en_de/base/seed{SEED}.json"
EVALUATED, TESTSET = f"demo_en_de/base/seed{SEED}", "demo_test"
WORD_BEGIN = "\u2581"  # sentencepiece's
LOWER_CASED = {"bleu_sacre_13a_lc": "bleu_sacre_13a", "bleu_tok_moses_lc": "bleu_tok_moses"}


class Planted:
    """One folder below the working folder: a copy of the checkout with the fault in it, and what
    its verbs made.
    """

    def __init__(self, fault: Fault, folder: Path) -> None:
        """Copy and edit the checkout, unless that was done before."""
        self.fault = fault
        self.folder = folder.resolve() / fault.name
        if not (self.folder / "pyproject.toml").exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            partial = self.folder.with_name(f"{fault.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            for part in PARTS:
                copy: Callable[..., Any] = shutil.copy2
                if (CHECKOUT / part).is_dir():
                    copy = functools.partial(
                        shutil.copytree, ignore=shutil.ignore_patterns("__pycache__")
                    )
                copy(CHECKOUT / part, partial / part)
            for edit in fault.edits:
                apply_edit(edit, partial)
            partial.rename(self.folder)

    def aiayn(self, *arguments: str) -> None:
        """Run a verb of the copy in its folder, unless its record is there."""
        record_path = self.folder / arguments[arguments.index("--record") + 1]
        if record_path.exists():
            return
        record_path.parent.mkdir(parents=True, exist_ok=True)  # as Snakemake does
        variables = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.folder / "workflow"), str(self.folder)]),
            "AIAYN_COMMIT": commit_label(),
            "OMP_NUM_THREADS": "1",
        }
        subprocess.run(
            [sys.executable, "-m", "aiayn", *arguments], cwd=self.folder, env=variables, check=True
        )

    def make_data(self) -> None:
        """Make the data-bin; the fault `misaligned_pairs` first misaligns pairs of the raw text."""
        records = DATA_RECORDS
        corpus = ("--corpus", "demo_en_de")
        self.aiayn("fetch", *corpus, "--record", records["fetch"])
        if self.fault.name == "misaligned_pairs":
            misalign(self.folder / records["fetch"], MISALIGNED_FRACTION)
        self.aiayn("clean", *corpus, "--raw", records["fetch"], "--record", records["clean"])
        self.aiayn("segment", *corpus, "--text", records["clean"], "--record", records["segment"])
        text = ("--text", records["clean"], "--segmented", records["segment"])
        self.aiayn("binarize", *corpus, *text, "--record", records["binarize"])

    def train(self) -> None:
        """Train base, keeping what Table 2 averages."""
        system = (
            "--scale",
            "demo",
            "--corpus",
            "demo_en_de",
            "--system",
            "base",
            "--seed",
            str(SEED),
        )
        data = ("--binarized", DATA_RECORDS["binarize"], "--num-models", "5")
        self.aiayn("train", *system, *data, "--record", TRAIN_RECORD)

    def take_training_of(self, clean: "Planted") -> None:
        """Take data and averaged checkpoints of the clean run; their records name files by paths in
        its folder.
        """
        for verb in ("fetch", "binarize", "average"):
            target = self.folder / "results" / "demo" / verb
            if not target.exists():
                shutil.copytree(clean.folder / "results" / "demo" / verb, target)

    def average(self, average: str) -> str:
        """Average the last checkpoints and return the record's path below the folder."""
        record = f"results/demo/average/demo_en_de/base/seed{SEED}/{average}.json"
        self.aiayn(
            "average",
            "--train",
            TRAIN_RECORD,
            "--last",
            average.removeprefix("last"),
            "--record",
            record,
        )
        return record

    def translate(self, average: str) -> str:
        """Translate the test set with an average and return the record's path below the folder."""
        record = f"results/demo/decode/{EVALUATED}/{average}/{TESTSET}.json"
        search = (
            "--scale",
            "demo",
            "--system",
            "base",
            "--checkpoint",
            self.average(average),
            "--testset",
            TESTSET,
        )
        self.aiayn("decode", *search, "--binarized", DATA_RECORDS["binarize"], "--record", record)
        return record

    def score(self, average: str) -> str:
        """Translate and score, and return the path of the scores' record; what follows a search is
        planted here.
        """
        decoded, record = (
            self.translate(average),
            f"results/demo/score/{EVALUATED}/{average}/{TESTSET}.json",
        )
        if self.fault.stage == "text":
            leave_pieces(self.folder / decoded)
        if self.fault.stage == "references":
            sort_lines(self.folder / f"results/demo/fetch/demo_en_de/{TESTSET}.de")
        self.aiayn(
            "score", "--decoded", decoded, "--raw", DATA_RECORDS["fetch"], "--record", record
        )
        if self.fault.stage == "score":
            rewrite_record(self.folder / record, lower_case)
        return record

    @property
    def evaluated_average(self) -> str:
        """Which average the test set is translated with."""
        return "last1" if self.fault.stage == "average" else "last5"


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
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8", newline="\n")


def misalign(raw_path: Path, fraction: float) -> None:
    """Pass the target sides of a random fraction of the training pairs on, each to the next chosen
    pair; once only.
    """
    note = raw_path.with_suffix(".misaligned")
    if note.exists():
        return
    target = read_record(raw_path, RawCorpus).pair_by_split["train"].path_by_language["de"]
    lines = target.read_text(encoding="utf-8").split("\n")[:-1]
    chosen = np.flatnonzero(np.random.default_rng(SEED).random(len(lines)) < fraction)
    moved = [lines[index] for index in np.roll(chosen, 1)]
    for index, line in zip(chosen, moved, strict=True):
        lines[index] = line
    content = "\n".join([*lines, ""]).encode()
    target.write_bytes(content)

    def note_digest(record: Any) -> None:
        record["pair_by_split"]["train"]["sha256_by_language"]["de"] = hashlib.sha256(
            content
        ).hexdigest()

    rewrite_record(raw_path, note_digest)
    note.write_text(f"{len(chosen)} of {len(lines)} pairs\n", encoding="utf-8", newline="\n")


def run_pipeline(fault: Fault, folder: Path) -> Planted:
    """Plant a fault and bring it to its scores; what only follows the training takes the clean
    one's.
    """
    planted = Planted(fault, folder)
    if fault.stage in ("train", "data"):
        planted.make_data()
        planted.train()
    else:
        clean = run_pipeline(CLEAN, folder)
        clean.average("last1")
        planted.take_training_of(clean)
    planted.score(planted.evaluated_average)
    return planted
