"""Files are complete or absent, and a request to end leaves no temporary file of any writer."""

import io
import os
import stat
import zipfile

import numpy as np
import pytest

from srosr._support import atomic_files
from srosr._support.atomic_files import (
    discard_unfinished,
    open_atomically,
    open_folder_atomically,
    remove_leftovers,
    write_atomically,
)
from srosr.datasets.caltech import unpack_pictures
from srosr.model_files import file_format
from srosr.model_files.file_format import ModelState, write_model


class Ended(BaseException):
    """Stands for the end of the process, after which nothing else runs."""


def end(folder):
    """Do what the handler of SIGTERM does; the folder must be empty afterwards, before anything else runs."""
    assert os.listdir(folder), "nothing is being written yet"
    discard_unfinished()
    assert os.listdir(folder) == []
    raise Ended


def write_plain_file(folder, monkeypatch):
    with open_atomically(folder / "table.csv") as file:
        file.write(b"half")
        end(folder)


def write_model_file(folder, monkeypatch):
    def write_half(header, tensors):
        yield header
        end(folder)

    monkeypatch.setattr(file_format, "_parts", write_half)
    write_model(folder / "model.srosr", ModelState("Example", {}, {"a": np.zeros(3)}))


def unpack_archive(folder, monkeypatch):
    archive = folder.parent / "pictures.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("top/cat/1.png", b"first")
        zipped.writestr("top/cat/2.png", b"second")

    def copy_half(content, picture):
        picture.write(b"half")
        end(folder)

    monkeypatch.setattr("srosr.datasets.caltech.shutil.copyfileobj", copy_half)
    unpack_pictures(archive, "top", folder / "pictures")


def download_file(folder, monkeypatch):
    import requests

    from srosr.datasets import fetch

    def send_half(_):
        yield b"half"
        end(folder)

    answer = requests.Response()
    answer.status_code, answer.raw, answer.iter_content = 200, io.BytesIO(), send_half
    monkeypatch.setattr(requests, "get", lambda *_, **__: answer)
    fetch.download_file("https://example.org/file.bin", folder / "file.bin")


def draw_demo_figure(folder, monkeypatch):
    from matplotlib.figure import Figure

    from srosr.reports import demo_figure

    def draw_half(self, file, **_):
        file.write(b"half")
        end(folder)

    monkeypatch.setattr(Figure, "savefig", draw_half)
    monkeypatch.setattr(demo_figure, "_draw", lambda figure, result: None)
    demo_figure.plot_demo(None, folder / "demo.png")


WRITERS = [write_plain_file, write_model_file, unpack_archive, download_file, draw_demo_figure]


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_a_request_to_end_leaves_no_temporary_file(write, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(Ended):
        write(folder, monkeypatch)
    assert os.listdir(folder) == []
    assert not atomic_files._unfinished


@pytest.mark.parametrize("name", ["n" * 255, "字" * 85, "é" * 127])
def test_names_of_any_length_and_script_are_written(name, tmp_path):
    write_atomically(tmp_path / name, b"1")
    write_atomically(tmp_path / name, b"2")
    assert (tmp_path / name).read_bytes() == b"2" and os.listdir(tmp_path) == [name]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_replaced_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "m"
    write_atomically(path, b"1")
    path.chmod(0o640)
    write_atomically(path, b"2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_of_the_temporary_name_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files.secrets, "token_hex", lambda n: "x")
    other = tmp_path / ".m.x.tmp"
    other.write_text("mine")
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "m", b"1")
    discard_unfinished()
    assert other.read_text() == "mine" and os.listdir(tmp_path) == [other.name]


def test_a_folder_is_there_when_it_is_complete(tmp_path):
    with open_folder_atomically(tmp_path / "f") as work:
        (work / "inner").mkdir()
        (work / "inner" / "a").write_text("a")
        assert not (tmp_path / "f").exists()
    assert (tmp_path / "f" / "inner" / "a").read_text() == "a"
    with pytest.raises(ZeroDivisionError), open_folder_atomically(tmp_path / "g") as work:
        (work / "a").write_text("a")
        raise ZeroDivisionError
    with open_folder_atomically(tmp_path / "f") as work:
        (work / "b").write_text("b")
    assert os.listdir(tmp_path) == ["f"] and os.listdir(tmp_path / "f") == ["inner"], "the first one stays"
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError), open_folder_atomically(tmp_path / "file") as work:
        pass
    assert sorted(os.listdir(tmp_path)) == ["f", "file"]


def test_leftovers_of_killed_processes_are_removed_files_and_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files, "_remove", lambda temporary: None)  # killed before it could tidy up
    with pytest.raises(Ended), open_atomically(tmp_path / "table.csv"):
        raise Ended
    with pytest.raises(Ended), open_folder_atomically(tmp_path / "pictures") as folder:
        (folder / "a.png").touch()
        raise Ended
    assert len(os.listdir(tmp_path)) == 2
    monkeypatch.undo()
    (tmp_path / "mine.csv").touch()
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["mine.csv"]
