"""The core without its wings: each is hidden in turn, with those that use it, and what is left still works."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from aiayn.errors import RecordError
from aiayn.wings import WINGS, Wing, find_target, load, registered
from paper_tables.logs.pages import make_tables_from_logs
from paper_tables.render.drawn import draw_figures
from tests.logs.factory import TrainingText
from tests.pipeline_copy import make_pipeline

CHECKOUT = Path(__file__).resolve().parents[2]
MULTI30K = CHECKOUT / "paper_tables" / "measured" / "multi30k"
RENDERED = ("scores.tsv", "verdicts.tsv", "tables/table2.md", "tables/table3.md")
# An editable installation would find what is hidden in the copy in the checkout itself; and drawing takes seconds.
SITE = (
    "import sys\n"
    "sys.meta_path[:] = [one for one in sys.meta_path if '_Editable' not in getattr(one, '__name__', '')]\n"
    "sys.modules['vl_convert'] = None\n"
)
CONTRACTS = {
    contract["id"]: contract
    for contract in tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
}


def folder_of(package: str) -> Path:
    """Return a package's folder below a checkout."""
    path = Path(*package.split("."))
    return Path("workflow") / path if path.parts[0] == "aiayn" else path


def imported_by(wing: Wing) -> set[str]:
    """Return the names of the wings that a wing imports."""
    paths = (path for package in wing.packages for path in (CHECKOUT / folder_of(package)).rglob("*.py"))
    source = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    imported = set(re.findall(r"^\s*(?:from|import) ([\w.]+)", source, flags=re.MULTILINE))
    return {
        other.name
        for other in WINGS
        for package in other.packages
        if other != wing and any(f"{name}.".startswith(f"{package}.") for name in imported)
    }


def hidden_with(wing: Wing) -> list[Wing]:
    """Return a wing and those above it that use it, directly or by another."""
    hidden = {wing.name}
    for other in WINGS:
        if hidden & imported_by(other):
            hidden.add(other.name)
    return [other for other in WINGS if other.name in hidden]


def test_the_contracts_name_the_packages_of_the_wings_in_their_order() -> None:
    packages = [package for wing in WINGS for package in wing.packages]
    assert CONTRACTS["core-and-wings"]["protected_modules"] == packages
    assert CONTRACTS["core-and-wings"]["allowed_importers"] == packages
    assert CONTRACTS["wings"]["layers"] == [" : ".join(wing.packages) for wing in reversed(WINGS)]


def test_each_wing_is_whole_folders_that_are_there_and_no_folder_of_a_wing_is_missed() -> None:
    packages = {package for wing in WINGS for package in wing.packages}
    assert [package for package in packages if not (CHECKOUT / folder_of(package) / "__init__.py").exists()] == []
    names = {wing.name for wing in WINGS}
    parents = ("aiayn", "aiayn.cli", "analysis", "paper_tables")
    found = {
        f"{parent}.{name}" for parent in parents for name in names if (CHECKOUT / folder_of(parent) / name).is_dir()
    }
    assert found == packages


def test_what_the_wings_register_can_be_loaded() -> None:
    for kind in ("make_logs_page", "write_figures"):
        assert callable(load(find_target(kind)))
    for kind in ("scale_figures", "logs_figures", "log_reader", "cited"):
        assert all(map(callable, registered(kind)))


def test_without_the_wing_a_folder_of_foreign_logs_is_answered_by_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text(TrainingText().text(), encoding="utf-8")
    monkeypatch.setattr("aiayn.wings.present_wings", lambda: ())
    with pytest.raises(RecordError, match=r"logs: no results of runs of ours .* read by the wing `logs`, which is not"):
        make_tables_from_logs([tmp_path / "logs"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_the_wing_of_figures_their_folder_is_there_and_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiayn.wings.present_wings", lambda: ())
    assert draw_figures("scale_figures", tmp_path / "figures") == []
    assert list((tmp_path / "figures").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("wing", WINGS, ids=lambda wing: wing.name)
def test_without_a_wings_folders_the_rest_works(wing: Wing, tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path)
    (pipeline.checkout / "sitecustomize.py").write_text(SITE, encoding="utf-8")
    hidden = hidden_with(wing)
    for package in (package for one in hidden for package in one.packages):
        shutil.rmtree(pipeline.checkout / folder_of(package))

    def aiayn(*arguments: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(pipeline.checkout / "workflow"), str(pipeline.checkout)])
        return subprocess.run(
            [sys.executable, "-m", "aiayn", *arguments],
            env=os.environ | {"PYTHONPATH": path}, cwd=pipeline.checkout, capture_output=True, text=True, check=False,
        )  # fmt: skip

    shown = aiayn("--help").stdout
    named = {verb for one in WINGS for verb in one.verbs if f"\n  {verb} " in shown}
    assert named == {verb for one in WINGS if one not in hidden for verb in one.verbs}
    assert "\n  train " in shown
    scoring = aiayn("score", "--help").stdout  # of the core, and more of the wing `outputs`
    assert "--decoded" in scoring
    assert ("--hypotheses" in scoring) == ("outputs" not in {one.name for one in hidden})
    planned = pipeline.planned()
    assert {"tables", "train/demo_en_de/base/seed1"} <= planned
    asked = {one.stage.verb for one in WINGS if one.stage and one not in hidden}
    stages = {name.partition("/")[0] for name in planned}
    assert {one.stage.verb for one in WINGS if one.stage} & stages == asked
    made = aiayn("tables", "--from-logs", "paper_tables/measured/multi30k", "--output", str(tmp_path / "out"))
    assert made.returncode == 0, made.stderr
    assert str(tmp_path / "out" / "multi30k" / "report.html") in made.stdout
    for name in RENDERED:
        assert (tmp_path / "out" / "multi30k" / name).read_bytes() == (MULTI30K / name).read_bytes(), name
    others = tmp_path / "others"
    others.mkdir()
    (others / "a.log").write_text(TrainingText().text(), encoding="utf-8")
    answer = aiayn("tables", "--from-logs", str(others), "--output", str(tmp_path / "out"))
    if wing.name == "logs":
        assert (answer.returncode, answer.stderr.count("\n")) == (1, 1)
        assert "read by the wing `logs`, which is not installed here" in answer.stderr
    else:
        assert answer.returncode == 0, answer.stderr
