"""``srosr set-threshold``: another threshold for a model, without fitting again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .bad_input import BadInput
from .changed_model import output_option
from .console import json_option

if TYPE_CHECKING:
    from ..classifiers import OpenSetClassifier

__all__ = ["set_threshold"]


@click.command("set-threshold")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--target-rejection",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Refuse about this share of known samples.",
)
@click.option(
    "--threshold", metavar="VALUE", help="A number on the unknown score, or one of risk, f, youden, original."
)
@click.option("--per-class", is_flag=True, help="With --target-rejection: a threshold for each class.")
@click.option(
    "--risk-weight", type=float, metavar="W", help="With --threshold risk: the weight of errors on known samples."
)
@output_option
@json_option
def set_threshold(
    model: Path,
    target_rejection: float | None,
    threshold: str | None,
    per_class: bool,
    risk_weight: float | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Choose anew when a sample is refused. Nothing is learnt again, and no unknown sample is needed.

    A target says how many known samples you can bear to see refused. "f" and "youden" optimise these measures on known
    classes that were left out in turn, "risk" weighs wrongly accepted strangers against errors on known samples.

    \b
    Examples:
      srosr set-threshold model.srosr --target-rejection 0.01
      srosr set-threshold model.srosr --threshold f -o strict.srosr
      srosr set-threshold model.srosr --threshold 0.98
      srosr set-threshold model.srosr --threshold risk --risk-weight 5
    """
    from .changed_model import save_changed
    from .console import warnings_shown
    from .input_data import load_model
    from .output_files import check_model_path

    if (threshold is None) == (target_rejection is None):
        raise BadInput("say which threshold: --target-rejection SHARE or --threshold VALUE, one of the two.")
    if output is not None:
        check_model_path(output)
    value: float | str | None = threshold
    if threshold is not None:
        try:
            value = float(threshold)
        except ValueError:
            value = threshold
    clf = load_model(model)
    if threshold is not None:
        _check(value, clf, model)
    with warnings_shown():
        try:
            clf.set_threshold(
                value, target_rejection=target_rejection, per_class=per_class or None, risk_weight=risk_weight
            )
        except ValueError as error:
            raise BadInput(f"{model}: {error}") from None
    save_changed(clf, model, output, as_json)


def _check(value: float | str | None, clf: OpenSetClassifier, model: Path) -> None:
    """Refuse a threshold that is none, in the words of the command line."""
    from ..rivals import method_name
    from ..thresholds import OBJECTIVES

    low, high = clf.score_range
    if value == "original" and clf._original_threshold() is None:
        raise BadInput(
            f"--threshold original: {method_name(clf)}, the method of {model}, was published without one that fits all "
            "data; use --target-rejection, risk, f, youden or a number."
        )
    if isinstance(value, str):
        if value not in (*OBJECTIVES, "original"):
            raise BadInput(
                f"--threshold {value}: give a number from {low:g} to {high:g}, or risk, f, youden, original."
            )
    elif value is None or not low <= value <= high:
        raise BadInput(f"--threshold {value:g}: the unknown score of {model} goes from {low:g} to {high:g}.")
