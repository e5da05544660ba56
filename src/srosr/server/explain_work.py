"""Explain the decision on one sample, in a child process: in words, in numbers, as a figure, with training samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .gray_png import draw_ink, make_data_uri
from .job_samples import JobSamples, load_model
from .jobs import ChildJob

if TYPE_CHECKING:
    from .._support.array_types import Array
    from ..classifiers.base import OpenSetClassifier

#: Coverage of the prediction set of the sample.
_COVERAGE = 0.95
#: Training samples that are listed.
_MOST_TRAINING = 12


def warm_up() -> None:
    """Import what draws figures, so that the first request does not wait for it."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot


def explain(job: ChildJob) -> dict[str, Any]:
    """Explain the decision on one sample: the one in ``row`` of the file, from 0."""
    from ..classifiers.srosr_classifier import SROSRClassifier
    from ..inspection.rival_explanation import explain_rival
    from ..operations.explanations import number_as_in_file, render_explanation
    from ..operations.model_input import name_features
    from ..operations.sample_decisions import make_sample_error

    job.report("Explaining")
    clf = load_model(job.header)
    samples = JobSamples.take(job)
    sample = _find_sample(clf, samples, job.header)
    row = int(sample.numbers[0])
    X = name_features(clf, sample.X)
    explanation: Any
    try:
        decision = _describe_decision(clf, sample, X)
        explanation = clf.explain(X) if isinstance(clf, SROSRClassifier) else explain_rival(clf, X)
    except ValueError as error:
        raise make_sample_error(samples.name, row, error) from None
    shape = find_shape(clf, job.header)
    pictures = _find_pictures(clf, sample, explanation, shape)
    # Thumbnails are found by the row among the training samples, so that rows get the file's numbers afterwards.
    if isinstance(clf, SROSRClassifier):
        explanation = number_as_in_file(explanation, clf)
    text = explanation.text
    missing = _describe_missing(clf, sample.X[0], job.header.get("feature_names"))
    figure = None
    if job.header.get("figure", True):
        job.report("Drawing")
        figure = render_explanation(explanation, pictures.for_figure, "svg").decode()
    return {
        "row": row,
        "decision": decision,
        "text": text if missing is None else f"{text}\n{missing}",
        "explanation": explanation.to_dict(),
        "training_samples": _list_training_samples(clf, explanation, pictures.atoms),
        "sample_picture": pictures.sample,
        "figure": figure,
    }


def _find_sample(clf: OpenSetClassifier, samples: JobSamples, header: Mapping[str, Any]) -> JobSamples:
    """Return the sample in the row that was asked for."""
    from ..operations.input_errors import InputError
    from ..operations.model_input import get_imputer

    row = int(header.get("row") or 0)
    places = (samples.numbers == row).nonzero()[0]
    if len(places):
        return samples.select(places[:1])
    seen = int(header.get("seen") or (samples.numbers[-1] + 1 if len(samples.numbers) else 0))
    if row < seen:
        lacks = "missing values" if get_imputer(clf) is None else "no value at all"
        if samples.files is not None:
            raise InputError(f"row {row} of {samples.name} cannot be read as a picture.")
        raise InputError(f"row {row} of {samples.name} has {lacks}, so it cannot be predicted.")
    raise InputError(f"{samples.name} has {seen} rows, from 0 to {seen - 1}: there is no row {row}.")


def _describe_decision(clf: OpenSetClassifier, sample: JobSamples, X: Any) -> dict[str, Any]:
    from .._support.unknown_label import format_label
    from ..classifiers.srosr_classifier import SROSRClassifier
    from ..operations.model_input import get_imputer
    from ..operations.sample_decisions import measure_gaps

    sets = None
    if isinstance(clf, SROSRClassifier):
        try:
            decisions = clf.decide(X, coverage=_COVERAGE)
            sets = decisions.prediction_set
        except ValueError:  # a model without what prediction sets need
            decisions = clf.decide(X)
    else:
        decisions = clf.decide(X)
    score = float(decisions.unknown_score[0])
    found: dict[str, Any] = {
        "row": int(sample.numbers[0]),
        "label": format_label(decisions.label[0]),
        "unknown_score": score if math.isfinite(score) else None,
        "candidate": format_label(decisions.candidate[0]),
        "verdict": "rejected" if decisions.rejected[0] else "recognized",
    }
    if sets is not None:
        found["prediction_set"] = [format_label(label) for label in sets[0].tolist()]
    if get_imputer(clf) is not None:
        found["imputed"] = float(measure_gaps(sample.X)[0])
    return found if sample.files is None else found | {"file": sample.files[0]}


def _describe_missing(clf: OpenSetClassifier, x: Array, names: list[str] | None) -> str | None:
    """Return a sentence on the features of a sample that were imputed; None if there are none."""
    from ..operations.model_facts import describe_missing

    missing = np.flatnonzero(np.isnan(x)).tolist()
    known = getattr(clf, "feature_names_in_", names)
    return describe_missing(clf, [str(j) if known is None else str(known[j]) for j in missing]) if missing else None


@dataclass(frozen=True)
class _Pictures:
    """Pictures of a sample and of the first training samples behind it, and both as the figure takes them."""

    sample: str | None = None
    atoms: tuple[str, ...] = ()
    for_figure: Any = None


def find_shape(clf: OpenSetClassifier, header: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return height and width of the pictures that rows of a table are, if the server was told."""
    shape, recipe = header.get("picture_shape"), clf.feature_recipe_
    if shape is None or (recipe is not None and recipe.of_pictures) or math.prod(shape) != clf.n_features_in_:
        return None
    return int(shape[0]), int(shape[1])


def _find_pictures(
    clf: OpenSetClassifier, sample: JobSamples, explanation: Any, shape: tuple[int, int] | None
) -> _Pictures:
    from ..operations.explanations import gather_pictures
    from ..operations.model_facts import undo_scaling
    from ..operations.model_input import name_features

    recipe = clf.feature_recipe_
    if recipe is not None and recipe.thumbnails is not None and sample.thumbnails is not None:
        small = [recipe.thumbnails[atom.row] for atom in getattr(explanation, "atoms", ())[:_MOST_TRAINING]]
        shown = make_data_uri(sample.thumbnails[0]), tuple(make_data_uri(picture) for picture in small)
        return _Pictures(*shown, gather_pictures(clf, explanation, sample.thumbnails[0]))
    if shape is None:
        return _Pictures()
    prepared = clf._check_queries(name_features(clf, sample.X))
    own = draw_ink(undo_scaling(clf, prepared)[0].reshape(shape))
    atoms = getattr(explanation, "pictures", None)
    if atoms is None:
        # The figure of a sparse code shows both or none.
        return _Pictures(make_data_uri(own), for_figure=None if hasattr(explanation, "atoms") else (own / 255.0, []))
    # Atoms may have unit length; at that of the sample they are in the units of the file.
    lengths = np.linalg.norm(atoms, axis=1, keepdims=True)
    scaled = undo_scaling(clf, atoms * np.divide(np.linalg.norm(prepared), lengths, where=lengths > 0, out=lengths))
    drawn = [draw_ink(atom.reshape(shape)) for atom in scaled]
    figure = own / 255.0, [ink / 255.0 for ink in drawn]
    return _Pictures(make_data_uri(own), tuple(map(make_data_uri, drawn)), figure)


def _list_training_samples(clf: OpenSetClassifier, explanation: Any, pictures: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the training samples that a sample is reconstructed from, those with the largest weights first."""
    from .._support.unknown_label import format_label

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


#: What this module can do.
JOBS = {"explain": explain}
