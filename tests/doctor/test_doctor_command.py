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


@pytest.mark.parametrize(
    "flag", ["--lr $LR", "--update-freq $((F*8))", "--arch ${ARCH:-transformer}", "--max-tokens $1"]
)
def test_a_value_in_a_variable_is_refused_by_name(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, f"fairseq-train $DATA --arch transformer \\\n {flag} --save-dir $OUT")
    assert main(["doctor", "--command", str(path)]) == 1
    message = capsys.readouterr().err
    assert f"{path}:2: {flag}" in message.replace("\n", " ")
    assert "bash -x" in message


def test_flags_in_a_variable_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("fairseq-train data $ARGS --lr 1 --arch transformer", "fairseq-train $ARGS --lr 1"):
        assert main(["doctor", "--command", str(write(tmp_path, line))]) == 1
        assert "$ARGS" in capsys.readouterr().err


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


def test_a_script_without_a_number_of_gpus_needs_the_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (diagnosis,) = diagnosed(tmp_path, TRAIN, capsys)
    missing = next(one["missing"] for one in diagnosis["outcomes"] if one["check"] == "batch")
    assert "--num-gpus" in missing
    assert "about 8 GPUs" in missing
    assert "tokens_per_update" not in found(diagnosis)
    (diagnosis,) = diagnosed(tmp_path, TRAIN, capsys, "--num-gpus", "1")
    assert found(diagnosis)["tokens_per_update"] == ("3,150 (3,500 x 1 x 1 GPUs)", "about 25,000: section 5.1")


def test_the_papers_own_configuration_has_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (diagnosis,) = diagnosed(tmp_path, TRAIN, capsys, "--num-gpus", "8")
    assert (diagnosis["findings"], diagnosis["harmless"], diagnosis["system"]) == ([], [], "base")


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
    what, low, high = cost
    assert finding["what"] == what
    assert (finding["costs"][0]["low"], finding["costs"][0]["high"]) == (
        None if low is None else pytest.approx(low), None if high is None else pytest.approx(high)
    )  # fmt: skip
    assert finding["fix"]
    assert bool(finding["costs"][0]["source"]) == (low is not None)


def test_averaging_search_and_scoring_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate = "fairseq-generate data-bin/wmt16_en_de_bpe32k --path {} --beam {} --lenpen {} --remove-bpe > gen.out\n"
    right = (
        f"{TRAIN}\npython scripts/average_checkpoints.py --inputs c --num-update-checkpoints 5 --output avg.pt\n"
        + generate.format("avg.pt", 4, 0.6).replace("--remove-bpe", "--remove-bpe --max-len-a 1 --max-len-b 50")
        + "bash scripts/compound_split_bleu.sh gen.out\n"
    )
    (diagnosis,) = diagnosed(tmp_path, right, capsys, "--num-gpus", "8")
    assert diagnosis["findings"] == []
    wrong = f"{TRAIN}\n{generate.format('checkpoints/checkpoint_best.pt', 5, 1)}"
    wrong += "bash scripts/sacrebleu.sh wmt14/full en de gen.out\n"
    (diagnosis,) = diagnosed(tmp_path, wrong, capsys, "--num-gpus", "8")
    assert found(diagnosis) == {
        "average": ("checkpoint_best.pt", "last5 (section 6)"),
        "beam_size": ("5", "4"),
        "length_penalty_alpha": ("1", "0.6"),
        "definition bleu_sacre_13a": ("bleu_sacre_13a", "bleu_tok_compound_split"),
    }
    left = right.replace("--remove-bpe ", "").replace("compound_split_bleu.sh", "none.sh")
    (diagnosis,) = diagnosed(tmp_path, left, capsys, "--num-gpus", "8")
    assert found(diagnosis)["pieces"] == ("left in", "joined")


def test_a_bleu_line_below_a_command_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "BLEU4 = 20.91, 55.0/27.0/15.0/9.0 (BP=1.000, ratio=1.062, syslen=68000, reflen=64031)"
    (diagnosis,) = diagnosed(tmp_path, f"{TRAIN}\n{line}\n", capsys, "--num-gpus", "4")
    assert diagnosis["missing"]["high"] == pytest.approx(27.3 - 20.91)
    assert {"slip", "tokens_per_update"} <= found(diagnosis).keys()
    assert sum(one["costs"][0]["high"] or 0 for one in diagnosis["findings"]) <= 27.3 - 20.91 + 1e-9


def test_several_trainings_are_compared_each_with_what_follows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = TRAIN.replace("transformer_wmt_en_de", "transformer_vaswani_wmt_en_de_big").replace("0.0007", "0.0005")
    big = big.replace("--max-update 100000", "--max-update 300000")
    text = f"{TRAIN}\n{big}\nfairseq-generate d --path x.pt --beam 9 --remove-bpe\n"
    first, second = diagnosed(tmp_path, text, capsys, "--num-gpus", "8")
    assert (first["system"], second["system"]) == ("base", "big")
    assert found(first) == {}
    assert found(second)["beam_size"] == ("9", "4")


def test_the_nearest_system_of_en_fr_has_its_own_dropout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TRAIN.replace("wmt16_en_de_bpe32k", "wmt14_en_fr").replace("_wmt_en_de", "_vaswani_wmt_en_fr_big")
    text = text.replace("100000", "300000").replace("0.0007", "0.0005")
    (diagnosis,) = diagnosed(tmp_path, text, capsys, "--num-gpus", "8")
    assert (diagnosis["system"], diagnosis["corpus"]) == ("big_enfr", "wmt14_en_fr")
    assert found(diagnosis) == {}


# fairseq's own recipe for 29.29 (examples/scaling_nmt/README.md)
RECIPE = (
    TRAIN.replace("transformer_wmt_en_de", "transformer_vaswani_wmt_en_de_big").replace("0.0007", "0.001")
    .replace("--max-tokens 3500 --update-freq 1 --max-update 100000", "--max-tokens 3584 --update-freq 16")
)  # fmt: skip


def test_a_rate_is_judged_at_its_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (recipe,) = diagnosed(tmp_path, RECIPE, capsys, "--num-gpus", "8", "--bleu", "28.0")
    assert [one["what"] for one in recipe["harmless"]] == ["peak_learning_rate"]
    assert "29.29" in recipe["harmless"][0]["costs"][0]["source"]
    assert [one["what"] for one in recipe["findings"] if one["likelihood"] != "raises"] == []
    small = RECIPE.replace("--update-freq 16", "--update-freq 1")
    (alone,) = diagnosed(tmp_path, small, capsys, "--num-gpus", "8", "--bleu", "28.0")
    (rate,) = (one for one in alone["findings"] if one["what"] == "peak_learning_rate")
    assert rate["costs"][0]["low"] is None
    assert rate["fix"].startswith("--lr-scheduler inverse_sqrt --lr 0.000494 --warmup-updates 4000; published: ")


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


def test_hydras_tokens_and_ranks_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = "task.data=data-bin/wmt16_en_de_bpe32k model=transformer_wmt_en_de dataset.max_tokens=3500"
    text = f"fairseq-hydra-train {flags} optimization.lr=[0.0007] distributed_training.distributed_world_size=1"
    (diagnosis,) = diagnosed(tmp_path, text, capsys)
    assert found(diagnosis)["tokens_per_update"] == ("3,150 (3,500 x 1 x 1 GPUs)", "about 25,000: section 5.1")


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
    found_corpus = corpus_of(trial)
    assert (found_corpus.name, found_corpus.is_stated) == (corpus, is_stated)


def test_another_model_has_no_costs_of_the_papers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TRAIN.replace("transformer_wmt_en_de", "lightconv_wmt_en_de") + " --dropout 0"
    (diagnosis,) = diagnosed(tmp_path, text, capsys, "--num-gpus", "8")
    assert {one["costs"][0]["low"] for one in diagnosis["findings"]} == {None}


def test_an_unknown_flag_is_named_and_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (diagnosis,) = diagnosed(tmp_path, f"{TRAIN} --my-flag 3 --min-lr 1e-9", capsys, "--num-gpus", "8")
    assert diagnosis["findings"] == []
    (note,) = [note for note in diagnosis["notes"] if "--my-flag" in note]
    assert "--min-lr" not in note  # fairseq's own before 0.10


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


BAD = {
    "empty": b"",
    "blanks": b" \n\n",
    "binary": b"\x7fELF\0\0\1",
    "utf-16": "fairseq-train data --arch transformer".encode("utf-16"),
    "latin-1": "# Schl\u00fcssel\nfairseq-train data --arch transformer --lr 1".encode("latin-1"),
    "no command": b"echo hello\npython train.py -save_model m\n",
    "commented out": b"# fairseq-train data --arch transformer --lr 1\n",
    "cut in a quotation": b"fairseq-train data --arch transformer --adam-betas '(0.9",
    "cut in a line that goes on": b"fairseq-train data --arch transformer \\",
    "another task": b"fairseq-train data --arch roberta_base --task masked_lm",
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_a_file_that_cannot_be_read_is_a_sentence_and_exit_code_1(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.sh"
    path.write_bytes(content)
    assert main(["doctor", "--command", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert str(path) in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("flags", [["--bleu", "0.27"], ["--scale", "demo"], ["--metric", "bleu"]])
def test_flags_that_do_not_fit_are_refused_as_usage(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--command", str(write(tmp_path, TRAIN)), *flags]) == 2
    assert flags[0] in capsys.readouterr().err
    assert main(["doctor", str(tmp_path), "--num-gpus", "8"]) == 2


def test_a_folder_or_a_missing_file_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path, tmp_path / "nowhere.sh"):
        assert main(["doctor", "--command", str(path)]) == 1
        assert str(path) in capsys.readouterr().err


def test_prose_and_another_toolkits_train_py_are_no_commands_of_fairseqs(tmp_path: Path) -> None:
    text = "We use fairseq-train for this.\npython train.py -model m -world_size 1\ncat fairseq-train --help --me\n"
    assert only(tmp_path, f"{text}{LINE}\n").line == 4


def test_a_reported_score_of_the_papers_definition_counts_where_several_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        f"{TRAIN}\nbash scripts/compound_split_bleu.sh gen.out\n"
        "BLEU4 = 27.10, 58.0/32.0/20.0/13.0 (BP=1.000, ratio=1.010, syslen=65000, reflen=64512)\n"
        "bash scripts/sacrebleu.sh wmt14/full en de gen.out\n"
        "BLEU|case:mixed|tok:13a = 26.4 58.0/32.0/20.0/13.0 (BP = 1.000 ratio = 1.010 hyp_len = 63 ref_len = 62)\n"
    )
    (diagnosis,) = diagnosed(tmp_path, text, capsys, "--num-gpus", "8")
    assert (diagnosis["metrics"]["test"], diagnosis["scores"]["test"]) == ("bleu_tok_compound_split", 27.1)
    assert "definition" not in {one["check"] for one in diagnosis["findings"]}


def test_the_tables_of_fairseqs_options_are_those_of_the_installed_fairseq(tmp_path: Path) -> None:
    pytest.importorskip("fairseq")
    subprocess.run([sys.executable, "-m", "tests.fairseq_options", str(tmp_path)], check=True)
    for path in (OPTIONS_PATH, ARCHITECTURES_PATH):
        made = (tmp_path / path.name).read_text(encoding="utf-8")
        assert path.read_text(encoding="utf-8") == made, "python -m tests.fairseq_options writes it anew"
