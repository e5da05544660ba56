"""``srosr set-threshold``: another threshold for a model, without fitting again."""

from __future__ import annotations

from pathlib import Path

import click

from srosr.commands.bad_input import BadInput
from srosr.commands.changed_model import output_option
from srosr.commands.console import json_option

__all__ = ["set_threshold"]


@click.command("set-threshold")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--target-rejection", type=float, metavar="SHARE", help="Refuse about this share of known samples.")
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
    from srosr.commands.changed_model import save_changed
    from srosr.commands.console import warnings_shown
    from srosr.commands.figures import check_output_path
    from srosr.commands.samples import load_model

    if (threshold is None) == (target_rejection is None):
        raise BadInput("say which threshold: --target-rejection SHARE or --threshold VALUE, one of the two.")
    if output is not None:
        check_output_path(output, "the model", "-o")
    value: float | str | None = threshold
    if threshold is not None:
        try:
            value = float(threshold)
        except ValueError:
            value = threshold
    clf = load_model(model)
    with warnings_shown():
        try:
            clf.set_threshold(
                value, target_rejection=target_rejection, per_class=per_class or None, risk_weight=risk_weight
            )
        except ValueError as error:
            raise BadInput(f"{model}: {error}") from None
    save_changed(clf, model, output, as_json)
