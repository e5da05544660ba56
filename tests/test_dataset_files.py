"""Where files of data sets come from: the search order, downloads that go wrong, archives and corrupted files.

The homes on the network cannot be reached from the tests; a small server on this machine stands in for them.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import http.server
import io
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import threading
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import requests
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from srosr.datasets import caltech, letter
from srosr.datasets.caltech import unpack_pictures
from srosr.datasets.dataset import DatasetError
from srosr.datasets.fetch import DataFile, find_or_fetch
from srosr.datasets.mnist import read_idx
from srosr.datasets.registry import load_dataset
from srosr.tables.arrays import read_npz
from srosr.tables.matlab import read_mat

BODY = b"the content of the file " * 1000


class Home(http.server.ThreadingHTTPServer):
    """A server whose answers are set by path: bytes, a status, or a function that writes the answer itself."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answer)
        self.answers = {}
        self.asked = []
        self.over = threading.Event()

    def url(self, path, answer=404):
        self.answers[f"/{path}"] = answer
        return f"http://127.0.0.1:{self.server_port}/{path}"


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        answer = self.server.answers.get(self.path, 404)
        if callable(answer):
            answer(self)
        elif isinstance(answer, int):
            self.send_error(answer)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    def log_message(self, *args):
        pass


def half(handler, body=BODY):
    """Announce all and send half."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])
    handler.wfile.flush()


def half_and_wait(handler):
    half(handler, bytes(2_000_000))
    handler.server.over.wait(30)


@pytest.fixture
def home():
    server = Home()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def own(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def own_folder_empty_cache_and_no_proxy(monkeypatch, own, cache):
    monkeypatch.setenv("SROSR_DATA_DIR", str(own))
    monkeypatch.setenv("SROSR_CACHE_DIR", str(cache))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def md5(content):
    return f"md5:{hashlib.md5(content).hexdigest()}"


def sha256(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def the_file(*urls, names=None):
    return DataFile("set", names or {"file.bin": sha256(BODY), "other.bin": None}, urls)


def fetch(file, download=True):
    return find_or_fetch("the set", file, Path.read_bytes, download=download)


def left_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# The search order


def test_the_own_folder_comes_before_the_cache_and_the_cache_before_the_network(home, own, cache):
    file = the_file(home.url("file.bin", b"from the network"), names={"file.bin": None, "other.bin": None})
    places = [own / "set" / "file.bin", own / "file.bin", own / "set" / "other.bin", cache / "set" / "file.bin"]
    for path in places:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(str(path).encode())
    for path in places:
        assert fetch(file) == str(path).encode()
        path.unlink()
    assert home.asked == []
    assert fetch(file) == b"from the network"
    assert home.asked == ["/file.bin"]
    assert fetch(file) == b"from the network" and len(home.asked) == 1  # now from the cache


def test_without_an_own_folder_the_cache_is_the_first_place(monkeypatch, cache):
    monkeypatch.delenv("SROSR_DATA_DIR")
    (cache / "set").mkdir(parents=True)
    (cache / "set" / "file.bin").write_bytes(BODY)
    assert fetch(the_file(), download=False) == BODY


def test_the_cache_is_in_the_users_folder_where_nothing_names_it(monkeypatch, tmp_path):
    from srosr.datasets.fetch import cache_folder

    monkeypatch.delenv("SROSR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder().name == "srosr" and cache_folder().is_absolute()


def test_a_data_folder_that_does_not_exist_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SROSR_DATA_DIR", str(tmp_path / "absent"))
    with pytest.raises(DatasetError, match=r"SROSR_DATA_DIR names .*absent, which is not a folder"):
        fetch(the_file())


def test_without_download_the_network_is_not_asked_and_the_message_says_what_to_do(home):
    url = home.url("file.bin", BODY)
    with pytest.raises(DatasetError) as caught:
        fetch(the_file(url), download=False)
    assert home.asked == []
    for piece in ("the set: ", "file.bin or other.bin", "download=False", url, sha256(BODY), "as set/file.bin"):
        assert piece in str(caught.value)


@pytest.mark.parametrize("name", ["yaleb", "mnist", "uiuc", "letter", "usps", "usps-all", "coil20", "orl"])
def test_every_loader_without_its_file_says_where_to_get_it(name):
    with pytest.raises(
        DatasetError, match=rf"(?s){name}: .*\nPut .* from https?://.* into the folder that SROSR_DATA_DIR"
    ):
        load_dataset(name, download=False)


def test_features_without_a_home_point_to_the_pictures(cache):
    with pytest.raises(DatasetError, match=r"(?s)it cannot be downloaded.*load_caltech101\(pictures=True\)"):
        load_dataset("caltech101")
    with pytest.raises(DatasetError, match=r"(?s)it cannot be downloaded.*load_caltech256\(\)"):
        load_dataset("caltech256-clip")
    assert not cache.exists()


# Files with a wrong checksum


def test_a_damaged_own_file_is_an_error_and_is_never_touched(home, own, cache):
    path = own / "set" / "file.bin"
    path.parent.mkdir()
    path.write_bytes(b"damaged")
    with pytest.raises(DatasetError, match=r"the set: .*own/set/file\.bin cannot be used: its checksum is not sha256:"):
        fetch(the_file(home.url("file.bin", BODY)))
    assert path.read_bytes() == b"damaged"
    assert home.asked == [] and not cache.exists()


def test_a_damaged_cached_file_is_fetched_anew(home, cache):
    (cache / "set").mkdir(parents=True)
    (cache / "set" / "file.bin").write_bytes(b"damaged")
    assert fetch(the_file(home.url("file.bin", BODY))) == BODY
    assert (cache / "set" / "file.bin").read_bytes() == BODY


def test_a_damaged_cached_file_that_cannot_be_downloaded_is_removed_and_reported(cache):
    (cache / "set").mkdir(parents=True)
    (cache / "set" / "file.bin").write_bytes(b"damaged")
    with pytest.raises(
        DatasetError, match=r"download=False\. A damaged copy was removed from the cache \(its checksum"
    ):
        fetch(the_file("http://127.0.0.1:9/file.bin"), download=False)
    assert left_in(cache) == []


def test_a_cached_file_stays_when_it_is_not_at_fault(home, cache):
    """A full disk or want of memory while reading is no reason to download a gigabyte again."""
    (cache / "set").mkdir(parents=True)
    (cache / "set" / "file.bin").write_bytes(BODY)
    for trouble in (OSError(28, "No space left on device"), MemoryError()):

        def read(path, trouble=trouble):
            raise trouble

        with pytest.raises(DatasetError, match=r"No space left|MemoryError"):
            find_or_fetch("the set", the_file(home.url("file.bin", BODY)), read)
    assert left_in(cache) == ["set/file.bin"] and home.asked == []


def test_a_file_without_checksum_is_checked_by_what_is_in_it(home, cache):
    """Letter's text, with one number changed and without a checksum, is still not taken for the published data."""
    text = b"T,2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,8\n"
    file = DataFile("letter", {"letter-recognition.data": None}, (home.url("letter-recognition.data", text),))
    with pytest.raises(DatasetError, match=r"letter: .*does not hold the published data"):
        find_or_fetch("letter", file, letter._read)
    assert left_in(cache) == []


# Downloads


def test_a_download_arrives_whole_and_says_nothing_on_standard_output(home, cache, capfd):
    assert fetch(the_file(home.url("file.bin", BODY))) == BODY
    assert left_in(cache) == ["set/file.bin"]
    assert capfd.readouterr().out == ""


def test_a_download_draws_its_progress_on_a_terminal(home, cache, monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")
    fetch(the_file(home.url("file.bin", BODY)))
    shown = capfd.readouterr()
    assert shown.out == "" and "file.bin" in shown.err and "kB" in shown.err


def test_a_download_with_the_wrong_checksum_is_an_error_and_leaves_nothing(home, cache):
    url = home.url("file.bin", BODY + b"!")
    with pytest.raises(DatasetError) as caught:
        fetch(the_file(url))
    assert f"{url}: the downloaded file is not the right one: its checksum is not {sha256(BODY)}" in str(caught.value)
    assert left_in(cache) == []


def test_a_download_that_ends_too_early_is_an_error_and_leaves_nothing(home, cache):
    for names in ({"file.bin": sha256(BODY)}, {"file.bin": None}):
        with pytest.raises(DatasetError, match="broke off before the file was complete"):
            fetch(the_file(home.url("file.bin", half), names=names))
    assert left_in(cache) == []


def test_a_download_that_ends_too_early_is_noticed_without_the_help_of_urllib3(monkeypatch, cache):
    """Its older versions end the stream as if it were complete."""
    answer = requests.Response()
    answer.status_code, answer.raw = 200, io.BytesIO(BODY[: len(BODY) // 2])
    answer.headers["Content-Length"] = str(len(BODY))
    monkeypatch.setattr(requests, "get", lambda *_, **__: answer)
    with pytest.raises(DatasetError, match="broke off before the file was complete"):
        fetch(the_file("http://nowhere/file.bin", names={"file.bin": None}))
    assert left_in(cache) == []


def test_a_length_that_is_not_a_number_is_ignored(home):
    def announce_nonsense(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "many")
        handler.end_headers()
        handler.wfile.write(BODY)

    assert fetch(the_file(home.url("file.bin", announce_nonsense))) == BODY


@pytest.mark.parametrize("status", [403, 404, 500])
def test_an_error_status_of_the_server_is_reported(home, cache, status):
    with pytest.raises(
        DatasetError, match=rf"the download failed \(http://.*: the server answered with HTTP status {status}"
    ):
        fetch(the_file(home.url("file.bin", status)))
    assert left_in(cache) == []


def test_an_unreachable_server_is_reported_within_seconds(cache):
    start = time.monotonic()
    with pytest.raises(DatasetError, match="cannot be reached: is this machine offline"):
        fetch(the_file("http://127.0.0.1:9/file.bin"))  # the discard port, on which nothing listens
    assert time.monotonic() - start < 10
    assert left_in(cache) == []


def test_a_server_that_falls_silent_is_given_up(home, cache, monkeypatch):
    monkeypatch.setattr("srosr.datasets.fetch.TIMEOUT", (1.0, 0.3))
    with pytest.raises(DatasetError, match="stopped sending before the file was complete"):
        fetch(the_file(home.url("file.bin", half_and_wait)))
    assert left_in(cache) == []


def test_a_second_home_is_tried_where_the_first_fails(home, cache):
    urls = home.url("gone/file.bin", 404), home.url("wrong/file.bin", b"something else"), home.url("file.bin", BODY)
    assert fetch(the_file(*urls)) == BODY
    assert home.asked == ["/gone/file.bin", "/wrong/file.bin", "/file.bin"]


def test_all_homes_that_failed_are_named(home):
    urls = home.url("a", 404), home.url("b", b"something else")
    with pytest.raises(
        DatasetError, match=r"/a: the server .* HTTP status 404; .*/b: the downloaded file is not the right one"
    ):
        fetch(the_file(*urls))


def test_a_cache_that_cannot_be_written_to_is_reported(home, cache):
    cache.write_text("a file where the folder should be")
    with pytest.raises(DatasetError, match="cannot be written to"):
        fetch(the_file(home.url("file.bin", BODY)))


def test_compressed_files_are_stored_as_they_are(home, cache):
    """Servers that mark a .gz file as compressed content make clients unpack it, and checksums fail."""
    packed = gzip.compress(BODY)

    def answer(handler):
        handler.send_response(200)
        if "gzip" in handler.headers.get("Accept-Encoding", ""):
            handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(packed)))
        handler.end_headers()
        handler.wfile.write(packed)

    assert fetch(the_file(home.url("file.gz", answer), names={"file.gz": md5(packed)})) == packed


def test_a_download_that_is_killed_leaves_nothing_that_is_trusted(home, cache):
    url = home.url("file.bin", half_and_wait)
    program = (
        "from pathlib import Path\n"
        "from srosr.datasets.fetch import DataFile, find_or_fetch\n"
        f"find_or_fetch('the set', DataFile('set', {{'file.bin': None}}, ({url!r},)), Path.read_bytes)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        deadline = time.monotonic() + 30
        while not any(path.stat().st_size for path in cache.rglob("*.tmp")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    (left,) = left_in(cache)
    assert left.startswith("set/.file.bin.") and left.endswith(".tmp")
    file = the_file(url, names={"file.bin": None})
    with pytest.raises(DatasetError):
        fetch(file, download=False)
    home.url("file.bin", BODY)
    assert fetch(file) == BODY


def test_a_download_that_is_interrupted_leaves_nothing(home, cache, monkeypatch):
    def interrupt(path, checksum):
        raise KeyboardInterrupt

    monkeypatch.setattr("srosr.datasets.fetch.has_checksum", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch(the_file(home.url("file.bin", BODY)))
    assert left_in(cache) == []


def test_a_loader_downloads_and_finds_it_in_the_cache_the_next_time(home, cache, data_dir, monkeypatch):
    content = (data_dir / "letter" / "letter-recognition.data").read_bytes()
    monkeypatch.setattr(letter, "FILE", dataclasses.replace(letter.FILE, urls=(home.url("letter", content),)))
    first, second = load_dataset("letter"), load_dataset("letter", download=False)
    assert first.X.shape == second.X.shape == (20000, 16) and home.asked == ["/letter"]
    assert left_in(cache) == ["letter/letter-recognition.data"]


# Archives of pictures


def tar_of(entries, mode="w"):
    """Return a tar file of (name, content) pairs; a content that is a TarInfo type makes a link to /etc/passwd."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as tar:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes) and content in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE):
                info.type, info.linkname = content, "/etc/passwd"
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


TOP_256 = "256_ObjectCategories"
ENTRIES_256 = [
    (TOP_256, tarfile.DIRTYPE),
    (f"{TOP_256}/056.dog", tarfile.DIRTYPE),
    (f"{TOP_256}/056.dog/056_0001.jpg", b"a dog"),
    (f"{TOP_256}/056.dog/056_0002.jpg", b"another dog"),
    (f"{TOP_256}/056.dog/greg", tarfile.DIRTYPE),
    (f"{TOP_256}/056.dog/greg/vision309/dog.jpg", b"stray"),
    (f"{TOP_256}/198.spider/198_0001.jpg", b"a spider"),
    (f"{TOP_256}/198.spider/RENAME2", b"#!/bin/sh"),
    (f"{TOP_256}/198.spider/._198_0001.jpg", b"of another system"),
]
WICKED = [
    (f"../{TOP_256}/a/1.jpg", b"wicked"),
    (f"/{TOP_256}/a/2.jpg", b"wicked"),
    (f"{TOP_256}/../3.jpg", b"wicked"),
    (f"{TOP_256}/a/../../4.jpg", b"wicked"),
    (f"{TOP_256}/../../5.jpg", b"wicked"),
    (f"{TOP_256}/a\\..\\..\\..\\b/6.jpg", b"wicked"),
    (f"{TOP_256}/C:/7.jpg", b"wicked"),
    (f"{TOP_256}/link", tarfile.SYMTYPE),
    (f"{TOP_256}/link/8.jpg", b"through a link"),
    (f"{TOP_256}/056.dog/9.jpg", tarfile.SYMTYPE),
    (f"{TOP_256}/056.dog/10.jpg", tarfile.LNKTYPE),
    (f"{TOP_256}/056.dog/12.jpg", tarfile.DIRTYPE),
]


def test_caltech256_is_unpacked_from_its_archive_without_the_stray_entries(home, cache, monkeypatch):
    content = tar_of(ENTRIES_256)
    file = caltech.PICTURES_256
    fake = dataclasses.replace(file, names={file.name: md5(content)}, urls=(home.url("256", content),))
    monkeypatch.setattr(caltech, "PICTURES_256", fake)
    data = load_dataset("caltech256")
    assert data.class_names == ("056.dog", "198.spider") and data.y.tolist() == [0, 0, 1]
    assert [Path(path).name for path in data.X] == ["056_0001.jpg", "056_0002.jpg", "198_0001.jpg"]
    assert Path(data.X[0]).read_bytes() == b"a dog"
    # The archive is not needed any more, and the network neither.
    assert all(path.startswith(f"caltech256/{TOP_256}/") for path in left_in(cache))
    assert load_dataset("caltech256", download=False).fingerprint() == data.fingerprint()


def test_an_own_archive_of_caltech256_is_unpacked_and_kept(own, cache, monkeypatch):
    content = tar_of(ENTRIES_256)
    file = caltech.PICTURES_256
    monkeypatch.setattr(caltech, "PICTURES_256", dataclasses.replace(file, names={file.name: md5(content)}))
    (own / file.name).write_bytes(content)
    assert len(load_dataset("caltech256", download=False).X) == 3
    assert left_in(own) == [file.name]


def test_an_own_archive_with_the_wrong_checksum_is_not_unpacked(own, cache):
    (own / "256_ObjectCategories.tar").write_bytes(tar_of(ENTRIES_256))
    with pytest.raises(DatasetError, match=r"caltech256: .*its checksum is not md5:67b4f42ca05d46448c6bb8ecd2220f6d"):
        load_dataset("caltech256", download=False)
    assert not cache.exists()


@pytest.mark.parametrize("folder", ["caltech256/256_ObjectCategories", "256_ObjectCategories"])
def test_an_unpacked_own_folder_of_caltech256_is_taken_as_it_is(own, folder):
    for name in ("056.dog/056_0001.jpg", "056.dog/greg/x.jpg", "198.spider/RENAME2", "198.spider/198_0001.jpg"):
        (own / folder / name).parent.mkdir(parents=True, exist_ok=True)
        (own / folder / name).write_bytes(b"x")
    data = load_dataset("caltech256", download=False)
    assert data.class_names == ("056.dog", "198.spider") and len(data.X) == 2


def test_caltech101_is_unpacked_from_the_tar_in_its_zip(own, cache, monkeypatch):
    top = "101_ObjectCategories"
    inner = tar_of(
        [(f"{top}/BACKGROUND_Google/tmp", b"stray"), (f"{top}/ant/image_0001.jpg", b"an ant"), *WICKED], "w:gz"
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as zipped:
        zipped.writestr("caltech-101/show_annotation.m", b"stray")
        zipped.writestr(f"caltech-101/{top}.tar.gz", inner)
        zipped.writestr(f"__MACOSX/caltech-101/._{top}.tar.gz", b"of another system")
    content = stream.getvalue()
    (own / "caltech-101.zip").write_bytes(content)
    names = {"caltech-101.zip": sha256(content)}
    monkeypatch.setattr(caltech, "PICTURES_101", dataclasses.replace(caltech.PICTURES_101, names=names))
    data = load_dataset("caltech101-pictures", download=False)
    assert data.class_names == ("ant",) and Path(data.X[0]).read_bytes() == b"an ant"
    assert left_in(cache) == ["caltech101/101_ObjectCategories/ant/image_0001.jpg"]


def wicked_zip(path):
    with zipfile.ZipFile(path, "w") as zipped:
        for name, content in [*ENTRIES_256, *WICKED]:
            info = zipfile.ZipInfo(name)
            if content in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
                content = b"/etc/passwd"
            elif content == tarfile.DIRTYPE:
                info.filename += "/"
                content = b""
            zipped.writestr(info, content)


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_no_archive_writes_outside_its_folder_or_makes_links(tmp_path, kind):
    archive = tmp_path / f"wicked.{kind}"
    if kind == "zip":
        wicked_zip(archive)
    else:
        archive.write_bytes(tar_of([*ENTRIES_256, *WICKED], "w:gz" if kind == "tar.gz" else "w"))
    target = tmp_path / "deep" / "inside" / "pictures"
    unpack_pictures(archive, TOP_256, target)
    inside = sorted(path for path in tmp_path.rglob("*") if not path.is_dir() and path != archive)
    assert not any(path.is_symlink() for path in inside)
    names = [str(path.relative_to(target)) for path in inside]
    assert names == ["056.dog/056_0001.jpg", "056.dog/056_0002.jpg", "198.spider/198_0001.jpg", "link/8.jpg"]


@pytest.mark.parametrize("content", [b"", b"neither tar nor zip", tar_of(ENTRIES_256)[:1000], tar_of([("a/b", b"x")])])
def test_an_archive_that_is_damaged_or_has_no_pictures_leaves_nothing(tmp_path, content):
    archive = tmp_path / "bad.tar"
    archive.write_bytes(content)
    with pytest.raises((ValueError, tarfile.TarError, EOFError, OSError)):
        unpack_pictures(archive, TOP_256, tmp_path / "out" / "pictures")
    assert left_in(tmp_path) == ["bad.tar"] and list((tmp_path / "out").iterdir()) == []


def test_two_that_unpack_at_once_both_succeed(tmp_path):
    archive = tmp_path / "a.tar"
    archive.write_bytes(tar_of(ENTRIES_256))
    target = tmp_path / "pictures"
    unpack_pictures(archive, TOP_256, target)
    unpack_pictures(archive, TOP_256, target)
    assert len(left_in(target)) == 3 and not list(tmp_path.glob(".*"))


# Array files


def idx(shape, content):
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + content


def test_idx_is_read_packed_or_not(tmp_path):
    raw = idx((2, 3), bytes(range(6)))
    for content in (raw, gzip.compress(raw)):
        (tmp_path / "a").write_bytes(content)
        assert read_idx(tmp_path / "a").tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file"),
        (b"\0\0\x0d\1\0\0\0\1abcd", "not an idx file of bytes"),
        (b"\0\0\x08\0", "not an idx file"),
        (b"\0\0\x08\2\0\0\0\1", "ends within its header"),
        (idx((2, 3), bytes(5)), "announces 6 bytes, but it has fewer"),
        (idx((2, 3), bytes(7)), "announces 6 bytes, but it has more"),
        (idx((2**32 - 1,) * 4, bytes(7)), "fewer"),
    ],
)
def test_an_idx_file_of_another_form_raises_an_error_with_the_reason(tmp_path, content, message):
    for kind in (content, gzip.compress(content)):
        (tmp_path / "a").write_bytes(kind)
        with pytest.raises(ValueError, match=message):
            read_idx(tmp_path / "a")


def test_idx_that_unpacks_to_far_more_than_announced_is_not_unpacked_to_the_end(tmp_path):
    (tmp_path / "bomb").write_bytes(gzip.compress(idx((4,), bytes(30_000_000)), 1))
    tracemalloc.start()
    with pytest.raises(ValueError, match="more"):
        read_idx(tmp_path / "bomb")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def mat_bytes(do_compression=False, **arrays):
    stream = io.BytesIO()
    scipy.io.savemat(stream, arrays, do_compression=do_compression)
    return stream.getvalue()


def npz_bytes(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


@pytest.mark.parametrize("packed", [False, True])
def test_matlab_arrays_of_every_type_and_shape_are_what_scipy_wrote(tmp_path, packed):
    rng = np.random.default_rng(0)
    types = ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
    arrays = {f"a_{kind}": rng.integers(0, 100, (3, 5)).astype(kind) for kind in types}
    arrays |= {"cube": rng.random((2, 3, 4)), "x": np.array([[1.5]]), "empty": np.zeros((0, 3))}
    others = {"text": "words", "cells": np.array([[1], ["a"]], dtype=object), "struct": {"a": 1}}
    (tmp_path / "a.mat").write_bytes(mat_bytes(packed, **others, **arrays))
    found = read_mat(tmp_path / "a.mat", *arrays)
    assert list(found) == list(arrays)
    for name, expected in arrays.items():
        assert found[name].dtype == expected.dtype and np.array_equal(found[name], expected)
    for name in (*others, "absent"):
        with pytest.raises(ValueError, match=f"variable {name}"):
            read_mat(tmp_path / "a.mat", name)


def test_matlab_numbers_are_read_in_big_endian_order_and_in_smaller_types_than_their_class(tmp_path):
    """Written by hand from the format: a double array [[1, 3], [2, 4]] named ab, stored as bytes."""

    def element(kind, body):
        return struct.pack(">II", kind, len(body)) + body + bytes(-len(body) % 8)

    parts = element(6, struct.pack(">II", 6, 0)) + element(5, struct.pack(">ii", 2, 2))
    parts += struct.pack(">HH", 2, 1) + b"ab\0\0" + struct.pack(">HH", 4, 2) + bytes([1, 2, 3, 4])
    (tmp_path / "a.mat").write_bytes(b" " * 124 + b"\1\0MI" + element(14, parts))
    found = read_mat(tmp_path / "a.mat", "ab")["ab"]
    assert found.dtype == np.float64 and found.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_the_matlab_reader_agrees_with_scipy_on_yaleb(data_dir):
    path = data_dir / "yaleb" / "yaleb3232.mat"
    expected, found = scipy.io.loadmat(path), read_mat(path, "fea", "gnd")
    for name in ("fea", "gnd"):
        assert np.array_equal(found[name], expected[name])


LETTER_LINE = b"T,2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,8\n"
UIUC_LINE = b"1.jpg horse 1 2 3 4" + b" 0 1" * 32 + b"\n"
FORMATS = {
    "idx": (read_idx, idx((2, 3), bytes(range(6)))),
    "idx.gz": (read_idx, gzip.compress(idx((2, 3), bytes(range(6))))),
    "npz": (lambda path: read_npz(path, "X", "y"), npz_bytes(X=np.eye(3), y=np.arange(3))),
    "mat": (lambda path: read_mat(path, "fea", "gnd"), mat_bytes(fea=np.eye(3), gnd=np.ones((3, 1), np.uint8))),
    "packed mat": (lambda path: read_mat(path, "fea"), mat_bytes(do_compression=True, fea=np.eye(3))),
}


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=examples(80), deadline=None)
@given(cut=st.integers(0, 300), changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=6))
def test_a_corrupted_array_file_is_read_or_raises_an_error_that_names_it(tmp_path_factory, kind, cut, changes):
    read, whole = FORMATS[kind]
    raw = bytearray(whole)
    for place, value in changes:
        raw[place % len(raw)] = value
    folder = tmp_path_factory.mktemp("corrupted")
    (folder / "set").mkdir()
    (folder / "set" / "corrupted.bin").write_bytes(raw[: max(len(raw) - cut, 0)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SROSR_DATA_DIR", str(folder))
        try:
            find_or_fetch("the set", DataFile("set", {"corrupted.bin": None}), read, download=False)
        except DatasetError as error:
            assert "the set: " in str(error) and "corrupted.bin cannot be used: " in str(error)


@pytest.mark.parametrize(
    ("name", "file", "whole"),
    [
        ("letter", "letter.npz", npz_bytes(X=np.zeros((2, 16), np.uint8), y=np.arange(2))),
        ("uiuc", "uiuc_attributes.npz", npz_bytes(X=np.eye(2), y=np.arange(2), split=["a", "b"])),
        ("uiuc", "apascal_train.txt", UIUC_LINE),
        ("uiuc", "attribute_data.tar.gz", tar_of([("a/apascal_train.txt", UIUC_LINE)], "w:gz")),
        ("yaleb", "YaleB_32x32.mat", mat_bytes(fea=np.eye(3), gnd=np.ones((3, 1), np.uint8))),
        ("coil20", "COIL20.mat", mat_bytes(fea=np.eye(3), gnd=np.ones((3, 1)))),
        ("orl", "ORL_32x32.mat", mat_bytes(fea=np.full((3, 1024), np.nan), gnd=np.full((3, 1), np.nan))),
        ("coil20", "coil20_32x32.npz", npz_bytes(X=np.full((2, 3), 1e300), y=np.arange(2))),
        ("orl", "orl_32x32.npz", npz_bytes(X=np.eye(2), y=np.arange(2))),
        ("usps", "usps_7291_2007.npz", npz_bytes(X=np.zeros((2, 256)), y=np.arange(2), split=["train", "test"])),
        ("usps-all", "usps_all.mat", mat_bytes(data=np.zeros((256, 2, 10), np.uint8))),
        ("caltech101", "caltech101_dsift_spm_counts.npz", npz_bytes(counts=np.eye(3), y=[0], class_names=["a"])),
        ("caltech256-clip", "caltech256_clip_vitb32_valtest.npz", npz_bytes(X=np.eye(2), y=[0, 1])),
    ],
)
def test_a_loader_raises_an_error_that_names_garbage_and_other_files(own, name, file, whole):
    for content in (b"", b"garbage", whole[: len(whole) // 2], whole):
        (own / file).write_bytes(content)
        with pytest.raises(DatasetError, match=rf"^{name}: .*{file} cannot be used: "):
            load_dataset(name, download=False)


def test_inconsistent_mnist_files_raise_an_error(own):
    for image, label, n in (("train-images-idx3", "train-labels-idx1", 3), ("t10k-images-idx3", "t10k-labels-idx1", 2)):
        (own / f"{image}-ubyte").write_bytes(idx((n, 2, 2), bytes(4 * n)))
        (own / f"{label}-ubyte").write_bytes(idx((n,), bytes(n)))
    with pytest.raises(DatasetError, match="mnist: the four files are not MNIST: it does not hold the published data"):
        load_dataset("mnist", download=False)
    (own / "t10k-labels-idx1-ubyte").write_bytes(idx((7,), bytes(7)))
    with pytest.raises(DatasetError, match="mnist: the four files are not MNIST: y must have one class number"):
        load_dataset("mnist", download=False)


@settings(max_examples=examples(80), deadline=None)
@given(
    text=st.text(st.characters(codec="utf-8"), max_size=200)
    | st.lists(st.sampled_from([LETTER_LINE.decode(), UIUC_LINE.decode(), "A,1\n", "A,300" + ",1" * 15, "\n"])).map(
        "".join
    )
)
def test_text_that_is_not_the_published_one_is_never_taken_for_it(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("text")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SROSR_DATA_DIR", str(folder))
        patch.setattr(letter, "FILE", DataFile("letter", {"letter-recognition.data": None}))
        for name, file in (("letter", "letter-recognition.data"), ("uiuc", "apascal_train.txt")):
            (folder / file).write_text(text, encoding="utf-8", newline="")
            with pytest.raises(DatasetError, match=file):
                load_dataset(name, download=False)


def test_importing_data_sets_loads_nothing_heavy():
    heavy = "('platformdirs', 'requests', 'sklearn', 'scipy', 'pandas', 'PIL', 'rich', 'numba')"
    program = f"import sys, srosr.datasets; found = [m for m in {heavy} if m in sys.modules]; assert not found, found"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
