"""`aiayn doctor --command`: from a script as people write it to what differs from the paper, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aiayn.__main__ import main
from analysis.doctor.before_training import corpus_of, trials_of
from analysis.doctor.fairseq_commands import ARCHITECTURES_PATH, OPTIONS_PATH, FairseqCommand, read_command_file
from analysis.logs.arguments import parse_arguments
from analysis.logs.symbols import symbols_of_arguments
from tests.logs.factory import BASE, namespace

TRAIN = (
    "fairseq-train data-bin/wmt16_en_de_bpe32k --arch transformer_wmt_en_de --share-all-embeddings "
    "--optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --lr 0.0007 --lr-scheduler inverse_sqrt "
    "--warmup-updates 4000 --criterion label_smoothed_cross_entropy --label-smoothing 0.1 "
    "--max-tokens 3500 --update-freq 1 --max-update 100000"
)


def write(folder: Path, text: str) -> Path:
    path = folder / "train.sh"
    path.write_text(text, encoding="utf-8")
    return path


def only(folder: Path, text: str) -> FairseqCommand:
    (command,) = read_command_file(write(folder, text)).commands
    return command


def diagnosed(folder: Path, text: str, capsys: pytest.CaptureFixture[str], *flags: str) -> list[dict[str, Any]]:
    exit_code = main(["doctor", "--command", str(write(folder, text)), "--json", *flags])
    diagnoses: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert exit_code == (1 if any(one["findings"] for one in diagnoses) else 0)
    return diagnoses


def found(diagnosis: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return what was found and expected, by what it is of."""
    return {one["what"]: (one["evidence"][0]["found"], one["evidence"][0]["expected"]) for one in diagnosis["findings"]}


# Commands as they are pasted: each is the same.
FLAGS = "--arch transformer --lr 5e-4 --fp16 --adam-betas '(0.9, 0.98)'"
LINE = f"fairseq-train data {FLAGS}"
SCRIPTS = {
    "one line": LINE,
    "continued": LINE.replace(" --", " \\\n  --"),
    "blanks after the backslash": LINE.replace(" --", " \\ \t\n  --"),
    "windows": LINE.replace(" --", " \\\r\n  --").replace("'", '"') + "\r\n",
    "equals signs": LINE.replace("--lr ", "--lr="),
    "comment at the end": f"{LINE} # --lr 1",
    "launcher": f"nohup python -u fairseq_cli/train.py data {FLAGS} > log 2>&1 &",
    "module": f"cd fairseq && python -m fairseq_cli.train data {FLAGS} | tee log.txt",
    "as bash -x prints it": f"+ {LINE}",
    "here document": f"cat > job.sh <<EOF\n{LINE}\nEOF",
    "page": f"I don't get 27:\n```bash\n$ {LINE}\n```\nIt's 25.",
    "folders in variables": LINE + ' --save-dir "$OUT/run" --seed $SEED --tensorboard-logdir $(date +%s)',
}


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_a_command_is_read_however_it_is_written(text: str, tmp_path: Path) -> None:
    command = only(tmp_path, text)
    assert (command.program, command.data) == ("train", "data")
    assert command.arguments["lr"] == 5e-4
    assert command.arguments["arch"] == "transformer"
    assert command.arguments["adam_betas"] == "(0.9, 0.98)"
    assert command.arguments["fp16"] is True
    assert command.unknown == ()


def test_a_value_has_the_line_in_which_it_stands(tmp_path: Path) -> None:
    command = only(tmp_path, "\nfairseq-train data \\\n --arch transformer \\\n --lr 5e-4 --fp16\n")
    assert (command.line, command.line_by_key["arch"], command.line_by_key["lr"]) == (2, 3, 4)


def test_absent_flags_have_the_defaults_of_fairseq_and_of_the_architecture(tmp_path: Path) -> None:
    plain = only(tmp_path, "fairseq-train data --arch transformer_vaswani_wmt_en_de_big --lr-scheduler inverse_sqrt")
    symbols = symbols_of_arguments(plain.arguments)
    assert symbols["eps_ls"] == 0.0  # cross_entropy is fairseq's default
    assert (symbols["adam_beta_2"], symbols["peak_learning_rate"], symbols["warmup_steps"]) == (0.999, 0.25, 4000)
    assert (symbols["d_model"], symbols["p_drop"], symbols["p_drop_attention"]) == (1024, 0.3, 0.0)
    other = only(tmp_path, "fairseq-train data --arch transformer_wmt_en_de_big --lr-scheduler inverse_sqrt")
    assert symbols_of_arguments(other.arguments)["p_drop_attention"] == 0.1
    t2t = only(tmp_path, "fairseq-train data --arch transformer_wmt_en_de_big_t2t --lr-scheduler inverse_sqrt")
    assert symbols_of_arguments(t2t.arguments)["norm_order"] == "pre"


def test_a_width_of_the_encoder_is_the_decoders_too(tmp_path: Path) -> None:
    command = only(
        tmp_path, "fairseq-train data --arch transformer --encoder-embed-dim 256 --encoder-ffn-embed-dim 1024"
    )
    symbols = symbols_of_arguments(command.arguments)
    assert (symbols["d_model"], symbols["d_ff"]) == (256, 1024)


def test_a_command_and_the_log_that_it_prints_have_the_same_symbols(tmp_path: Path) -> None:
    flags = [
        f"--{key.replace('_', '-')}" if value is True else f"--{key.replace('_', '-')} '{_text(value)}'"
        for key, value in BASE.items()
        if value not in (None, False) and key not in ("data", "eval_bleu_args", "device_id", "adaptive_softmax_cutoff")
    ]
    command = only(tmp_path, f"fairseq-train data-bin {' '.join(flags)}")
    logged = symbols_of_arguments(parse_arguments(namespace(BASE)), 8)
    assert symbols_of_arguments(command.arguments, 8) == logged


def _text(value: Any) -> str:
    return str(value[0]) if isinstance(value, list) else str(value)


@pytest.mark.parametrize(
    ("text", "num_gpus"),
    [
        ("{}", None),
        ("#SBATCH --gres gpu:8\n{}", 8),
        ("CUDA_VISIBLE_DEVICES=0,1,2,3 {}", 4),
        ("export CUDA_VISIBLE_DEVICES=2,3\n{}", 2),
        ("{} --distributed-world-size 16", 16),
        ("torchrun --nproc_per_node=8 {}", 8),
        ("python -m torch.distributed.launch --nproc_per_node=8 --nnodes=2 {}", 16),
        ("#SBATCH --nodes=4\n#SBATCH --gres=gpu:Tesla-V100:8\nsrun {}", 32),
        ("#SBATCH --gpus-per-node=4\n{}", 4),
        ("CUDA_VISIBLE_DEVICES=$GPUS {}", None),
        ("srun --nodes 2 --gres gpu:4 {}", 8),
    ],
)
def test_gpus_are_counted_where_the_script_says_them(text: str, num_gpus: int | None, tmp_path: Path) -> None:
    script = text.format("fairseq-train data --arch transformer --max-tokens 4096")
    assert only(tmp_path, script).num_gpus == num_gpus


CHANGED = {
    "--dropout 0": ("p_drop", 1.2, 1.2),
    "--dropout 0.2": ("p_drop", 0.3, 0.3),
    "--label-smoothing 0.0": ("eps_ls", 0.5, 1.05),
    "--encoder-normalize-before --decoder-normalize-before": ("norm_order", 1.0, 1.1),
    "--encoder-learned-pos --decoder-learned-pos": ("positions", 0.1, 0.1),
    "--encoder-layers 2 --decoder-layers 2": ("num_layers", 2.1, 2.1),
    "--encoder-attention-heads 1 --decoder-attention-heads 1": ("num_heads", 0.9, 0.9),
    "--attention-dropout 0.1": ("p_drop_attention", None, None),
    "--warmup-updates 16000": ("warmup_steps", None, None),
    "--weight-decay 0.0001": ("weight_decay", None, None),
    "--max-update 30000": ("updates", None, None),
    "--lr 0.0005": ("peak_learning_rate", None, None),
}


@pytest.mark.parametrize(("flags", "cost"), CHANGED.items(), ids=CHANGED.keys())
def test_one_changed_flag_is_one_difference_with_its_published_cost(
    flags: str, cost: tuple[str, float | None, float | None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (diagnosis,) = diagnosed(tmp_path, f"{TRAIN} {flags}", capsys, "--num-gpus", "8")
    (finding,) = diagnosis["findings"]
    published = finding["costs"][0]
    assert (finding["what"], published["low"], published["high"]) == (cost[0], *map(pytest.approx, cost[1:]))
    assert finding["fix"]
    assert bool(published["source"]) == (cost[1] is not None)


@pytest.mark.parametrize(
    ("path", "average"),
    [
        ("$X/checkpoint_best.pt", "checkpoint_best.pt"),
        ("$X/checkpoint42.pt", "checkpoint42.pt"),
        ("${OUT}/avg_5.pt", None),
        ("$X/model.pt", None),
        ("$CKPT", None),
    ],
)
def test_a_path_is_read_to_its_file_name_whatever_the_folder(
    path: str, average: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate = f"fairseq-generate data-bin/wmt16_en_de_bpe32k --path {path} --beam 4 --lenpen 0.6 --remove-bpe"
    (diagnosis,) = diagnosed(tmp_path, f"{TRAIN}\n{generate}\n", capsys, "--num-gpus", "8")
    assert found(diagnosis).get("average", (None, ""))[0] == average
    outcome = next(one for one in diagnosis["outcomes"] if one["check"] == "average")
    assert bool(outcome["missing"]) == (average is None and "avg" not in path)


@pytest.mark.parametrize(
    ("data", "corpus", "is_stated"),
    [
        ("data-bin/wmt16_en_de_bpe32k", "wmt14_en_de", True),
        ("data-bin/wmt14_en_fr", "wmt14_en_fr", True),
        ("data-bin/wmt17_en_de", "wmt14_en_de", True),
        ("data-bin/iwslt14.tokenized.de-en", "iwslt14_de_en", True),
        ("data-bin/wmt14.de-en", "other", True),
        ("data-bin/multi30k", "other", True),
        ("data-bin/mine", "wmt14_en_de", False),
        ("$DATA", "wmt14_en_de", False),
    ],
)
def test_a_corpus_follows_from_the_data_else_it_is_marked_as_assumed(
    data: str, corpus: str, is_stated: bool, tmp_path: Path
) -> None:
    file = read_command_file(write(tmp_path, f"fairseq-train {data} --arch transformer --lr 1"))
    (trial,) = trials_of(file.commands)
    name, _, is_known = corpus_of(trial)
    assert (name, is_known) == (corpus, is_stated)


def test_a_command_of_hydras_is_read_from_its_overrides(tmp_path: Path) -> None:
    text = (
        "fairseq-hydra-train task.data=data-bin/x distributed_training.distributed_world_size=4 \\\n"
        "  +optimization.max_update=9000 model._name=transformer --config-dir conf --config-name base"
    )
    (command,) = read_command_file(write(tmp_path, text)).commands
    assert (command.program, command.data, command.num_gpus) == ("train", "data-bin/x", 4)
    assert (command.arguments["max_update"], command.line_by_key["max_update"]) == (9000, 2)
    assert command.arguments["arch"] == "transformer"
    assert command.unread == ("config-dir: conf", "config-name: base")


def test_prose_and_another_toolkits_train_py_are_no_commands_of_fairseqs(tmp_path: Path) -> None:
    text = "We use fairseq-train for this.\npython train.py -model m -world_size 1\ncat fairseq-train --help --me\n"
    assert only(tmp_path, f"{text}{LINE}\n").line == 4


def test_the_tables_of_fairseqs_options_are_those_of_the_installed_fairseq(tmp_path: Path) -> None:
    pytest.importorskip("fairseq")
    subprocess.run([sys.executable, "-m", "tests.fairseq_options", str(tmp_path)], check=True)
    for path in (OPTIONS_PATH, ARCHITECTURES_PATH):
        made = (tmp_path / path.name).read_text(encoding="utf-8")
        assert path.read_text(encoding="utf-8") == made, "python -m tests.fairseq_options writes it anew"
