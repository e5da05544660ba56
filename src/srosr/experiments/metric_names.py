"""What the metrics of experiments are called in figures and reports, and which way each is good."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METRIC_INFO", "Metric"]


@dataclass(frozen=True)
class Metric:
    """How a metric is called, and which way it is good."""

    label: str
    #: 1 where larger is better, -1 where smaller is, 0 where it is half of a trade and neither end is good.
    better: int = 1


#: The metrics of the tables by name, in the order in which they are shown.
METRIC_INFO: dict[str, Metric] = {
    "f": Metric("F-measure"),
    "accuracy": Metric("accuracy"),
    "auroc": Metric("AUROC"),
    "oscr": Metric("OSCR"),
    "f_macro": Metric("macro F-measure"),
    "closed_set_accuracy": Metric("closed-set accuracy"),
    "fpr95": Metric("FPR at 95 % TPR", -1),
    "recognition_accuracy": Metric("recognition accuracy", 0),
    "rejection_accuracy": Metric("rejection accuracy", 0),
    "known_refused": Metric("known refused", 0),
}
