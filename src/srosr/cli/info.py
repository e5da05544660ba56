"""``srosr info``: what a model file holds."""

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
    """Show what a model knows: method, classes, features, threshold, and how held-out samples fared.

    \b
    Examples:
      srosr info model.srosr
      srosr info model.srosr --json
    """
    from ..inspection import summary_of
    from .console import print_json, show_facts
    from .input_data import load_model

    summary = summary_of(load_model(model))
    size = model.stat().st_size
    if as_json:
        print_json({"model": str(model), "bytes": size, **summary.to_dict()})
        return
    show_facts([*_facts(summary, size), *held_out_facts(summary)])


def _facts(summary: ModelSummary, size: int) -> list[tuple[str, str]]:
    """What the model is."""
    coding = [("coding", f"{summary.problem}, kernel {summary.kernel}")] if summary.problem is not None else []
    return [
        ("method", f"{summary.method} ({summary.estimator})"),
        *coding,
        classes_fact(summary),
        ("refused are called", str(summary.unknown_label)),
        ("features", _features(summary)),
        ("file", f"{size / 1e6:.1f} MB"),
    ]


def classes_fact(summary: ModelSummary) -> tuple[str, str]:
    """The classes, with the number of their samples where the model keeps them."""
    from .._support.messages import list_names
    from .._support.unknown_label import format_label

    sizes = summary.class_sizes or {}
    labels = [format_label(label) for label in summary.classes]
    named = list_names((f"{label} {sizes[label]:,}" if label in sizes else label for label in labels), 20)
    return "classes", f"{len(labels)}: {named}"


def _features(summary: ModelSummary) -> str:
    from .._support.messages import list_names

    intake, names = summary.intake, summary.feature_names
    if intake is not None and intake["kind"] == "pixels":
        return f"{summary.features:,}: grey values of pictures at {intake['shape'][0]} × {intake['shape'][1]} pixels"
    if intake is not None and intake["kind"] == "pyramid":
        return f"{summary.features:,}: spatial pyramids of {intake['pyramid']['n_words']} visual words, from pictures"
    if names is None:
        return f"{summary.features:,}, without names"
    return f"{summary.features:,}: {list_names(names, 12)}"


def held_out_facts(summary: ModelSummary) -> list[tuple[str, str]]:
    """The threshold, and how held-out samples fared."""
    from ..inspection import threshold_text
    from .console import percent

    held = summary.held_out
    facts = [("threshold", f"{threshold_text(summary.thresholds)} on the unknown score: {summary.threshold_detail}")]
    if held.accuracy is not None and held.refused is not None and held.recognised is not None:
        told = f"{held.samples:,}: candidate right {percent(held.accuracy)}, refused {percent(held.refused)}, "
        facts.append(("held-out samples", f"{told}accepted and right {percent(held.recognised)}"))
    if held.strangers_refused is not None:
        told = f"refused {percent(held.strangers_refused)} of {held.strangers:,} samples, met as strangers"
        facts.append(("classes left out", told))
    return facts
