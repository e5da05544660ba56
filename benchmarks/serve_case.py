"""The model, the bodies and the lines of the summary of the benchmark of the server."""

from __future__ import annotations

import io
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.latency import N_CLASSES, N_TRAINING
from srosr import SROSRClassifier, load_yaleb

NPY, JSON, CSV = "application/x-npy", "application/json", "text/csv"


@dataclass(frozen=True)
class Case:
    """A fitted model, its file, and samples that it was not fitted to, known and unknown."""

    clf: SROSRClassifier
    path: Path
    samples: np.ndarray

    def take(self, n: int) -> np.ndarray:
        """Return n samples, some of them several times if there are fewer."""
        return np.ascontiguousarray(self.samples[np.arange(n) % len(self.samples)])


def make_case(data: str, folder: Path, jobs: int) -> Case:
    """Fit the model and write its file."""
    if data == "yaleb":
        found = load_yaleb()
        X, y = np.asarray(found.X, dtype=np.float64), found.y
    else:
        X, y = load_digits(return_X_y=True)
    known = np.isin(y, np.unique(y)[: N_CLASSES if data == "yaleb" else 6])
    rows = np.random.default_rng(0).permutation(np.flatnonzero(known))
    rest = np.random.default_rng(1).permutation(np.r_[rows[N_TRAINING:], np.flatnonzero(~known)])
    rows = rows[:N_TRAINING]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = SROSRClassifier(n_repeats=5, random_state=0, n_jobs=jobs).fit(X[rows], y[rows].astype(str))
    path = folder / "model.srosr"
    clf.save(path)
    return Case(clf, path, X[rest])


def to_json(X: np.ndarray, **parameters: Any) -> bytes:
    """Return a body of JSON."""
    return json.dumps({"samples": X.tolist(), **parameters}).encode()


def to_npy(X: np.ndarray) -> bytes:
    """Return a body of NPY."""
    stream = io.BytesIO()
    np.save(stream, X)
    return stream.getvalue()


def to_csv(X: np.ndarray) -> bytes:
    """Return a body of CSV without a header."""
    stream = io.StringIO()
    np.savetxt(stream, X, fmt="%.17g", delimiter=",")
    return stream.getvalue().encode()


def check(answer: tuple[int, bytes], status: int = 200) -> bytes:
    """Return the body of an answer with this status."""
    if answer[0] != status:
        raise RuntimeError(f"status {answer[0]} instead of {status}: {answer[1][:200]!r}")
    return answer[1]


def make_line(what: str, target: str, reached: float, where: str, met: bool | None) -> dict[str, Any]:
    """Return a line of the summary."""
    return {"what": what, "target": target, "reached": float(reached), "where": where, "met": met}
