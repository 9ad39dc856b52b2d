"""The tour: every cell runs with only records, on a pack as the project ships it, and says what
needs a model.
"""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from analysis.tools.pack import pack_scale
from tests.notebook import run_notebook
from tests.records_factory import make_site, write_left

TOUR = Path(__file__).parents[2] / "docs" / "tour.ipynb"


def test_the_tour_has_twelve_cells_and_no_output_of_anybodys_machine() -> None:
    tour = json.loads(TOUR.read_text(encoding="utf-8"))
    assert len(tour["cells"]) == 12
    assert len({cell["id"] for cell in tour["cells"]}) == 12
    assert all(
        cell["outputs"] == [] and cell["execution_count"] is None
        for cell in tour["cells"]
        if "outputs" in cell
    )


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
    verdicts, table, forest = values[-3:]
    assert set(verdicts["outcome"]) == {"NOT COMPARABLE"}
    assert isinstance(table, pd.DataFrame)
    assert "ours: base" in table.iloc[1, 0]
    assert forest.to_dict()["description"].startswith("Forest plot of Table 3")


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
