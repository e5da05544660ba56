"""Why a rival recognised or refused a sample: less than a sparse code can tell, but what every method knows.

A rival has no atoms to point at. It has a score for each class, an unknown score and a threshold, and it knows what
held-out training samples scored. For :class:`srosr.SROSRClassifier` see :mod:`srosr.inspection.explanation`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import Array
from .._support.plotting import INK, KNOWN_COLOUR, PALE, UNKNOWN_COLOUR, histogram, panels, shared_bins, tidy
from ..classifiers import OpenSetClassifier
from .explanation_text import apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Verdict", "verdict_of"]

#: Classes in the text, and in the figure.
_NAMED, _DRAWN = 3, 15


@dataclass(frozen=True, eq=False)
class Verdict:
    """A decision with what led to it.

    Attributes
    ----------
    method : str
        The name of the classifier's class.
    label, candidate : label
    refused : bool
    unknown_score, threshold : float
    threshold_detail : str
        Where the threshold comes from.
    class_scores : dict of label to float
        Larger is more of that class; the best first.
    held_out, strangers : ndarray
        Unknown scores of held-out samples, and of samples whose class was left out.
    """

    method: str
    label: Any
    candidate: Any
    refused: bool
    unknown_score: float
    threshold: float
    threshold_detail: str
    class_scores: dict[Any, float]
    held_out: Array
    strangers: Array

    @property
    def text(self) -> str:
        """In sentences, a paragraph a line."""
        score, threshold = apart(self.unknown_score, self.threshold)
        if self.refused and not self.unknown_score > self.threshold:
            first = "Refused: there is nothing in it to recognise, or its numbers are too large to be compared."
        elif self.refused:
            first = f"Refused: the unknown score {score} is above the threshold {threshold}."
        else:
            first = f"Recognised as class {self.candidate}: the unknown score {score} is not above {threshold}."
        lines = [f"{first} (Threshold: {self.threshold_detail}.)"]
        told = []
        if len(self.held_out):
            told.append(
                f"{_share(self.held_out >= self.unknown_score)} of held-out known samples are at least as strange."
            )
        if len(self.strangers):
            which = "of samples whose class was left out are" + ("" if told else " at least as strange")
            told.append(f"{_share(self.strangers >= self.unknown_score)} {which}.")
        if told and math.isfinite(self.unknown_score):
            lines.append(" ".join(told))
        if all(math.isfinite(value) for value in self.class_scores.values()):
            best = [f"{label} ({value:.3g})" for label, value in list(self.class_scores.items())[:_NAMED]]
            lines.append(f"Scores of the classes, larger is more of it: {', '.join(best)}.".replace("(-", "(−"))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """In types that JSON has; what is not finite is None."""
        scores = [{"label": label, "value": _finite(value)} for label, value in self.class_scores.items()]
        return {
            "method": self.method,
            "label": self.label,
            "candidate": self.candidate,
            "refused": self.refused,
            "unknown_score": _finite(self.unknown_score),
            "threshold": _finite(self.threshold),
            "threshold_detail": self.threshold_detail,
            "class_scores": scores,
            "text": self.text,
        }

    def plot(self, pictures: Any = None) -> Figure:
        """Scores of the classes, and the unknown score among those of held-out samples; before them the picture."""
        n = 2 if pictures is None else 3
        axes = panels(None, n, (4.4 * n, 3.4), [1.0] * n)
        if pictures is not None:
            axes[0].imshow(pictures[0], cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
            axes[0].set_axis_off()
        self._draw_classes(axes[-2])
        self._draw_scores(axes[-1])
        name = f"refused; best class {self.candidate}" if self.refused else f"recognised as class {self.candidate}"
        axes[0].set_title(f"{name}\n({self.method})", loc="left", fontsize="medium", color=self._colour)
        figure = axes[0].figure
        assert figure is not None
        return figure  # type: ignore[return-value]

    @property
    def _colour(self) -> str:
        return UNKNOWN_COLOUR if self.refused else KNOWN_COLOUR

    def _draw_classes(self, ax: Axes) -> None:
        tidy(ax)
        shown = list(self.class_scores.items())[:_DRAWN][::-1]
        colours = [self._colour if label == self.candidate else PALE for label, _ in shown]
        ax.barh(range(len(shown)), [value for _, value in shown], color=colours)
        ax.set_yticks(range(len(shown)), [str(label)[:20] for label, _ in shown], fontsize="small")
        more = f" ({len(shown)} of {len(self.class_scores)})" if len(self.class_scores) > len(shown) else ""
        ax.set_xlabel(f"score of the class{more}")

    def _draw_scores(self, ax: Axes) -> None:
        tidy(ax)
        here = np.array([value for value in (self.unknown_score, self.threshold) if math.isfinite(value)])
        bins = shared_bins(30, self.held_out, self.strangers, here)
        if len(self.held_out):
            histogram(ax, self.held_out, bins, KNOWN_COLOUR, "known, held out")
        if len(self.strangers):
            histogram(ax, self.strangers, bins, UNKNOWN_COLOUR, "classes left out")
        if math.isfinite(self.threshold):
            ax.axvline(self.threshold, color=INK, linestyle="--", linewidth=1.2, label="threshold")
        if math.isfinite(self.unknown_score):
            ax.axvline(self.unknown_score, color=self._colour, linewidth=2.0, label="this sample")
        ax.set_xlabel("unknown score")
        ax.set_ylabel("per cent of the samples")
        ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)


def verdict_of(clf: OpenSetClassifier, X: Any) -> Verdict:
    """Decide on one sample, with reasons.

    Parameters
    ----------
    clf : OpenSetClassifier
    X : array-like (1, n_features)
    """
    decided, scores = clf.decide(X), clf.class_scores(X)[0]
    found = clf._held_out_scores()
    number = clf._find_class(decided.candidate[0])
    order = np.argsort(-scores, kind="stable")
    classes = clf.classes_.tolist()
    return Verdict(
        type(clf).__name__,
        decided.label.tolist()[0],
        decided.candidate.tolist()[0],
        bool(decided.rejected[0]),
        float(decided.unknown_score[0]),
        float(clf.thresholds_[number]),
        clf.threshold_info_.detail,
        {classes[k]: float(scores[k]) for k in order},
        found.scores,
        found.simulated[found.unknown],
    )


def _share(mask: Any) -> str:
    return f"{100 * float(np.mean(mask)):.1f} %"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
