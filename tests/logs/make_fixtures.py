"""Writes the logs beside this file: the forms of public logs (README.md), with text and numbers of our own.

    python tests/logs/make_fixtures.py

tests/unit/test_log_fixtures.py says what is read from each, and that this program still writes them.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parents[1])]

from tests.logs.factory import BASE, GenerationText, TrainingText, namespace, write  # noqa: E402 (after the path is set)

IWSLT: dict[str, Any] = BASE | {
    "arch": "transformer_iwslt_de_en", "data": "data-bin/iwslt14.tokenized.de-en", "source_lang": "de",
    "target_lang": "en", "decoder_attention_heads": 4, "decoder_embed_dim": 256, "decoder_ffn_embed_dim": 1024,
    "decoder_layers": 4, "encoder_attention_heads": 4, "encoder_embed_dim": 256, "encoder_ffn_embed_dim": 1024,
    "encoder_layers": 4, "dropout": 0.3, "adam_eps": 1e-08, "lr": [0.0005], "weight_decay": 0.0001,
    "share_all_embeddings": False, "share_decoder_input_output_embed": True, "max_tokens": 12288, "max_epoch": 5,
    "max_update": 0, "distributed_world_size": 1, "eval_bleu": True, "eval_bleu_detok": "moses",
    "eval_bleu_remove_bpe": "@@ ", "save_dir": "baseline",
}  # fmt: skip
BIG: dict[str, Any] = BASE | {
    "arch": "transformer_vaswani_wmt_en_de_big", "decoder_attention_heads": 16, "decoder_embed_dim": 1024,
    "decoder_ffn_embed_dim": 4096, "encoder_attention_heads": 16, "encoder_embed_dim": 1024,
    "encoder_ffn_embed_dim": 4096, "dropout": 0.3, "adam_eps": 1e-08, "lr": [0.001],
}  # fmt: skip
BIG_ENFR: dict[str, Any] = BIG | {
    "dropout": 0.1, "lr": [0.0007], "max_tokens": 5120, "max_update": 80000, "distributed_world_size": 128,
    "fp16": True, "log_format": "json", "source_lang": "en", "target_lang": "fr", "data": "/data/wmt14_en_fr",
    "save_dir": "/checkpoint/enfr",
}  # fmt: skip


def before_0_7(text: TrainingText) -> list[str]:
    """Return a log as fairseq 0.6 printed it: `valid_` before the names, no prefix in JSON, percentages."""
    return [_before_0_7(line) for line in text.lines()]


def _before_0_7(line: str) -> str:
    old = line.replace('"train_', '"').replace("gnorm 0.4", "gnorm 0.4 | clip 0% | oom 0")
    old = old.replace('"gnorm": "0.4"', '"gnorm": "0.4", "clip": "100%"')
    for name in ("loss", "nll_loss", "ppl") if "valid on" in line else ():
        old = old.replace(f"| {name} ", f"| valid_{name} ", 1)
    return old


def pasted_simple() -> str:
    """fairseq #514, #506: statistics pasted into a thread, without a start."""
    lines = before_0_7(TrainingText(form="print"))
    return "\n".join(line for line in lines if "epoch 0" in line) + "\n"


def json_without_times() -> str:
    """fairseq #233: JSON, no times, validations without num_updates."""
    text = TrainingText(
        form="print", log_format="json", arguments=BIG_ENFR, num_train_pairs=35_762_532, num_valid_pairs=26_854,
        num_parameters=222_176_256, vocabulary_size=44_512,
    )  # fmt: skip
    lines = before_0_7(text)
    return "\n".join(_without_update(line) if '"valid_loss"' in line else line for line in lines) + "\n"


def _without_update(line: str) -> str:
    return line[: line.index(', "valid_wps"')] + "}"


def wrapped_arguments() -> str:
    """A README that holds two starts of 0.9 one after the other, wrapped by a terminal of 210 columns."""
    printed = [namespace(BIG | {"target_lang": "es", "data": "data-bin/en_es", "seed": seed}) for seed in (1, 2)]
    wrapped = ["\n".join(text[begin : begin + 210] for begin in range(0, len(text), 210)) for text in printed]
    return f"### one\n{wrapped[0]}\n### another\n{wrapped[1]}\n"


def eight_ranks_resumed() -> str:
    """A NAT repository's log of 0.10: eight ranks announce themselves, the training resumes, and is killed."""
    ranks = [f"2024-03-01 11:59:00 | INFO | fairseq.distributed_utils | distributed init (rank {rank}): tcp://localhost:1"
             for rank in (3, 1, 7, 6, 4, 5, 2, 0)]  # fmt: skip
    loaded = "loaded checkpoint /checkpoint/nat/checkpoint_last.pt (epoch 3 @ 50000 updates)"
    arguments = BASE | {
        "arch": "syntax_glat", "criterion": "syntax_glat_loss", "target_lang": "ro", "save_dir": "/checkpoint/nat",
        "max_update": 300_000, "encoder_learned_pos": True, "decoder_learned_pos": True, "dropout": 0.3,
    }  # fmt: skip
    text = TrainingText(arguments=arguments, first_epoch=3, num_epochs=2, loaded=loaded, is_done=False)
    return "\n".join(["plugins loaded...", *ranks, *text.lines()]) + "\n"


def student_exercise() -> str:
    """Two students' repositories, 1.0.0a0: IWSLT, config form, samples of every validation printed."""
    text = TrainingText(
        form="config", arguments=IWSLT, num_epochs=5, num_train_pairs=160_239, num_valid_pairs=7283,
        num_parameters=11_335_680, gpu="GeForce RTX 2080 Ti", seconds=5159.4,
    )  # fmt: skip
    lines = []
    for line in text.lines():
        if "valid on" in line:
            lines.append("2024-03-01 12:00:00 | INFO | fairseq.tasks.translation | example hypothesis: i i i.")
        lines.append(line.replace(" | wps", " | bleu 32.5 | wps") if "valid on" in line else line)
    return "\n".join(lines) + "\n"


def many_generations() -> str:
    """The same students' loop over attention heads: many generations in one file, each with --model-overrides."""
    return "".join(
        replace(GenerationText(form="config"), subset="valid", num_sentences=7283, value=f"33.{head}", beam_size=5)
        .changed(path="baseline/checkpoint_best.pt", model_overrides=f"{{'mask_head': {head}}}", lenpen=1.0)
        .text()
        for head in range(3)
    )


def results_file(*, is_ended: bool) -> str:
    """A repository of generate-test.txt: fairseq-generate --results-path prints no log line; one ends early."""
    text = replace(GenerationText(), has_start=False, num_printed=8, hypothesis="das ist ein Sa@@ tz .", beam_size=5)
    lines = text.lines() if is_ended else text.lines()[:-1]
    return "\n".join(lines) + "\n"


TEXT_BY_NAME = {
    "fairseq06_pasted.log": pasted_simple,
    "fairseq06_big_enfr.log": json_without_times,
    "fairseq09_wrapped.log": wrapped_arguments,
    "fairseq10_resumed.log": eight_ranks_resumed,
    "fairseq12_iwslt.log": student_exercise,
    "fairseq12_generations.log": many_generations,
    "generate-test.txt": lambda: results_file(is_ended=True),
    "generate-cut.txt": lambda: results_file(is_ended=False),
}

if __name__ == "__main__":
    write(FOLDER, {name: make() for name, make in TEXT_BY_NAME.items()})
