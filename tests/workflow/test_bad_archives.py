"""A bad archive, met by a whole fetch: what the user sees, and that nothing is left beside the record.

`test_archives.py` and `test_download.py` have each kind of fault. But for a wrong hash and a truncated file, the
recipe's size and sum are those of the bad archive: they alone must not let it pass.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiayn.data.sources.fetch import fetch_corpus
from aiayn.errors import AiaynError
from aiayn.spec.system import read_corpus
from tests.unit.test_archives import tar_bytes
from tests.workflow.loopback_server import LoopbackServer, loopback_server
from tests.workflow.small_recipes import (
    NUM_LINES_BY_ARCHIVE,
    member_bytes,
    member_lines,
    real_recipe,
    serve_recipes,
    small_recipe,
    write_recipe,
)

EN, DE = "commoncrawl.de-en.en", "commoncrawl.de-en.de"
NAME = "training-parallel-commoncrawl.tgz"
PLACES = (f"/statmt/wmt13/{NAME}", f"/huggingface/wmt13/resolve/main/{NAME}")
ZIP_PLACE = "/huggingface/wmt13/resolve/main-zip/training-parallel-commoncrawl.zip"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackServer]:
    """Serve the paper's En-De recipe, whole."""
    monkeypatch.delenv("AIAYN_MIRROR", raising=False)
    monkeypatch.chdir(tmp_path)
    with loopback_server() as served:
        serve_recipes(served, [real_recipe("wmt14_en_de")])
        yield served


def sides(**content_by_side: bytes) -> dict[str, bytes]:
    """Return both members' text, one or the other replaced."""
    whole = {
        name: member_bytes(member_lines("commoncrawl", name, NUM_LINES_BY_ARCHIVE["commoncrawl"])) for name in (EN, DE)
    }
    return {EN: content_by_side.get("en", whole[EN]), DE: content_by_side.get("de", whole[DE])}


def error_from(server: LoopbackServer, folder: Path) -> str:
    """Fetch, see it fail with nothing left beside the record, and return what the command would end with."""
    recipe = small_recipe(real_recipe("wmt14_en_de"), server, vocabulary_size=500)
    return error_of(recipe, folder)


def error_of(recipe: dict[str, object], folder: Path) -> str:
    """Do the same with a recipe at hand."""
    name = write_recipe(recipe, folder / "config")
    mirror = str(recipe["source"]["base_url_by_place"]["statmt"]).replace("/statmt", "/mirror")  # type: ignore[index]
    record_path = Path("fetch/record.json")
    with pytest.raises(AiaynError) as caught:
        fetch_corpus(
            read_corpus(name, folder / "config"),
            mirror=mirror,
            record_path=record_path,
            sleep=lambda seconds: None,
        )
    assert caught.value.exit_code == 1
    assert list(record_path.parent.iterdir()) == []
    return re.sub(r"http://127\.0\.0\.1:\d+", "http://SERVER", str(caught.value))


def bad(server: LoopbackServer, folder: Path, content: bytes) -> str:
    """Put an archive in the place of the right one, its sum in the recipe, and return what the fetch ends with."""
    for path in PLACES:
        server.content_by_path[path] = content
    return error_from(server, folder)


@pytest.fixture(autouse=True)
def _own_sacrebleu_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sacrebleu.dataset import DATASETS

    for name in ("wmt13", "wmt14/full"):
        monkeypatch.setattr(DATASETS[name], "_outdir", str(tmp_path / "sacrebleu" / name))
        monkeypatch.setattr(DATASETS[name], "_rawdir", str(tmp_path / "sacrebleu" / name / "raw"))


def test_a_wrong_hash(server: LoopbackServer, tmp_path: Path) -> None:
    recipe = small_recipe(real_recipe("wmt14_en_de"), server, vocabulary_size=500)
    for path in (*PLACES, ZIP_PLACE):
        content = server.content_by_path[path]
        server.content_by_path[path] = content[:-1] + bytes([content[-1] ^ 1])
    message = error_of(recipe, tmp_path)
    assert message.startswith(
        f"{NAME}: no address gives the published file:\n  http://SERVER/mirror/statmt/wmt13/{NAME}"
    )
    for path in (*PLACES, ZIP_PLACE):
        name = path.rpartition("/")[2]
        assert re.search(
            rf"\n  http://SERVER{re.escape(path)}: sha256 \w{{64}}, expected \w{{64}}: not the published file, or torn "
            rf"on its way; set aside as results/archives/{re.escape(name)}\.wrong(\n|;)", message
        ), message  # fmt: skip
    assert message.endswith("or put an archive into --archives-folder")


def test_a_truncated_file_is_refused_by_its_size_before_it_is_received(server: LoopbackServer, tmp_path: Path) -> None:
    recipe = small_recipe(real_recipe("wmt14_en_de"), server, vocabulary_size=500)
    sizes = {}
    for path in (*PLACES, ZIP_PLACE):
        sizes[path] = len(server.content_by_path[path])
        server.content_by_path[path] = server.content_by_path[path][:1000]
    message = error_of(recipe, tmp_path)
    for path, num_bytes in sizes.items():
        assert f"\n  http://SERVER{path}: offers 1000 bytes, the published file has {num_bytes}" in message


def test_a_member_outside_the_archive(server: LoopbackServer, tmp_path: Path) -> None:
    seen = bad(server, tmp_path, tar_bytes({**sides(), "../../.bashrc": b"evil\n"}))
    assert seen.startswith(f"results/archives/{NAME}: member '../../.bashrc' points out of the archive")
    assert not list(tmp_path.rglob(".bashrc"))


def test_more_lines_than_were_published(server: LoopbackServer, tmp_path: Path) -> None:
    content = tar_bytes(sides(en=b"a\n", de=(b"a" * 1023 + b"\n") * (17 << 10)))
    seen = bad(server, tmp_path, content)
    assert seen.startswith(f"results/archives/{NAME}: {DE}:91: goes on after the 90 published lines")


def test_a_whole_archive_is_taken(server: LoopbackServer, tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):  # so that the tests above can fail
        bad(server, tmp_path, tar_bytes(sides()))
