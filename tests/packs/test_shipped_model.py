"""A shipped model, an export in a pack, is found by its run's name and translates as the run did,
or is refused.
"""

import functools
import io
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

import aiayn.runs.finished
from aiayn.__main__ import main
from aiayn.errors import CheckpointError, RecordError
from aiayn.paths import model_folder
from aiayn.records import ExportRecord, read_record
from aiayn.runs.finished import FinishedRun, find_finished
from analysis.packs.heavy_export import export_model
from analysis.packs.pack import Packed, pack_scale
from tests.records_factory import Site, make_site, run_of, write_left

RUN = "uninterrupted"
LINES = b"The boy sees the girl.\n\nThe old dog knows that the cat is small.\n"


@pytest.fixture
def shipped(tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the run's model among those shipped."""
    monkeypatch.setattr(aiayn.runs.finished, "SHIPPED_FOLDER", tmp_path / "measured")
    folder = model_folder(tmp_path / "measured", "demo", RUN)
    export_model(find_finished(results, RUN, None), folder)
    return folder


def translate(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(
        "sys.stdin", SimpleNamespace(buffer=io.BytesIO(LINES), isatty=lambda: False)
    )
    return main(["translate", *arguments])


def test_a_shipped_model_translates_as_its_run_without_results(
    shipped: Path,
    tmp_path: Path,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    assert translate(RUN, "--results", str(results), monkeypatch=monkeypatch) == 0
    of_results = capsys.readouterr()
    assert f"from {results}/demo/average/" in of_results.err  # the results come first
    assert translate("uninter", "--results", str(tmp_path / "none"), monkeypatch=monkeypatch) == 0
    of_shipped = capsys.readouterr()
    assert f"{RUN}, last2, " in of_shipped.err
    assert f"from {shipped}/model.safetensors" in of_shipped.err
    assert of_shipped.out == of_results.out
    assert of_shipped.out.count("\n") == 3


@pytest.mark.parametrize("name", ["subword_joint.model", "shared_vocabulary.json"])
def test_a_folder_without_one_of_its_files_is_refused(
    shipped: Path, tmp_path: Path, name: str
) -> None:
    (shipped / name).unlink()
    with pytest.raises(
        CheckpointError, match=rf"{RUN}: lacks {name}, without which no text can be read; restore"
    ):
        find_finished(tmp_path / "none", RUN, None)


def test_a_record_without_a_subword_model_is_refused(shipped: Path, tmp_path: Path) -> None:
    path = shipped / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"subword_file_by_language": {}}), encoding="utf-8")
    with pytest.raises(RecordError, match="rewritten by another program, its checksum"):
        find_finished(tmp_path / "none", RUN, None)
    del config["checksum"]  # as in a record of an earlier version
    path.write_text(json.dumps(config | {"subword_file_by_language": {}}), encoding="utf-8")
    with pytest.raises(CheckpointError, match="lacks a subword model"):
        find_finished(tmp_path / "none", RUN, None)


def test_another_average_than_the_shipped_is_refused(shipped: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="only last2 is shipped, not last1"):
        find_finished(tmp_path / "none", RUN, "last1")
    assert find_finished(tmp_path / "none", RUN, "last2").scale == "demo"


@pytest.mark.usefixtures("shipped")
def test_shipped_models_are_among_the_candidates(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=rf"candidates:\n  {RUN}"):
        find_finished(tmp_path / "none", "unknown", None)


@pytest.mark.usefixtures("shipped")
def test_the_shipped_model_is_taken_if_nothing_is_named_and_nothing_else_is_there(
    tmp_path: Path,
) -> None:
    assert find_finished(tmp_path / "none", None, None).scale == "demo"


# --- packs


@pytest.fixture
def site(tmp_path: Path, quick_packing: None) -> Site:
    made = make_site(tmp_path / "made", en_de_systems=["base"])
    write_left(made)
    return made


def pack(site: Site, output: Path) -> Packed:
    return pack_scale(
        site.scale,
        site.results_folder,
        output,
        max_bytes=10**7,
        config_folder=site.config_folder,
    )


@pytest.mark.usefixtures("without_tables")
def test_a_packed_model_names_no_host_and_stays_in_later_packs(
    site: Site, tmp_path: Path, shipped: Path
) -> None:
    run = run_of("demo_en_de", "base", 1)
    folder = model_folder(pack(site, tmp_path / "pack").folder.parent, "demo", run)
    shutil.copytree(shipped, folder)
    notice_path = site.config_folder / "corpora" / "demo_en_de.NOTICE"
    with pytest.raises(
        RecordError, match=r"demo_en_de\.NOTICE: no such file; write the origin of the text"
    ):
        pack(site, tmp_path / "pack")
    assert not (folder / "NOTICE").exists()
    notice_path.write_text("ours", encoding="utf-8")
    pack(site, tmp_path / "pack")
    assert (folder / "NOTICE").read_text(encoding="utf-8") == "ours"
    packed, exported = (
        read_record(path / "config.json", ExportRecord) for path in (folder, shipped)
    )
    assert (packed.provenance.host, exported.provenance.host != "") == ("", True)
    assert packed == msgspec.structs.replace(exported, provenance=packed.provenance)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    pack(site, tmp_path / "pack")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.usefixtures("without_tables")
def test_a_model_of_no_packed_run_is_left_out_and_named(
    site: Site, tmp_path: Path, shipped: Path
) -> None:
    shutil.copytree(shipped, pack(site, tmp_path / "pack").folder / "models" / RUN)
    packed = pack(site, tmp_path / "pack")
    assert packed.left_out == (f"model {RUN}: its run is not packed",)
    assert not (packed.folder / "models").exists()


def test_the_verb_ships_a_model_once_with_its_notice_or_changes_nothing(
    site: Site,
    tmp_path: Path,
    shipped: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The weights are those of another run: only the way into the pack is looked at."""
    run = run_of("demo_en_de", "base", 1)
    written: list[str] = []

    def write_model(finished: FinishedRun, folder: Path) -> None:
        written.append(finished.checkpoint.run)
        shutil.copytree(shipped, folder)

    monkeypatch.setattr("analysis.packs.heavy_export.export_model", write_model)
    monkeypatch.setattr(
        "analysis.packs.pack.pack_scale",
        functools.partial(pack_scale, config_folder=site.config_folder),
    )
    monkeypatch.setattr(
        "analysis.packs.verbs.pack.find_finished",
        lambda results, name, average: SimpleNamespace(checkpoint=SimpleNamespace(run=name)),
    )
    monkeypatch.setattr("analysis.packs.verbs.pack.read_changed_scale", lambda *_: site.scale)
    output = tmp_path / "pack"
    arguments = ["pack", "--results", str(site.results_folder), "--output", str(output)]
    arguments += ["--configfile", "any.yaml", "--model", run]
    assert main(arguments) == 1
    assert list(output.iterdir()) == []
    (site.config_folder / "corpora" / "demo_en_de.NOTICE").write_text("ours", encoding="utf-8")
    written.clear()
    for _ in range(2):
        assert main(arguments) == 0
    assert written == [run]
    folder = model_folder(output, "demo", run)
    assert (folder / "NOTICE").read_text(encoding="utf-8") == "ours"
    assert (folder / "model.safetensors").is_file()
    capsys.readouterr()
    assert main([*arguments[:-1], "another"]) == 1
    assert "another: not a finished run of this config" in capsys.readouterr().err
