"""Text comes whole, verified and aligned, from a shipped file, a folder or a server. Whatever goes
wrong is named.
"""

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aiayn.data.sources.fetch import fetch_corpus
from aiayn.data.text.lines import read_shipped
from aiayn.errors import FetchError
from aiayn.spec.system import (
    CorpusSpec,
    ParallelSource,
    PublicFile,
    ShippedSource,
    read_corpus,
)
from tests.small_corpus import SMALL
from tests.workflow.loopback_server import LoopbackServer, loopback_server, record_waits

SPLITS = ("train", "dev", "test")
CONTENT_BY_LANGUAGE = {"en": b"one\rline\ntwo\n", "de": "eine\u2028Zeile\nzwei\n".encode()}


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """Serve on a free port of the loopback."""
    with loopback_server() as served:
        yield served


@pytest.fixture(autouse=True)
def _no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIAYN_MIRROR", raising=False)


def sha256(content: bytes) -> str:
    """Return the hexadecimal SHA-256."""
    return hashlib.sha256(content).hexdigest()


def parallel_spec(public_url: str = "http://127.0.0.1:9") -> CorpusSpec:
    """Return a corpus of published files `raw/<split>.<language>.gz`."""
    source = ParallelSource(
        mirror_folder="small",
        public_url=public_url,
        file_by_split={
            split: {
                language: PublicFile(
                    path=f"raw/{split}.{language}.gz", sha256=sha256(pack(content))
                )
                for language, content in CONTENT_BY_LANGUAGE.items()
            }
            for split in SPLITS
        },
    )
    return msgspec.structs.replace(SMALL, source=source)


def pack(content: bytes) -> bytes:
    """Compress, the same bytes each time."""
    return gzip.compress(content, mtime=0)


@pytest.fixture
def mirror_folder(tmp_path: Path) -> Path:
    """Lay out a mirror of the small corpus."""
    folder = tmp_path / "a mirror" / "small" / "raw"
    folder.mkdir(parents=True)
    for split in SPLITS:
        for language, content in CONTENT_BY_LANGUAGE.items():
            (folder / f"{split}.{language}.gz").write_bytes(pack(content))
    return tmp_path / "a mirror"


@pytest.fixture
def record_path(tmp_path: Path) -> Path:
    """Return where the raw record goes."""
    return tmp_path / "fetch" / "record.json"


def test_a_local_mirror_is_copied_and_unpacked(mirror_folder: Path, record_path: Path) -> None:
    record = fetch_corpus(parallel_spec(), mirror=mirror_folder.as_uri(), record_path=record_path)
    assert sorted(path.name for path in record_path.parent.iterdir()) == [
        f"{split}.{language}" for split in sorted(SPLITS) for language in ("de", "en")
    ]
    assert (record_path.parent / "train.en").read_bytes() == CONTENT_BY_LANGUAGE["en"]
    assert list(record.pair_by_split) == ["train", "dev", "test"]
    train = record.pair_by_split["train"]
    assert train.num_lines == 2  # the CR and the U+2028 end no line
    assert train.path_by_language == {k: record_path.parent / f"train.{k}" for k in ("en", "de")}
    assert train.sha256_by_language == {
        k: sha256(content) for k, content in CONTENT_BY_LANGUAGE.items()
    }


def test_without_a_mirror_the_public_address_is_asked(
    server: LoopbackServer, record_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted download is continued by the next start."""
    record_waits(monkeypatch)
    for split in SPLITS:
        for language, content in CONTENT_BY_LANGUAGE.items():
            server.serve(f"/public/raw/{split}.{language}.gz", pack(content))
    folder = tmp_path / "archives"
    spec = parallel_spec(f"{server.url}/public")
    server.faults_by_path["/public/raw/dev.de.gz"] = ["drop", *["busy"] * 5]
    with pytest.raises(FetchError, match="503"):
        fetch_corpus(spec, mirror=None, record_path=record_path, archives_folder=folder)
    fetch_corpus(spec, mirror=None, record_path=record_path, archives_folder=folder)
    (first, _), *_, (last, status) = server.asked("/public/raw/dev.de.gz")
    assert (first, last.startswith("bytes="), status) == ("", True, 206)
    assert len(server.asked("/public/raw/train.en.gz")) == 1
    assert (record_path.parent / "test.de").read_bytes() == CONTENT_BY_LANGUAGE["de"]


def test_a_wrong_sha256_names_both_and_leaves_the_earlier_text(
    mirror_folder: Path, record_path: Path
) -> None:
    fetch_corpus(parallel_spec(), mirror=mirror_folder.as_uri(), record_path=record_path)
    record_path.write_text("the record")
    wrong_text = pack(b"other\ntext\n")
    (mirror_folder / "small/raw/test.de.gz").write_bytes(wrong_text)
    expected = sha256(pack(CONTENT_BY_LANGUAGE["de"]))
    with pytest.raises(
        FetchError, match=rf"raw/test\.de\.gz: sha256 {sha256(wrong_text)}, expected {expected}"
    ):
        fetch_corpus(parallel_spec(), mirror=mirror_folder.as_uri(), record_path=record_path)
    assert (record_path.parent / "test.de").read_bytes() == CONTENT_BY_LANGUAGE["de"]
    assert record_path.read_text() == "the record"
    assert len(list(record_path.parent.iterdir())) == 7


@pytest.mark.parametrize("name", ["demo_en_de", "demo_en_fr"])
def test_the_shipped_test_sets_are_new_sentences_in_known_words(name: str) -> None:
    source = read_corpus(name).source
    assert isinstance(source, ShippedSource)
    pairs_by_split = read_shipped(source)
    tested = [*pairs_by_split["demo_dev"], *pairs_by_split["demo_test"]]
    for side in (0, 1):
        known = {
            word.strip(".,") for pair in pairs_by_split["train"] for word in pair[side].split()
        }
        assert {word.strip(".,") for pair in tested for word in pair[side].split()} <= known
    sentences = {sentence for sentence, _ in pairs_by_split["train"]}
    assert len(sentences) == 12_000
    assert sentences.isdisjoint(sentence for sentence, _ in tested)


def test_a_shipped_file_with_other_bytes_or_none_is_refused(
    tmp_path: Path, record_path: Path
) -> None:
    source = ShippedSource(file=str(tmp_path / "x.tsv.xz"), sha256="0" * 64, num_pairs_by_split={})
    spec = msgspec.structs.replace(read_corpus("demo_en_de"), source=source)
    with pytest.raises(FetchError, match=r"x\.tsv\.xz: sha256 absent, expected 0{64}"):
        fetch_corpus(spec, mirror=None, record_path=record_path)
    (tmp_path / "x.tsv.xz").write_bytes(b"other")
    with pytest.raises(FetchError, match=r"x\.tsv\.xz: sha256 [0-9a-f]{64}, expected 0{64}"):
        fetch_corpus(spec, mirror=None, record_path=record_path)
    assert list(record_path.parent.iterdir()) == []
