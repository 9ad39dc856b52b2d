"""Folders as other people keep them: every kind of file, several things in one, seeds, copies and
settings.
"""

import bz2
import gzip
import lzma
import os
from dataclasses import replace
from pathlib import Path

from tests.logs.factory import Form, GenerationText, TrainingText, averaging_text

ONE = TrainingText(num_epochs=20)
TWO = TrainingText(num_epochs=20, final_nll_bits=3.0).changed(seed=2, save_dir="checkpoints/two")
MODELS = [f"checkpoints/base/checkpoint{number}.pt" for number in range(16, 21)]
AVERAGING = averaging_text(MODELS, "checkpoints/base/model.pt")
GENERATION = GenerationText().changed(path="checkpoints/base/model.pt")
SCORE = (
    "Generate test with beam=5: BLEU4 = 23.77, 81.5/31.7/16.7/7.4 (BP=1.000, ratio=1.030, syslen=9,"
    " reflen=9)"
)
UNNAMED = "\n".join(line for line in GENERATION.lines() if "with beam=" not in line) + "\n"
WITH_BLEU = (
    ONE.changed(eval_bleu=True, eval_bleu_detok="moses", eval_bleu_remove_bpe="@@ ",
                eval_bleu_args='{"beam": 4, "lenpen": 0.6}')
    .text().replace(" | ppl 4.00", " | ppl 4.00 | bleu 25.8")
)  # fmt: skip
NAMES = (
    "train.log.1", "train.log-20240301", "TRAIN.LOG", "slurm.OUT", "log.json", "job.o4711", "train.log.1.gz",
    "train.log.2.xz", "TRAIN.LOG.GZ", "train.gz.log",
)  # fmt: skip
FORMS: tuple[Form, ...] = ("print", "namespace", "config")
BAD_FILES = {
    "empty.log": b"",
    "utf-16.log": ONE.text().encode("utf-16"),
    "utf-16-without-mark.log": ONE.text().encode("utf-16-le"),
    "binary.log": b"PK\3\4\0\0",
    "cut.log": ONE.text().encode()[:400] + b"\n",
    "cut-line.log": ONE.text().encode()[:-30],
    "zeros.log": ONE.text().encode() + b"\0\0\0\n",
    "noise.log": b"\x9d\x86\xff\x10 neither text nor a log\n",
    "latin-1.log": ONE.text().encode() + "Grüße\n".encode("latin-1"),
    "text.log": b"Grandmother's letters\n",
    "cut.log.xz": lzma.compress(ONE.text().encode())[:-30],
    "cut.log.gz": gzip.compress(ONE.text().encode(), mtime=0)[:-20],
    "no-gzip.log.gz": b"no gzip at all",
    "step.py": b"def f(num_updates=0): ...\n",
    "checkpoint_best.pt": b"PK\3\4\0\0",
    "old.log.bz2": bz2.compress(ONE.text().encode()),
    "logs.zip": b"PK\3\4",
    ".hidden": b"",
    "good.log": TWO.text().encode(),
}
FOLDERS: dict[str, dict[str, str]] = {
    "seeds": {"a.log": ONE.text(), "b.log": TWO.text(), "copy.log": ONE.text(), "cut.log": ONE.text()[:300] + "\n",
              "again.log": replace(TWO, final_nll_bits=2.5).text(),
              "unfinished.log": replace(TWO, is_done=False).changed(seed=4).text()},
    "settings": {"a.log": ONE.text(), "epsilon.log": TWO.changed(adam_eps=1e-08).text(),
                 "later.log": replace(TWO, form="config").changed(seed=3).text(),
                 "narrow.log": ONE.changed(encoder_embed_dim=256, decoder_embed_dim=256, dropout=0.3, save_dir="x")
                 .text(),
                 "ctc.log": ONE.changed(criterion="label_smoothed_cross_entropy_with_ctc", save_dir="y").text(),
                 "french.log": replace(TWO, num_train_pairs=36_000_000, num_epochs=3).changed(target_lang="fr").text()},
    "steps": {"slurm-4711.out": "srun: job 4711 started\n" + ONE.text() + AVERAGING + GENERATION.text(),
              "both.out": TWO.text() + replace(TWO, final_nll_bits=2.5).changed(seed=5).text()},
    "generations": {"a.log": ONE.text(), "average.log": AVERAGING, "g.log": GENERATION.text(),
                    "h.log": GENERATION.text(),
                    "best.log": GenerationText(value="26.00", beam_size=5)
                    .changed(path="checkpoints/base/checkpoint_best.pt").text(),
                    "one-more.log": replace(GENERATION, num_sentences=3, num_printed=3).text()
                    .replace("Generate test", "H-3\t-0.25\tnoch einer\nGenerate test"),
                    "unnamed.log": UNNAMED.replace("checkpoints/base/model.pt", ""),
                    "unnamed2.log": UNNAMED.replace("checkpoints/base/model.pt", ""), "score.log": f"{SCORE}\n",
                    "indented.log": "  INFO | fairseq_cli.generate | Translated 996 sentences (11,752 tokens) in 1.5s "
                    f"(683.80 sentences/s)\n{SCORE}\n"},
    "validations": {"words.log": WITH_BLEU,
                    "pieces.log": WITH_BLEU.replace("'@@ '", "None").replace("seed=1", "seed=3")},
    "forms": {f"{form}.log": replace(ONE, form=form, final_nll_bits=2 + seed / 100)
              .changed(seed=seed, save_dir=form).text() for seed, form in enumerate(FORMS)},
    "ours": {"ours/attempts.jsonl": "", "ours/submitit/1_0_log.out": ONE.text()},
}  # fmt: skip


def write_odd_folders(folder: Path) -> None:
    """Write FOLDERS, and `bad` and `names` with files of every kind and name, a pipe and links
    among them.
    """
    for name, files in FOLDERS.items():
        for file, text in files.items():
            path = folder / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in ("bad", "names"):
        (folder / name).mkdir()
    for file, content in BAD_FILES.items():
        (folder / "bad" / file).write_bytes(content)
    os.mkfifo(folder / "bad" / "pipe.log")
    (folder / "bad" / "dangling.log").symlink_to("nowhere")
    (folder / "names" / "linked").symlink_to("../ours/ours/submitit")
    (folder / "names" / "loop").symlink_to(".")
    for seed, file in enumerate(NAMES, 2):
        text = replace(ONE, final_nll_bits=2 + seed / 100)
        content = text.changed(seed=seed, save_dir=file).text().encode()
        content = gzip.compress(content) if "gz" in file.lower() else content
        (folder / "names" / file).write_bytes(
            lzma.compress(content) if file.endswith(".xz") else content
        )
