"""Every metric there is, of one set of judged samples, with what it means and how far it may be off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from ..metrics import (
    ccr_at_fpr,
    fpr_at_tpr,
    harmonic_normalised_accuracy,
    normalised_accuracy,
    open_set_aupr,
    open_set_auroc,
    open_set_f_measure,
    openness,
    oscr_area,
    youden_j,
)
from .intervals import SEED, Interval, Weighted, bootstrap, wilson

__all__ = ["MEASURES", "Measure", "measured"]

KNOWN, UNKNOWN, BOTH = "known", "unknown", "both"
#: What stands for unknown and refused among class numbers.
NONE = -1


@dataclass(frozen=True)
class Kind:
    """A metric before it is measured: what it is called, what it means, which way it is good and what it needs."""

    label: str
    meaning: str
    #: 1 where larger is better, -1 where smaller is, 0 where it is half of a trade and neither end is good.
    better: int = 1
    needs: str = ""
    #: Whether it is a share of samples, to be shown in per cent.
    is_share: bool = False


#: By the names that experiments use too, in the order in which they are shown.
MEASURES: dict[str, Kind] = {
    "accuracy": Kind("open set accuracy", "right answers; for an unknown sample that is a refusal", 1, "", True),
    "recognition_accuracy": Kind("recognition accuracy", "known samples accepted under their class", 0, KNOWN, True),
    "rejection_accuracy": Kind("rejection accuracy", "unknown samples refused", 0, UNKNOWN, True),
    "known_refused": Kind("known refused", "known samples refused: the false rejection rate", 0, KNOWN, True),
    "closed_set_accuracy": Kind("closed-set accuracy", "known samples with the right candidate", 1, KNOWN, True),
    "f": Kind("F-measure", "of Scheirer et al.: known recognised, against known missed and strangers let in", 1, KNOWN),
    "f_micro": Kind("micro F-measure", "of all known classes together; a mix-up counts in both classes", 1, KNOWN),
    "f_macro": Kind("macro F-measure", "of mean precision and mean recall: small classes count as much", 1, KNOWN),
    "normalised_accuracy": Kind("normalised accuracy", "mean of recognition and rejection accuracy", 1, BOTH),
    "harmonic_normalised_accuracy": Kind("harmonic accuracy", "their harmonic mean: both must be good", 1, BOTH),
    "youden_j": Kind("Youden's J", "share of unknown refused minus share of known refused", 1, BOTH),
    "auroc": Kind("AUROC", "chance that an unknown sample scores above a known one, at no threshold", 1, BOTH),
    "aupr_unknown": Kind("AUPR, unknown", "average precision of finding the unknown by the score", 1, BOTH),
    "aupr_known": Kind("AUPR, known", "average precision of finding the known by the score", 1, BOTH),
    "fpr95": Kind("FPR at 95 % TPR", "unknown let in where a threshold lets 95 % of the known in", -1, BOTH),
    "oscr": Kind("OSCR area", "chance that a known sample is named right and scores below an unknown one", 1, BOTH),
    "ccr_at_fpr_1": Kind("CCR at 1 % FPR", "known recognised where a threshold lets 1 % of the unknown in", 1, BOTH),
    "ccr_at_fpr_10": Kind("CCR at 10 % FPR", "known recognised where it lets 10 % of them in", 1, BOTH),
    "openness": Kind("openness", "of the problem: 0 where nothing unknown is met; an unknown label is a class", 0, ""),
}  # fmt: skip
_MISSING = {
    KNOWN: "there are no known samples",
    UNKNOWN: "there are no unknown samples",
}


@dataclass(frozen=True)
class Measure:
    """A metric as measured; `value` is None where `remark` says why there is none."""

    name: str
    kind: Kind
    value: float | None
    interval: Interval | None = None
    #: How the interval was made.
    way: str | None = None
    remark: str = ""


def measured(
    true: IntArray,
    answered: IntArray,
    candidate: IntArray,
    score: Array,
    *,
    n_classes: int,
    n_strange: int,
    seed: int = SEED,
) -> dict[str, Measure]:
    """All metrics of judged samples.

    Parameters
    ----------
    true, answered, candidate : ndarray of int (n_samples,)
        Class numbers; −1 in `true` for unknown samples, in `answered` for refused ones.
    score : ndarray (n_samples,)
        Unknown scores, none of them NaN.
    n_classes, n_strange : int
        Classes of the model, and labels that are none of them.
    seed : int
        Of the resamples that intervals come from.
    """
    unknown = true == NONE
    shares = _shares(true, answered, candidate)
    values = _values(true, answered, candidate, score) | {
        "openness": openness(n_classes, n_classes, n_classes + n_strange)
    }
    intervals = bootstrap(Weighted(true, answered, candidate, score), seed)
    found = {}
    for name, kind in MEASURES.items():
        absent = KNOWN if unknown.all() and kind.needs in (KNOWN, BOTH) else UNKNOWN
        if name in shares:
            successes, n = shares[name]
            found[name] = Measure(name, kind, successes / n, wilson(successes, n), "Wilson")
        elif name not in values:
            found[name] = Measure(name, kind, None, remark=_MISSING[absent])
        else:
            interval = intervals.get(name)
            found[name] = Measure(name, kind, values[name], interval, None if interval is None else "bootstrap")
    return found


def _shares(true: IntArray, answered: IntArray, candidate: IntArray) -> dict[str, tuple[int, int]]:
    """Successes among so many samples, of the metrics that are shares of samples."""
    unknown = true == NONE
    counted = {
        "accuracy": (answered == true, np.ones(len(true), dtype=bool)),
        "recognition_accuracy": (answered == true, ~unknown),
        "rejection_accuracy": (answered == true, unknown),
        "known_refused": (answered == NONE, ~unknown),
        "closed_set_accuracy": (candidate == true, ~unknown),
    }
    return {
        name: (int(np.count_nonzero(which & among)), int(np.count_nonzero(among)))
        for name, (which, among) in counted.items()
        if among.any()
    }


def _values(true: IntArray, answered: IntArray, candidate: IntArray, score: Array) -> dict[str, float]:
    """What :mod:`srosr.metrics` says, of all metrics that can be had."""
    unknown = true == NONE
    mark: dict[str, Any] = {"unknown_label": NONE}
    values: dict[str, float] = {}
    if not unknown.all():
        values |= {
            "f": open_set_f_measure(true, answered, **mark),
            "f_micro": open_set_f_measure(true, answered, variant="micro", **mark),
            "f_macro": open_set_f_measure(true, answered, variant="macro", **mark),
        }
    if not unknown.all() and unknown.any():
        values |= {
            "normalised_accuracy": normalised_accuracy(true, answered, **mark),
            "harmonic_normalised_accuracy": harmonic_normalised_accuracy(true, answered, **mark),
            "youden_j": youden_j(true, answered, **mark),
            "auroc": open_set_auroc(true, score, **mark),
            "aupr_unknown": open_set_aupr(true, score, positive="unknown", **mark),
            "aupr_known": open_set_aupr(true, score, positive="known", **mark),
            "fpr95": fpr_at_tpr(true, score, tpr=0.95, **mark),
            "oscr": oscr_area(true, candidate, score, **mark),
            "ccr_at_fpr_1": ccr_at_fpr(true, candidate, score, fpr=0.01, **mark),
            "ccr_at_fpr_10": ccr_at_fpr(true, candidate, score, fpr=0.1, **mark),
        }
    return values
