"""Changes of a model, in a child process: the changed model goes to a private file, which the server puts in place.

Each does what the command of the same name does, with the same words.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from .job_samples import JobSamples, load_anew
from .jobs import CONFLICT, UNAVAILABLE, ChildJob, Refusal

if TYPE_CHECKING:
    from .._support.array_types import AnyArray
    from ..classifiers.base import OpenSetClassifier
    from ..classifiers.srosr_classifier import SROSRClassifier

#: Changes a model; returns remarks beside the library's warnings.
_Change = Callable[[ChildJob, Any], list[str]]


def warm_up() -> None:
    """Nothing: what changes need, other work needs too."""


# -- the changes ------------------------------------------------------------------------------------------


def set_threshold(job: ChildJob, clf: OpenSetClassifier) -> list[str]:
    """Change the threshold: ``target_rejection``, or ``threshold`` with ``risk_weight``; ``per_class``."""
    from ..operations.change_checks import check_threshold
    from ..operations.input_errors import InputError, name_errors

    header, name = job.header, job.header["name"]
    threshold, target, weight = (header.get(key) for key in ("threshold", "target_rejection", "risk_weight"))
    if (threshold is None) == (target is None):
        raise InputError("give either --target-rejection SHARE or --threshold VALUE.")
    value: float | str | None = threshold
    if threshold is not None:
        with suppress(ValueError):
            value = float(threshold)
        check_threshold(value, clf, name)
    with name_errors(name):
        clf.set_threshold(
            value, target_rejection=None if target is None else float(target),
            per_class=header.get("per_class") or None, risk_weight=None if weight is None else float(weight),
        )  # fmt: skip
    return []


def add_class(job: ChildJob, clf: SROSRClassifier) -> list[str]:
    """Add a class called ``class``: of the samples those labeled so, all if they have no labels or were ``chosen``."""
    from ..operations.change_checks import convert_label
    from ..operations.input_errors import name_errors
    from ..operations.model_input import name_features

    header, name = job.header, job.header["class"]
    samples, is_chosen = JobSamples.take(job), bool(header.get("chosen"))
    if not is_chosen:
        samples = _take_labeled(samples, name)
    groups = _find_groups(clf, samples, each_own=is_chosen)
    label = convert_label(name, clf, header["name"])
    recipe = clf.feature_recipe_
    with name_errors(samples.name):
        clf.add_class(
            name_features(clf, samples.X), label,
            recalibrate="all" if header.get("recalibrate") else "new", groups=groups,
        )  # fmt: skip
    if recipe is not None and samples.thumbnails is not None and samples.files is not None:
        clf.feature_recipe_ = recipe.add_pictures([f"{name}/{file}" for file in samples.files], samples.thumbnails)
    return []


def remove_class(job: ChildJob, clf: SROSRClassifier) -> list[str]:
    """Remove the class called ``label``."""
    from ..operations.change_checks import find_class
    from ..operations.input_errors import name_errors

    header, name = job.header, job.header["name"]
    label = find_class(clf, header["label"], name)
    with name_errors(name):
        clf.remove_class(label, recalibrate="all" if header.get("recalibrate") else "none")
    return []


def update(job: ChildJob, clf: SROSRClassifier) -> list[str]:
    """Teach a model more samples of its classes; ``keep`` is the number of the newest to keep of each."""
    from ..operations.change_checks import match_classes
    from ..operations.input_errors import InputError, name_errors
    from ..operations.model_input import name_features

    samples = JobSamples.take(job)
    if samples.labels is None:
        raise InputError(f"{samples.name} has no labels: give one for each sample.")
    labels = match_classes(clf, samples.labels, samples.name)
    groups, recipe = _find_groups(clf, samples), clf.feature_recipe_
    with name_errors(samples.name):
        clf.update(name_features(clf, samples.X), labels, groups=groups, keep=job.header.get("keep"))
    if recipe is not None and samples.thumbnails is not None and samples.files is not None:
        clf.feature_recipe_ = recipe.add_pictures(samples.files, samples.thumbnails)
    return []


def recalibrate(job: ChildJob, clf: SROSRClassifier) -> list[str]:
    """Set the threshold by fresh samples."""
    from ..inspection.model_summary import summarize_model
    from ..operations.change_checks import match_classes
    from ..operations.input_errors import name_errors
    from ..operations.model_facts import compare_rejections
    from ..operations.model_input import name_features

    samples = JobSamples.take(job)
    labels: AnyArray | None = None
    if samples.labels is not None:
        labels = match_classes(clf, samples.labels, samples.name)
    before = summarize_model(clf).held_out.simulated_unknowns_rejected
    with name_errors(samples.name):
        clf.recalibrate(name_features(clf, samples.X), labels, groups=samples.groups)
    after = summarize_model(clf).held_out.simulated_unknowns_rejected
    note = compare_rejections(before, after, len(samples.X))
    return [] if note is None else [note]


# -- their samples ----------------------------------------------------------------------------------------


def _take_labeled(samples: JobSamples, name: str) -> JobSamples:
    """Return the samples of a new class, all if they have no labels."""
    from .._support.messages import join_names
    from ..operations.input_errors import InputError

    if samples.labels is None:
        return samples
    own = np.flatnonzero(samples.labels == name)
    if not len(own):
        some = join_names(dict.fromkeys(samples.labels.tolist()), 6)
        raise InputError(f"{samples.name} has no sample of the class {name} (it has {some}).")
    return samples.select(own)


def _find_groups(clf: SROSRClassifier, samples: JobSamples, *, each_own: bool = False) -> list[str] | None:
    """Return the groups of samples for a model that was fitted with groups, else None."""
    from ..operations.more_samples import MissingGroups, find_group_column

    column = find_group_column(clf, None)
    if samples.groups is not None or column is None:
        return samples.groups
    if each_own:
        return [f"row {number} of {samples.name}" for number in samples.numbers.tolist()]
    raise MissingGroups(
        f"{samples.name} has no column {column!r} of groups, and the model was fitted with groups: add the column."
    )


# -- from the model to the new file -----------------------------------------------------------------------


def _run(change: _Change, command: str, job: ChildJob) -> dict[str, Any]:
    """Change a copy of the model and save it to the private file ``out``."""
    from ..inspection.model_summary import summarize_model
    from ..operations.change_checks import require_srosr_classifier
    from ..operations.input_errors import InputError

    job.report("Loading")
    clf = load_anew(job.header)
    if command != "set-threshold":
        try:
            require_srosr_classifier(clf, job.header["name"], command)
        except InputError as error:
            raise Refusal(error.message, CONFLICT) from None
    job.report("Changing")
    with _gather_warnings() as notes, _keep_resources(clf, job.header):
        remarks = change(job, clf)
    job.report("Saving")
    try:
        clf.save(job.header["out"])
    except OSError as error:
        reason = error.strerror or "the disk of the server refuses it"
        raise Refusal(f"The changed model cannot be written: {reason}.", UNAVAILABLE) from None
    return {"summary": summarize_model(clf).to_dict(), "notes": [*dict.fromkeys(notes), *remarks]}


@contextmanager
def _gather_warnings() -> Iterator[list[str]]:
    """Give a list that has the warnings of the library afterwards."""
    from ..exceptions import SROSRWarning

    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes += [str(warning.message) for warning in caught if issubclass(warning.category, SROSRWarning)]


@contextmanager
def _keep_resources(clf: OpenSetClassifier, header: Mapping[str, Any]) -> Iterator[None]:
    """Use the threads and the device of the server during a change, not in the file."""
    from ..operations.device_choice import set_device, set_threads

    kept = {name: getattr(clf, name) for name in ("n_jobs", "device") if hasattr(clf, name)}
    set_threads(clf, header.get("jobs"))
    set_device(clf, header.get("device", "cpu"))
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(clf, name, value)


def _make_job(change: _Change, command: str) -> Callable[[ChildJob], dict[str, Any]]:
    return lambda job: _run(change, command, job)


#: What a worker can do with models.
JOBS = {
    change.__name__: _make_job(change, change.__name__.replace("_", "-"))
    for change in (set_threshold, add_class, remove_class, update, recalibrate)
}
