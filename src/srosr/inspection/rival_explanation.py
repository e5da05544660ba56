"""Explanations of rivals: less than a sparse code can tell, but something that every method knows.

A rival has no atoms to point at. It has a score for each class, an unknown score, a threshold, and the scores of
held-out training samples. For :class:`srosr.SROSRClassifier` see :mod:`srosr.inspection.explanation`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import Array
from .._support.plotting import (
    INK,
    KNOWN_COLOR,
    PALE,
    UNKNOWN_COLOR,
    draw_histogram,
    find_bins,
    make_panels,
    remove_spines,
)
from ..classifiers.base import OpenSetClassifier
from .explanation_facts import to_plain
from .explanation_text import describe_decision

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Most classes in the text, and in the figure.
_NAMED, _DRAWN = 3, 15


@dataclass(frozen=True, eq=False)
class RivalExplanation:
    """A decision and the numbers that led to it."""

    #: The name of the classifier's class.
    method: str
    label: Any
    candidate: Any
    rejected: bool
    unknown_score: float
    threshold: float
    #: Where the threshold comes from.
    threshold_detail: str
    #: Larger is more of that class; the best first.
    class_scores: dict[Any, float]
    #: Unknown scores of held-out samples, and of samples whose class was left out.
    held_out: Array
    simulated_unknowns: Array

    @property
    def text(self) -> str:
        """The explanation in sentences, one paragraph per line."""
        if self.rejected and not self.unknown_score > self.threshold:
            first = "Rejected: the sample is zero, or its numbers are too large to compare."
        else:
            first = describe_decision(self.rejected, self.candidate, self.unknown_score, self.threshold)
        lines = [f"{first} (Threshold: {self.threshold_detail}.)"]
        groups = ((self.held_out, "held-out known samples"), (self.simulated_unknowns, "samples of left-out classes"))
        shares = [
            f"{100 * np.mean(scores >= self.unknown_score):.1f} % of {name}" for scores, name in groups if len(scores)
        ]
        if shares and math.isfinite(self.unknown_score):
            lines.append(f"{' and '.join(shares)} score at least as high.")
        if all(math.isfinite(value) for value in self.class_scores.values()):
            best = [f"{label} ({value:.3g})" for label, value in list(self.class_scores.items())[:_NAMED]]
            lines.append(f"Best class scores (larger is better): {', '.join(best)}.".replace("(-", "(−"))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict; numbers that are not finite become None."""
        shown = [f.name for f in fields(self) if f.name not in ("held_out", "simulated_unknowns")]
        return {name: to_plain(getattr(self, name)) for name in [*shown, "text"]}

    def plot(self, pictures: Any = None) -> Figure:
        """Draw the class scores, and the unknown score among those of held-out samples; before them the picture."""
        n = 2 if pictures is None else 3
        axes = make_panels(None, n, (4.4 * n, 3.4), [1.0] * n)
        if pictures is not None:
            axes[0].imshow(pictures[0], cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
            axes[0].set_axis_off()
        self._draw_classes(axes[-2])
        self._draw_scores(axes[-1])
        name = f"rejected; best class {self.candidate}" if self.rejected else f"recognized as class {self.candidate}"
        axes[0].set_title(f"{name}\n({self.method})", loc="left", fontsize="medium", color=self._color)
        figure = axes[0].figure
        assert figure is not None
        return figure  # type: ignore[return-value]

    @property
    def _color(self) -> str:
        return UNKNOWN_COLOR if self.rejected else KNOWN_COLOR

    def _draw_classes(self, ax: Axes) -> None:
        remove_spines(ax)
        shown = list(self.class_scores.items())[:_DRAWN][::-1]
        colors = [self._color if label == self.candidate else PALE for label, _ in shown]
        ax.barh(range(len(shown)), [value for _, value in shown], color=colors)
        ax.set_yticks(range(len(shown)), [str(label)[:20] for label, _ in shown], fontsize="small")
        more = f" ({len(shown)} of {len(self.class_scores)})" if len(self.class_scores) > len(shown) else ""
        ax.set_xlabel(f"class score{more}")

    def _draw_scores(self, ax: Axes) -> None:
        remove_spines(ax)
        here = np.array([value for value in (self.unknown_score, self.threshold) if math.isfinite(value)])
        bins = find_bins(30, self.held_out, self.simulated_unknowns, here)
        if len(self.held_out):
            draw_histogram(ax, self.held_out, bins, KNOWN_COLOR, "known, held out")
        if len(self.simulated_unknowns):
            draw_histogram(ax, self.simulated_unknowns, bins, UNKNOWN_COLOR, "simulated unknowns")
        if math.isfinite(self.threshold):
            ax.axvline(self.threshold, color=INK, linestyle="--", linewidth=1.2, label="threshold")
        if math.isfinite(self.unknown_score):
            ax.axvline(self.unknown_score, color=self._color, linewidth=2.0, label="this sample")
        ax.set_xlabel("unknown score")
        ax.set_ylabel("% of samples")
        ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)


def explain_rival(clf: OpenSetClassifier, X: Any) -> RivalExplanation:
    """Explain the decision on one sample, the only row of X."""
    decided, scores = clf.decide(X), clf.class_scores(X)[0]
    found = clf._held_out_scores()
    number = clf._find_class(decided.candidate[0])
    order = np.argsort(-scores, kind="stable")
    classes = clf.classes_.tolist()
    return RivalExplanation(
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
