"""``srosr info``: show what a model file contains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .console import json_option

if TYPE_CHECKING:
    from ..inspection import ModelSummary

__all__ = ["classes_fact", "held_out_facts", "info"]


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@json_option
def info(model: Path, as_json: bool) -> None:
    """Show the method, classes, features and threshold of a model, and how held-out samples were classified.

    \b
    Examples:
      srosr info model.srosr
      srosr info model.srosr --json
    """
    from ..inspection import summary_of
    from .console import print_facts, print_json
    from .models import load_model

    summary = summary_of(load_model(model))
    size = model.stat().st_size
    if as_json:
        print_json({"model": str(model), "bytes": size, **summary.to_dict()})
        return
    print_facts([*_facts(summary, size), *held_out_facts(summary)])


def _facts(summary: ModelSummary, size: int) -> list[tuple[str, str]]:
    """Return method, coding, classes and features."""
    coding = [("coding", f"{summary.problem}, kernel {summary.kernel}")] if summary.problem is not None else []
    return [
        ("method", f"{summary.method} ({summary.estimator})"),
        *coding,
        classes_fact(summary),
        ("unknown label", str(summary.unknown_label)),
        ("features", _features(summary)),
        ("file", f"{size / 1e6:.1f} MB"),
    ]


def classes_fact(summary: ModelSummary) -> tuple[str, str]:
    """Return the classes, with the number of their samples if the model keeps them."""
    from .._support.messages import list_names
    from .._support.unknown_label import format_label

    sizes = summary.class_sizes or {}
    labels = [format_label(label) for label in summary.classes]
    named = list_names((f"{label} {sizes[label]:,}" if label in sizes else label for label in labels), 20)
    return "classes", f"{len(labels)}: {named}"


def _features(summary: ModelSummary) -> str:
    from .._support.messages import list_names

    recipe, names = summary.feature_recipe, summary.feature_names
    if recipe is not None and recipe["kind"] == "pixels":
        return f"{summary.features:,}: gray values of pictures at {recipe['shape'][0]} × {recipe['shape'][1]} pixels"
    if recipe is not None and recipe["kind"] == "pyramid":
        return f"{summary.features:,}: spatial pyramids of {recipe['pyramid']['n_words']} visual words, from pictures"
    if names is None:
        return f"{summary.features:,}, without names"
    return f"{summary.features:,}: {list_names(names, 12)}"


def held_out_facts(summary: ModelSummary) -> list[tuple[str, str]]:
    """Return the threshold, and how held-out samples and simulated unknowns were classified."""
    from ..inspection import threshold_text
    from .console import percent

    held = summary.held_out
    facts = [("threshold", f"{threshold_text(summary.thresholds)} on the unknown score: {summary.threshold_detail}")]
    if held.accuracy is not None and held.rejected is not None and held.recognized is not None:
        text = f"{held.samples:,}: correct candidate {percent(held.accuracy)}, rejected {percent(held.rejected)}, "
        facts.append(("held-out samples", f"{text}correct and accepted {percent(held.recognized)}"))
    if held.simulated_unknowns_rejected is not None:
        text = f"{held.simulated_unknowns:,}: rejected {percent(held.simulated_unknowns_rejected)}"
        facts.append(("simulated unknowns", f"{text} (samples of classes left out in turn)"))
    return facts
