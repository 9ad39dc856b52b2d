"""Every argument that the reader keeps, mutated: set apart by which rule, or harmless for which reason.

A clean log of base (En-De), one of ours (En-Fr) and one of `fairseq-generate` are changed in one argument. What then
happens is `no row`, `row NAME` where another row of Table 3 is trained so, the rule that sets the number apart or keeps
it out, or nothing: then the line has the reason why that is right. An argument that is kept needs a line here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from analysis.logs.arguments import KEPT_KEYS
from analysis.logs.folder import judge_folder
from analysis.logs.logged import LoggedGeneration, LoggedTraining
from paper_tables.logs.from_logs import read_rows
from tests.logs.factory import GenerationText, TrainingText, averaging_text, read_folder, write
from tests.logs.test_log_checks import AVERAGED, OURS

ROWS = read_rows(["paper"])
FOREIGN, OUR_LOG = TrainingText(), TrainingText(form="config", log_format="json", arguments=OURS,
                                                num_train_pairs=36_000_000)  # fmt: skip
GENERATION = GenerationText()
NO_ROW = "no row"


class Mutation(NamedTuple):
    """An argument and another value; the rule that is then broken (or `row ...`), or the reason why none is."""

    argument: str
    value: object
    rule: str = ""
    reason: str = ""


SIZES = "the sizes that a name stands for are printed beside it"
PLACE = "a place: what lies there is checked by its numbers of pairs and types"
TIMES = "when it saves or validates, not what it trains; the last validation is asked for"
SHOWN = "it may end a training early: the updates made are compared"
BOUNDS = "it may bound a batch: the target tokens printed are compared"
OF_VALIDATION = "of BLEU in validations alone, whose search has rules of its own"
ROUNDING = "rounding: the note `precision` is printed beside the number"
FAIRSEQ = (
    Mutation("arch", "transformer_vaswani_wmt_en_de_big", reason=SIZES),
    Mutation("arch", "transformer_align", NO_ROW),
    Mutation("task", "multilingual_translation", "plain-training"),
    Mutation("activation_fn", "gelu", NO_ROW),
    Mutation("encoder_layers", 12, NO_ROW),
    Mutation("decoder_layers", 12, NO_ROW),
    Mutation("encoder_embed_dim", 640, NO_ROW),
    Mutation("decoder_embed_dim", 640, NO_ROW),
    Mutation("encoder_ffn_embed_dim", 1536, NO_ROW),
    Mutation("decoder_ffn_embed_dim", 1536, NO_ROW),
    Mutation("encoder_attention_heads", 2, NO_ROW),
    Mutation("decoder_attention_heads", 2, NO_ROW),
    Mutation("encoder_normalize_before", True, "norm-order"),
    Mutation("decoder_normalize_before", True, "norm-order"),
    Mutation("encoder_learned_pos", True, NO_ROW),
    Mutation("decoder_learned_pos", True, NO_ROW),
    Mutation("no_token_positional_embeddings", True, NO_ROW),
    Mutation("no_decoder_final_norm", True, NO_ROW),
    Mutation("encoder_embed_path", "vectors.txt", "plain-training"),
    Mutation("decoder_embed_path", "vectors.txt", "plain-training"),
    Mutation("encoder_layers_to_keep", "0,2,4", NO_ROW),
    Mutation("decoder_layers_to_keep", "0,2,4", NO_ROW),
    Mutation("quant_noise_pq", 0.1, NO_ROW),
    Mutation("share_all_embeddings", False, "tied-embeddings"),
    Mutation("share_decoder_input_output_embed", True, reason="share_all_embeddings, which is there, includes it"),
    Mutation("layernorm_embedding", True, NO_ROW),
    Mutation("no_scale_embedding", True, NO_ROW),
    Mutation("adaptive_softmax_cutoff", "10000,20000", NO_ROW),
    Mutation("encoder_layerdrop", 0.1, NO_ROW),
    Mutation("decoder_layerdrop", 0.1, NO_ROW),
    Mutation("no_cross_attention", True, NO_ROW),
    Mutation("cross_self_attention", True, NO_ROW),
    Mutation("dropout", 0.15, NO_ROW),
    Mutation("dropout", 0.2, "row table3_d_pdrop02"),
    Mutation("attention_dropout", 0.1, "p-drop-attention"),
    Mutation("activation_dropout", 0.1, "p-drop-ffn"),
    Mutation("relu_dropout", 0.1, reason="the older name: activation_dropout, which is there, is what is used"),
    Mutation("label_smoothing", 0.3, NO_ROW),
    Mutation("criterion", "cross_entropy", "row table3_d_els0"),
    Mutation("criterion", "label_smoothed_cross_entropy_with_alignment", NO_ROW),
    Mutation("optimizer", "sgd", "optimizer"),
    Mutation("adam_betas", "(0.9, 0.999)", "adam-beta-2"),
    Mutation("adam_betas", "(0.8, 0.98)", "adam-beta-1"),
    Mutation("adam_eps", 1e-08, "adam-epsilon"),
    Mutation("weight_decay", 0.0001, "weight-decay"),
    Mutation("clip_norm", 25.0, "clip-norm"),
    Mutation("sentence_avg", True, "plain-training"),
    Mutation("restore_file", "pretrained/model.pt", reason="a checkpoint that is loaded is named by a line, "
             "which is checked; without a new optimiser a resumed training has it, too"),
    Mutation("reset_optimizer", True, reason="nothing was loaded, so nothing is reset"),
    Mutation("finetune_from_model", "pretrained/model.pt", "plain-training"),
    Mutation("lr", [0.001], "peak-learning-rate"),
    Mutation("lr", [0.0007, 0.0003], "peak-learning-rate"),
    Mutation("lr_scheduler", "polynomial_decay", "schedule"),
    Mutation("lr_scheduler", "fixed", "schedule"),
    Mutation("warmup_updates", 8000, "warmup-steps"),
    Mutation("warmup_updates", None, reason="not stated: the note `untold` says so"),
    Mutation("warmup_init_lr", 0.0005, "plain-training"),
    Mutation("fp16", True, reason=ROUNDING),
    Mutation("bf16", True, reason=ROUNDING),
    Mutation("memory_efficient_fp16", True, reason=ROUNDING),
    Mutation("seed", 2, reason="another sample of the same"),
    Mutation("max_tokens", 8192, "tokens-per-update"),
    Mutation("max_tokens", None, reason="not stated: the target tokens printed are compared with the row's"),
    Mutation("max_sentences", 64, reason=BOUNDS),
    Mutation("batch_size", 64, reason=BOUNDS),
    Mutation("update_freq", [4], "tokens-per-update"),
    Mutation("update_freq", [4, 1], "tokens-per-update"),
    Mutation("distributed_world_size", 1, "tokens-per-update"),
    Mutation("max_update", 50_000, "updates"),
    Mutation("max_epoch", 4, reason=SHOWN),
    Mutation("patience", 10, reason=SHOWN),
    Mutation("validate_interval", 2, reason=TIMES),
    Mutation("validate_interval_updates", 1000, "every-validation"),
    Mutation("save_interval", 2, reason=TIMES),
    Mutation("save_interval_updates", 1000, "every-validation"),
    Mutation("disable_validation", True, reason=TIMES),
    Mutation("cpu", True, reason="the same arithmetic; a log without a GPU has no cost"),
    Mutation("valid_subset", "test", "final-validation"),
    Mutation("train_subset", "train1", "plain-training"),
    Mutation("upsample_primary", 2, "plain-training"),
    Mutation("max_source_positions", 64, "plain-training"),
    Mutation("max_target_positions", 64, "plain-training"),
    Mutation("data", "data-bin/other", reason=PLACE),
    Mutation("source_lang", "de", "language-pair"),
    Mutation("target_lang", "ro", "language-pair"),
    Mutation("save_dir", "elsewhere", reason=PLACE),
    Mutation("user_dir", "my_code", reason="what it adds is named by arch, task, criterion or optimizer"),
    Mutation("eval_bleu", True, reason=OF_VALIDATION),
    Mutation("eval_bleu_args", '{"beam": 1}', reason=OF_VALIDATION),
    Mutation("eval_bleu_detok", "moses", reason=OF_VALIDATION),
    Mutation("eval_bleu_remove_bpe", None, reason=OF_VALIDATION),
    Mutation("eval_tokenized_bleu", True, reason=OF_VALIDATION),
)  # fmt: skip
OURS_CHANGED = (
    Mutation("num_layers", 12, NO_ROW),
    Mutation("d_model", 640, NO_ROW),
    Mutation("d_ff", 1536, NO_ROW),
    Mutation("num_heads", 2, NO_ROW),
    Mutation("d_k", 8, NO_ROW),
    Mutation("d_v", 8, NO_ROW),
    Mutation("norm_order", "pre", "norm-order"),
    Mutation("norm", "rms", "norm"),
    Mutation("norm_epsilon", 1e-05, "norm-epsilon"),
    Mutation("attention", "unscaled", "attention"),
    Mutation("attention_biases", False, "attention-biases"),
    Mutation("positions", "learned", NO_ROW),
    Mutation("share_embeddings", "none", "tied-embeddings"),
    Mutation("embeddings", "one", "embeddings"),
    Mutation("initialisation", "fairseq", "initialisation"),
    Mutation("p_drop", 0.15, NO_ROW),
    Mutation("p_drop_attention", 0.1, "p-drop-attention"),
    Mutation("p_drop_ffn", 0.1, "p-drop-ffn"),
    Mutation("adam_beta_1", 0.8, "adam-beta-1"),
    Mutation("adam_beta_2", 0.999, "adam-beta-2"),
    Mutation("adam_epsilon", 1e-08, "adam-epsilon"),
    Mutation("precision", "tf32", reason=ROUNDING),
    Mutation("schedule_d_model", 1024, "peak-learning-rate"),
)
GENERATED = (
    Mutation("path", "checkpoints/base/checkpoint_best.pt", "average"),
    Mutation("gen_subset", "valid", reason="which set was translated is read off the line of the score"),
    Mutation("beam", 5, reason="the beam is read off the line of the score"),
    Mutation("lenpen", 1.0, "length-penalty"),
    Mutation("max_len_a", 1, reason="a limit above the paper's input + 50, which full sentences do not reach"),
    Mutation("max_len_b", 20, "length-limit"),
    Mutation("remove_bpe", None, "words-or-pieces"),
    Mutation("post_process", "sentencepiece", reason="it joins pieces, as remove_bpe does"),
    Mutation("sacrebleu", True, reason="the arithmetic is named by the line of the score: BLEU4, or BLEU"),
    Mutation("scoring", "sacrebleu", reason="the arithmetic is named by the line of the score: BLEU4, or BLEU"),
    Mutation("bpe", "subword_nmt", reason="of BLEU4 it changes nothing; of sacreBLEU's it is part of the definition"),
    Mutation("tokenizer", "moses", reason="of BLEU4 it changes nothing; of sacreBLEU's it is part of the definition"),
    Mutation("model_overrides", "{'dropout': 0.2}", "plain-model"),
    Mutation("sacrebleu_tokenizer", "intl", reason="of sacreBLEU's score it is part of the definition"),
    Mutation("sacrebleu_lowercase", True, "plain-search"),
    Mutation("nbest", 5, reason="the best alone is scored"),
    Mutation("sampling", True, "plain-search"),
    Mutation("unnormalized", True, "plain-search"),
    Mutation("prefix_size", 3, "plain-search"),
    Mutation("min_len", 20, "plain-search"),
    Mutation("unkpen", 10, "plain-search"),
    Mutation("temperature", 0.5, "plain-search"),
    Mutation("match_source_len", True, "plain-search"),
    Mutation("no_repeat_ngram_size", 3, "plain-search"),
    Mutation("diverse_beam_groups", 2, "plain-search"),
    Mutation("replace_unk", "@@", "plain-search"),
    Mutation("lm_path", "lm.pt", "plain-search"),
    Mutation("constraints", "ordered", "plain-search"),
    Mutation("retain_dropout", True, "plain-search"),
    Mutation("num_shards", 8, "plain-search"),
    Mutation("score_reference", True, "plain-search"),
)


def outcome(one: LoggedTraining | LoggedGeneration) -> Iterator[str]:
    """Yield what happens to a number: the row that it is of, if not base, and the rules that keep or set it apart."""
    if isinstance(one, LoggedTraining) and (one.match.row is None or one.match.row.system != "base"):
        yield NO_ROW if one.match.row is None else f"row {one.match.row.system}"
    yield from (finding.check for finding in one.findings if finding.severity in ("apart", "error"))


def judged(folder: Path, training: TrainingText, generation: GenerationText) -> tuple[set[str], set[str]]:
    """Return what happens to the numbers of a training, and to those of its generation."""
    write(folder, {"a.log": training.text(), "b.log": generation.text(),
                   "c.log": averaging_text(AVERAGED, "checkpoints/base/averaged.pt")})  # fmt: skip
    found = judge_folder(folder, read_folder(folder), ROWS)
    return set(outcome(found.trainings[0])), set(outcome(found.generations[0]))


def test_every_argument_that_is_kept_is_mutated() -> None:
    assert {one.argument for one in (*FAIRSEQ, *OURS_CHANGED, *GENERATED)} == KEPT_KEYS


def test_a_clean_log_is_set_apart_by_nothing(tmp_path: Path) -> None:
    assert judged(tmp_path / "foreign", FOREIGN, GENERATION) == (set(), set())
    assert judged(tmp_path / "ours", OUR_LOG, GENERATION)[0] == set()


@pytest.mark.parametrize("one", FAIRSEQ, ids=lambda one: f"{one.argument}={one.value}")
def test_a_mutated_argument_of_a_training_is_set_apart_or_harmless(one: Mutation, tmp_path: Path) -> None:
    found, _ = judged(tmp_path, FOREIGN.changed(**{one.argument: one.value}), GENERATION)
    assert (one.rule in found) if one.rule else (found == set() and bool(one.reason))


@pytest.mark.parametrize("one", OURS_CHANGED, ids=lambda one: f"{one.argument}={one.value}")
def test_a_mutated_argument_of_ours_is_set_apart_or_harmless(one: Mutation, tmp_path: Path) -> None:
    found, _ = judged(tmp_path, OUR_LOG.changed(**{one.argument: one.value}), GENERATION)
    assert (one.rule in found) if one.rule else (found == set() and bool(one.reason))


@pytest.mark.parametrize("one", GENERATED, ids=lambda one: f"{one.argument}={one.value}")
def test_a_mutated_argument_of_a_generation_is_set_apart_or_harmless(one: Mutation, tmp_path: Path) -> None:
    _, found = judged(tmp_path, FOREIGN, GENERATION.changed(**{one.argument: one.value}))
    assert (one.rule in found) if one.rule else (found == set() and bool(one.reason))
