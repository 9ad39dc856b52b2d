"""A training that never began to read its source is found by its curve; a training that did is
never found.

`fixtures/curves.csv` has validation curves (update:bits), of trainings of Multi30k and of public
threads, and which decoders attend. The thresholds were fixed on every second of Multi30k's.
"""

import csv
import lzma

import pytest
from msgspec.structs import replace

from aiayn.facts.statistics import Statistics
from aiayn.facts.types import Fact
from aiayn.spec.system import Overrides
from analysis.doctor.check_training import check_start
from analysis.doctor.collect import collect_folder
from analysis.doctor.diagnose import make_claim
from analysis.doctor.types import Case, Finding
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
    claim = make_claim("big", "multi30k", "big", "multi30k_en_de", Overrides())
    return collect_folder(path.parent, claim)


def read_curve(text: str) -> list[tuple[int, float]]:
    """Return updates and bits a subword of `update:bits update:bits ...`."""
    pairs = [point.split(":") for point in text.split()]
    return [(int(update), float(bits)) for update, bits in pairs]


def with_curve(case: Case, row: dict[str, str]) -> Case:
    """Return a case with the validations of a row of curves.csv, and its losses in training."""
    assert case.training is not None
    training = case.training
    bleu = {"bleu": float(row["bleu"])} if row["bleu"] else {}
    validations = [
        Statistics(
            kind="valid",
            epoch=1,
            subset="valid",
            update=update,
            value_by_name={"nll_loss": bits} | bleu,
            line=number,
        )
        for number, (update, bits) in enumerate(read_curve(row["validations"]), 1)
    ]
    epochs = [
        Statistics(kind="epoch", epoch=1, update=update, value_by_name={"nll_loss": bits})
        for update, bits in read_curve(row["trained"])
    ]
    section = replace(
        training.last,
        facts=[Fact("num_types", int(row["vocabulary"]), "train.log", 1)],
        symbols={"warmup_steps": int(row["warmup_steps"])},
    )
    training = replace(training, sections=[section], validations=validations, epochs=epochs)
    return replace(case, training=training)


@pytest.mark.parametrize("row", ROWS, ids=[row["run"] for row in ROWS])
def test_a_curve_tells_whether_a_training_started(row: dict[str, str], big: Case) -> None:
    answer = check_start(with_curve(big, row))
    has_finding = not isinstance(answer, str) and len(answer) == 1
    assert has_finding == (row["started"] == "no")
    assert isinstance(answer, str) or row["started"] != "unknown"
    if row["answer"] and isinstance(answer, str):
        assert row["answer"] in answer


def test_big_that_never_attended_is_found_with_what_helps(big: Case) -> None:
    (finding,) = check_start(big)
    assert isinstance(finding, Finding)
    assert finding.title.startswith("The training did not start")
    assert all(
        words in finding.fix
        for words in ("lower learning rate", "longer warm-up", "smaller batches", "pre-norm")
    )
    assert finding.evidence[0].line
