"""``srosr set-threshold``: change the threshold of a model."""

from __future__ import annotations

from pathlib import Path

import click

from ..operations import changes
from .console import json_option, show_warnings
from .models import load_model, output_option, save_changed_model
from .output_paths import check_model_path


@click.command("set-threshold")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--target-rejection",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Reject about this share of known samples.",
)
@click.option("--threshold", metavar="VALUE", help="A value of the unknown score, or risk, f, youden or original.")
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
    """Change the threshold of a model without fitting it again. No unknown sample is needed.

    --target-rejection says how many known samples may be rejected. "f" and "youden" optimize these measures on
    simulated unknowns, known classes that were left out in turn; "risk" weighs accepted unknowns against errors on
    known samples; "original" is the threshold that the method was published with.

    \b
    Examples:
      srosr set-threshold model.srosr --target-rejection 0.01
      srosr set-threshold model.srosr --threshold f -o strict.srosr
      srosr set-threshold model.srosr --threshold 0.98
      srosr set-threshold model.srosr --threshold risk --risk-weight 5
    """
    if output is not None:
        check_model_path(output)
    clf = load_model(model)
    with show_warnings():
        changes.set_threshold(
            clf, model, threshold=threshold, target_rejection=target_rejection, per_class=per_class,
            risk_weight=risk_weight,
        )  # fmt: skip
    save_changed_model(clf, model, output, as_json)
