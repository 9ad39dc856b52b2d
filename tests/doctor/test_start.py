"""A training that never began to read its source is found by its record or its curve; a training
that did is never found.

`fixtures/curves.csv` has the validation curves (update:bits) of trainings of Multi30k, and which
decoders attend. The thresholds were fixed on every second of them.
"""

import csv
import lzma
import math
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from aiayn.logs.types import EpochEnd, Validation
from aiayn.spec.system import read_corpus, read_system
from analysis.doctor.check_training import MAX_PLATEAU_FALL, MIN_PLATEAU, check_start
from analysis.doctor.collect import read_training
from analysis.doctor.types import Attending, Case, Claim
from tests.doctor.fixtures import FIXTURES_FOLDER

ROWS = list(csv.DictReader((FIXTURES_FOLDER / "curves.csv").open(encoding="utf-8")))
BIG = FIXTURES_FOLDER / "unstarted" / "big.log.xz"


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Big of Multi30k's former scale: flat at 4.05 bits, 11.8 BLEU, cross-attention uniform in
    every layer.
    """
    path = tmp_path_factory.mktemp("unstarted") / "train.log"
    path.write_bytes(lzma.decompress(BIG.read_bytes()))
    system = read_system("big", "multi30k")
    corpus = read_corpus("multi30k_en_de")
    claim = Claim("big", "multi30k", "big", corpus, system.training, system.decoding, {})
    return Case(claim, read_training(path), None, (), lambda hypotheses, references: {})


def with_curve(
    case: Case,
    vocabulary: int,
    warmup_steps: int,
    curve: list[tuple[int, float]],
    bleu: float | None = None,
    trained: Sequence[tuple[int, float]] = (),
) -> Case:
    """Return a case with other validations; `trained` are the bits of training at the ends of
    epochs.
    """
    assert case.training is not None
    assert case.training.log is not None
    validations = [
        Validation(
            line=number,
            epoch=1,
            update=update,
            subset="valid",
            loss_bits=None,
            nll_bits=bits,
            bleu=bleu,
        )
        for number, (update, bits) in enumerate(curve, 1)
    ]
    epochs = [
        EpochEnd(
            line=0,
            epoch=1,
            update=update,
            loss_bits=None,
            nll_bits=bits,
            target_tokens_per_update=None,
            wall_seconds=None,
        )
        for update, bits in trained
    ]
    log = replace(
        case.training.log,
        validations=tuple(validations),
        epochs=tuple(epochs),
        vocabulary_sizes=(vocabulary, vocabulary),
    )
    symbols = case.training.symbols | {"warmup_steps": warmup_steps}
    return replace(case, training=replace(case.training, log=log, symbols=symbols))


def curve_of(row: dict[str, Any]) -> list[tuple[int, float]]:
    return [
        (int(update), float(bits))
        for update, bits in (one.split(":") for one in row["validations"].split())
    ]


def test_big_that_never_attended_is_found_with_what_helps(big: Case) -> None:
    (finding,) = check_start(big).findings
    assert finding.title.startswith("The training did not start")
    assert all(
        words in finding.fix
        for words in ("lower learning rate", "longer warm-up", "smaller batches", "pre-norm")
    )
    assert finding.evidence[0].line


@pytest.mark.parametrize("row", ROWS, ids=[row["run"] for row in ROWS])
def test_a_curve_tells_whether_a_training_started(row: dict[str, Any], big: Case) -> None:
    case = with_curve(big, int(row["vocabulary"]), int(row["warmup_steps"]), curve_of(row))
    assert bool(check_start(case).findings) == (row["started"] == "no")


def test_thresholds_of_one_half_lie_between_both_kinds() -> None:
    def measures(row: dict[str, Any]) -> tuple[float, float]:
        curve = curve_of(row)
        begin = curve[-1][0] * 2 / 3
        early, late = (
            min(bits for update, bits in curve if (update > begin) == is_late)
            for is_late in (False, True)
        )
        return min(early, late) / math.log2(int(row["vocabulary"])), early - late

    half = [
        row for place, row in enumerate(ROWS) if place % 2 == 1 or row["run"].endswith("-big-seed1")
    ]
    plateaus = [measures(row) for row in half if row["started"] == "no"]
    started = [measures(row) for row in half if row["started"] == "yes"]
    assert plateaus
    assert all(
        level > MIN_PLATEAU + 0.02 and fall < MAX_PLATEAU_FALL - 0.05 for level, fall in plateaus
    )
    assert all(
        level < MIN_PLATEAU - 0.02 or fall > MAX_PLATEAU_FALL + 0.05 for level, fall in started
    )


def test_a_curve_within_its_warm_up_or_of_few_validations_is_not_judged(big: Case) -> None:
    flat = [(update, 4.3) for update in range(100, 2100, 100)]
    assert check_start(with_curve(big, 8000, 400, flat)).findings
    assert not check_start(with_curve(big, 8000, 4000, flat)).findings
    assert check_start(with_curve(big, 8000, 400, flat[:5])).missing
    assert check_start(with_curve(big, 8000, 400, [])).missing == "the log has no validation"
    resumed = check_start(
        with_curve(big, 8000, 400, [(update, 4.3) for update in range(9100, 10000, 100)])
    )
    assert resumed.missing.endswith("no validation before two thirds of the updates")


# facebookresearch/flores #7, Nepali-English, 5,000 subwords, 7.6 BLEU: the end of its log, and a
# fall of our own to it.
FLORES = [(1440 * k, bits) for k, bits in enumerate((7.4, 5.6, 5.0, 4.72, 4.64, 4.62), 1)] + [
    (10092, 4.610), (10164, 4.625), (10236, 4.629),
]  # fmt: skip
FLORES_TRAINED = [
    (1440, 7.3),
    (2880, 5.1),
    (4320, 4.0),
    (5760, 3.1),
    (7200, 2.5),
    (8640, 2.2),
    (10092, 2.123),
]


def test_over_fitting_of_a_hard_text_is_no_plateau(big: Case) -> None:
    answer = check_start(with_curve(big, 5000, 4000, FLORES, trained=FLORES_TRAINED))
    assert not answer.findings
    assert answer.seen.endswith("but training was at 3.10 when it came there: it over-fits")
    level = [(update, bits) for update, bits in FLORES if update > 4320]
    assert check_start(
        with_curve(big, 5000, 4000, FLORES, trained=level)
    ).findings  # training as high as validation


def test_a_training_whose_validations_have_bleu_translates(big: Case) -> None:
    """A non-autoregressive model, En-Ro: its bits are no likelihood of a language, its BLEU is 29
    to 30.
    """
    curve = [(13432 * k, bits) for k, bits in enumerate((11.9, 11.5), 1)] + [
        (40297, 11.546),
        (40579, 11.518),
        (41142, 11.417),
        (41424, 11.461),
    ]
    answer = check_start(with_curve(big, 34983, 4000, curve, bleu=29.52))
    assert not answer.findings
    assert answer.seen.endswith("but a validation's BLEU is 29.5")
    assert check_start(with_curve(big, 34983, 4000, curve, bleu=0.4)).findings


def test_a_curve_that_falls_at_the_height_of_a_plateau_is_not_judged(big: Case) -> None:
    """As fairseq #514, of which three validations are known: unrelated sentences at 5.1 bits of
    10,000 subwords.
    """
    curve = [
        (2737 * k, bits)
        for k, bits in enumerate((7.68, 6.7, 6.2, 5.85, 5.65, 5.48, 5.35, 5.233, 5.147), 1)
    ]
    answer = check_start(with_curve(big, 10162, 4000, curve))
    assert not answer.findings
    assert answer.missing.endswith("it may not read its source yet")


def test_a_record_of_attention_decides_over_the_curve(big: Case) -> None:
    uniform = Attending("val.json", ((0.999, 0.997), (0.998, 0.999)), 0.01)
    assert (
        check_start(replace(big, training=None, attending=uniform)).findings[0].evidence[0].path
        == "val.json"
    )
    for started in (
        replace(uniform, bits_lost=1.9),
        replace(uniform, entropies=((0.99, 0.99), (0.4, 0.99))),
    ):
        assert not check_start(replace(big, attending=started)).findings
