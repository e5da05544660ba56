"""Long work on samples, in a child process: evaluate a model, discover groups.

Each does what the command of the same name does, with the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .explain_work import find_shape
from .gray_png import draw_ink, make_data_uri
from .job_samples import JobSamples, decide, load_model
from .jobs import ChildJob

if TYPE_CHECKING:
    from ..classifiers.base import OpenSetClassifier
    from ..discovery.discover_classes import DiscoveryCollector
    from ..discovery.discovery import Discovery

#: Typical samples of a group.
_TYPICAL = 12


def warm_up() -> None:
    """Import what work needs, so that the first request does not wait for it."""
    import pandas  # noqa: F401

    from ..discovery import discover_classes, distinctive_features  # noqa: F401
    from ..evaluation import evaluation  # noqa: F401
    from ..inspection import model_summary, rival_explanation  # noqa: F401
    from ..model_files import save_load  # noqa: F401
    from ..operations import change_checks, explanations, model_facts, model_input, more_samples  # noqa: F401
    from ..reports import evaluation_text  # noqa: F401
    from ..rivals import methods  # noqa: F401


# -- evaluate ---------------------------------------------------------------------------------------------


def evaluate(job: ChildJob) -> dict[str, Any]:
    """Measure a model on labeled samples, as ``srosr evaluate --json`` prints it."""
    from .._support.messages import count_of
    from ..evaluation.evaluation import EvaluationCollector, UnexpectedLabel
    from ..operations.input_errors import InputError, name_errors
    from ..operations.model_facts import describe_thresholds
    from ..reports.evaluation_text import find_remarks
    from ..rivals.methods import method_name

    header = job.header
    clf = load_model(header)
    samples = JobSamples.take(job)
    if samples.labels is None:
        raise InputError(f"{samples.name} has no labels: give one for each sample.")
    unknown = header.get("unknown") or None
    with name_errors("--unknown", UnexpectedLabel):
        collector = EvaluationCollector(clf.classes_, unknown)
    with name_errors(samples.name, UnexpectedLabel):
        collector.check(samples.labels, samples.numbers)
    for part, _, decisions in decide(clf, samples, job):
        files = None if samples.files is None else samples.files[part]
        collector.add(samples.labels[part], decisions, samples.numbers[part], files)
    job.report("Measuring")
    found = collector.evaluate(
        thresholds=clf.thresholds_, score_range=clf.score_range, seed=int(header.get("seed") or 0)
    )
    notes = [*header.get("notes", ()), *find_remarks(found, unknown, samples.name)]
    if header.get("dropped"):
        notes.append(f"{count_of(header['dropped'], 'row')} of {samples.name} left out.")
    return {
        "data": samples.name,
        "method": method_name(clf),
        "labels": header.get("label"),
        **describe_thresholds(clf),
        "notes": notes,
        **found.as_dict(),
    }


# -- discover ---------------------------------------------------------------------------------------------


def discover(job: ChildJob) -> dict[str, Any]:
    """Group the samples that a model rejects, as ``srosr discover --json`` prints it."""
    from .._support.unknown_label import format_label
    from ..discovery.discover_classes import DiscoveryCollector
    from ..operations.input_errors import InputError, end_sentence

    header = job.header
    clf = load_model(header)
    samples = JobSamples.take(job)
    try:
        collector = DiscoveryCollector(clf, rejected_only=not header.get("all", False))
        for part, X, decisions in decide(clf, samples, job):
            collector.add(X, decisions, samples.numbers[part])
        job.report("Grouping")
        seen = int(header.get("seen") or (samples.numbers[-1] + 1))
        found = collector.discover(
            min_size=header.get("min_size"), n_typical=_TYPICAL, random_state=int(header.get("seed") or 0),
            name=samples.name, n_rows=seen,
        )  # fmt: skip
    except ValueError as error:
        raise InputError(end_sentence(error)) from None
    described = found.to_dict()
    distinctive = _find_distinctive(clf, found, collector, header)
    for group in described["groups"]:
        group["distinctive"] = distinctive.get(group["number"], [])
        group["nearest"] = [{**near, "label": format_label(near["label"])} for near in group["nearest"]]
    return described | {"text": found.text, "pictures": _draw_typical(clf, samples, found, header)}


def _find_distinctive(
    clf: OpenSetClassifier, found: Discovery, collector: DiscoveryCollector, header: Mapping[str, Any]
) -> dict[int, list[dict[str, Any]]]:
    """Return the features of a table in which each group differs most, in the units of the file."""
    from ..discovery.distinctive_features import find_distinctive_features
    from ..operations.model_facts import undo_scaling

    recipe = clf.feature_recipe_
    if recipe is not None and recipe.of_pictures:
        return {}
    X, labels = undo_scaling(clf, collector.samples), found.labels[collector.rows]
    names = getattr(clf, "feature_names_in_", header.get("feature_names"))
    return {
        group.number: [
            {
                "feature": str(feature.place) if names is None else str(names[feature.place]),
                "place": feature.place,
                "mean": feature.mean,
                "other_mean": feature.other_mean,
                "difference": feature.difference,
            }
            for feature in find_distinctive_features(X, labels == group.number)
        ]
        for group in found.groups
    }


def _draw_typical(
    clf: OpenSetClassifier, samples: JobSamples, found: Discovery, header: Mapping[str, Any]
) -> dict[str, str]:
    """Return pictures of the typical samples by row, where samples are pictures."""
    from ..operations.model_facts import undo_scaling
    from ..operations.model_input import name_features

    typical = sorted({row for group in found.groups for row in group.typical})
    places = [int(np.flatnonzero(samples.numbers == row)[0]) for row in typical]
    if samples.thumbnails is not None:
        small = [samples.thumbnails[place] for place in places]
    else:
        shape = find_shape(clf, header)
        if shape is None or not places:
            return {}
        X = undo_scaling(clf, clf._check_queries(name_features(clf, samples.X[places])))
        small = [draw_ink(row.reshape(shape)) for row in X]
    return {str(row): make_data_uri(picture) for row, picture in zip(typical, small, strict=True)}


#: What a worker can do with samples.
JOBS = {"evaluate": evaluate, "discover": discover}
