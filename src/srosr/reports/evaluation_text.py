"""An evaluation in words and short numbers: the same on the command line and in the report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._support.messages import join_names, list_names, quote_names
from ..evaluation import Evaluation, Measure

__all__ = ["between_text", "percent", "remarks", "score_text", "sentences", "value_text"]

#: Labels that are named in a list; the others are counted.
NAMED = 12


def percent(share: float | None) -> str:
    """A share in per cent; a dash for none."""
    return "–" if share is None else f"{100 * share:.1f} %"


def score_text(value: float | None) -> str:
    """A score with the digits that tell it from 1; a dash for none.

    Examples
    --------
    >>> [score_text(value) for value in (0.51234, 0.99987, 1.0, 31.25)]
    ['0.512', '0.999870', '1.00', '31.2']
    """
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    if 0.9 <= value < 1:
        # Two digits beyond the last nine, so that 0.9996 does not become 1.
        return f"{value:.{min(2 - math.floor(math.log10(1 - value)), 12)}f}"
    return (f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}").replace("-", "−")


def value_text(measure: Measure) -> str:
    """A metric: shares of samples in per cent, others with three digits, a dash where there is none."""
    if measure.value is None:
        return "–"
    return percent(measure.value) if measure.kind.is_share else f"{measure.value:.3f}".replace("-", "−")


def between_text(measure: Measure) -> str:
    """The interval of a metric."""
    if measure.interval is None:
        return "–"
    ends = [100 * end if measure.kind.is_share else end for end in measure.interval]
    digits, unit = (1, " %") if measure.kind.is_share else (3, "")
    return " to ".join(f"{end:.{digits}f}".replace("-", "−") for end in ends) + unit


def sentences(found: Evaluation) -> list[str]:
    """What came of it."""
    said = []
    measures = found.measures
    known, strange = ([line for line in found.lines if line.known is kind] for kind in (True, False))
    if found.n_known:
        wrong = sum(line.wrong for line in known)
        text = (
            f"Of {found.n_known:,} known samples {value_text(measures['recognition_accuracy'])} were recognised, "
            f"{value_text(measures['known_refused'])} refused and {percent(wrong / found.n_known)} taken for "
            "another class"
        )
        worst = max(known, key=lambda line: line.mistaken)
        text += f", most often {worst.label} for {worst.mistaken_for} ({worst.mistaken:,})." if wrong else "."
        said.append(text)
    if found.n_unknown:
        text = f"Of {found.n_unknown:,} unknown samples {value_text(measures['rejection_accuracy'])} were refused"
        accepted = [line for line in strange if line.wrong]
        if accepted:
            worst = max(accepted, key=lambda line: line.mistaken)
            text += f"; let in were most often {worst.label}, taken for {worst.mistaken_for} ({worst.mistaken:,})"
        said.append(text + ".")
    if found.n_known and found.n_unknown:
        said.append(
            "Whatever the threshold: an unknown sample scores above a known one in "
            f"{percent(measures['auroc'].value)} of all pairs (AUROC), and a known one is named right and scores below "
            f"an unknown one in {percent(measures['oscr'].value)} (OSCR)."
        )
    return said


def remarks(found: Evaluation, unknown: Sequence[str] | None, source: str) -> list[str]:
    """What the user must know to read the numbers rightly.

    Parameters
    ----------
    found : Evaluation
    unknown : sequence of str or None
        Labels that were said to be unknown.
    source : str
        What the data are called.
    """
    said = []
    if not found.n_known:
        said.append(
            f"No label of {source} is a class of the model, so that all samples count as unknown; the model's classes "
            f"are {join_names(found.names, NAMED)}. If that is not what you meant, name the right column with --label."
        )
    elif not found.n_unknown:
        said.append(f"Every label of {source} is a class of the model: how strangers fare cannot be seen.")
    alike = {name.casefold(): name for name in found.names}
    for label in found.strangers:
        if unknown is None and label.casefold() in alike:
            name = alike[label.casefold()]
            said.append(f"The label {label!r} was taken as unknown, for the model's class is called {name!r}.")
    unmet = [label for label in unknown or () if label not in found.strangers]
    if unmet:
        said.append(f"No sample is labelled {quote_names(unmet)}, given with --unknown.")
    empty = [line.label for line in found.lines if line.known and not line.samples]
    if empty and found.n_known:
        has = "class of the model has" if len(empty) == 1 else "classes of the model have"
        said.append(f"{len(empty):,} {has} no sample in {source}: {list_names(empty, NAMED)}.")
    return said
