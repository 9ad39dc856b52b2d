"""Writes folders for `aiayn doctor`: a run of a results folder, logs from elsewhere, translations in
each form.
"""

import re
import shutil
from pathlib import Path

from tests.doctor.fixtures import results_of

LOGS = Path(__file__).parents[1] / "logs"
RUN = "demo_en_de-base-seed1-1ee4ef77"
QUIET = "| Translated 3003 sentences (9 tokens) in 5.0s"


def write_lines(path: Path, *lines: str) -> None:
    """Write lines into a file of a folder that is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def score_line(bleu: float, lengths: str) -> str:
    """Return fairseq-generate's last line, with four equal precisions."""
    precisions = "/".join([f"{bleu:.1f}"] * 4)
    return f"Generate test with beam=4: BLEU4 = {bleu:.2f}, {precisions} ({lengths})"


def write_folders() -> None:
    """Write into this folder: results with a run, and with a faulty one; logs and generations."""
    for name in ("clean", "smoothing_zero"):
        results_of(name, Path(name))
    run_folder = Path("runs") / RUN
    run_folder.mkdir(parents=True)
    (run_folder / "attempts.jsonl").touch()
    Path("empty").mkdir()
    even = "BP=1.000, ratio=1.000, syslen=9, reflen=9"
    write_lines(Path("score of fairseq/gen.out"), QUIET, score_line(24.1, even))
    score = "| Generate test with beam=4: bleu_score=20.3488"
    write_lines(Path("score of MLPerf/gen.out"), QUIET, score)
    for folder in ("log", "log and score", "two logs"):
        Path(folder).mkdir()
        shutil.copyfile(LOGS / "fairseq06_big_enfr.log", Path(folder) / "train.log")
    log = (LOGS / "fairseq06_big_enfr.log").read_text(encoding="utf-8")
    other_seed = re.sub(r"seed=\d+", "seed=2", log)
    assert other_seed != log
    Path("two logs/second.log").write_text(other_seed, encoding="utf-8")
    write_lines(
        Path("own trainer/train.log"),
        '{"epoch": 1, "train_loss": 5.1, "valid_bleu": 5.1, "num_updates": 10000}',
        '{"epoch": 2, "train_loss": 4.4, "valid_bleu": 20.1, "num_updates": 20000}',
    )
    above = score_line(43.1, even).replace("beam=4", "beam=5")
    write_lines(Path("log and score/gen.out"), f"| {above}")
    short = "BP=0.905, ratio=0.909, syslen=59606, reflen=65573"
    write_lines(Path("short/gen.out"), QUIET, score_line(30.0, short).replace("30.00", "27.15"))
