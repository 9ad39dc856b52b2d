"""The public threads that give settings and numbers enough to test a diagnosis: setting in, causes and costs out.

Settings are facts of the threads, in our words; `confirmed` is what the thread confirmed, `measured` an effect whose
cause was inferred, `guess` neither. Tokens an update are 0.9 of fairseq's positions; of tensor2tensor's 32,768
positions (8 GPUs of base) 25,000 are real target tokens.
"""

from typing import Literal, NamedTuple

from msgspec.structs import replace

from aiayn.spec.system import read_system
from analysis.doctor.types import Search, Trained, Translation
from analysis.logs.symbols import Symbols, symbols_of_spec
from analysis.logs.types import BleuLine

Mark = Literal["confirmed", "measured", "guess"]
T2T = 25_000 / 32_768  # real tokens of a position


class Expected(NamedTuple):
    """A cause that must be found: what it is of, the bounds of its published cost in BLEU (None: unknown)."""

    what: str
    low: float | None = None
    high: float | None = None


class ThreadCase(NamedTuple):
    """One case. `text` is what a user has in a file; without one training and translation are another toolkit's.

    `bleu` is the thread's score and `reference` what it was held against ('': the printed number counts); `role` is
    the test set's.
    """

    name: str
    thread: str
    mark: Mark
    expected: tuple[Expected, ...]
    text: str = ""
    settings: tuple[Trained, Translation] | None = None
    corpus: str = ""
    system: str | None = None
    num_gpus: int | None = None
    bleu: float | None = None
    reference: float | None = None
    role: str = "test"


def of_system(system: str, **changes: object) -> Symbols:
    """Return a system's symbols with some changed."""
    return symbols_of_spec(read_system(system, "paper").training) | changes  # type: ignore[return-value]


def settings(
    system: str,
    tokens: float | None,
    changes: Symbols | None = None,
    *,
    num_epochs: float | None = None,
    average: int | None = None,
    metric: str = "",
    length_ratio: float | None = None,
    **search: float | None,
) -> tuple[Trained, Translation]:
    """Return another toolkit's run of a system, and its translation of the test set; a BLEU line has penalty 1."""
    trained = Trained("thread", of_system(system, **(changes or {})))
    trained = replace(trained, target_tokens_per_update=tokens, num_epochs=num_epochs)
    logged = None
    if length_ratio is not None:
        logged = BleuLine(
            line=1, subset="test", beam_size=4, name="BLEU", value=0.0, brevity_penalty=1.0,
            hypothesis_length=round(1000 * length_ratio), reference_length=1000,
        )  # fmt: skip
    return trained, Translation(
        path="thread", testset="newstest2014", role="test", average=f"last{average}" if average else "",
        search=Search("thread", **search), metric=metric, logged=logged,
    )  # type: ignore[arg-type] # fmt: skip


BASE = (
    "fairseq-train data-bin/{data} --arch transformer_wmt_en_de --share-all-embeddings --optimizer adam "
    "--adam-betas '(0.9, 0.98)' --clip-norm 0.0 --lr-scheduler inverse_sqrt --warmup-updates 4000 "
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --fp16 "
)
BIG = BASE.replace("transformer_wmt_en_de", "transformer_vaswani_wmt_en_de_big")
GENERATE = "fairseq-generate data-bin/{data} --path {path} --beam {beam} --lenpen 0.6 --remove-bpe\n"

CASES = (
    ThreadCase(
        "A1", "tensor2tensor #444", "confirmed", (Expected("tokens_per_update", 1.0, 1.0),), corpus="wmt14_en_fr",
        system="base", settings=settings("base", 12_288 * T2T, {"warmup_steps": 8000, "updates": 160_000}),
    ),
    ThreadCase(
        "A2", "tensor2tensor #455", "guess", (Expected("tokens_per_update", 1.7, 8.0), Expected("warmup_steps")),
        settings=settings("base", 4096 * T2T, {"warmup_steps": 16_000, "updates": 400_000}, average=5),
        corpus="wmt14_en_de", bleu=23.50,
    ),
    ThreadCase(
        "A3", "tensor2tensor #518", "guess", (Expected("tokens_per_update", 0.0, 2.4),),
        settings=settings("big", 4096 * T2T, {"updates": 600_000}), corpus="wmt14_en_de", bleu=26.02,
    ),
    ThreadCase(
        "A3 En-Fr", "tensor2tensor #518", "guess", (Expected("tokens_per_update", 0.0, 9.0),), corpus="wmt14_en_fr",
        settings=settings("big_enfr", 4096 * T2T, {"updates": 1_400_000}), bleu=33.0,
    ),
    ThreadCase(
        "A4", "tensor2tensor #1542", "guess", (Expected("tokens_per_update", 1.7, 8.0),), role="dev",
        settings=settings("base", 1024 * T2T), corpus="wmt14_en_de", bleu=22.63,
    ),
    ThreadCase(
        "A5", "tensorflow/models #5901", "guess", (Expected("tokens_per_update", 1.7, 8.0), Expected("warmup_steps")),
        settings=settings("base", 2048 * T2T, {"warmup_steps": 16_000, "updates": 0}, num_epochs=10.0),
        corpus="wmt14_en_de", bleu=26.04, reference=27.7,
    ),
    ThreadCase(
        "A7", "OpenNMT-py PR #293", "guess", (Expected("tokens_per_update", 1.7, 8.0),),
        settings=settings("base", 2048 * 0.9, {"warmup_steps": 16_000, "updates": 0}, num_epochs=13.0),
        corpus="wmt14_en_de", bleu=20.79, reference=28.0,
    ),
    ThreadCase(
        "A9", "NVIDIA/DeepLearningExamples #97", "guess",
        (Expected("tokens_per_update", 0.2, 0.7), Expected("norm_order", 0.0, 0.3), Expected("p_drop")),
        settings=settings("big", 20_480 * 0.9, {"norm_order": "pre", "p_drop": 0.1, "adam_beta_2": 0.997}),
        corpus="wmt14_en_de", bleu=27.65, reference=28.3,
    ),
    ThreadCase(
        "B1", "fairseq #512, #515", "guess", (Expected("tokens_per_update", -0.9, 0.0),), num_gpus=8,
        text=BIG.format(data="wmt16_en_de_bpe32k") + "--dropout 0.3 --lr 1e-3 --max-tokens 5120 --update-freq 10",
    ),
    ThreadCase(
        "B2", "fairseq #1331", "guess", (Expected("tokens_per_update", -0.9, 0.0),), num_gpus=8,
        text=BIG.format(data="wmt16_en_de_bpe32k") + "--dropout 0.3 --lr 1e-3 --max-tokens 4000 --update-freq 16",
    ),
    ThreadCase(
        "C1", "OpenNMT-tf #40", "guess", (Expected("tokens_per_update", 8.0, 12.0),), corpus="wmt14_en_fr",
        settings=settings("base", 128 * 28.0, {"updates": 315_000}), bleu=30.0,
    ),
    ThreadCase(
        "D1", "lancopku/Prime #9", "confirmed", (Expected("average", 0.3, 0.7),), bleu=35.07, reference=35.7,
        text="fairseq-train data-bin/iwslt14.tokenized.de-en --arch transformer_iwslt_de_en --max-update 20000 "
        "--optimizer adam --lr 5e-4 --lr-scheduler inverse_sqrt --max-tokens 4096\n"
        + GENERATE.format(data="iwslt14.tokenized.de-en", path="checkpoints/checkpoint_best.pt", beam=4),
    ),
    ThreadCase(
        "D3", "fairseq #1352", "guess",
        (Expected("average", 0.0, 1.0), Expected("definition bleu_fairseq", 0.7, 1.0)), num_gpus=8, bleu=26.65,
        text=BASE.format(data="wmt16_en_de_bpe32k") + "--dropout 0.1 --lr 6e-4 --max-tokens 5500\n"
        + GENERATE.format(data="wmt16_en_de_bpe32k", path="checkpoints/checkpoint_best.pt", beam=4),
    ),
    ThreadCase(
        "E1", "Kyubyong/transformer #110", "confirmed", (Expected("beam_size", 2.0, 2.0),), corpus="iwslt14_de_en",
        settings=settings("base", None, beam_size=1), bleu=28.34, reference=32.86,
    ),
    ThreadCase(
        "F1", "tensor2tensor #317", "measured", (Expected("slip", 3.0, 12.5),), corpus="wmt14_en_de",
        settings=settings("base", 32_768 * T2T, {"updates": 250_000}), bleu=14.6, reference=27.76,
    ),
    ThreadCase(
        "F1 scorers", "tensor2tensor #317", "confirmed", (Expected("definition bleu_sacre_13a", 0.6, 1.75),),
        settings=settings("base", 32_768 * T2T, metric="bleu_sacre_13a"), corpus="wmt14_en_de", bleu=27.52,
        reference=29.02,
    ),
    ThreadCase(
        "F2", "tensor2tensor #129", "confirmed",
        (Expected("slip", 6.4, 12.5), Expected("tokens_per_update", 1.7, 8.0)), corpus="wmt14_en_de", role="dev",
        settings=settings(
            "base", 2048 * T2T, {"updates": 250_000}, length_ratio=1.138
        ), bleu=14.20,
    ),
    ThreadCase(
        "F3", "tensor2tensor #539", "guess", (Expected("slip", 0.0, 6.4), Expected("tokens_per_update", 0.0, 1.0)),
        settings=settings(
            "base", 16_384 * T2T, {"updates": 250_000}, length_ratio=1.062
        ), corpus="wmt14_en_de", bleu=20.91,
    ),
    ThreadCase(
        "F5", "fairseq #1976", "measured", (Expected("definition bleu_fairseq", 0.7, 1.0),), num_gpus=8, bleu=28.56,
        text=BIG.format(data="wmt16_en_de_bpe32k") + "--dropout 0.3 --lr 1e-3 --max-tokens 3584 --update-freq 16 "
        "--max-update 40000\n"
        "python scripts/average_checkpoints.py --inputs checkpoints --num-epoch-checkpoints 5 --output avg5.pt\n"
        + GENERATE.format(data="wmt16_en_de_bpe32k", path="avg5.pt", beam=4),
    ),
    ThreadCase(
        "F8", "fairseq #2593, #2860; sacrebleu #178", "confirmed", (Expected("definition bleu_sacre_13a", 1.8, 2.9),),
        settings=settings("big_enfr", None, average=20, beam_size=4, length_penalty_alpha=0.6, metric="bleu_sacre_13a"),
        corpus="wmt14_en_fr", bleu=32.3,
    ),
    ThreadCase(
        "F10", "lemmonation/abnet #3", "measured", (Expected("reference_order"),), corpus="other",
        text="fairseq-generate data-bin/wmt14_de_en --path checkpoint_average.pt --beam 4 --remove-bpe\n"
        "BLEU4 = 33.39, 67.6/41.6/27.7/18.8 (BP=0.966, ratio=0.966, syslen=67656, reflen=70005)\n"
        "BLEU4 = 30.27, 67.0/39.3/25.3/16.6 (BP=0.914, ratio=0.918, syslen=67696, reflen=73759)\n",
    ),
    ThreadCase(
        "G1", "THUMT #71", "confirmed", (Expected("updates"),), corpus="other",
        settings=settings("base", 22_500.0, {"updates": 55_000}), bleu=12.0, reference=27.03,
    ),
    ThreadCase(
        "G3", "fairseq #2652", "guess",
        (Expected("data", 1.5, 3.9), Expected("average", 0.0, 1.0), Expected("tied_embeddings"), Expected("beam_size")),
        text=BASE.format(data="wmt17_en_de").replace("--share-all-embeddings ", "") + "--lr 7e-4 --max-tokens 6000 "
        "--update-freq 2\n" + GENERATE.format(data="wmt17_en_de", path="checkpoints/checkpoint_best.pt", beam=5),
        bleu=22.39,
    ),
    ThreadCase(
        "I1", "fairseq #506", "confirmed", (Expected("p_drop_attention"),), num_gpus=64,
        text=BIG.format(data="wmt18_en_de").replace("vaswani_", "") + "--dropout 0.3 --lr 1e-3 --max-tokens 5120 "
        "--update-freq 2",
    ),
    ThreadCase(
        "I2", "fairseq #4477, #4559", "guess", (Expected("p_drop", 0.0, 2.3), Expected("weight_decay")), bleu=25.0,
        text=BASE.format(data="wmt14_en_de") + "--dropout 0.3 --lr 5e-4 --weight-decay 0.0001 --max-tokens 4096 "
        "--update-freq 1 --max-epoch 30",
    ),
    ThreadCase(
        "I3", "strutive07/transformer-tensorflow2.0 #5", "measured", (Expected("eps_ls", 0.5, 1.05),),
        settings=settings("base", 128 * 28.0, {"eps_ls": 0.0}), corpus="wmt14_en_de", bleu=24.28, reference=25.33,
    ),
    ThreadCase(
        "K1", "fairseq #233", "confirmed", (Expected("peak_learning_rate"),), num_gpus=8,
        text=BIG.format(data="wmt14_en_fr").replace("_wmt_en_de_big", "_wmt_en_fr_big").replace("--fp16 ", "")
        + "--lr 1e-3 --max-tokens 3584 --update-freq 16",
    ),
)  # fmt: skip
