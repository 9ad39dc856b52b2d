"""Each kind of bad archive, met by a whole fetch: the message, and that nothing is left beside the record.

`test_archives.py` and `test_download.py` have more of each kind; here is the sentence that ends the command. But for a
wrong hash and a torn file, the recipe's size and sum are those of the bad archive: they alone must not let it pass.
"""

import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiayn.data.sources.fetch import fetch_corpus
from aiayn.errors import AiaynError
from aiayn.spec.system import read_corpus
from tests.sacrebleu_cache import move_cache
from tests.unit.test_archives import special, tar_bytes
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


def message_of(recipe: dict[str, object], folder: Path) -> str:
    """Fetch, see it fail with nothing left beside the record, and return what the command would end with."""
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
    return message_of(small_recipe(real_recipe("wmt14_en_de"), server, vocabulary_size=500), folder)


@pytest.fixture(autouse=True)
def _own_sacrebleu_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move_cache(("wmt13", "wmt14/full"), tmp_path / "sacrebleu", monkeypatch)


def test_a_wrong_hash(server: LoopbackServer, tmp_path: Path) -> None:
    recipe = small_recipe(real_recipe("wmt14_en_de"), server, vocabulary_size=500)
    for path in (*PLACES, ZIP_PLACE):
        content = server.content_by_path[path]
        server.content_by_path[path] = content[:-1] + bytes([content[-1] ^ 1])
    message = message_of(recipe, tmp_path)
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
    message = message_of(recipe, tmp_path)
    for path, num_bytes in sizes.items():
        assert f"\n  http://SERVER{path}: offers 1000 bytes, the published file has {num_bytes}" in message


def in_latin_1() -> bytes:
    """Return the German side with its 42nd line in another encoding."""
    lines = sides()[DE].split(b"\n")
    return b"\n".join([*lines[:41], "ein Haus f\u00fcr alle".encode("latin-1"), *lines[42:]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tar_bytes(sides())[:1000], ": torn, or not an archive of its format: Compressed file ended"),
        (lambda: tar_bytes({**sides(), "../../.bashrc": b"x"}), ": member '../../.bashrc' points out of the archive"),
        (
            lambda: tar_bytes({EN: special(EN, tarfile.SYMTYPE, "/etc/passwd"), DE: sides()[DE]}),
            f": link '{EN}' to '/etc/passwd' points out of the archive",
        ),
        (
            lambda: tar_bytes(sides(en=b"a\n", de=(b"a" * 1023 + b"\n") * (17 << 10))),
            f": {DE}:91: goes on after the 90 published lines",
        ),
        (
            lambda: tar_bytes({EN: sides()[EN], "commoncrawl.cs-en.cs": b"x\n"}),
            f": no member '{DE}'; it holds {EN}, commoncrawl.cs-en.cs; correct member_by_language in the corpus file",
        ),
        (
            lambda: tar_bytes(sides(de=sides()[DE].partition(b"\n")[2])),
            f": sides of unequal numbers of lines: {EN} has 90, {DE} has 89; expected line by line translations",
        ),
        (lambda: tar_bytes(sides(de=b"")), f": {DE} is empty ({EN} has 90, {DE} has 0 lines); expected text"),
        (lambda: tar_bytes(sides(de=in_latin_1())), f": {DE}:42: not UTF-8: bytes fc 72 20 61 (invalid start byte)"),
        (
            lambda: tar_bytes({name: b"".join(text.splitlines(True)[:60]) for name, text in sides().items()}),
            ": 60 pairs, published 90 (num_lines of commoncrawl)",
        ),
    ],
)
def test_a_bad_archive_with_the_sum_of_its_recipe_is_refused(
    make: Callable[[], bytes], message: str, server: LoopbackServer, tmp_path: Path
) -> None:
    assert bad(server, tmp_path, make()).startswith(f"results/archives/{NAME}{message}")
    assert not list(tmp_path.rglob(".bashrc"))


def test_a_whole_archive_is_taken(server: LoopbackServer, tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):  # so that the tests above can fail
        bad(server, tmp_path, tar_bytes(sides()))
