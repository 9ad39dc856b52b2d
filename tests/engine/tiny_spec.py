"""What the tests of this folder train: a model of a few thousand parameters on 600 pairs of the
demo's grammar.
"""

from pathlib import Path

import msgspec

from aiayn.spec.system import CleanSpec, CorpusSpec, ShippedSource, SubwordSpec, TrainingSpec
from aiayn.train.fairseq_args import train_flags
from tests import records_factory

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
TRAINING = msgspec.structs.replace(
    records_factory.BASE_TRAINING, num_layers=1, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8, warmup_steps=20,
    updates=40, max_tokens_per_batch=2000, save_interval_updates=10, device="cpu",
)  # fmt: skip
TWO_BATCHES = {"max_tokens_per_batch": 1000, "batches_per_update": 2}  # also 13 updates an epoch
DECODING = msgspec.structs.replace(records_factory.DECODING, max_extra_tokens=10)


def flags_of(
    training: TrainingSpec,
    folder: Path | str = "run",
    *,
    seed: int = 1,
    device: str = "cpu",
    num_ranks: int = 1,
    is_joint: bool = True,
) -> list[str]:
    """Return fairseq's flags of a training from English to German with the data-bin of a folder."""
    return train_flags(
        training,
        data_folder=str(folder),
        source_language="en",
        target_language="de",
        is_joint=is_joint,
        seed=seed,
        save_folder=str(folder),
        device=device,
        num_ranks=num_ranks,
    )
