"""The translations of a run are found by its name."""

from pathlib import Path

from aiayn.records import Hypotheses, write_record
from analysis.questions.decoded import find_decoded
from tests.records_factory import PROVENANCE


def test_translations_by_another_alpha_are_not_taken_for_the_runs_own(tmp_path: Path) -> None:
    folder = tmp_path / "demo/decode/demo_en_de/base/seed1/last1"
    for name, alpha in (("demo_dev", 0.6), ("demo_dev-alpha1.4", 1.4)):
        record = Hypotheses(
            provenance=PROVENANCE, run="demo_en_de-base-seed1-aaaa0001", average="last1", testset="demo_dev",
            path=folder / f"{name}.txt", pieces_path=folder / f"{name}.pieces.txt", num_lines=1, hypotheses_sha256="",
            beam_size=4, length_penalty_alpha=alpha, length_penalty_form="gnmt", stop="tensor2tensor", signature="",
            sentences_per_second=1.0,
        )  # fmt: skip
        write_record(record, folder / f"{name}.json")
    found = find_decoded(tmp_path, "demo_en_de-base-seed1", testset="demo_dev", average=None)
    assert found.hypotheses.length_penalty_alpha == 0.6
