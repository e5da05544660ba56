"""Letter: printed capital letters, described by 16 numbers each."""

from __future__ import annotations

import io
from pathlib import Path
from string import ascii_uppercase

import numpy as np

from .._support.array_types import AnyArray
from ..tables.arrays import read_npz
from .dataset import Dataset
from .fetch import DataFile, check_fingerprint, find_or_fetch

# The SHA-256 of letter-recognition.data is the one UCIData.jl and others publish for the file at UCI.
FILE = DataFile(
    "letter",
    {
        "letter-recognition.data": "sha256:2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
        "letter.npz": None,
    },
    ("https://archive.ics.uci.edu/ml/machine-learning-databases/letter-recognition/letter-recognition.data",),
)
FINGERPRINT = "819ac801d4c16f1d05330d144876ce78fc0fd6a7baaaaa585cb5cb246ba7fc6b"


def load_letter(*, download: bool = True) -> Dataset:
    """Load Letter: 20,000 printed capital letters in 20 fonts, each described by 16 whole numbers 0..15.

    Parameters
    ----------
    download : bool, default True
        Whether the file (0.7 MB) may be downloaded if it is not found.

    Returns
    -------
    Dataset
        ``X`` (20000, 16) uint8, the classes ``"A"`` to ``"Z"``.

    References
    ----------
    P. W. Frey, D. J. Slate, "Letter recognition using Holland-style adaptive classifiers", Machine Learning 6, 1991.
    """
    return find_or_fetch("letter", FILE, _read, download=download)


def _read(path: Path) -> Dataset:
    if path.suffix == ".npz":
        found = read_npz(path, "X", "y")
        X, y = found["X"], found["y"]
    else:
        X, y = _parse(path.read_text(encoding="ascii"))
    data = Dataset("letter", X, y, tuple(ascii_uppercase), "Letter Recognition (UCI), the 16 numbers as they are")
    return check_fingerprint(data, FINGERPRINT)


def _parse(text: str) -> tuple[AnyArray, AnyArray]:
    """Parse lines of a capital letter and 16 numbers, separated by commas."""
    letters: list[int] = []
    numbers: list[str] = []
    for line in text.splitlines():
        letter, _, rest = line.partition(",")
        if len(letter) != 1 or letter not in ascii_uppercase:
            raise ValueError(f"its line {len(letters) + 1} does not begin with a capital letter and a comma")
        letters.append(ord(letter) - ord("A"))
        numbers.append(rest)
    if not letters:
        raise ValueError("it is empty")
    table = np.loadtxt(io.StringIO("\n".join(numbers)), delimiter=",", dtype=np.uint8, ndmin=2)
    return table, np.array(letters)
