"""Check where a command is to write its files, before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from .._support.messages import join_names
from ..operations.input_errors import InputError

FIGURE_FORMATS = ("png", "pdf", "svg")


def check_figure_path(path: Path, option: str = "--out", *inputs: Path | str) -> None:
    """Raise if a figure cannot be written to a path, or the path is one of the inputs."""
    if path.suffix.lower().removeprefix(".") not in FIGURE_FORMATS:
        suffixes = join_names((f".{name}" for name in FIGURE_FORMATS), last="or")
        raise make_write_error("the figure", path, f"the name must end in {suffixes}", option)
    check_output_path(path, "the figure", option, *inputs)


def check_output_path(path: Path, what: str, option: str, *inputs: Path | str) -> None:
    """Raise if a file cannot be written to a path, or the path is one of the inputs."""
    try:
        for data in inputs:
            if path.exists() and os.path.exists(data) and os.path.samefile(path, data):
                raise make_write_error(what, path, "it is an input of this command", option)
        if not path.parent.is_dir():
            raise make_write_error(what, path, f"there is no folder {path.parent}", option)
        if path.is_dir():
            raise make_write_error(what, path, "it is a folder", option)
        if path.exists() and not path.is_file():
            raise make_write_error(what, path, "it is not a regular file", option)
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise make_write_error(what, path, error.strerror or str(error), option) from None
    if path.exists() and not os.access(path, os.W_OK):
        raise make_write_error(what, path, "the existing file is read-only", option)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise make_write_error(what, path, f"the folder {path.parent} is not writable", option)


def check_model_path(path: Path, *inputs: Path | str) -> None:
    """Raise if a model cannot be written to a path, or the path holds anything but a model."""
    check_output_path(path, "the model", "-o", *inputs)
    if path.exists():
        with open(path, "rb") as file:
            start = file.read(64)
        if start and b'"format":"srosr"' not in start:
            raise make_write_error("the model", path, "the existing file is not a model and would be lost", "-o")


def make_write_error(what: str, path: Path, reason: str, option: str) -> InputError:
    """Return the error for a path that cannot be written to."""
    return InputError(f"cannot write {what} to {path}: {reason}; choose another path with {option}.")
