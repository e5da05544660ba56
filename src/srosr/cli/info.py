"""``srosr info``: show what a model file contains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .._support.messages import list_names
from .console import json_option, print_facts, print_json
from .input_data import describe_imputation
from .models import classes_fact, held_out_facts, load_model

if TYPE_CHECKING:
    from ..inspection.model_summary import ModelSummary


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
    from ..inspection.model_summary import summarize_model

    summary = summarize_model(load_model(model))
    size = model.stat().st_size
    if as_json:
        print_json({"model": str(model), "bytes": size, **summary.to_dict()})
        return
    coding = [("coding", _describe_coding(summary))] if summary.problem is not None else []
    weighed = [
        (name, _describe_weights(weights))
        for name, weights in (("label by", summary.class_weights), ("unknown by", summary.evidence_weights))
        if weights is not None
    ]
    print_facts([
        ("method", f"{summary.method} ({summary.estimator})"),
        *coding,
        *weighed,
        classes_fact(summary),
        ("unknown label", str(summary.unknown_label)),
        ("features", _describe_features(summary)),
        *([("imputed", describe_imputation(summary.imputed))] if summary.imputed is not None else []),
        ("file", f"{size / 1e6:.1f} MB"),
        *([("groups", f"{summary.groups:,}")] if summary.groups is not None else []),
        *held_out_facts(summary),
        *_guarantee_facts(summary),
    ])  # fmt: skip


def _guarantee_facts(summary: ModelSummary) -> list[tuple[str, str]]:
    """Return for which samples the target holds, over all classes and class by class."""
    found = summary.guarantees
    if found is None:
        return []
    rate = f"false rejection {found['rate']:g}"
    if not summary.by_target:
        rate = f"a p-value of at most {found['rate']:g} (the threshold is not chosen by it)"
    return [("guarantee", f"{rate} {found['overall']}"), ("by class", f"{rate} {found['by_class']}")]


def _describe_coding(summary: ModelSummary) -> str:
    text, n = f"{summary.problem}, kernel {summary.kernel}", sum((summary.class_sizes or {}).values())
    return text if summary.atoms == n else f"{text}, {summary.atoms:,} atoms for {n:,} samples"


def _describe_weights(weights: dict[str, float]) -> str:
    """Return the kinds with a weight, the largest first, and how many have none."""
    used = sorted((name for name in weights if weights[name] >= 0.005), key=lambda name: -weights[name])
    text = ", ".join(f"{name} {weights[name]:.2f}" for name in used)
    return text + (f"; {len(weights) - len(used)} without weight" if len(used) < len(weights) else "")


def _describe_features(summary: ModelSummary) -> str:
    recipe, names = summary.feature_recipe, summary.feature_names
    if recipe is not None and recipe["kind"] == "pixels":
        return f"{summary.features:,}: gray values of pictures at {recipe['shape'][0]} × {recipe['shape'][1]} pixels"
    if recipe is not None and recipe["kind"] == "pyramid":
        return f"{summary.features:,}: spatial pyramids of {recipe['pyramid']['n_words']} visual words, from pictures"
    if names is None:
        return f"{summary.features:,}, without names{', standardized' if summary.standardized else ''}"
    scaled = ", standardized" if summary.standardized else ""
    return f"{summary.features:,}: {list_names(names, 12)}{scaled}"
