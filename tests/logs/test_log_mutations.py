"""Every argument that the reader keeps, mutated: set apart by which rule, or harmless for which reason.

A clean log of base (En-De), one of ours (En-Fr) and one of `fairseq-generate` are changed in one argument. What then
happens is `no row`, `row NAME` where another row of Table 3 is trained so, the rule that sets the number apart or keeps
it out, or nothing, for a reason. An argument that is kept needs a place here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiayn.logs.arguments import KEPT_KEYS
from aiayn.logs.folder import judge_folder
from aiayn.logs.logged import LoggedGeneration, LoggedTraining
from paper_tables.logs.from_logs import read_rows
from tests.logs.factory import GenerationText, TrainingText, averaging_text, read_folder, write
from tests.logs.test_log_checks import AVERAGED, OURS

ROWS = read_rows(["paper"])
FOREIGN, GENERATION = TrainingText(), GenerationText()
OUR_LOG = TrainingText(form="config", log_format="json", arguments=OURS, num_train_pairs=36_000_000)
NO_ROW = "no row"
Mutations = tuple[tuple[str, dict[str, Any]], ...]  # what becomes of a log, or why nothing: arguments, other values

FAIRSEQ: Mutations = (
    (NO_ROW, {
        "arch": "transformer_align", "activation_fn": "gelu", "encoder_layers": 12, "decoder_layers": 12,
        "encoder_embed_dim": 640, "decoder_embed_dim": 640, "encoder_ffn_embed_dim": 1536,
        "decoder_ffn_embed_dim": 1536, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_learned_pos": True, "decoder_learned_pos": True, "no_token_positional_embeddings": True,
        "no_decoder_final_norm": True, "encoder_layers_to_keep": "0,2,4", "decoder_layers_to_keep": "0,2,4",
        "quant_noise_pq": 0.1, "layernorm_embedding": True, "no_scale_embedding": True,
        "adaptive_softmax_cutoff": "10000,20000", "encoder_layerdrop": 0.1, "decoder_layerdrop": 0.1,
        "no_cross_attention": True, "cross_self_attention": True, "dropout": 0.15, "label_smoothing": 0.3,
        "criterion": "label_smoothed_cross_entropy_with_alignment",
    }),
    ("row table3_d_pdrop02", {"dropout": 0.2}),
    ("row table3_d_els0", {"criterion": "cross_entropy"}),
    ("plain-training", {
        "task": "multilingual_translation", "encoder_embed_path": "vectors.txt", "decoder_embed_path": "vectors.txt",
        "sentence_avg": True, "finetune_from_model": "pretrained/model.pt", "warmup_init_lr": 0.0005,
        "train_subset": "train1", "upsample_primary": 2, "max_source_positions": 64, "max_target_positions": 64,
    }),
    ("norm-order", {"encoder_normalize_before": True, "decoder_normalize_before": True}),
    ("tied-embeddings", {"share_all_embeddings": False}),
    ("p-drop-attention", {"attention_dropout": 0.1}),
    ("p-drop-ffn", {"activation_dropout": 0.1}),
    ("optimizer", {"optimizer": "sgd"}),
    ("adam-beta-1", {"adam_betas": "(0.8, 0.98)"}),
    ("adam-beta-2", {"adam_betas": "(0.9, 0.999)"}),
    ("adam-epsilon", {"adam_eps": 1e-08}),
    ("weight-decay", {"weight_decay": 0.0001}),
    ("clip-norm", {"clip_norm": 25.0}),
    ("peak-learning-rate", {"lr": [0.001]}),
    ("peak-learning-rate", {"lr": [0.0007, 0.0003]}),
    ("schedule", {"lr_scheduler": "polynomial_decay"}),
    ("schedule", {"lr_scheduler": "fixed"}),
    ("warmup-steps", {"warmup_updates": 8000}),
    ("tokens-per-update", {"max_tokens": 8192, "update_freq": [4], "distributed_world_size": 1}),
    ("tokens-per-update", {"update_freq": [4, 1]}),
    ("updates", {"max_update": 50_000}),
    ("every-validation", {"validate_interval_updates": 1000, "save_interval_updates": 1000}),
    ("final-validation", {"valid_subset": "test"}),
    ("language-pair", {"source_lang": "de", "target_lang": "ro"}),
)  # fmt: skip
FAIRSEQ_HARMLESS: Mutations = (
    ("the sizes that a name stands for are printed beside it", {"arch": "transformer_vaswani_wmt_en_de_big"}),
    ("share_all_embeddings, which is there, includes it", {"share_decoder_input_output_embed": True}),
    ("the older name: activation_dropout, which is there, is what is used", {"relu_dropout": 0.1}),
    ("a line names a checkpoint that is loaded, and is checked; a resumed training has the argument, too",
     {"restore_file": "pretrained/model.pt"}),
    ("nothing was loaded, so nothing is reset", {"reset_optimizer": True}),
    ("not stated: the note `not-stated` says so", {"warmup_updates": None}),
    ("rounding: the note `precision` is printed beside the number",
     {"fp16": True, "bf16": True, "memory_efficient_fp16": True}),
    ("another sample of the same", {"seed": 2}),
    ("not stated: the target tokens printed are compared with the row's", {"max_tokens": None}),
    ("it may bound a batch: the target tokens printed are compared", {"max_sentences": 64, "batch_size": 64}),
    ("it may end a training early: the updates made are compared", {"max_epoch": 4, "patience": 10}),
    ("when it saves or validates, not what it trains; the last validation is required",
     {"validate_interval": 2, "save_interval": 2, "disable_validation": True}),
    ("the same arithmetic; a log without a GPU has no cost", {"cpu": True}),
    ("a place: what lies there is checked by its numbers of pairs and types",
     {"data": "data-bin/other", "save_dir": "elsewhere"}),
    ("what it adds is named by arch, task, criterion or optimizer", {"user_dir": "my_code"}),
    ("of BLEU in validations alone, whose search has rules of its own",
     {"eval_bleu": True, "eval_bleu_args": '{"beam": 1}', "eval_bleu_detok": "moses", "eval_bleu_remove_bpe": None,
      "eval_tokenized_bleu": True}),
)  # fmt: skip
OURS_CHANGED: Mutations = (
    (NO_ROW, {"num_layers": 12, "d_model": 640, "d_ff": 1536, "num_heads": 2, "d_k": 8, "d_v": 8,
              "positions": "learned", "p_drop": 0.15}),
    ("norm-order", {"norm_order": "pre"}),
    ("norm", {"norm": "rms"}),
    ("norm-epsilon", {"norm_epsilon": 1e-05}),
    ("attention", {"attention": "unscaled"}),
    ("attention-biases", {"attention_biases": False}),
    ("tied-embeddings", {"share_embeddings": "none"}),
    ("embeddings", {"embeddings": "one"}),
    ("initialisation", {"initialisation": "fairseq"}),
    ("p-drop-attention", {"p_drop_attention": 0.1}),
    ("p-drop-ffn", {"p_drop_ffn": 0.1}),
    ("adam-beta-1", {"adam_beta_1": 0.8}),
    ("adam-beta-2", {"adam_beta_2": 0.999}),
    ("adam-epsilon", {"adam_epsilon": 1e-08}),
    ("peak-learning-rate", {"schedule_d_model": 1024}),
)  # fmt: skip
OURS_HARMLESS: Mutations = (("rounding: the note `precision` is printed beside the number", {"precision": "tf32"}),)
GENERATED: Mutations = (
    ("average", {"path": "checkpoints/base/checkpoint_best.pt"}),
    ("length-penalty", {"lenpen": 1.0}),
    ("length-limit", {"max_len_b": 20}),
    ("words-or-pieces", {"remove_bpe": None}),
    ("plain-model", {"model_overrides": "{'dropout': 0.2}"}),
    ("plain-search", {
        "sacrebleu_lowercase": True, "sampling": True, "unnormalized": True, "prefix_size": 3, "min_len": 20,
        "unkpen": 10, "temperature": 0.5, "match_source_len": True, "no_repeat_ngram_size": 3,
        "diverse_beam_groups": 2, "replace_unk": "@@", "lm_path": "lm.pt", "constraints": "ordered",
        "retain_dropout": True, "num_shards": 8, "score_reference": True,
    }),
)  # fmt: skip
GENERATED_HARMLESS: Mutations = (
    ("it is read off the line of the score", {"gen_subset": "valid", "beam": 5}),
    ("a limit above the paper's input + 50, which full sentences do not reach", {"max_len_a": 1}),
    ("it joins pieces, as remove_bpe does", {"post_process": "sentencepiece"}),
    ("the arithmetic is named by the line of the score: BLEU4, or BLEU", {"sacrebleu": True, "scoring": "sacrebleu"}),
    ("of BLEU4 it changes nothing; of sacreBLEU's it is part of the definition",
     {"bpe": "subword_nmt", "tokenizer": "moses", "sacrebleu_tokenizer": "intl"}),
    ("the best alone is scored", {"nbest": 5}),
)  # fmt: skip
# (log, argument, value, what becomes of it: '' nothing)
CASES = [
    (log, argument, value, "" if is_harmless else words)
    for log, is_harmless, mutations in (
        ("fairseq", False, FAIRSEQ), ("fairseq", True, FAIRSEQ_HARMLESS), ("ours", False, OURS_CHANGED),
        ("ours", True, OURS_HARMLESS), ("generation", False, GENERATED), ("generation", True, GENERATED_HARMLESS),
    )
    for words, values in mutations
    for argument, value in values.items()
]  # fmt: skip


def outcome(one: LoggedTraining | LoggedGeneration) -> Iterator[str]:
    """Yield what happens to a number: the row that it is of, if not base, and the rules that keep or set it apart."""
    if isinstance(one, LoggedTraining) and (one.match.row is None or one.match.row.system != "base"):
        yield NO_ROW if one.match.row is None else f"row {one.match.row.system}"
    yield from (finding.check for finding in one.findings if finding.severity in ("apart", "error"))


def judged(folder: Path, log: str, **changes: object) -> set[str]:
    """Return what happens to the number of a log, of which an argument is changed."""
    training = (OUR_LOG if log == "ours" else FOREIGN).changed(**{} if log == "generation" else changes)
    generation = GENERATION.changed(**changes if log == "generation" else {})
    write(folder, {"a.log": training.text(), "b.log": generation.text(),
                   "c.log": averaging_text(AVERAGED, "checkpoints/base/averaged.pt")})  # fmt: skip
    found = judge_folder(folder, read_folder(folder), ROWS)
    return set(outcome(found.generations[0] if log == "generation" else found.trainings[0]))


def test_every_argument_that_is_kept_is_mutated() -> None:
    assert {argument for _, argument, _, _ in CASES} == KEPT_KEYS


@pytest.mark.parametrize("log", ["fairseq", "ours", "generation"])
def test_a_clean_log_is_set_apart_by_nothing(log: str, tmp_path: Path) -> None:
    assert judged(tmp_path, log) == set()


@pytest.mark.parametrize(("log", "argument", "value", "expected"), CASES)
def test_a_mutated_argument_is_set_apart_or_harmless(
    log: str, argument: str, value: object, expected: str, tmp_path: Path
) -> None:
    happens = judged(tmp_path, log, **{argument: value})
    assert expected in happens if expected else happens == set()
