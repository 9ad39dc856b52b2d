"""The tour with a model: it translates, and draws attention whose weights are the model's own."""

from pathlib import Path

import msgspec
import pytest

from aiayn.records import BinarizedCorpus, SegmentedText, TrainRecord
from tests.engine.tiny_training import write_results
from tests.notebook import run_notebook

TOUR = Path(__file__).parents[2] / "docs" / "tour.ipynb"


@pytest.mark.figures
def test_the_tour_translates_and_shows_attention_and_the_curve(
    tmp_path: Path,
    finished: TrainRecord,
    data: BinarizedCorpus,
    segmented: SegmentedText,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    records = (
        msgspec.structs.replace(one, corpus="demo_en_de") for one in (finished, data, segmented)
    )
    write_results(tmp_path / "results", *records)
    monkeypatch.chdir(tmp_path)
    names, values = run_notebook(TOUR)
    printed = capsys.readouterr().out
    assert "The dog sees the cat. -> " in printed
    assert "No model here" not in printed
    assert names["weights"].weights_HQK.sum(axis=-1) == pytest.approx(1.0, abs=1e-5)
    attention, curve = values[3], values[6]
    assert "Encoder self-attention" in attention.to_dict()["description"]
    assert curve.to_dict()["description"].startswith("Curves of 1 run")
