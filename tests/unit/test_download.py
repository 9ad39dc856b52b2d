"""A download ends with the published bytes or says why not, whatever the servers do on the way."""

import hashlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import urllib3

from aiayn.data.sources import download
from aiayn.data.sources.download import (
    PublishedFile,
    download_file,
    named_mirror,
    verify_file,
)
from aiayn.errors import ConfigError, FetchError
from tests.case_tables import read_cases
from tests.workflow.loopback_server import LoopbackServer, loopback_server, record_waits

CONTENT = bytes(range(256)) * 40  # 10,240 bytes


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """Serve on a free port of the loopback."""
    with loopback_server() as served:
        yield served


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[float]:
    """Return the waits that the download asks for, without waiting or a mirror."""
    monkeypatch.delenv("AIAYN_MIRROR", raising=False)
    caplog.set_level(logging.INFO)
    return record_waits(monkeypatch)


def sha256(content: bytes) -> str:
    """Return the checksum as a recipe has it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def published(
    *urls: str, content: bytes = CONTENT, checksum: str | None = None
) -> list[PublishedFile]:
    """Return the file of these bytes, to be had at these URLs."""
    checksum = checksum or sha256(content)
    return [PublishedFile("file.tgz", url, checksum, num_bytes=len(content)) for url in urls]


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, without locks."""
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_a_file_is_received_verified_and_named(server: LoopbackServer, tmp_path: Path) -> None:
    url = server.serve("/file.tgz", CONTENT)
    file = download_file(published(url), tmp_path / "new")
    assert file.path == tmp_path / "new" / "file.tgz"
    assert file.path.read_bytes() == CONTENT
    assert (file.url, file.num_bytes, f"sha256:{file.sha256}") == (url, 10240, sha256(CONTENT))
    assert names_in(tmp_path / "new") == ["file.tgz"]


def test_waits_double_and_are_shortened_by_up_to_a_half(
    server: LoopbackServer, tmp_path: Path, waits: list[float]
) -> None:
    url = server.serve("/file.tgz", CONTENT, *["no_such_range"] * 4)
    download_file(published(url), tmp_path)
    assert [
        lower <= wait <= 2 * lower for lower, wait in zip((0.5, 1, 2, 4), waits, strict=True)
    ] == [True] * 4
    assert waits != [1, 2, 4, 8]


@pytest.mark.parametrize("case", read_cases("downloads.toml"), ids=lambda case: case["name"])
def test_a_fault_is_waited_for_or_passed_over_or_the_server_is_given_up(
    case: dict[str, Any],
    server: LoopbackServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    served = (CONTENT * 50)[: case.get("num_bytes", len(CONTENT))]
    url = server.serve("/file.tgz", served, *case["faults"])
    if "error" in case:
        with pytest.raises(FetchError, match=case["error"]):
            download_file(published(url), tmp_path)
    else:
        assert download_file(published(url), tmp_path).path.read_bytes() == CONTENT
    asked = [list(request) for request in server.asked("/file.tgz")]
    assert asked == case.get("asked", asked)
    assert len(asked) == case.get("num_requests", len(asked))
    assert case.get("logged", "") in caplog.text
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 10240


def test_a_server_may_ask_for_a_wait_of_two_minutes_at_most(
    server: LoopbackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    monkeypatch.setattr(urllib3.Retry, "parse_retry_after", lambda self, after: 86400.0)
    url = server.serve("/file.tgz", CONTENT, "busy")
    download_file(published(url), tmp_path)
    assert waits == [120.0]


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        FetchError, match=r"http://127\.0\.0\.1:9/file: .*\(attempt 5\).*AIAYN_ARCHIVES"
    ):
        download_file(published("http://127.0.0.1:9/file"), tmp_path)


def test_a_wrong_file_is_set_aside_and_the_next_address_asked(
    server: LoopbackServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = (
        server.serve("/a/file.tgz", CONTENT, "corrupt"),
        server.serve("/b/file.tgz", CONTENT),
    )
    file = download_file(published(first, second), tmp_path)
    assert (file.url, file.path.read_bytes()) == (second, CONTENT)
    assert names_in(tmp_path) == ["file.tgz", "file.tgz.wrong"]
    seen = hashlib.sha256(b"\x01" + CONTENT[1:]).hexdigest()
    expected = hashlib.sha256(CONTENT).hexdigest()
    assert (
        f"{first}: sha256 {seen}, expected {expected}: not the published file, or damaged in transfer;"
        f" set aside as {tmp_path / 'file.tgz.wrong'}; trying the next address" in caplog.text
    )


def test_every_address_is_named_when_none_has_the_file(
    server: LoopbackServer, tmp_path: Path
) -> None:
    urls = [f"{server.url}/absent/file.tgz", server.serve("/b/file.tgz", CONTENT, "corrupt")]
    with pytest.raises(FetchError) as caught:
        download_file(published(*urls), tmp_path)
    first, *reasons, last = str(caught.value).split("\n")
    assert first == "file.tgz: no address gives the published file:"
    assert reasons[0] == f"  {urls[0]}: 404 Not Found"
    assert reasons[1].startswith(f"  {urls[1]}: sha256 ")
    assert last.startswith("try later, or set AIAYN_MIRROR to a copy, laid out as")
    assert server.asked("/absent/file.tgz") == [("", 404)]  # once


def test_what_an_earlier_start_left_is_continued_and_never_taken_for_whole(
    server: LoopbackServer, tmp_path: Path
) -> None:
    url = server.serve("/file.tgz", CONTENT, "drop", *["busy"] * 9)
    with pytest.raises(FetchError, match="503"):
        download_file(published(url), tmp_path)
    (partial,) = tmp_path.glob(".file.tgz.*.partial")
    assert partial.stat().st_size == 5120
    assert not (tmp_path / "file.tgz").exists()
    server.faults_by_path["/file.tgz"].clear()
    assert download_file(published(url), tmp_path).path.read_bytes() == CONTENT
    assert server.asked("/file.tgz")[-1] == ("bytes=5120-", 206)
    assert names_in(tmp_path) == ["file.tgz"]


def test_what_lies_in_the_folder_is_verified_and_not_asked_for(
    server: LoopbackServer, tmp_path: Path
) -> None:
    (tmp_path / "file.tgz").write_bytes(CONTENT)
    file = download_file(published(f"{server.url}/file.tgz"), tmp_path)
    assert (file.path, file.url) == (tmp_path / "file.tgz", "")
    assert server.requests == []
    assert names_in(tmp_path) == ["file.tgz"]


@pytest.mark.parametrize(
    ("lying", "reason"), [(CONTENT[:-1], "10239 bytes, expected 10240"), (CONTENT[::-1], "sha256")]
)
def test_a_name_in_the_folder_is_not_trusted(
    server: LoopbackServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    lying: bytes,
    reason: str,
) -> None:
    (tmp_path / "file.tgz").write_bytes(lying)
    download_file(published(server.serve("/file.tgz", CONTENT)), tmp_path)
    assert (tmp_path / "file.tgz").read_bytes() == CONTENT
    assert (tmp_path / "file.tgz.wrong").read_bytes() == lying
    assert f"{tmp_path}/file.tgz: {reason}" in caplog.text


def test_a_file_url_is_read_where_it_lies(tmp_path: Path) -> None:
    lying = tmp_path / "a mirror" / "file.tgz"
    lying.parent.mkdir()
    lying.write_bytes(CONTENT)
    file = download_file(published(lying.as_uri()), tmp_path / "archives")
    assert (file.path, file.url) == (lying, lying.as_uri())
    assert not (tmp_path / "archives").exists()
    lying.write_bytes(CONTENT[::-1])
    for url, reason in (
        (lying.as_uri(), r"file\.tgz: sha256 .*expected"),
        (
            "file:///nowhere/file.tgz",
            r"file:///nowhere/file\.tgz: no such file; .*<base>/<mirror_folder>/<path>",
        ),
    ):
        with pytest.raises(FetchError, match=reason):
            download_file(published(url), tmp_path / "archives")
    assert lying.exists()  # a mirror is not ours to rename in


def test_a_weaker_sum_is_checked_and_said_to_be_weaker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, sha1 = tmp_path / "file.tgz", hashlib.sha1(CONTENT).hexdigest()
    path.write_bytes(CONTENT)
    assert verify_file(path, *published("", checksum=f"sha1:{sha1}")).checked_by == "sha1"
    assert f"checked by sha1 only; 10240 bytes, {sha256(CONTENT).replace(':', ' ')}" in caplog.text
    with pytest.raises(FetchError, match=rf"sha1 {sha1}, expected {'0' * 40}"):
        verify_file(path, *published("", checksum=f"sha1:{'0' * 40}"))


def test_two_processes_that_share_an_archive_download_it_once(
    server: LoopbackServer, tmp_path: Path
) -> None:
    server.seconds_per_block = 0.005
    url = server.serve("/file.tgz", CONTENT)
    threads = [
        threading.Thread(target=download_file, args=(published(url), tmp_path)) for _ in range(2)
    ]  # flock separates two threads like two processes
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.requests) == 1


def test_a_mirror_is_the_one_asked_for_else_the_environments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert named_mirror("") is None
    monkeypatch.setenv("AIAYN_MIRROR", "file:///data")
    assert named_mirror(None) == named_mirror("") == "file:///data"
    assert named_mirror("http://a") == "http://a"
    with pytest.raises(ConfigError, match="mirror: Invalid IPv6 URL"):
        named_mirror("http://[a")


def test_a_plain_folder_is_a_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a mirror").mkdir()
    assert named_mirror(str(tmp_path / "a mirror")) == (tmp_path / "a mirror").as_uri()
    monkeypatch.chdir(tmp_path)
    assert named_mirror("a mirror") == (tmp_path / "a mirror").as_uri()
    with pytest.raises(
        ConfigError, match="mirror 'b mirror': no such folder; expected a folder, file://"
    ):
        named_mirror("b mirror")


def unsized(url: str) -> list[PublishedFile]:
    """Return the file at a URL, whose number of bytes is not published."""
    return [PublishedFile("file.tgz", url, sha256(CONTENT))]


def test_an_endless_answer_ends_at_the_maximum(
    server: LoopbackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_BYTES", 2_000_000)
    url = server.serve("/file.tgz", CONTENT, "endless")
    with pytest.raises(FetchError, match=r"file\.tgz: sends more than 2000000 bytes"):
        download_file(unsized(url), tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2_000_000
    url = server.serve("/large.tgz", CONTENT * 200)
    with pytest.raises(FetchError, match=r"offers 2048000 bytes, more than 2000000"):
        download_file(unsized(url), tmp_path)


def test_a_slow_server_is_given_up_and_the_next_start_continues(
    server: LoopbackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "SPEED_SECONDS", 0.2)
    monkeypatch.setattr(download, "MIN_BYTES_PER_SECOND", 100_000)
    server.seconds_per_block = 0.1
    url = server.serve("/file.tgz", CONTENT)
    with pytest.raises(FetchError, match=r"bytes in 0 s, expected at least 100000 bytes a second"):
        download_file(unsized(url), tmp_path)
    assert len(server.requests) == 1
    server.seconds_per_block = 0.0
    assert download_file(unsized(url), tmp_path).path.read_bytes() == CONTENT
    assert server.asked("/file.tgz")[-1][1] == 206


def test_a_password_is_refused_in_a_flag_and_never_shown_from_the_environment(
    server: LoopbackServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = server.url.replace("://", "://me:s3cr%20et@")
    with pytest.raises(
        ConfigError, match=r"~/\.netrc, or give the whole URL in the environ"
    ) as error:
        named_mirror(secret)
    assert "s3cr" not in str(error.value)
    monkeypatch.setenv("AIAYN_MIRROR", secret)
    assert named_mirror(None) == server.url
    url = server.serve("/file.tgz", CONTENT, "busy")
    assert download_file(published(url), tmp_path).url == url
    assert server.authorizations == {requests.auth._basic_auth_str("me", "s3cr et")}
    with pytest.raises(FetchError) as failed:
        download_file(published(f"{server.url}/absent/file.tgz"), tmp_path / "new")
    assert f"(now {server.url})" in str(failed.value)
    assert "s3cr" not in caplog.text + str(failed.value)
    server.authorizations.clear()
    monkeypatch.setenv("AIAYN_MIRROR", secret.replace("127.0.0.1", "127.0.0.2"))
    download_file(published(server.serve("/other.tgz", CONTENT)), tmp_path / "other")
    assert server.authorizations == {""}  # the password of a different server
