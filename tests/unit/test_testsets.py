"""Public test sets come exactly as published: from sacreBLEU's archive, its cache, or a mirror that
fills it.
"""

import hashlib
import logging
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import sacrebleu
from sacrebleu.dataset import DATASETS

from aiayn.data.sources.testsets import (
    SACREBLEU_NAME_BY_TESTSET,
    public_references,
    read_public_testset,
)
from aiayn.errors import ConfigError, CorpusError, FetchError, ScoreError
from aiayn.spec.corpus import ArchiveSource, PlainText, PublicTestset
from aiayn.spec.system import read_corpus
from tests.sacrebleu_cache import move_cache, put_sgm_archive
from tests.workflow.loopback_server import loopback_server, record_waits

LINES = {"en": ["One S&P.", "T\u2028wo\u00a0!"], "de": ["Eins S&P.", "Zw\u00adei\u00a0\u202f!"]}
BYTES = {
    language: "".join(f"{line}\n" for line in lines).encode() for language, lines in LINES.items()
}
MD5 = {language: f"md5:{hashlib.md5(content).hexdigest()}" for language, content in BYTES.items()}
NEWSTEST = PublicTestset(
    sacrebleu_name="wmt14/full",
    num_lines=2,
    mirror_folder="newstest",
    plain_by_language={
        language: PlainText(path=f"newstest2014.{language}", checksum=MD5[language])
        for language in LINES
    },
)


@pytest.fixture(autouse=True)
def cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Path:
    """Give sacreBLEU an empty cache, and no network."""
    monkeypatch.delenv("AIAYN_MIRROR", raising=False)
    caplog.set_level(logging.INFO)
    record_waits(monkeypatch)
    move_cache(SACREBLEU_NAME_BY_TESTSET.values(), tmp_path / "sacrebleu", monkeypatch)
    for name in SACREBLEU_NAME_BY_TESTSET.values():
        monkeypatch.setattr(DATASETS[name], "data", ["file:///nowhere/test-full.tgz"])
    return tmp_path / "sacrebleu" / "wmt14" / "full"


@pytest.fixture
def mirror(tmp_path: Path) -> str:
    """Lay out a mirror that holds the plain text, and return its URL."""
    folder = tmp_path / "a mirror" / "newstest"
    folder.mkdir(parents=True)
    for language, content in BYTES.items():
        (folder / f"newstest2014.{language}").write_bytes(content)
    return folder.parent.as_uri()


def read(mirror: str | None = None, published: PublicTestset = NEWSTEST) -> dict[str, list[str]]:
    """Read the small newstest2014."""
    return read_public_testset("newstest2014", published, "en-de", mirror=mirror)


def put_archive(
    cache: Path, monkeypatch: pytest.MonkeyPatch, lines: dict[str, list[str]] = LINES
) -> None:
    """Put an archive of sgm files where sacreBLEU keeps it, and let sacreBLEU expect its MD5."""
    path = put_sgm_archive("wmt14/full", "en-de", lines, monkeypatch)
    assert path == cache / "raw" / "wmt14_full.test-full.tgz"


def test_an_archive_in_sacrebleus_cache_is_read_exactly(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_archive(cache, monkeypatch)
    assert read() == LINES  # sacreBLEU's own text would have a blank for U+00A0, U+202F and U+2028


def test_an_archive_of_another_md5_is_set_aside_and_the_mirror_is_read_at_the_next_start(
    cache: Path, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_archive(cache, monkeypatch)
    monkeypatch.setattr(DATASETS["wmt14/full"], "md5", ["0" * 32])
    with pytest.raises(
        FetchError, match=f"expected {'0' * 32}: not the published .*; set aside as"
    ):
        read(mirror)
    assert [path.name for path in (cache / "raw").iterdir()] == ["wmt14_full.test-full.tgz.wrong"]
    assert read(mirror) == LINES


def test_a_mirrors_plain_text_is_kept_and_then_works_offline(cache: Path, mirror: str) -> None:
    assert read(mirror) == LINES
    assert (cache / "plain" / "en-de" / "newstest2014.de").read_bytes() == BYTES["de"]
    assert read(mirror=None) == LINES


def test_a_mirrors_text_of_another_md5_is_not_taken(cache: Path, mirror: str) -> None:
    path = (
        Path(urllib.request.url2pathname(urllib.parse.urlsplit(mirror).path))
        / "newstest"
        / "newstest2014.de"
    )
    path.write_bytes(b"eins\nzwei\n")
    with pytest.raises(FetchError) as caught:
        read(mirror)
    message = str(caught.value)
    assert message.startswith(
        f"test set 'newstest2014' (wmt14/full): {mirror}/newstest/newstest2014.de: md5"
        f" {hashlib.md5(path.read_bytes()).hexdigest()}, expected {MD5['de'][4:]}: not the"
        " published file"
    )
    assert "file:///nowhere/test-full.tgz: no such file" in message
    assert (
        f"/test-full.tgz into sacreBLEU's cache as {cache}/raw/wmt14_full.test-full.tgz" in message
    )
    assert not (cache / "plain" / "en-de" / "newstest2014.de").exists()


def test_without_the_test_set_on_the_mirror_the_public_archive_is_downloaded(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_archive(cache, monkeypatch)
    packed = (cache / "raw" / "wmt14_full.test-full.tgz").read_bytes()
    (cache / "raw" / "wmt14_full.test-full.tgz").unlink()
    with loopback_server() as server:
        monkeypatch.setattr(
            DATASETS["wmt14/full"], "data", [server.serve("/test-full.tgz", packed, "busy", "drop")]
        )
        assert read((tmp_path / "empty").as_uri()) == LINES
    assert read() == LINES  # from the cache
    assert (cache / "raw" / "wmt14_full.test-full.tgz").read_bytes() == packed


def test_another_number_of_lines_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_archive(cache, monkeypatch, {"en": ["One"], "de": ["Eins"]})
    with pytest.raises(
        CorpusError,
        match=r"test set 'newstest2014' \(en\): 1 lines, published 2; delete .*full and",
    ):
        read()


def test_a_test_set_that_sacrebleu_does_not_have_is_refused() -> None:
    testset = PublicTestset(sacrebleu_name="wmt15/full", num_lines=2)
    with pytest.raises(ConfigError, match="sacreBLEU has no 'wmt15/full' of sgm files for en-de"):
        read(published=testset)


def test_references_of_the_papers_test_sets_are_read_as_fetch_reads_them(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_archive(cache, monkeypatch, {"en": ["One"] * 3003, "de": ["Eins\u00a0!"] * 3003})
    assert public_references("newstest2014", "en-de") == ["Eins\u00a0!"] * 3003


def test_references_of_other_test_sets_are_split_at_line_feeds_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "references"
    path.write_bytes("eins\u2028zwei\r\ndrei\n".encode())
    monkeypatch.setattr(sacrebleu, "get_reference_files", lambda name, language_pair: [str(path)])
    assert public_references("wmt17", "en-de") == ["eins\u2028zwei\r", "drei"]


def test_a_test_set_of_other_languages_is_refused() -> None:
    with pytest.raises(
        ScoreError, match=r"test set 'newstest2014': not published for en-nl; it has .*en-de"
    ):
        public_references("newstest2014", "en-nl")


@pytest.mark.parametrize("error", [OSError("no route to host"), SystemExit(1)])
def test_a_failed_download_names_the_cache(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str, language_pair: str) -> list[str]:
        raise error

    monkeypatch.setattr(sacrebleu, "get_reference_files", fail)
    with pytest.raises(
        FetchError, match=r"test set 'wmt17' \(wmt17\): give --references FILE, or .*cache"
    ):
        public_references("wmt17", "en-de")


@pytest.mark.parametrize("recipe", ["wmt14_en_de", "wmt14_en_fr"])
def test_the_lines_of_the_real_test_sets_have_the_published_md5(
    recipe: str, newstest: Path
) -> None:
    corpus = read_corpus(recipe)
    assert isinstance(corpus.source, ArchiveSource)
    for name in corpus.testsets:
        published, mirror = corpus.source.testset_by_name[name], newstest.parent.as_uri()
        lines_by_language = read_public_testset(
            name, published, corpus.language_pair, mirror=mirror
        )
        for language, lines in lines_by_language.items():
            md5 = hashlib.md5("".join(f"{line}\n" for line in lines).encode()).hexdigest()
            assert published.plain_by_language[language].checksum == f"md5:{md5}"


def test_without_a_network_references_of_ones_own_are_named() -> None:
    with pytest.raises(
        FetchError, match=r"give its references with --references FILE, or .*no such file"
    ):
        public_references("newstest2014", "en-de")


def test_several_references_a_line_are_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(tmp_path / name) for name in "ab"]
    monkeypatch.setattr(sacrebleu, "get_reference_files", lambda name, pair: paths)
    with pytest.raises(ScoreError, match="2 references for each line"):
        public_references("wmt20/tworefs", "en-de")
