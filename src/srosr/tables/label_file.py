"""Labels in a separate file, one for each row of another file."""

from __future__ import annotations

import os

from .arrays import read_array, read_header
from .cells import NotAClass, convert_labels, parse_label_column
from .input_file import InputFile, raise_as_read_error
from .row_source import GivenLabels, ReadError


def read_label_file(path: str | os.PathLike[str]) -> GivenLabels:
    """Read labels from an ``.npy`` file, or from text with one label per line."""
    file = InputFile(os.fsdecode(path))
    try:
        with raise_as_read_error(file.name), file.open() as stream:
            if file.name.lower().endswith(".npy"):
                values = read_array(stream, read_header(stream, file.size))
                if values.ndim == 0 or values.size != max(values.shape):
                    raise ReadError(f"{file.name} has labels of the shape {values.shape}: give one for each row.")
                labels = convert_labels(values.reshape(-1))
            else:
                labels = parse_label_column(_split_lines(stream.read(), file.name))
    except NotAClass as error:
        raise ReadError(
            f"{file.name} has {error.value} as a label, which looks like a measurement, not a class: give the labels."
        ) from None
    return GivenLabels(file.name, labels, f"the labels of {file.name}")


def _split_lines(data: bytes, file: str) -> list[str]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ReadError(f"{file} is not in UTF-8, as line {line} shows: save it as text in UTF-8.") from None
    if "\0" in text:
        raise ReadError(
            f"{file} has zero bytes, so that it is not text: give text with one label per line, or an .npy file."
        )
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise ReadError(f"{file} has no labels: give one for each row.")
    return lines
