"""The model and the samples of ``srosr serve --demo``: six digits are known, the others are not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from ..classifiers.srosr_classifier import SROSRClassifier
from ..experiments.digits_demo import IMAGE_SHAPE, choose_digits, split_digits


@dataclass(frozen=True, eq=False)
class DigitSamples:
    """Digits that the model has not seen: of the known ones a part, of the unknown ones all."""

    X: Array
    digit: IntArray
    known: tuple[int, ...]
    unknown: tuple[int, ...]
    #: Height and width of the pictures.
    shape: tuple[int, int] = IMAGE_SHAPE

    def draw(self, digit: int | None, n: int, seed: int) -> dict[str, Any]:
        """Return samples drawn at random, of one digit or of all, as a JSON-serializable dict."""
        rows = np.arange(len(self.digit)) if digit is None else np.flatnonzero(self.digit == digit)
        samples = [
            {"row": row, "digit": digit, "known": digit in self.known, "values": self.X[row].tolist()}
            for row in np.random.default_rng(seed).permutation(rows)[:n].tolist()
            for digit in [int(self.digit[row])]
        ]
        return {"samples": samples, "known": self.known, "unknown": self.unknown, "shape": self.shape}


def make_demo(folder: Path, seed: int = 0) -> tuple[Path, DigitSamples]:
    """Fit the model of ``srosr demo`` and save it in a folder; return its path and samples to try it on."""
    known, unknown = choose_digits(seed)
    X_train, y_train, X_test, y_test = split_digits(known, seed)
    path = folder / "digits.srosr"
    # Text, so that rejected digits are called "unknown", as in models of srosr fit.
    SROSRClassifier(random_state=seed).fit(X_train, y_train.astype(str)).save(path)
    return path, DigitSamples(X_test, y_test, known, unknown)
