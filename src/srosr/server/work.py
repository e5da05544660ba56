"""Long work on samples, in a child: explain a decision, evaluate a model, discover groups.

Each does what the command of the same name does, with the same words.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import matplotlib
import matplotlib.pyplot  # so that the first figure does not wait for it
import numpy as np
import pandas  # noqa: F401  # as above

from .._support.array_types import AnyArray, Array
from .._support.messages import count_of
from .._support.unknown_label import format_label
from ..classifiers.base import Decisions, OpenSetClassifier
from ..classifiers.srosr_classifier import SROSRClassifier
from ..discovery.discover_classes import DiscoveryCollector
from ..discovery.discovery import Discovery
from ..discovery.distinctive_features import find_distinctive_features
from ..evaluation.evaluation import EvaluationCollector, UnexpectedLabel
from ..inspection.rival_explanation import explain_rival
from ..model_files.save_load import load
from ..operations.device_choice import set_device, set_threads
from ..operations.explanations import MOST_PICTURES, number_as_in_file, render_explanation
from ..operations.input_errors import InputError, end_sentence, name_errors
from ..operations.model_facts import describe_missing, describe_thresholds, undo_scaling
from ..operations.model_input import choose_batch_size, name_features
from ..operations.sample_decisions import decide_rows, make_sample_error
from ..reports.discovery_page import make_data_uri
from ..reports.evaluation_text import find_remarks
from ..rivals.methods import method_name
from .samples import Job, Samples
from .schemas import ApiError

matplotlib.use("agg")
#: Models that are kept for later jobs.
_MOST_MODELS = 2
#: Training samples that are listed.
_MOST_TRAINING = 12
#: Typical samples of a group.
_TYPICAL = 12
_models: OrderedDict[str, OpenSetClassifier] = OrderedDict()


def load_model(header: Mapping[str, Any]) -> OpenSetClassifier:
    """Return the model of a job with the threads and the device of the server; that of an earlier job if it is kept."""
    version = header["version"]
    if version not in _models:
        _models[version] = load_anew(header)
        while len(_models) > _MOST_MODELS:
            _models.popitem(last=False)
    _models.move_to_end(version)
    set_threads(_models[version], header["jobs"])
    set_device(_models[version], header["device"])
    return _models[version]


def load_anew(header: Mapping[str, Any]) -> OpenSetClassifier:
    """Return the model of a job as it is in the file, to be changed; raise if the file is not that of its version."""
    path: str = header["model"]
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # a program that tidies up may have removed the private folder
        raise ApiError(503, "The server's own copy of the model is missing: start the server again.") from None
    if not found.startswith(header["version"]):
        raise ApiError(409, "The model was changed meanwhile: try again.")
    clf: OpenSetClassifier = load(path)
    return clf


def _decide(clf: OpenSetClassifier, samples: Samples, job: Job) -> Iterator[tuple[slice, Any, Decisions]]:
    """Yield batch by batch the places, the samples with the names of their columns, and the decisions on them."""
    size, n = choose_batch_size(clf), len(samples.X)
    for start in range(0, n, size):
        job.report("Deciding", start, n)
        part = slice(start, min(start + size, n))
        X = name_features(clf, samples.X[part])
        yield part, X, decide_rows(clf, samples.source, samples.numbers[part], X)


# -- pictures ---------------------------------------------------------------------------------------------


def draw_ink(values: Array) -> AnyArray:
    """Return numbers as gray values of eight bits: the largest is ink, the smallest paper, as in figures."""
    low, high = float(values.min()), float(values.max())
    shares = (high - values) / (high - low) if high > low else np.ones(values.shape)
    return np.round(255 * shares).astype(np.uint8)


def _find_shape(clf: OpenSetClassifier, header: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return height and width of the pictures that rows of a table are, if the server was told."""
    recipe = clf.feature_recipe_
    return None if recipe is not None and recipe.of_pictures else header["picture_shape"]


# -- explain ----------------------------------------------------------------------------------------------


def explain(job: Job) -> dict[str, Any]:
    """Explain the decision on one sample: in words, in numbers, as a figure, with training samples."""
    header = job.header
    job.report("Explaining")
    clf, sample = load_model(header), job.take_samples()
    X, row = name_features(clf, sample.X), header["row"]
    explanation: Any
    try:
        explanation = clf.explain(X) if isinstance(clf, SROSRClassifier) else explain_rival(clf, X)
    except ValueError as error:
        raise make_sample_error(sample.source, row, error) from None
    own, pictures = _find_pictures(clf, sample, explanation, _find_shape(clf, header))
    # Thumbnails are found by the row among the training samples, so that rows get the file's numbers afterwards.
    if isinstance(clf, SROSRClassifier):
        explanation = number_as_in_file(explanation, clf)
    text = "\n".join(filter(None, (explanation.text, _describe_missing(clf, sample))))
    figure = None
    if header["figure"]:
        job.report("Drawing")
        drawn = None
        if own is not None and (pictures or not hasattr(explanation, "atoms")):  # a sparse code shows both or none
            drawn = own / 255.0, [picture / 255.0 for picture in pictures[:MOST_PICTURES]]
        figure = render_explanation(explanation, drawn, "svg").decode()
    return {
        "row": row,
        "text": text,
        "explanation": explanation.to_dict(),
        "training_samples": _list_training_samples(clf, explanation, [*map(make_data_uri, pictures)]),
        "sample_picture": None if own is None else make_data_uri(own),
        "figure": figure,
    }


def _describe_missing(clf: OpenSetClassifier, sample: Samples) -> str | None:
    """Return a sentence on the features of a sample that were imputed; None if there are none."""
    missing = np.flatnonzero(np.isnan(sample.X[0])).tolist()
    known = getattr(clf, "feature_names_in_", sample.feature_names)
    return describe_missing(clf, [str(j) if known is None else str(known[j]) for j in missing]) if missing else None


def _find_pictures(
    clf: OpenSetClassifier, sample: Samples, explanation: Any, shape: tuple[int, int] | None
) -> tuple[AnyArray | None, list[AnyArray]]:
    """Return the picture of a sample, and those of the first training samples behind it."""
    recipe = clf.feature_recipe_
    if recipe is not None and recipe.thumbnails is not None and sample.thumbnails is not None:
        atoms = getattr(explanation, "atoms", ())[:_MOST_TRAINING]
        return sample.thumbnails[0], [recipe.thumbnails[atom.row] for atom in atoms]
    if shape is None:
        return None, []
    prepared = clf._check_queries(name_features(clf, sample.X))
    own, atoms = draw_ink(undo_scaling(clf, prepared)[0].reshape(shape)), getattr(explanation, "pictures", None)
    if atoms is None:
        return own, []
    # Atoms may have unit length; at that of the sample they are in the units of the file.
    lengths = np.linalg.norm(atoms, axis=1, keepdims=True)
    scaled = undo_scaling(clf, atoms * np.divide(np.linalg.norm(prepared), lengths, where=lengths > 0, out=lengths))
    return own, [draw_ink(atom.reshape(shape)) for atom in scaled]


def _list_training_samples(clf: OpenSetClassifier, explanation: Any, pictures: Sequence[str]) -> list[dict[str, Any]]:
    """Return the training samples that a sample is reconstructed from, those with the largest weights first."""
    names = None if clf.feature_recipe_ is None else clf.feature_recipe_.names
    return [
        {
            "row": atom.row,
            "label": format_label(atom.label),
            "weight": atom.coefficient,
            "share": atom.share,
            "learned": atom.learned,
            "name": None if names is None else str(names[atom.row]) or None,
            "picture": pictures[place] if place < len(pictures) else None,
        }
        for place, atom in enumerate(getattr(explanation, "atoms", ())[:_MOST_TRAINING])
    ]


# -- evaluate ---------------------------------------------------------------------------------------------


def evaluate(job: Job) -> dict[str, Any]:
    """Measure a model on labeled samples, as ``srosr evaluate --json`` prints it."""
    header = job.header
    clf, samples = load_model(header), job.take_samples()
    assert samples.labels is not None
    labels, unknown = np.array(samples.labels, dtype=object), header["unknown"] or None
    with name_errors("--unknown", UnexpectedLabel):
        collector = EvaluationCollector(clf.classes_, unknown)
    with name_errors(samples.source, UnexpectedLabel):
        collector.check(labels, samples.numbers)
    for part, _, decisions in _decide(clf, samples, job):
        files = None if samples.files is None else samples.files[part]
        collector.add(labels[part], decisions, samples.numbers[part], files)
    job.report("Measuring")
    found = collector.evaluate(thresholds=clf.thresholds_, score_range=clf.score_range, seed=header["seed"])
    notes = [*samples.notes, *find_remarks(found, unknown, samples.source)]
    if samples.dropped:
        notes.append(f"{count_of(samples.dropped, 'row')} of {samples.source} left out.")
    return {
        "data": samples.source,
        "method": method_name(clf),
        "labels": samples.label,
        **describe_thresholds(clf),
        "notes": notes,
        **found.as_dict(),
    }


# -- discover ---------------------------------------------------------------------------------------------


def discover(job: Job) -> dict[str, Any]:
    """Group the samples that a model rejects, as ``srosr discover --json`` prints it."""
    header = job.header
    clf, samples = load_model(header), job.take_samples()
    try:
        collector = DiscoveryCollector(clf, rejected_only=not header["all"])
        for part, X, decisions in _decide(clf, samples, job):
            collector.add(X, decisions, samples.numbers[part])
        job.report("Grouping")
        found = collector.discover(
            min_size=header["min_size"], n_typical=_TYPICAL, random_state=header["seed"], name=samples.source,
            n_rows=samples.seen,
        )  # fmt: skip
    except ValueError as error:
        raise InputError(end_sentence(error)) from None
    described = found.to_dict()
    distinctive = _find_distinctive(clf, found, collector, samples)
    for group in described["groups"]:
        group["distinctive"] = distinctive.get(group["number"], [])
        group["nearest"] = [{**near, "label": format_label(near["label"])} for near in group["nearest"]]
    return described | {"text": found.text, "pictures": _draw_typical(clf, samples, found, header)}


def _find_distinctive(
    clf: OpenSetClassifier, found: Discovery, collector: DiscoveryCollector, samples: Samples
) -> dict[int, list[dict[str, Any]]]:
    """Return the features of a table in which each group differs most, in the units of the file."""
    recipe = clf.feature_recipe_
    if recipe is not None and recipe.of_pictures:
        return {}
    X, labels = undo_scaling(clf, collector.samples), found.labels[collector.rows]
    names = getattr(clf, "feature_names_in_", samples.feature_names)
    return {
        group.number: [
            {"feature": str(feature.place if names is None else names[feature.place]), **asdict(feature)}
            for feature in find_distinctive_features(X, labels == group.number)
        ]
        for group in found.groups
    }


def _draw_typical(
    clf: OpenSetClassifier, samples: Samples, found: Discovery, header: Mapping[str, Any]
) -> dict[str, str]:
    """Return pictures of the typical samples by row, where samples are pictures."""
    typical = sorted({row for group in found.groups for row in group.typical})
    places = [int(np.flatnonzero(samples.numbers == row)[0]) for row in typical]
    if samples.thumbnails is not None:
        small = [samples.thumbnails[place] for place in places]
    else:
        shape = _find_shape(clf, header)
        if shape is None or not places:
            return {}
        X = undo_scaling(clf, clf._check_queries(name_features(clf, samples.X[places])))
        small = [draw_ink(row.reshape(shape)) for row in X]
    return {str(row): make_data_uri(picture) for row, picture in zip(typical, small, strict=True)}


#: What a worker can do with samples.
WORK = {work.__name__: work for work in (explain, evaluate, discover)}
