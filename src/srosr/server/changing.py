"""Changes of a model, in a child: the changed model goes to a private file, which the server puts in place.

Each does what the command of the same name does, with the same words.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._support.messages import join_names
from ..exceptions import SROSRWarning
from ..operations import changes
from ..operations.change_checks import match_classes, require_srosr_classifier
from ..operations.device_choice import set_device, set_threads
from ..operations.input_errors import InputError
from ..operations.model_input import name_features
from ..operations.more_samples import MissingGroups, MoreRows
from .samples import Job, Samples
from .schemas import ApiError
from .work import load_anew


def _set_threshold(job: Job, clf: Any) -> None:
    given = {name: job.header[name] for name in ("threshold", "target_rejection", "per_class", "risk_weight")}
    changes.set_threshold(clf, job.header["name"], **given)


def _add_class(job: Job, clf: Any) -> None:
    """Add a class: of the samples those labeled so, all of them if they have no labels or were chosen by rows."""
    samples, name, is_chosen = job.take_samples(), job.header["class"], job.header["rows"] is not None
    if samples.labels is not None and not is_chosen:
        own = [place for place, label in enumerate(samples.labels) if label == name]
        if not own:
            some = join_names(dict.fromkeys(samples.labels), 6)
            raise InputError(f"{samples.source} has no sample of the class {name} (it has {some}).")
        samples = samples.take(own)
    groups = None
    if is_chosen and samples.groups is None:  # each is a group of its own
        groups = [f"row {number} of {samples.source}" for number in samples.numbers.tolist()]
    new = _describe_rows(clf, samples, None, groups, f"{name}/")
    changes.add_class(clf, job.header["name"], samples.source, new, name, recalibrate=job.header["recalibrate"])


def _remove_class(job: Job, clf: Any) -> None:
    changes.remove_class(clf, job.header["name"], job.header["label"], recalibrate=job.header["recalibrate"])


def _update(job: Job, clf: Any) -> None:
    samples = job.take_samples()
    changes.update(clf, samples.source, _describe_rows(clf, samples, samples.labels), keep=job.header["keep"])


def _recalibrate(job: Job, clf: Any) -> str | None:
    samples = job.take_samples()
    labels = None if samples.labels is None else _match_labels(clf, samples)
    rows = MoreRows(name_features(clf, samples.X), labels, samples.groups, None)
    return changes.recalibrate(clf, samples.source, rows)


def _match_labels(clf: Any, samples: Samples) -> Any:
    return match_classes(clf, np.array(samples.labels, dtype=object), samples.source)


def _describe_rows(
    clf: Any, samples: Samples, labels: list[str] | None, groups: list[str] | None = None, folder: str = ""
) -> MoreRows:
    """Return samples as a change takes them; a model that was fitted with groups needs those of the samples."""
    column = None if clf.feature_recipe_ is None else clf.feature_recipe_.group
    if column is not None and samples.groups is None and groups is None:
        what = f"{samples.source} has no column {column!r} of groups"
        raise MissingGroups(f"{what}, and the model was fitted with groups: add the column.")
    pictures = None
    if samples.thumbnails is not None and samples.files is not None:
        pictures = [f"{folder}{file}" for file in samples.files], samples.thumbnails
    found = None if labels is None else _match_labels(clf, samples)
    own = samples.groups or (groups if column is not None else None)
    return MoreRows(name_features(clf, samples.X), found, own, pictures)


def _run(change: Callable[[Job, Any], str | None], command: str, job: Job) -> dict[str, Any]:
    """Change a copy of the model and save it to the private file ``out``."""
    header = job.header
    job.report("Loading")
    clf: Any = load_anew(header)
    if command != "set-threshold":
        try:
            require_srosr_classifier(clf, header["name"], command)
        except InputError as error:
            raise ApiError(409, error.message) from None
    job.report("Changing")
    kept = {name: getattr(clf, name) for name in ("n_jobs", "device") if hasattr(clf, name)}
    set_threads(clf, header["jobs"])
    set_device(clf, header["device"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        remark = change(job, clf)
    for name, value in kept.items():  # the threads and the device of the server are not those of the file
        setattr(clf, name, value)
    job.report("Saving")
    try:
        clf.save(header["out"])
    except OSError as error:
        reason = error.strerror or "the disk of the server refuses it"
        raise ApiError(503, f"The changed model cannot be written: {reason}.") from None
    notes = [str(warning.message) for warning in caught if issubclass(warning.category, SROSRWarning)]
    return {"notes": [*dict.fromkeys(notes), *([] if remark is None else [remark])]}


#: What a worker can do with models.
CHANGES = {
    change.__name__.removeprefix("_"): partial(_run, change, change.__name__.removeprefix("_").replace("_", "-"))
    for change in (_set_threshold, _add_class, _remove_class, _update, _recalibrate)
}
