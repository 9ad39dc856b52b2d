"""Make the logs of this folder: run fairseq on the demo's text in the forms that people use.

    make_logs.py VERSION --python PYTHON --average average_checkpoints.py [--only FORM ...]

PYTHON is the interpreter of an environment with that version of fairseq; README.md says how to make it. The script
of averaging is in the sdist of the version, below `scripts/`. This script itself needs `subword_nmt` only for the
text, which it prepares once. Nothing in a log is typed or edited, except that its file ends where the process was
killed.
"""

import argparse
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parents[2] / "workflow" / "config" / "corpora" / "demo_en_de.tsv.xz"
NUM_PIECES = 600
NUM_SHORT = 200  # pairs of the short corpus: 8 updates an epoch
SPLITS = {"train": "train", "demo_dev": "valid", "demo_test": "test"}

# The rate, the smoothing and Adam's constants of the paper, as fairseq's flags.
PAPER = (
    "--task translation --source-lang en --target-lang de --share-all-embeddings"
    " --optimizer adam --adam-betas (0.9,0.98) --adam-eps 1e-9 --clip-norm 0.0"
    " --lr-scheduler inverse_sqrt --criterion label_smoothed_cross_entropy --label-smoothing 0.1"
    " --dropout 0.1 --weight-decay 0.0 --save-dir checkpoints --cpu --num-workers 0"
)
# The demo's base: 3 layers, d_model 64, d_ff 256, 4 heads; peak rate 64^-0.5 x 400^-0.5.
SMALL = (
    "--arch transformer --encoder-layers 3 --decoder-layers 3 --encoder-embed-dim 64"
    " --decoder-embed-dim 64 --encoder-ffn-embed-dim 256 --decoder-ffn-embed-dim 256"
    " --encoder-attention-heads 4 --decoder-attention-heads 4 --lr 0.00625 --warmup-updates 400"
    " --warmup-init-lr 1e-7 --max-tokens 500"
)
SHORT = f"data-bin/short {PAPER} {SMALL} --max-update 44 --seed 1 --log-interval 5"
SEARCH = "--gen-subset test --beam 4 --lenpen 0.6 --max-len-a 1 --max-len-b 50 --remove-bpe --cpu"
AVERAGE_PATH = "checkpoints/checkpoint.avg.pt"


def prepare_text(folder: Path) -> None:
    """Write the demo's text in pieces (`@@ `), whole and short, if it is not there."""
    if (folder / "codes").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    lines_by_file: dict[str, list[str]] = {}
    with lzma.open(CORPUS, "rt", encoding="utf-8") as rows:
        for row in rows:
            split, source, target = row.rstrip("\n").split("\t")
            lines_by_file.setdefault(f"{SPLITS[split]}.en", []).append(source)
            lines_by_file.setdefault(f"{SPLITS[split]}.de", []).append(target)
    for name, lines in lines_by_file.items():
        # The demo's sentences have no marks inside words: apart marks are the tokens.
        text = "".join(line.replace(".", " .").replace(",", " ,") + "\n" for line in lines)
        (folder / name).write_text(text, encoding="utf-8")
    run = [str(Path(sys.executable).with_name("subword-nmt"))]
    learn = "learn-joint-bpe-and-vocab --input train.en train.de -o codes"
    vocabularies = "--write-vocabulary vocabulary.en vocabulary.de"
    subprocess.run(
        [*run, *learn.split(), "-s", str(NUM_PIECES), *vocabularies.split()], cwd=folder, check=True
    )
    for name in lines_by_file:
        apply = ["apply-bpe", "-c", "codes", "-i", name, "-o", f"pieces.{name}"]
        subprocess.run([*run, *apply], cwd=folder, check=True)
    for language in ("en", "de"):
        pieces = (folder / f"pieces.train.{language}").read_text(encoding="utf-8")
        short = "".join(pieces.splitlines(keepends=True)[:NUM_SHORT])
        (folder / f"short.train.{language}").write_text(short, encoding="utf-8")


class Maker:
    """Runs one version's commands in a work folder for each form, and keeps the logs."""

    def __init__(self, version: str, python: Path, average_path: Path, work_folder: Path) -> None:
        self.version = version
        self.bin_folder = python.parent
        self.average_path = average_path
        self.work_folder = work_folder / version
        self.text_folder = work_folder / "text"
        self.has_config = version != "0.10.2"

    def preprocess(self) -> None:
        """Make the data-bins `whole` and `short`."""
        prepare_text(self.text_folder)
        for name, train in (("whole", "pieces.train"), ("short", "short.train")):
            if (self.work_folder / "data-bin" / name).exists():
                continue
            self.work_folder.mkdir(parents=True, exist_ok=True)
            text = self.text_folder
            command = "fairseq-preprocess --source-lang en --target-lang de --joined-dictionary"
            command += f" --trainpref {text}/{train} --validpref {text}/pieces.valid"
            command += f" --testpref {text}/pieces.test --destdir data-bin/{name} --workers 1"
            self.shell(command, self.work_folder)

    def form_folder(self, form: str) -> Path:
        """Return an empty folder to work in, beside which `data-bin` is."""
        folder = self.work_folder / form
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "data-bin").symlink_to(self.work_folder / "data-bin")
        return folder

    def keep(self, form: str, names: Sequence[str]) -> None:
        """Copy the logs of a form to where this script is."""
        target = HERE / self.version / form
        shutil.rmtree(target, ignore_errors=True)
        for name in names:
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.work_folder / form / name, path)

    def shell(self, command: str, folder: Path) -> None:
        """Run a command as a person would, with this version's programs first on the path."""
        process = self.start(command, folder)
        if process.wait() != 0:
            raise SystemExit(f"{folder}: exit code {process.returncode}: {command}")

    def start(self, command: str, folder: Path) -> "subprocess.Popen[bytes]":
        """Start a command in bash."""
        environment = os.environ | {
            "PATH": f"{self.bin_folder}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }
        environment.pop("PYTHONPATH", None)
        return subprocess.Popen(
            ["bash", "-c", command.replace("(0.9,0.98)", "'(0.9, 0.98)'")],
            cwd=folder,
            env=environment,
            start_new_session=True,
        )

    def average(self, folder: Path, flags: str) -> None:
        """Average checkpoints by the version's own script."""
        command = f"python {self.average_path} --inputs checkpoints {flags}"
        self.shell(f"{command} --output {AVERAGE_PATH} > average.log 2>&1", folder)

    def generate(self, folder: Path, flags: str = "--quiet", log: str = "generate.log") -> None:
        """Translate the test set by the average, with the paper's search."""
        command = f"fairseq-generate data-bin/short --path {AVERAGE_PATH} {SEARCH} {flags}"
        self.shell(f"{command} > {log} 2>&1", folder)

    # Each form is a method; its docstring is the form's line in README.md.

    def inside_epoch(self) -> None:
        """--max-update ends inside the sixth epoch; average of the last 5 epoch checkpoints; quiet generation."""
        folder = self.form_folder("inside_epoch")
        self.shell(f"fairseq-train {SHORT} --log-format simple > train.log 2>&1", folder)
        self.average(folder, "--num-epoch-checkpoints 5")
        self.generate(folder)
        self.keep("inside_epoch", ["train.log", "average.log", "generate.log"])

    def update_checkpoints(self) -> None:
        """--save-interval-updates; average of 5; generation with --results-path; fairseq-interactive."""
        folder = self.form_folder("update_checkpoints")
        saving = "--save-interval-updates 4 --keep-interval-updates 5 --no-epoch-checkpoints"
        self.shell(f"fairseq-train {SHORT} --log-format simple {saving} > train.log 2>&1", folder)
        self.average(folder, "--num-update-checkpoints 5")
        self.generate(folder, "--results-path results")
        interactive = f"--path {AVERAGE_PATH} --beam 4 --lenpen 0.6 --remove-bpe --cpu -s en -t de"
        lines = f"head -n 20 {self.text_folder}/pieces.test.en"
        command = f"{lines} | fairseq-interactive data-bin/short {interactive}"
        self.shell(f"{command} > interactive.log 2>&1", folder)
        names = ["train.log", "average.log", "generate.log", "results/generate-test.txt"]
        self.keep("update_checkpoints", [*names, "interactive.log"])

    def requeued(self) -> None:
        """Two jobs, one output each: the first is killed after update 18, the second goes on."""
        folder = self.form_folder("requeued")
        saving = "--save-interval-updates 6 --log-format simple"
        command = f"fairseq-train {SHORT} {saving}"
        first = self.start(f"exec {command} > slurm-101.out 2>&1", folder)
        while "@ 18 updates" not in (folder / "slurm-101.out").read_text(encoding="utf-8"):
            time.sleep(0.05)
            if first.poll() is not None:
                raise SystemExit(f"{folder}: the training ended before it was killed")
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        self.shell(f"{command} > slurm-102.out 2>&1", folder)
        self.average(folder, "--num-update-checkpoints 5")
        self.generate(folder)
        names = ["slurm-101.out", "slurm-102.out", "average.log", "generate.log"]
        self.keep("requeued", names)

    def tee(self) -> None:
        """A batch script prints three lines of its own and pipes fairseq-train into `tee train.log`."""
        folder = self.form_folder("tee")
        job = "echo Job 7 on node gpu01; echo Loading cuda/11.3; echo '  Loading requirement: gcc/9.3'"
        training = f"fairseq-train {SHORT} --log-format simple 2>&1 | tee train.log"
        self.shell(f"({job}; {training}) > slurm-7.out 2>&1", folder)
        self.average(folder, "--num-epoch-checkpoints 5")
        self.generate(folder)
        self.keep("tee", ["slurm-7.out", "train.log", "average.log", "generate.log"])

    def json(self) -> None:
        """--log-format json."""
        self.of_format("json")

    def tqdm(self) -> None:
        """--log-format tqdm: bars that write over themselves."""
        self.of_format("tqdm")

    def of_format(self, log_format: str) -> None:
        folder = self.form_folder(log_format)
        self.shell(f"fairseq-train {SHORT} --log-format {log_format} > train.log 2>&1", folder)
        self.average(folder, "--num-epoch-checkpoints 5")
        self.generate(folder)
        self.keep(log_format, ["train.log", "average.log", "generate.log"])

    def validate_after(self) -> None:
        """--validate-after-updates 20 with --save-interval-updates 3."""
        folder = self.form_folder("validate_after")
        flags = "--validate-after-updates 20 --save-interval-updates 3 --log-format simple"
        self.shell(f"fairseq-train {SHORT} {flags} > train.log 2>&1", folder)
        self.average(folder, "--num-update-checkpoints 5")
        self.generate(folder)
        self.keep("validate_after", ["train.log", "average.log", "generate.log"])

    def last(self) -> None:
        """No average: the generation reads checkpoint_last.pt."""
        folder = self.form_folder("last")
        flags = "--no-epoch-checkpoints --log-format simple"
        self.shell(f"fairseq-train {SHORT} {flags} > train.log 2>&1", folder)
        path = "--path checkpoints/checkpoint_last.pt"
        self.shell(
            f"fairseq-generate data-bin/short {path} {SEARCH} --quiet > generate.log 2>&1", folder
        )
        self.keep("last", ["train.log", "generate.log"])

    def ranks(self) -> None:
        """Two ranks (gloo, CPU), started by torch.distributed.launch."""
        folder = self.form_folder("ranks")
        launch = (
            "python -m torch.distributed.launch --use_env --nproc_per_node=2 --master_port 29517"
        )
        flags = "--distributed-backend gloo --distributed-no-spawn --log-format simple"
        flags += " --ddp-backend no_c10d"
        training = f"{launch} $(which fairseq-train) {SHORT} {flags}"
        self.shell(f"{training} > train.log 2>&1", folder)
        self.average(folder, "--num-epoch-checkpoints 5")
        self.generate(folder)
        self.keep("ranks", ["train.log", "average.log", "generate.log"])

    def hydra(self) -> None:
        """fairseq-hydra-train, whose lines have hydra's prefix (0.12)."""
        if not self.has_config:
            return
        folder = self.form_folder("hydra")
        (folder / "demo.yaml").write_text(HYDRA_CONFIG, encoding="utf-8")
        command = "fairseq-hydra-train --config-dir . --config-name demo hydra.run.dir=."
        self.shell(f"{command} > train.log 2>&1", folder)
        self.average(folder, "--num-epoch-checkpoints 5")
        self.generate(folder)
        self.keep("hydra", ["train.log", "average.log", "generate.log"])

    def base(self) -> None:
        """The paper's base in 30 updates: transformer_wmt_en_de, the paper's rate at 4,000 warm-up updates."""
        folder = self.form_folder("base")
        arch = (
            "--arch transformer_wmt_en_de --lr 0.0007 --warmup-updates 4000 --warmup-init-lr 1e-7"
        )
        flags = f"data-bin/short {PAPER} {arch} --max-tokens 500 --max-update 30 --seed 1"
        flags += " --log-interval 5 --log-format simple --no-epoch-checkpoints"
        flags += " --save-interval-updates 5 --keep-interval-updates 5"
        self.shell(f"OMP_NUM_THREADS=2 fairseq-train {flags} > train.log 2>&1", folder)
        self.average(folder, "--num-update-checkpoints 5")
        self.generate(folder)
        self.keep("base", ["train.log", "average.log", "generate.log"])

    def demo_base(self) -> None:
        """The demo's base whole: 12,000 pairs, 700 updates, average of the last 5 of every 20 updates."""
        folder = self.form_folder("demo_base")
        flags = f"data-bin/whole {PAPER} {SMALL} --max-update 700 --seed 1 --log-interval 100"
        flags += " --log-format simple --no-epoch-checkpoints --keep-interval-updates 5"
        flags += " --save-interval-updates 20 --validate-interval-updates 100"
        self.shell(f"fairseq-train {flags} > train.log 2>&1", folder)
        self.average(folder, "--num-update-checkpoints 5")
        path = f"--path {AVERAGE_PATH}"
        command = f"fairseq-generate data-bin/whole {path} {SEARCH} --quiet"
        self.shell(f"{command} > generate.log 2>&1", folder)
        self.keep("demo_base", ["train.log", "average.log", "generate.log"])


# The short training as a file of hydra's.
HYDRA_CONFIG = """\
# @package _group_
common: {cpu: true, seed: 1, log_interval: 5, log_format: simple}
checkpoint: {save_dir: checkpoints}
task: {_name: translation, data: data-bin/short, source_lang: en, target_lang: de}
dataset: {max_tokens: 500, num_workers: 0}
criterion: {_name: label_smoothed_cross_entropy, label_smoothing: 0.1}
optimization: {max_update: 44, lr: [0.00625], clip_norm: 0.0}
optimizer: {_name: adam, adam_betas: "(0.9, 0.98)", adam_eps: 1.0e-09, weight_decay: 0.0}
lr_scheduler: {_name: inverse_sqrt, warmup_updates: 400, warmup_init_lr: 1.0e-07}
model:
  _name: transformer
  encoder: {embed_dim: 64, ffn_embed_dim: 256, layers: 3, attention_heads: 4}
  decoder: {embed_dim: 64, ffn_embed_dim: 256, layers: 3, attention_heads: 4}
  dropout: 0.1
  share_all_embeddings: true
  base_layers: 0
"""

FORMS = (
    "inside_epoch", "update_checkpoints", "requeued", "tee", "json", "tqdm", "validate_after", "last", "ranks",
    "hydra", "base", "demo_base",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", choices=["0.10.2", "0.12.2", "fixed-0.12.3.1"])
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--average", type=Path, required=True)
    parser.add_argument("--work-folder", type=Path, default=Path("/tmp/honest"))
    parser.add_argument("--only", nargs="+", choices=FORMS, default=FORMS)
    args = parser.parse_args()
    maker = Maker(args.version, args.python.absolute(), args.average.absolute(), args.work_folder)
    maker.preprocess()
    for form in args.only:
        begin = time.monotonic()
        getattr(maker, form)()
        print(f"{args.version} {form}: {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
