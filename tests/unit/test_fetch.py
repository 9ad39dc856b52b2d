"""Text comes whole, verified and aligned, from a shipped file, a folder or a server; whatever goes
wrong is named.
"""

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aiayn.data.sources.fetch import fetch_corpus
from aiayn.data.text.lines import read_lines
from aiayn.errors import ConfigError, CorpusError, FetchError
from aiayn.spec.system import (
    CONFIG_FOLDER,
    CorpusSpec,
    ParallelSource,
    PublicFile,
    ShippedSource,
    read_corpus,
)
from tests.small_corpus import SMALL
from tests.workflow.loopback_server import LoopbackServer, loopback_server

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
    server: LoopbackServer, record_path: Path
) -> None:
    for split in SPLITS:
        for language, content in CONTENT_BY_LANGUAGE.items():
            server.serve(f"/public/raw/{split}.{language}.gz", pack(content))
    fetch_corpus(parallel_spec(f"{server.url}/public"), mirror=None, record_path=record_path)
    assert len(server.requests) == 6
    assert (record_path.parent / "test.de").read_bytes() == CONTENT_BY_LANGUAGE["de"]


def test_a_wrong_sha256_names_both_and_leaves_the_earlier_text(
    mirror_folder: Path, record_path: Path
) -> None:
    fetch_corpus(parallel_spec(), mirror=mirror_folder.as_uri(), record_path=record_path)
    record_path.write_text("the record")
    other = pack(b"other\ntext\n")
    (mirror_folder / "small/raw/test.de.gz").write_bytes(other)
    expected = sha256(pack(CONTENT_BY_LANGUAGE["de"]))
    with pytest.raises(
        FetchError, match=rf"raw/test\.de\.gz: sha256 {sha256(other)}, expected {expected}"
    ):
        fetch_corpus(parallel_spec(), mirror=mirror_folder.as_uri(), record_path=record_path)
    assert (record_path.parent / "test.de").read_bytes() == CONTENT_BY_LANGUAGE["de"]
    assert record_path.read_text() == "the record"
    assert len(list(record_path.parent.iterdir())) == 7


def replace_public_file(
    spec: CorpusSpec, mirror_folder: Path, name: str, packed: bytes
) -> CorpusSpec:
    """Put other bytes into the mirror and their SHA-256 into the corpus, as its author would have."""
    (mirror_folder / f"small/raw/{name}.gz").write_bytes(packed)
    assert isinstance(spec.source, ParallelSource)
    split, language = name.split(".")
    public_file = PublicFile(path=f"raw/{name}.gz", sha256=sha256(packed))
    file_by_split = spec.source.file_by_split | {
        split: spec.source.file_by_split[split] | {language: public_file}
    }
    return msgspec.structs.replace(
        spec, source=msgspec.structs.replace(spec.source, file_by_split=file_by_split)
    )


def test_a_torn_gzip_file_is_named(mirror_folder: Path, record_path: Path) -> None:
    spec = replace_public_file(
        parallel_spec(), mirror_folder, "train.de", pack(CONTENT_BY_LANGUAGE["de"])[:-9]
    )
    with pytest.raises(CorpusError, match=r"small/raw/train\.de\.gz: not a whole .gz file"):
        fetch_corpus(spec, mirror=mirror_folder.as_uri(), record_path=record_path)


def test_unequal_line_counts_name_both_files_and_counts(
    mirror_folder: Path, record_path: Path
) -> None:
    spec = replace_public_file(parallel_spec(), mirror_folder, "dev.de", pack(b"eins\n"))
    with pytest.raises(
        CorpusError, match=r"fetch/dev\.en has 2 lines, .*fetch/dev\.de has 1 lines"
    ):
        fetch_corpus(spec, mirror=mirror_folder.as_uri(), record_path=record_path)
    assert list(record_path.parent.iterdir()) == []


@pytest.mark.parametrize("mirror", ["/data/mirror", "ftp://example.org"])
def test_a_mirror_that_is_neither_url_nor_folder_is_refused(mirror: str, record_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no such folder; expected a folder, file://, http:// or https://"
    ):
        fetch_corpus(parallel_spec(), mirror=mirror, record_path=record_path)
    assert list(record_path.parent.iterdir()) == []


@pytest.mark.parametrize("name", ["demo_en_de", "demo_en_fr"])
def test_shipped_text_is_whole_and_its_test_sets_are_new_sentences_in_known_words(
    name: str, tmp_path: Path
) -> None:
    spec = read_corpus(name)
    assert isinstance(spec.source, ShippedSource)
    record = fetch_corpus(spec, mirror=None, record_path=tmp_path / "record.json")
    assert {
        split: pair.num_lines for split, pair in record.pair_by_split.items()
    } == spec.source.num_pairs_by_split
    sides = [
        {
            split: list(read_lines(pair.path_by_language[language]))
            for split, pair in record.pair_by_split.items()
        }
        for language in spec.language_pair.split("-")
    ]
    for lines_by_split in sides:
        words = {
            split: {word.strip(".,") for line in lines for word in line.split()}
            for split, lines in lines_by_split.items()
        }
        assert words["demo_dev"] | words["demo_test"] <= words["train"]
    assert len(set(sides[0]["train"])) == 12_000
    assert not set(sides[0]["train"]) & {*sides[0]["demo_dev"], *sides[0]["demo_test"]}


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


def test_listed_pairs_are_written_line_by_line(record_path: Path) -> None:
    record = fetch_corpus(read_corpus("toy_en_es"), mirror=None, record_path=record_path)
    assert sorted(path.name for path in record_path.parent.iterdir()) == [
        f"{split}.{language}"
        for split in ("toy_eight", "toy_six", "train")
        for language in ("en", "es")
    ]
    assert [pair.num_lines for pair in record.pair_by_split.values()] == [6, 6, 8]
    lines = [
        list(read_lines(record_path.parent / f"toy_eight.{language}")) for language in ("en", "es")
    ]
    assert list(zip(*lines, strict=True))[1] == ("the cat is black", "el gato es negro")
    assert (
        (record_path.parent / "train.es").read_bytes()
        == b"hola mundo\nte amo\nel gato es negro\nbuenos dias\neste es un libro\ncomo te llamas\n"
    )


def test_every_corpus_file_can_be_read_and_names_whole_digests() -> None:
    names = sorted(path.stem for path in (CONFIG_FOLDER / "corpora").glob("*.yaml"))
    assert {"demo_en_de", "multi30k_en_fr", "multi30k_revisit_en_de", "wmt14_en_fr"} <= set(names)
    for name in names:
        source = read_corpus(name).source
        if isinstance(source, ParallelSource):
            digests = [
                file.sha256 for files in source.file_by_split.values() for file in files.values()
            ]
            assert all(len(digest) == 64 and int(digest, 16) for digest in digests)
            assert len(set(digests)) == len(digests)
