"""Writes folders for `aiayn doctor`: a run of a results folder, logs from elsewhere, translations in
each form.
"""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aiayn.data.text.tokenize_moses import tokenize_line
from aiayn.records import CheckpointRecord, read_record, write_record
from tests.doctor.fixtures import assemble
from tests.records_factory import BINARIZED, TRAINED

LOGS = Path(__file__).parents[1] / "logs"
RUN = "demo_en_de-base-seed1-1ee4ef77"
NOUNS = ("Der Mann", "Die alte Frau", "Ein Kind", "Unser Nachbar", "Das kleine Haus", "Jeder Fluss")
PLAIN = [
    f'{noun} sieht, wie {number} Schiffe "vor der Stadt" auf dem Wasser sind.'
    for number in range(1, 9)
    for noun in NOUNS
]
SOURCE = [
    f'{noun} sees how {number} ships "before the town" are on the water.'
    for number in range(1, 9)
    for noun in (
        "The man",
        "The old woman",
        "A child",
        "Our neighbour",
        "The small house",
        "Each river",
    )
]
OTHER = [line.replace("wie 3 Schiffe", "wie drei Schiffe") for line in PLAIN]
TOKENS = [tokenize_line(line, "de").rstrip() for line in OTHER]


def results_of(name: str, folder: Path) -> Path:
    """Lay a fixture out as the pipeline would have, and return the results folder."""
    made = assemble(name, folder / "made")
    scale = folder / "results" / "demo"
    for verb, source, target in (
        ("average", "last5.json", "last5.json"),
        ("decode", "demo_test.json", "last5/demo_test.json"),
        ("decode", "demo_test.txt", "last5/demo_test.txt"),
        ("decode", "demo_test.pieces.txt", "last5/demo_test.pieces.txt"),
        ("score", "scores.json", "last5/demo_test.json"),
    ):
        path = scale / verb / "demo_en_de/base/seed1" / target
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made / source, path)
    write_record(BINARIZED, scale / "binarize/demo_en_de/record.json")
    averaged = read_record(made / "last5.json", CheckpointRecord)
    trained = msgspec.structs.replace(
        TRAINED,
        provenance=averaged.provenance,
        run=averaged.run,
        updates=700,
        log_path=made / "train.log",
    )
    write_record(trained, scale / "train/demo_en_de/base/seed1.json")
    return folder / "results"


def in_pieces(lines: Sequence[str]) -> list[str]:
    return [
        " ".join(f"{word[:3]}@@ {word[3:]}" if len(word) > 4 else word for word in line.split())
        for line in lines
    ]


def write_pair(folder: Path, hypotheses: Sequence[str], references: Sequence[str] = PLAIN) -> Path:
    folder.mkdir()
    (folder / "hyp.de").write_text("\n".join([*hypotheses, ""]), encoding="utf-8")
    (folder / "ref.de").write_text("\n".join([*references, ""]), encoding="utf-8")
    return folder


def write_generation(
    folder: Path, hypotheses: Sequence[str], references: Sequence[str], value: float
) -> Path:
    folder.mkdir()
    lines = ["2020-03-26 23:20:42 | INFO | fairseq_cli.generate | loading model(s) from avg.pt"]
    for number in reversed(range(len(references))):
        lines += [f"S-{number}\t{SOURCE[number]}", f"T-{number}\t{references[number]}"]
        lines += [f"H-{number}\t-0.5\t{hypotheses[number]}"] if hypotheses else []
    precision = f"{value / 0.95:.1f}"
    precisions = "/".join([precision] * 4)
    lengths = "BP=0.950, ratio=0.951, syslen=951, reflen=1000"
    bleu = f"BLEU4 = {value:.2f}, {precisions} ({lengths})"
    lines.append(f"Generate test with beam=4: {bleu}")
    (folder / "gen.out").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return folder


def write_lines(path: Path, *lines: str) -> None:
    """Write lines into a file of a folder that is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_folders() -> None:
    """Write into this folder: results with a run, and with a faulty one; logs, generations and
    translations.
    """
    for name in ("clean", "smoothing_zero"):
        results_of(name, Path(name))
    run_folder = Path("runs") / RUN
    run_folder.mkdir(parents=True)
    (run_folder / "attempts.jsonl").touch()
    Path("empty").mkdir()
    bleu = "BLEU4 = 24.10, 24.1/24.1/24.1/24.1 (BP=1.000, ratio=1.000, syslen=9, reflen=9)"
    score = "| Generate test with beam=4: bleu_score=20.3488"
    write_lines(
        Path("score of fairseq/gen.out"),
        "| Translated 3003 sentences (9 tokens) in 5.0s",
        f"Generate test with beam=4: {bleu}",
    )
    write_lines(
        Path("score of MLPerf/gen.out"), "| Translated 3003 sentences (9 tokens) in 5.0s", score
    )
    above = bleu.replace("24.1", "43.1")
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
    write_lines(Path("log and score/gen.out"), f"| Generate test with beam=5: {above}")
    text = [f"Das ist die Zeile {number} von vielen." for number in range(40)]
    write_lines(Path("plain/output.de"), *text)
    write_lines(Path("plain/references.de"), *text)
    write_pair(Path("pieces"), in_pieces(OTHER))
    write_pair(Path("source"), SOURCE)
    write_generation(Path("copied"), SOURCE, PLAIN, 2.0)
    write_generation(Path("quiet"), (), PLAIN, 27.3)
    lines = Path("quiet/gen.out").read_text(encoding="utf-8").split("\n")
    write_lines(
        Path("quiet/gen.out"), *(line for line in lines if line and line[:2] not in ("S-", "T-"))
    )
    write_pair(Path("latin"), OTHER)
    Path("latin/hyp.de").write_bytes("Gr\u00fcn\n".encode("latin-1"))
