"""What the tests of this folder train: a model of a few thousand parameters on 600 pairs of the demo's grammar."""

from pathlib import Path

from aiayn.spec.system import CleanSpec, CorpusSpec, DecodingSpec, ShippedSource, SubwordSpec, TrainingSpec

CORPUS = CorpusSpec(
    name="tiny_en_de",
    description="for these tests",
    language_pair="en-de",
    source=ShippedSource(
        file=str(Path(__file__).with_name("tiny_en_de.tsv.xz")),
        sha256="16611458067e49c1e6091ad593954aaebac59fe87c3aa18ae5c92d03dded7a13",
        num_pairs_by_split={"train": 603, "tiny_dev": 19, "tiny_test": 21},
    ),
    dev_testset="tiny_dev",
    test_testset="tiny_test",
    clean=CleanSpec(max_words=100, max_length_ratio=9.0, deduplicate=True),
    subword=SubwordSpec(vocabulary_size=200, joint=True),
)
# 13 updates an epoch: the 40 updates end in the fourth.
TRAINING = TrainingSpec(
    num_layers=1, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8, p_drop=0.1, eps_ls=0.1, positions="sinusoidal",
    architecture="transformer", norm_order="post", norm="layer", norm_epsilon=1e-6, attention="scaled",
    attention_biases=True, tied_embeddings=True, embeddings="d_model", initialisation="tensor2tensor",
    p_drop_attention=0.0, p_drop_ffn=0.0,
    adam_beta_1=0.9, adam_beta_2=0.98, adam_epsilon=1e-9, clip_norm=0.0, schedule="equation_3", warmup_steps=20,
    peak_learning_rate=None, initial_learning_rate=None, updates=40, max_tokens_per_batch=2000, batches_per_update=1,
    save_interval_updates=10, patience_epochs=None, device="cpu", precision="fp32",
)  # fmt: skip
TWO_BATCHES = {"max_tokens_per_batch": 1000, "batches_per_update": 2}  # also 13 updates an epoch
DECODING = DecodingSpec(
    beam_size=4, length_penalty_alpha=0.6, length_penalty_form="len", stop="fairseq", max_length_per_source_token=1.0,
    max_extra_tokens=10,
)  # fmt: skip
