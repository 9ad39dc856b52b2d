"""The tour: every cell runs with only records, on a pack as the project ships it, and says what
needs a model.
"""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.golden_files import UPDATE_VARIABLE
from tests.notebook import execute_notebook, run_notebook
from tests.records_factory import make_site, write_left

TOUR = Path(__file__).parents[2] / "docs" / "tour.ipynb"


def test_the_tour_has_twelve_cells_with_outputs_and_nothing_of_anybodys_machine() -> None:
    text = TOUR.read_text(encoding="utf-8")
    tour = json.loads(text)
    assert len(tour["cells"]) == 12
    assert len({cell["id"] for cell in tour["cells"]}) == 12
    code = [cell for cell in tour["cells"] if cell["cell_type"] == "code"]
    assert [cell["id"] for cell in code if not cell["outputs"]] == []
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not re.search(r"/(home|root|work|tmp)/", text)
    pictures = [o for cell in code for o in cell["outputs"] if "image/png" in o.get("data", {})]
    assert len(pictures) >= 4
    assert len(text) < 1_500_000


@pytest.mark.figures
def test_every_cell_runs_on_records_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = make_site(tmp_path)
    write_left(site)
    shutil.rmtree(site.scale.runs_folder)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")  # results lie above
    names, values = run_notebook(TOUR)
    assert names["place"] == tmp_path / "results" / "demo"
    runs, spec, *_ = values
    assert len(runs) == 9
    assert spec.loc["d_model", "value"] == "64"
    printed = capsys.readouterr().out
    assert "nothing is translated" in printed
    assert "no attention to look at" in printed
    assert "logs of these runs are not here" in printed
    verdicts, table, picture = values[-3:]
    assert set(verdicts["outcome"]) == {"NOT COMPARABLE"}
    assert isinstance(table, pd.DataFrame)
    assert table.iloc[1, 0].startswith("base, ours")
    assert "answer" in picture
    assert len(picture) == 15


def test_without_any_run_the_first_cell_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("paper_tables.__file__", str(tmp_path / "paper_tables" / "__init__.py"))
    with pytest.raises(FileNotFoundError, match="make demo"):
        run_notebook(TOUR)


def test_the_tour_opens_on_the_runs_that_the_project_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(tmp_path / "made", "multi30k", has_baselines=False)
    write_left(site)
    measured = tmp_path / "paper_tables" / "measured"
    from analysis.packs.pack import pack_scale  # of a wing, which may be absent

    pack_scale(
        site.scale,
        site.results_folder,
        measured,
        max_bytes=1_000_000,
        config_folder=site.config_folder,
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr("paper_tables.__file__", str(tmp_path / "paper_tables" / "__init__.py"))
    names, _ = run_notebook(TOUR)
    assert names["place"] == measured / "multi30k"
    assert all(path.suffix == ".xz" for path in names["paths"].values())
    assert names["paths"]


def texts_of(tour: dict[str, Any]) -> dict[str, list[str]]:
    """Return what each cell prints and the plain text of its value, by the cell's name."""
    texts: dict[str, list[str]] = {}
    for cell in tour["cells"]:
        for output in cell.get("outputs", []):
            shown = output.get("text") or output["data"]["text/plain"]
            texts.setdefault(cell["id"], []).append("".join(shown))
    return texts


@pytest.mark.slow
@pytest.mark.figures
def test_the_tour_is_shipped_with_the_outputs_of_the_shipped_runs_golden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make golden` executes it again. Pictures and the scores of translations are not compared:
    they may differ in a last digit on another machine.
    """
    pytest.importorskip("torch")
    pytest.importorskip("altair")
    monkeypatch.chdir(tmp_path)
    executed = execute_notebook(TOUR)
    if os.environ.get(UPDATE_VARIABLE) == "1":
        text = json.dumps(executed, indent=1, ensure_ascii=False)
        TOUR.write_text(f"{text}\n", encoding="utf-8")
        return
    shipped = json.loads(TOUR.read_text(encoding="utf-8"))
    expected, found = texts_of(shipped), texts_of(executed)
    assert expected.keys() == found.keys()
    for name, texts in expected.items():
        numbers = r"\(-?\d+\.\d\d\)$"
        for shown, again in zip(texts, found[name], strict=True):
            assert re.sub(numbers, "", shown, flags=re.M) == re.sub(numbers, "", again, flags=re.M)
