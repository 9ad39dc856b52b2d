"""The public threads that give settings and numbers enough to test a diagnosis: setting in, causes
and costs out.

Settings are facts of the threads, in our words; `confirmed` is what the thread confirmed,
`measured` an effect whose cause was inferred, `guess` neither. Tokens an update are 0.9 of
fairseq's positions; of tensor2tensor's 32,768 positions (8 GPUs of base) 25,000 are real target
tokens.
"""

from typing import Literal, NamedTuple

from aiayn.logs.evidence import LoggedTraining
from aiayn.logs.symbols import Symbols, symbols_of_spec
from aiayn.logs.types import BleuLine, EpochEnd, TrainingLog
from aiayn.spec.system import read_system
from analysis.doctor.types import Translation

Mark = Literal["confirmed", "measured", "guess"]
T2T = 25_000 / 32_768  # real tokens of a position
EPOCH_TOKENS = 138e6  # target tokens of an epoch of WMT14 En-De: fairseq #512, #1331
FAIRSEQ = {
    "precision": "fp16",
    "adam_epsilon": 1e-8,
    "updates": 0,
}  # in its threads; their last update is not stated


class Expected(NamedTuple):
    """A cause that must be found: what it is of, the bounds of its published cost in BLEU (None:
    unknown).
    """

    what: str
    low: float | None = None
    high: float | None = None


class Settings(NamedTuple):
    """A training and its translations of the test set, as a thread states them; `system` is the
    nearest.
    """

    system: str
    training: LoggedTraining | None
    translations: tuple[Translation, ...]


class ThreadCase(NamedTuple):
    """One case: the settings of a thread, and what it says of their causes and costs.

    `bleu` is the thread's score and `reference` what it was held against ('': the printed number
    counts); `role` is the test set's.
    """

    name: str
    thread: str
    mark: Mark
    expected: tuple[Expected, ...]
    settings: Settings
    corpus: str
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
    data: str = "",
    **search: float,
) -> Settings:
    """Return a run of a system, and its translation of the test set; a BLEU line has penalty 1.

    `tokens` are the real target tokens of an update, None where the thread does not state them.
    """
    symbols = of_system(system, **(changes or {}))
    updates = int(symbols["updates"] or 0)
    if num_epochs is not None and tokens is not None:
        updates = round(num_epochs * EPOCH_TOKENS / tokens)
    training = LoggedTraining(
        path="thread", log=log_of(updates, tokens, data), events=None, symbols=symbols
    )
    logged = (
        bleu_line(1, 0.0, 1.0, round(1000 * length_ratio), 1000)
        if length_ratio is not None
        else None
    )
    translation = Translation(
        path="thread",
        testset="newstest2014",
        role="test",
        average=f"last{average}" if average else "",
        search=tuple((name, f"{value:g}") for name, value in search.items()),
        metric=metric,
        logged=logged,
    )
    return Settings(system, training, (translation,))


def log_of(updates: int, tokens: float | None, data: str = "") -> TrainingLog:
    """Return the log of a training in one epoch, with its updates, their target tokens and 8 GPUs
    only.
    """
    end = EpochEnd(
        line=1,
        epoch=1,
        update=updates,
        loss_bits=None,
        nll_bits=None,
        target_tokens_per_update=tokens,
        wall_seconds=None,
    )
    return TrainingLog(
        first_line=1,
        last_line=1,
        form="",
        log_format="",
        arguments={"data": data} if data else {},
        arguments_digest="",
        starts=(),
        validations=(),
        epochs=(end,),
        last_update=updates,
        first_update=0,
        num_parameters=None,
        num_gpus=8,
        gpu="",
        languages=(),
        vocabulary_sizes=(),
        num_pairs_by_split={},
        is_done=True,
        is_stopped_early=False,
        num_repeated_lines=0,
        damaged_lines=(),
        truncated_line=None,
        conflict=None,
        notes=(),
        rates=(),
    )


def bleu_line(
    line: int, value: float, penalty: float, hypothesis_length: int, reference_length: int
) -> BleuLine:
    """Return the last line of fairseq-generate."""
    return BleuLine(
        line=line,
        subset="test",
        beam_size=4,
        name="BLEU",
        value=value,
        brevity_penalty=penalty,
        hypothesis_length=hypothesis_length,
        reference_length=reference_length,
    )


CASES = (
    ThreadCase(
        "A1", "tensor2tensor #444", "confirmed", (Expected("tokens_per_update", 1.0, 1.0),), corpus="wmt14_en_fr",
        settings=settings("base", 12_288 * T2T, {"warmup_steps": 8000, "updates": 160_000}),
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
        "B1", "fairseq #512, #515", "guess", (Expected("tokens_per_update", -0.9, 0.0),),
        settings=settings("big", 10 * 8 * 5120 * 0.9, FAIRSEQ | {"peak_learning_rate": 1e-3}), corpus="wmt14_en_de",
    ),
    ThreadCase(
        "B2", "fairseq #1331", "guess", (Expected("tokens_per_update", -0.9, 0.0),),
        settings=settings("big", 16 * 8 * 4000 * 0.9, FAIRSEQ | {"peak_learning_rate": 1e-3}), corpus="wmt14_en_de",
    ),
    ThreadCase(
        "C1", "OpenNMT-tf #40", "guess", (Expected("tokens_per_update", 8.0, 12.0),), corpus="wmt14_en_fr",
        settings=settings("base", 128 * 28.0, {"updates": 315_000}), bleu=30.0,
    ),
    ThreadCase(
        "D1", "lancopku/Prime #9", "confirmed", (Expected("average", 0.3, 0.7),), bleu=35.07, reference=35.7,
        settings=settings(
            "base", None, {"d_ff": 1024, "num_heads": 4, "d_k": 128, "d_v": 128, "tied_embeddings": False,
                           "eps_ls": 0.0, "adam_beta_2": 0.999, "adam_epsilon": 1e-8, "peak_learning_rate": 5e-4,
                           "updates": 20_000},
            average=1, metric="bleu_fairseq", beam_size=4, length_penalty_alpha=0.6,
        ), corpus="iwslt14_de_en",
    ),
    ThreadCase(
        "D3", "fairseq #1352", "guess",
        (Expected("average", 0.0, 1.0), Expected("definition bleu_fairseq", 0.7, 1.0)), bleu=26.65,
        settings=settings(
            "base", 8 * 5500 * 0.9, FAIRSEQ | {"peak_learning_rate": 6e-4}, average=1, metric="bleu_fairseq",
            beam_size=4, length_penalty_alpha=0.6,
        ), corpus="wmt14_en_de",
    ),
    ThreadCase(
        "E1", "Kyubyong/transformer #110", "confirmed", (Expected("beam_size", 2.0, 2.0),), corpus="iwslt14_de_en",
        settings=settings("base", None, beam_size=1), bleu=28.34, reference=32.86,
    ),
    ThreadCase(
        "F1", "tensor2tensor #317", "measured", (), corpus="wmt14_en_de",
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
        "F5", "fairseq #1976", "measured", (Expected("definition bleu_fairseq", 0.7, 1.0),), bleu=28.56,
        settings=settings(
            "big", 16 * 8 * 3584 * 0.9, FAIRSEQ | {"peak_learning_rate": 1e-3, "updates": 40_000}, average=5,
            metric="bleu_fairseq", beam_size=4, length_penalty_alpha=0.6,
        ), corpus="wmt14_en_de",
    ),
    ThreadCase(
        "F8", "fairseq #2593, #2860; sacrebleu #178", "confirmed", (Expected("definition bleu_sacre_13a", 1.8, 2.9),),
        settings=settings("big_enfr", None, average=20, beam_size=4, length_penalty_alpha=0.6, metric="bleu_sacre_13a"),
        corpus="wmt14_en_fr", bleu=32.3,
    ),
    ThreadCase(
        "G1", "THUMT #71", "confirmed", (Expected("updates"),), corpus="other",
        settings=settings("base", 22_500.0, {"updates": 55_000}), bleu=12.0, reference=27.03,
    ),
    ThreadCase(
        "G3", "fairseq #2652", "guess",
        (Expected("data", 1.5, 3.9), Expected("average", 0.0, 1.0), Expected("tied_embeddings"), Expected("beam_size")),
        settings=settings(
            "base", None, FAIRSEQ | {"tied_embeddings": False, "peak_learning_rate": 7e-4}, average=1,
            metric="bleu_fairseq", data="data-bin/wmt17_en_de", beam_size=5, length_penalty_alpha=0.6,
        ), corpus="wmt14_en_de", bleu=22.39,
    ),
    ThreadCase(
        "I1", "fairseq #506", "confirmed", (Expected("p_drop_attention"),), corpus="other",
        settings=settings(
            "big", 2 * 64 * 5120 * 0.9, FAIRSEQ | {"p_drop_attention": 0.1, "peak_learning_rate": 1e-3}
        ),
    ),
    ThreadCase(
        "I2", "fairseq #4477, #4559", "guess", (Expected("p_drop", 0.0, 2.3), Expected("weight_decay")), bleu=25.0,
        settings=settings(
            "base", None, FAIRSEQ | {"p_drop": 0.3, "weight_decay": 1e-4, "peak_learning_rate": 5e-4}
        ), corpus="wmt14_en_de",
    ),
    ThreadCase(
        "I3", "strutive07/transformer-tensorflow2.0 #5", "measured", (Expected("eps_ls", 0.5, 1.05),),
        settings=settings("base", 128 * 28.0, {"eps_ls": 0.0}), corpus="wmt14_en_de", bleu=24.28, reference=25.33,
    ),
    ThreadCase(
        "K1", "fairseq #233", "confirmed", (Expected("peak_learning_rate"),), corpus="wmt14_en_fr",
        settings=settings(
            "big_enfr", 16 * 8 * 3584 * 0.9, FAIRSEQ | {"peak_learning_rate": 1e-3, "precision": "fp32"}
        ),
    ),
)  # fmt: skip
