"""`aiayn evaluate --released` on archives of the layout of 2018, served on the loopback: the whole
command, its continuation, and every bad input in a sentence.
"""

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aiayn.__main__ import main
from aiayn.decode.decode import Translator
from aiayn.released import read_released, read_released_records
from tests.released.foreign_models import Foreign, make_data_bin, rewrite_to_2018
from tests.workflow.loopback_server import LoopbackServer, loopback_server, record_waits

pytestmark = pytest.mark.slow

MODEL = "small.joined-dict.transformer"
DATA = "small.joined-dict.newstest2014"


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory, foreign: Foreign) -> Path:
    """Return a folder with both archives, of a file of 2018 and a cached data-bin."""
    folder = tmp_path_factory.mktemp("released")
    dictionary = foreign.data / "dict.en.txt"
    data_bin = make_data_bin(foreign.text, folder / "bin", "cached", "--srcdict", str(dictionary))
    model, data = folder / MODEL, folder / DATA
    model.mkdir()
    data.mkdir()
    rewrite_to_2018(foreign.checkpoint, model / "model.pt")
    shutil.copy(foreign.text / "bpecodes", model)
    for language in ("en", "de"):
        for place in (model, data):
            shutil.copy(data_bin / f"dict.{language}.txt", place)
        for kind in ("bin", "idx"):
            shutil.copy(data_bin / f"test.en-de.{language}.{kind}", data)
    pack(model)
    pack(data)
    return folder


def pack(folder: Path, *, omit: str = "", path: Path | None = None) -> Path:
    path = path or folder.with_name(f"{folder.name}.tar.bz2")
    with tarfile.open(path, "w:bz2") as tar:
        for file in sorted(folder.iterdir()):
            if file.name != omit:
                tar.add(file, arcname=f"{folder.name}/{file.name}")
    return path


class Scene(NamedTuple):
    """The server, the folders of archives and results, and the file that describes the release."""

    server: LoopbackServer
    kept: Path
    results: Path
    config: Path
    references: Path

    def evaluate(self, *arguments: object) -> int:
        flags = ["--results", self.results, "--references", self.references, "--device", "cpu"]
        return main(["evaluate", "--released", "small", *map(str, [*flags, *arguments])])

    def serve(self, name: str, content: bytes, *faults: str) -> None:
        self.server.serve(f"/{name}.tar.bz2", content, *faults)


@pytest.fixture
def scene(
    foreign: Foreign, archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    real = read_released("wmt16.en-de")
    monkeypatch.setattr("aiayn.released.RELEASED_FOLDER", tmp_path)
    monkeypatch.setenv("AIAYN_ARCHIVES", str(tmp_path / "kept"))
    monkeypatch.delenv("AIAYN_MIRROR", raising=False)
    record_waits(monkeypatch)
    num_symbols = 4 + len((foreign.data / "dict.en.txt").read_text("utf-8").splitlines())
    text = (foreign.text / "test.de").read_text("utf-8").replace("@@ ", "")
    with loopback_server() as server:
        config = tmp_path / "small.yaml"
        config.write_text(
            f"""name: small
language_pair: en-de
testset: {real.testset}
num_lines: 100
num_symbols: {num_symbols}
num_reference_tokens: {len(text.split())}
model: {{url: "{server.url}/{MODEL}.tar.bz2", expected_bytes: 100000}}
data: {{url: "{server.url}/{DATA}.tar.bz2", expected_bytes: 10000}}
printed: {{metric: bleu_tok_compound_split, value: 28.4}}
published:
  - {{metric: bleu_as_given, value: 29.23, beam_size: 5, alpha: 1.0, source: a thread}}
  - {{metric: bleu_as_given, value: 29.99, beam_size: 4, alpha: 0.6, source: a paper}}
differences: [the text]
""",
            encoding="utf-8",
        )
        references = foreign.text / "raw.test.de"
        made = Scene(server, tmp_path / "kept", tmp_path / "results", config, references)
        for name in (MODEL, DATA):
            made.serve(name, (archives / f"{name}.tar.bz2").read_bytes())
        yield made


def test_the_whole_command_gives_fairseqs_translations_and_a_second_start_does_nothing_again(
    scene: Scene,
    foreign: Foreign,
    archives: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scene.serve(MODEL, (archives / f"{MODEL}.tar.bz2").read_bytes(), "drop")
    output = tmp_path / "output"
    assert scene.evaluate("--output", output) == 0
    assert output.read_text(encoding="utf-8").splitlines() == foreign.expected
    printed = capsys.readouterr()
    assert "minutes on two cores" in printed.err
    assert f"{MODEL}/model.pt" in printed.err  # the members of the archive
    assert "is compared from now on" in printed.err
    parts = [part for part, _ in scene.server.asked(f"/{MODEL}.tar.bz2")]
    assert parts[0] == ""
    assert parts[1].startswith("bytes=")  # the broken download was continued
    rows = {line.split()[0]: line.split()[1:] for line in printed.out.splitlines() if line}
    assert rows["bleu_as_given"][0].startswith("nrefs:1|test:newstest2014")
    assert "bleu_as_given" in printed.out
    assert "29.99" in printed.out
    assert "bleu_as_given 29.23 with beam 5, alpha 1 (a thread)" in printed.out
    assert "PARTIAL" not in printed.out
    (record,) = read_released_records(scene.results)
    assert (record.num_lines, record.num_testset_lines) == (100, 100)
    assert {score.metric for score in record.scores} >= {"bleu_as_given", "bleu_sacre_13a"}
    cell = ["where", "released:small:bleu_sacre_13a", "--results", str(scene.results)]
    assert main(cell) == 0
    assert "released model, decoded here" in capsys.readouterr().out
    assert main([*cell, "--json"]) == 0
    (score,) = json.loads(capsys.readouterr().out)["scores"]
    assert score["metric"] == "bleu_sacre_13a"
    num_requests = len(scene.server.requests)
    blocks = sorted(scene.results.glob("released/small/blocks*/*.json"))
    times = [block.stat().st_mtime_ns for block in blocks]
    assert scene.evaluate() == 0
    assert capsys.readouterr().out == printed.out
    assert len(scene.server.requests) == num_requests
    assert [block.stat().st_mtime_ns for block in blocks] == times


def test_a_partial_result_is_marked_and_continued(
    scene: Scene,
    foreign: Foreign,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("analysis.released.heavy_released.LINES_PER_BLOCK", 30)
    output = tmp_path / "output"
    assert scene.evaluate("--max-lines", 30, "--output", output) == 0
    printed = capsys.readouterr()
    assert "PARTIAL: 30 of 100 lines" in printed.out
    assert "|partial:30/100" in printed.out
    assert "partial: 30 of 100 lines; a larger --max-lines continues" in printed.err
    part = output.read_text(encoding="utf-8").splitlines()
    assert len(part) == 30
    assert part != foreign.expected[:30]  # a sample, not the beginning
    (block,) = scene.results.glob("released/small/blocks*/*.json")
    time = block.stat().st_mtime_ns
    assert scene.evaluate("--output", output) == 0
    assert output.read_text(encoding="utf-8").splitlines() == foreign.expected
    assert block.stat().st_mtime_ns == time
    assert "PARTIAL" not in capsys.readouterr().out
    # Another search has blocks of its own.
    assert scene.evaluate("--search", "paper", "--max-lines", 30) == 0
    assert "stop:tensor2tensor|maxlen:1x+50" in capsys.readouterr().out


def test_an_interrupt_scores_the_finished_blocks(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("analysis.released.heavy_released.LINES_PER_BLOCK", 40)
    translate, num_calls = Translator.translate, 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls == 2:
            raise KeyboardInterrupt
        return translate(*arguments)

    monkeypatch.setattr(Translator, "translate", interrupted)
    assert scene.evaluate() == 0
    assert "PARTIAL: 40 of 100 lines" in capsys.readouterr().out


def refused(scene: Scene, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the last line of what a refusal says."""
    assert scene.evaluate() == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    return printed.err.strip().splitlines()[-1]


def test_a_cut_archive_is_named(
    scene: Scene, archives: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (archives / f"{MODEL}.tar.bz2").read_bytes()
    scene.serve(MODEL, whole[: len(whole) // 2])
    assert f"{MODEL}.tar.bz2: cut or damaged" in refused(scene, capsys)
    assert not (scene.results / "released/small/model").exists()


def test_another_archive_of_the_same_name_is_refused(
    scene: Scene, archives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scene.evaluate() == 0
    capsys.readouterr()
    path = scene.kept / f"{MODEL}.tar.bz2"
    path.unlink()
    pack(archives / MODEL, omit="dict.de.txt", path=tmp_path / "other")
    scene.serve(MODEL, (tmp_path / "other").read_bytes())
    message = refused(scene, capsys)
    assert "not the published file" in message
    assert "its digest is that of the download of 20" in message


def test_another_layout_is_listed(
    scene: Scene, archives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack(archives / MODEL, omit="bpecodes", path=tmp_path / "other")
    scene.serve(MODEL, (tmp_path / "other").read_bytes())
    message = refused(scene, capsys)
    assert "another layout than expected: no bpecodes; it holds" in message
    assert f"{MODEL}/model.pt" in message


def test_other_numbers_are_named(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    text = scene.config.read_text(encoding="utf-8")
    scene.config.write_text(text.replace("num_lines: 100", "num_lines: 3003"), encoding="utf-8")
    assert "100 lines, expected 3,003" in refused(scene, capsys)


def test_without_a_network_or_space_nothing_is_lost(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = scene.config.read_text(encoding="utf-8")
    closed = text.replace(scene.server.url, "http://127.0.0.1:9")
    scene.config.write_text(closed, encoding="utf-8")
    message = refused(scene, capsys)
    assert "127.0.0.1" in message
    assert f"or put it into {scene.kept}" in message
    huge = text.replace("expected_bytes: 100000", "expected_bytes: 100000000000000000")
    scene.config.write_text(huge, encoding="utf-8")
    assert "GB needed for the archives of small" in refused(scene, capsys)
    assert main(["evaluate", "--released", "smal"]) == 2
    assert "did you mean 'small'" in capsys.readouterr().err
