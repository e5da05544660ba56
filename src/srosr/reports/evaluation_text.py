"""An evaluation in sentences and formatted numbers, for the command line and the report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._support.messages import join_names, list_names, quote_names
from ..evaluation.evaluation import Evaluation
from ..evaluation.metric_table import Measure

#: Labels that a list names; the others are counted.
NAMED = 12


def format_percent(share: float | None) -> str:
    """Return a share in percent, or a dash for None."""
    return "–" if share is None else f"{100 * share:.1f} %"


def format_score(value: float | None) -> str:
    """Return a score with enough digits to differ from 1, or a dash for None.

    Examples
    --------
    >>> [format_score(value) for value in (0.51234, 0.99987, 1.0, 31.25)]
    ['0.512', '0.999870', '1.00', '31.2']
    """
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    if 0.9 <= value < 1:
        # Two digits after the last nine, so that 0.9996 is not shown as 1.
        return f"{value:.{min(2 - math.floor(math.log10(1 - value)), 12)}f}"
    return (f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}").replace("-", "−")


def format_value(measure: Measure) -> str:
    """Return a metric: shares of samples in percent, others with three digits, a dash if there is none."""
    if measure.value is None:
        return "–"
    return format_percent(measure.value) if measure.kind.is_share else f"{measure.value:.3f}".replace("-", "−")


def format_interval(measure: Measure) -> str:
    """Return the interval of a metric, or a dash if there is none."""
    if measure.interval is None:
        return "–"
    ends = [100 * end if measure.kind.is_share else end for end in measure.interval]
    digits, unit = (1, " %") if measure.kind.is_share else (3, "")
    return " to ".join(f"{end:.{digits}f}".replace("-", "−") for end in ends) + unit


def describe_results(found: Evaluation) -> list[str]:
    """Return sentences about the known samples, the unknown samples, and the scores."""
    sentences = []
    measures = found.measures
    known, unknown = ([line for line in found.class_counts if line.known is kind] for kind in (True, False))
    if found.n_known:
        wrong = sum(line.wrong for line in known)
        text = (
            f"Of {found.n_known:,} known samples, {format_value(measures['recognition_accuracy'])} were recognized, "
            f"{format_value(measures['known_rejected'])} rejected and {format_percent(wrong / found.n_known)} mistaken "
            "for another class"
        )
        worst = max(known, key=lambda line: line.mistaken)
        text += f", most often {worst.label} for {worst.mistaken_for} ({worst.mistaken:,})." if wrong else "."
        sentences.append(text)
    if found.n_unknown:
        text = f"Of {found.n_unknown:,} unknown samples, {format_value(measures['rejection_accuracy'])} were rejected"
        accepted = [line for line in unknown if line.wrong]
        if accepted:
            worst = max(accepted, key=lambda line: line.mistaken)
            text += f"; most often accepted was {worst.label}, as {worst.mistaken_for} ({worst.mistaken:,})"
        sentences.append(text + ".")
    if found.n_known and found.n_unknown:
        sentences.append(
            "Without any threshold, an unknown sample has a higher score than a known one in "
            f"{format_percent(measures['auroc'].value)} of all pairs (AUROC); in "
            f"{format_percent(measures['oscr'].value)} the known sample also has the right candidate class (OSCR)."
        )
    return sentences


def find_remarks(found: Evaluation, unknown: Sequence[str] | None, source: str) -> list[str]:
    """Return warnings that the user needs to interpret the numbers.

    ``unknown`` are the labels that were declared unknown, if any; ``source`` is the name of the data.
    """
    remarks = []
    if not found.n_known:
        remarks.append(
            f"No label of {source} is a class of the model, so all samples count as unknown. The model's classes are "
            f"{join_names(found.names, NAMED)}. If this is not intended, give the label column with --label."
        )
    elif not found.n_unknown:
        remarks.append(
            f"Every label of {source} is a class of the model, so the rejection of unknown samples cannot be measured."
        )
    alike = {name.casefold(): name for name in found.names}
    for label in found.unknown_labels:
        if unknown is None and label.casefold() in alike:
            name = alike[label.casefold()]
            remarks.append(f"The label {label!r} counts as unknown, because the class of the model is called {name!r}.")
    unmet = [label for label in unknown or () if label not in found.unknown_labels]
    if unmet:
        remarks.append(f"No sample has the label {quote_names(unmet)}, given with --unknown.")
    empty = [line.label for line in found.class_counts if line.known and not line.samples]
    if empty and found.n_known:
        has = "class of the model has" if len(empty) == 1 else "classes of the model have"
        remarks.append(f"{len(empty):,} {has} no sample in {source}: {list_names(empty, NAMED)}.")
    return remarks
