"""The model and the samples of a job, in a child process that keeps the models it used last."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .jobs import CONFLICT, MOST_MODELS, UNAVAILABLE, ChildJob, Refusal

if TYPE_CHECKING:
    from .._support.array_types import AnyArray, Array, IntArray
    from ..classifiers.base import Decisions, OpenSetClassifier

_models: OrderedDict[str, OpenSetClassifier] = OrderedDict()


def load_model(header: Mapping[str, Any]) -> OpenSetClassifier:
    """Return the model of a job with the threads and the device of the server; that of an earlier job if it is kept."""
    from ..operations.device_choice import set_device, set_threads

    version = header["version"]
    if version not in _models:
        _models[version] = load_anew(header)
        while len(_models) > MOST_MODELS:
            _models.popitem(last=False)
    _models.move_to_end(version)
    clf = _models[version]
    set_threads(clf, header.get("jobs"))
    set_device(clf, header.get("device", "cpu"))
    return clf


def load_anew(header: Mapping[str, Any]) -> OpenSetClassifier:
    """Return the model of a job as it is in the file, to be changed; raise if the file is not that of its version."""
    from ..model_files.save_load import load

    path: str = header["model"]
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # a program that tidies up may have removed the private folder
        raise Refusal("The server's own copy of the model is missing: start the server again.", UNAVAILABLE) from None
    if not found.startswith(header["version"]):
        raise Refusal("The model was changed meanwhile: try again.", CONFLICT)
    clf: OpenSetClassifier = load(path)
    return clf


@dataclass(frozen=True, eq=False)
class JobSamples:
    """The samples of a job: rows as they were read, with what is known of them.

    ``name`` is what they are called in messages; ``labels`` are text; ``files`` and ``thumbnails`` are those of
    pictures.
    """

    name: str
    X: Array
    numbers: IntArray
    labels: AnyArray | None
    groups: list[str] | None
    files: list[str] | None
    thumbnails: AnyArray | None

    @classmethod
    def take(cls, job: ChildJob) -> JobSamples:
        """Return the samples of a job."""
        header, arrays = job.header, job.arrays
        X = arrays["X"]
        numbers = arrays.get("numbers", header.get("numbers"))
        numbers = np.arange(len(X)) if numbers is None else np.asarray(numbers, dtype=np.int64)
        labels = header.get("labels")
        return cls(
            header.get("data") or "the request",
            X,
            numbers,
            None if labels is None else np.array(labels, dtype=object),
            header.get("groups"),
            header.get("names"),
            arrays.get("thumbnails"),
        )

    def select(self, places: Sequence[int] | IntArray) -> JobSamples:
        """Return some of the samples."""
        listed = [int(place) for place in places]
        return replace(
            self,
            X=self.X[listed],
            numbers=self.numbers[listed],
            labels=None if self.labels is None else self.labels[listed],
            groups=None if self.groups is None else [self.groups[place] for place in listed],
            files=None if self.files is None else [self.files[place] for place in listed],
            thumbnails=None if self.thumbnails is None else self.thumbnails[listed],
        )


def decide(clf: OpenSetClassifier, samples: JobSamples, job: ChildJob) -> Iterator[tuple[slice, Any, Decisions]]:
    """Yield batch by batch the places, the samples with the names of their columns, and the decisions on them."""
    from ..operations.model_input import choose_batch_size, name_features
    from ..operations.sample_decisions import decide_rows

    size, n = choose_batch_size(clf), len(samples.X)
    for start in range(0, n, size):
        job.report("Deciding", start, n)
        part = slice(start, min(start + size, n))
        X = name_features(clf, samples.X[part])
        yield part, X, decide_rows(clf, samples.name, samples.numbers[part], X)
