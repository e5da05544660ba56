"""Changes of a model, the same for a command and for the server; errors name the model or the data at fault."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from .change_checks import check_threshold, convert_label, find_class
from .input_errors import InputError, name_errors
from .model_facts import compare_rejections

if TYPE_CHECKING:
    from ..classifiers.base import OpenSetClassifier
    from ..classifiers.srosr_classifier import SROSRClassifier
    from .more_samples import MoreRows


def set_threshold(
    clf: OpenSetClassifier,
    model: object,
    *,
    threshold: float | str | None,
    target_rejection: float | None,
    per_class: bool,
    risk_weight: float | None,
) -> None:
    """Change the threshold to a value or by an objective, or by a target."""
    if (threshold is None) == (target_rejection is None):
        raise InputError("give either --target-rejection SHARE or --threshold VALUE.")
    if threshold is not None:
        with suppress(ValueError):
            threshold = float(threshold)
        check_threshold(threshold, clf, model)
    with name_errors(model):
        clf.set_threshold(
            threshold, target_rejection=target_rejection, per_class=per_class or None, risk_weight=risk_weight
        )


def add_class(
    clf: SROSRClassifier, model: object, data: object, new: MoreRows, name: str, *, recalibrate: bool
) -> None:
    """Add a class of these samples."""
    label, recipe = convert_label(name, clf, model), clf.feature_recipe_
    with name_errors(data):
        clf.add_class(new.X, label, recalibrate="all" if recalibrate else "new", groups=new.groups)
    if recipe is not None and new.pictures is not None:
        clf.feature_recipe_ = recipe.add_pictures(*new.pictures)


def remove_class(clf: SROSRClassifier, model: object, label: str, *, recalibrate: bool) -> None:
    """Remove the class that is written like this."""
    found = find_class(clf, label, model)
    with name_errors(model):
        clf.remove_class(found, recalibrate="all" if recalibrate else "none")


def update(clf: SROSRClassifier, data: object, rows: MoreRows, *, keep: int | None) -> None:
    """Teach a model more samples of its classes; ``keep`` is the number of the newest to keep of each."""
    recipe = clf.feature_recipe_
    with name_errors(data):
        clf.update(rows.X, rows.labels, groups=rows.groups, keep=keep)
    if recipe is not None and rows.pictures is not None:
        clf.feature_recipe_ = recipe.add_pictures(*rows.pictures)


def recalibrate(clf: SROSRClassifier, data: object, rows: MoreRows) -> str | None:
    """Set the threshold by fresh samples; return a note if far fewer simulated unknowns are rejected than before."""
    from ..inspection.model_summary import summarize_model

    before = summarize_model(clf).held_out.simulated_unknowns_rejected
    with name_errors(data):
        clf.recalibrate(rows.X, rows.labels, groups=rows.groups)
    after = summarize_model(clf).held_out.simulated_unknowns_rejected
    return compare_rejections(before, after, len(rows.X))
