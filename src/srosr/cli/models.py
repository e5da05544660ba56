"""Load a model file, save a model that a command changed, and print facts about a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .._support.messages import list_names
from ..operations.change_checks import require_srosr_classifier
from ..operations.input_errors import InputError, convert_errors
from .console import format_percent, out, print_facts, print_json

if TYPE_CHECKING:
    from ..classifiers.base import OpenSetClassifier
    from ..classifiers.srosr_classifier import SROSRClassifier
    from ..inspection.model_summary import ModelSummary

output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Where to write the changed model.  [the model file itself]"
)


def load_model(path: Path) -> OpenSetClassifier:
    """Load the model in a file."""
    from ..model_files.save_load import load

    with convert_errors():
        if not path.exists():
            raise InputError(f"{path} does not exist: give a model that srosr fit wrote.")
        if path.is_dir():
            raise InputError(f"{path} is a folder: give a model that srosr fit wrote.")
        return load(path)


def load_srosr_classifier(path: Path, command: str) -> SROSRClassifier:
    """Load the model in a file, which must be one whose classes can be added and removed."""
    return require_srosr_classifier(load_model(path), path, command)


def save_changed_model(clf: OpenSetClassifier, model: Path, output: Path | None, as_json: bool) -> None:
    """Save a changed model, over the old one without ``output``, and print its facts."""
    from ..inspection.model_summary import summarize_model

    target = model if output is None else output
    with convert_errors():
        clf.save(target)
    summary = summarize_model(clf)
    if as_json:
        print_json({"model": str(target), **summary.to_dict()})
        return
    print_facts([classes_fact(summary), *held_out_facts(summary)])
    out().print(f"Model: {target}")


def classes_fact(summary: ModelSummary) -> tuple[str, str]:
    """Return the classes, with the number of their samples if the model keeps them."""
    from .._support.unknown_label import format_label

    sizes = summary.class_sizes or {}
    labels = [format_label(label) for label in summary.classes]
    named = list_names((f"{label} {sizes[label]:,}" if label in sizes else label for label in labels), 20)
    return "classes", f"{len(labels)}: {named}"


def held_out_facts(summary: ModelSummary) -> list[tuple[str, str]]:
    """Return the threshold, and how held-out samples and simulated unknowns were classified."""
    from ..inspection.model_summary import format_threshold

    held = summary.held_out
    error = summary.threshold_standard_error
    detail = summary.threshold_detail + ("" if error is None else f"; standard error {error:.2g}")
    facts = [("threshold", f"{format_threshold(summary.thresholds)} on the unknown score: {detail}")]
    name = "held-out samples" if summary.recalibration is None else "fresh samples"
    if held.accuracy is not None and held.rejected is not None and held.recognized is not None:
        right, rejected = format_percent(held.accuracy), format_percent(held.rejected)
        text = f"{held.samples:,}: correct candidate {right}, rejected {rejected}, "
        facts.append((name, f"{text}correct and accepted {format_percent(held.recognized)}"))
    elif held.rejected is not None:
        text = f"{held.samples:,}: rejected {format_percent(held.rejected)}"
        facts.append((name, f"{text} (their classes are not known)"))
    if held.simulated_unknowns_rejected is not None:
        text = f"{held.simulated_unknowns:,}: rejected {format_percent(held.simulated_unknowns_rejected)}"
        facts.append(("simulated unknowns", f"{text} (samples of classes left out in turn)"))
    return facts
