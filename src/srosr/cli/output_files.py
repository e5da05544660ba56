"""Where a figure, or another file a command writes, can go: found out before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from .._support.messages import join_names
from .bad_input import BadInput

__all__ = ["FIGURE_FORMATS", "check_figure_path", "check_model_path", "check_output_path", "unwritable"]

FIGURE_FORMATS = ("png", "pdf", "svg")


def check_figure_path(path: Path, option: str = "--out", *inputs: Path | str) -> None:
    """Refuse a path that a figure cannot be written to, or that is one of the inputs."""
    if path.suffix.lower().removeprefix(".") not in FIGURE_FORMATS:
        endings = join_names((f".{ending}" for ending in FIGURE_FORMATS), last="or")
        raise unwritable("the figure", path, f"the name must end in {endings}", option)
    check_output_path(path, "the figure", option, *inputs)


def check_output_path(path: Path, what: str, option: str, *inputs: Path | str) -> None:
    """Refuse a path that a file cannot be written to, or that is one of the inputs."""
    try:
        for data in inputs:
            if path.exists() and os.path.exists(data) and os.path.samefile(path, data):
                raise unwritable(what, path, "that is what is read", option)
        if not path.parent.is_dir():
            raise unwritable(what, path, f"there is no folder {path.parent}", option)
        if path.is_dir():
            raise unwritable(what, path, "it is a folder", option)
        if path.exists() and not path.is_file():
            raise unwritable(what, path, "it is not a regular file", option)
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise unwritable(what, path, error.strerror or str(error), option) from None
    if path.exists() and not os.access(path, os.W_OK):
        raise unwritable(what, path, "the file that is there is read-only", option)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise unwritable(what, path, f"the folder {path.parent} is not writable", option)


def check_model_path(path: Path, *inputs: Path | str) -> None:
    """Refuse a path that a model cannot be written to, or that has something else than a model in it."""
    check_output_path(path, "the model", "-o", *inputs)
    if path.exists():
        with open(path, "rb") as file:
            begun = file.read(64)
        if begun and b'"format":"srosr"' not in begun:
            raise unwritable("the model", path, "the file that is there is no model, and would be lost", "-o")


def unwritable(what: str, path: Path, reason: str, option: str) -> BadInput:
    """The refusal."""
    return BadInput(f"cannot write {what} to {path}: {reason}; choose another path with {option}.")
