"""Whole recipes, fetched from a server that is slow, busy, breaks off and serves one corrupt file
first.

The archives are small and of the real ones' layout. The recipes inherit the real ones
(small_recipes.py).
"""

import logging
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from aiayn.data.sources.fetch import fetch_corpus
from aiayn.errors import CorpusError, FetchError, SpaceError
from aiayn.records import RawCorpus
from aiayn.spec.corpus import ArchiveSource
from aiayn.spec.system import CorpusSpec, read_corpus
from tests.sacrebleu_cache import move_cache
from tests.workflow.loopback_server import LoopbackServer, loopback_server, record_waits
from tests.workflow.small_recipes import (
    NUM_LINES_BY_ARCHIVE,
    member_bytes,
    member_lines,
    serve_recipes,
    small_recipe,
    write_recipe,
)


@pytest.fixture
def server(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LoopbackServer]:
    """Serve small archives of both languages at every place of the recipes, and a mirror that has
    test sets alone.
    """
    monkeypatch.delenv("AIAYN_MIRROR", raising=False)
    caplog.set_level(logging.INFO)
    record_waits(monkeypatch)
    with loopback_server() as served:
        serve_recipes(
            served, map(read_corpus, ("wmt14_en_de", "wmt14_en_fr", "wmt16_en_de_google"))
        )
        yield served


@pytest.fixture(autouse=True)
def _empty_sacrebleu_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move_cache(("wmt13", "wmt14/full", "wmt14"), tmp_path / "sacrebleu", monkeypatch)


def write_small(name: str, server: LoopbackServer, config_folder: Path) -> str:
    """Write the small recipe of a real one into a config folder and return its name."""
    return write_recipe(small_recipe(read_corpus(name), server, vocabulary_size=500), config_folder)


def small_corpus(name: str, server: LoopbackServer, tmp_path: Path) -> CorpusSpec:
    """Return the small recipe of a real one."""
    return read_corpus(write_small(name, server, tmp_path / "config"), tmp_path / "config")


def expected_text(corpus: CorpusSpec) -> Mapping[str, bytes]:
    """Return both sides of training, made from the recipe's members one after the other."""
    assert isinstance(corpus.source, ArchiveSource)
    return {
        language: b"".join(
            member_bytes(
                member_lines(name, archive.member_by_language[language], NUM_LINES_BY_ARCHIVE[name])
            )
            for name, archive in corpus.source.joined().items()
        )
        for language in corpus.language_pair.split("-")
    }


def fetch(corpus: CorpusSpec, mirror: str | None, folder: Path) -> RawCorpus:
    """Fetch a corpus without waits between attempts."""
    return fetch_corpus(
        corpus,
        mirror=mirror,
        record_path=folder / "fetch" / "record.json",
        archives_folder=folder / "archives",
    )


def test_english_french_comes_from_its_five_archives_and_from_a_zip_where_a_tar_is_gone(
    server: LoopbackServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = small_corpus("wmt14_en_fr", server, tmp_path)
    del server.content_by_path["/statmt/wmt10/training-giga-fren.tar"]
    raw = fetch(corpus, f"{server.url}/mirror", tmp_path)
    for language, text in expected_text(corpus).items():
        assert (tmp_path / "fetch" / f"train.{language}").read_bytes() == text
    assert raw.pair_by_split["train"].num_lines == 120 + 90 + 40 + 150 + 70
    giga = raw.archive_by_name["giga_fren"]
    assert giga.url == f"{server.url}/huggingface/wmt10/resolve/main-zip/training-giga-fren.zip"
    assert (giga.checked_by, giga.num_lines, giga.published_num_lines) == ("sha256", 150, 150)
    assert raw.provenance.input_sha256_by_path[giga.path] == giga.sha256
    assert "training-giga-fren.tar: 404 Not Found; trying the next address" in caplog.text


def test_an_archive_of_a_weaker_sum_and_an_unpublished_count_is_taken_and_logged(
    server: LoopbackServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = small_corpus("wmt16_en_de_google", server, tmp_path)
    raw = fetch(corpus, f"{server.url}/mirror", tmp_path)
    seen = raw.archive_by_name["news_commentary_v11"]
    assert (seen.checked_by, seen.num_lines, seen.published_num_lines) == ("sha1", 45, None)
    assert "training-parallel-nc-v11.tgz: checked by sha1 only;" in caplog.text
    assert "news_commentary_v11: its number of pairs is not published; 45 were read" in caplog.text
    text = (tmp_path / "fetch" / "train.en").read_bytes()
    assert text == expected_text(corpus)["en"]


def fetch_fails(corpus: CorpusSpec, server: LoopbackServer, tmp_path: Path) -> None:
    """Fetch, and see that nothing is left beside the record when it fails."""
    try:
        fetch(corpus, f"{server.url}/mirror", tmp_path)
    finally:
        assert list((tmp_path / "fetch").iterdir()) == []


def test_every_archive_that_cannot_be_had_is_named_at_once(
    server: LoopbackServer, tmp_path: Path
) -> None:
    corpus = small_corpus("wmt14_en_de", server, tmp_path)
    for path, content in list(server.content_by_path.items()):
        if "europarl" in path:
            server.content_by_path[path] = content[:100]
        if "nc-v9" in path:
            del server.content_by_path[path]
    with pytest.raises(FetchError) as caught:
        fetch_fails(corpus, server, tmp_path)
    message = str(caught.value)
    assert "training-parallel-europarl-v7.tgz: no address gives the published file:" in message
    assert "/training-parallel-europarl-v7.tgz: offers 100 bytes, the published file has" in message
    assert (
        f"\n  {server.url}/huggingface/wmt14/resolve/main-zip/training-parallel-nc-v9.zip: 404 Not"
        " Found" in message
    )
    assert (
        tmp_path / "archives" / "training-parallel-commoncrawl.tgz"
    ).exists()  # kept for the next start


@pytest.mark.parametrize(
    ("num_published", "seen"),
    [
        (121, r"120 pairs, published 121 \(num_lines of europarl_v7\)"),
        (119, "120 pairs, published 119"),
    ],
)
def test_another_number_of_pairs_than_was_published_is_refused(
    num_published: int, seen: str, server: LoopbackServer, tmp_path: Path
) -> None:
    corpus = small_corpus("wmt14_en_de", server, tmp_path)
    assert isinstance(corpus.source, ArchiveSource)
    europarl = msgspec.structs.replace(
        corpus.source.archive_by_name["europarl_v7"], num_lines=num_published
    )
    archives = corpus.source.archive_by_name | {"europarl_v7": europarl}
    changed = msgspec.structs.replace(
        corpus, source=msgspec.structs.replace(corpus.source, archive_by_name=archives)
    )
    with pytest.raises(CorpusError, match=rf"europarl-v7\.tgz: {seen}"):
        fetch_fails(changed, server, tmp_path)


def test_what_does_not_fit_on_the_disk_is_not_begun(
    server: LoopbackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A disk that is full after hours of downloads would leave nothing.
    corpus = small_corpus("wmt14_en_de", server, tmp_path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        "aiayn.provenance.shutil.disk_usage", lambda path: usage._replace(free=1000)
    )
    with pytest.raises(
        SpaceError, match=r"GB needed for archives to download and their text, 0\.00 GB free"
    ):
        fetch_fails(corpus, server, tmp_path)
    assert [path for path, _, _ in server.requests if "newstest" not in path] == []
