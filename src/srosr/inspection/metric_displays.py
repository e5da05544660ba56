r"""Figures of metrics, in the manner of scikit-learn's displays.

A display holds numbers; ``from_predictions`` makes it from labels and scores, ``from_estimator`` from a fitted open set
classifier and test samples. ``plot`` draws it and keeps what was drawn in ``ax_`` and ``figure_``; it uses pyplot only
if no ``ax`` is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.plotting import INK, KNOWN_COLOR, SHADE, UNKNOWN_COLOR, Display, make_panels, remove_spines
from ..metrics.confusion import open_set_confusion
from ..metrics.oscr import oscr_curve
from ..model_selection import unwrap_classifier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Curves in one figure differ in color and, for color-blind readers and gray prints, in dashes.
_STROKES: tuple[tuple[str, Any], ...] = (
    (KNOWN_COLOR, "-"),
    (UNKNOWN_COLOR, (0, (6, 2))),
    (INK, (0, (2, 1.5))),
    ("#8a6fb0", (0, (6, 2, 1.5, 2))),
    ("#c9a227", (0, (1, 1))),
    ("#5b8c5a", (0, (9, 2, 1.5, 2, 1.5, 2))),
)
_CURVE = "oscr"

#: Most labels for which the cells of a confusion matrix show their counts.
MAX_COUNTED = 24
# Depth of color of a cell with one sample out of many.
_FAINTEST = 0.2


class OSCRDisplay(Display):
    r"""The OSCR curve: correct classifications of known samples against accepted unknown ones.

    ``from_predictions`` and ``from_estimator`` compute, ``plot(ax=None)`` draws. Curves plotted into the same axes
    differ in color and dashes and share one legend.

    Parameters
    ----------
    fpr, ccr : ndarray (n_points,)
        As :func:`srosr.oscr_curve` returns them.
    name : str, optional
        Name of the curve in the legend.

    Attributes
    ----------
    area : float
        Area under the curve, as :func:`srosr.oscr_area` returns it.
    line_ : Line2D
    ax_ : Axes
    figure_ : Figure

    See Also
    --------
    srosr.oscr_curve : The numbers.

    Examples
    --------
    >>> from srosr import OSCRDisplay
    >>> y_true, candidate = ["a", "b", "b", "?"], ["a", "b", "a", "a"]
    >>> d = OSCRDisplay.from_predictions(y_true, candidate, [0.1, 0.2, 0.6, 0.4], unknown_label="?", name="mine")
    >>> round(d.area, 3)
    0.667
    """

    line_: Any

    def __init__(self, fpr: Array, ccr: Array, *, name: str | None = None) -> None:
        self.fpr, self.ccr, self.name = np.asarray(fpr), np.asarray(ccr), name

    @property
    def area(self) -> float:
        """Area under the curve."""
        return float(np.sum(np.diff(self.fpr) * (self.ccr[1:] + self.ccr[:-1])) / 2.0)

    @classmethod
    def from_predictions(
        cls, y_true: Any, candidate: Any, unknown_score: Any, *, unknown_label: Any, name: str | None = None
    ) -> OSCRDisplay:
        """Compute the curve from candidates and scores.

        Parameters
        ----------
        y_true, candidate, unknown_score, unknown_label :
            As for :func:`srosr.oscr_curve`.
        name : str, optional
        """
        fpr, ccr, _ = oscr_curve(y_true, candidate, unknown_score, unknown_label=unknown_label)
        return cls(fpr, ccr, name=name)

    @classmethod
    def from_estimator(cls, clf: Any, X: Any, y: Any, *, name: str | None = None) -> OSCRDisplay:
        """Compute the curve of a fitted open set classifier on test samples.

        Parameters
        ----------
        clf : fitted open set classifier, or a pipeline or search that ends in one
            With ``classes_``, ``unknown_label_``, ``candidate`` and ``unknown_score``.
        X : array-like (n_samples, n_features)
        y : array-like (n_samples,)
            Labels that are not among ``classes_`` count as unknown; there must be some.
        name : str, optional
            By default the name of the classifier's type.
        """
        final, X, marked = unwrap_classifier(clf, X, y, "candidate", "unknown_score", need_unknown=False)
        return cls.from_predictions(
            marked,
            final.candidate(X),
            final.unknown_score(X),
            unknown_label=final.unknown_label_,
            name=type(final).__name__ if name is None else name,
        )

    def plot(self, ax: Axes | None = None, **line: Any) -> OSCRDisplay:
        """Draw the curve; the dot at its end is the closed-set accuracy.

        Parameters
        ----------
        ax : Axes, optional
            Such as ``ax_`` of another display, to draw both in one figure.
        **line
            Options of Matplotlib's ``plot``: ``color``, ``linestyle`` and so on.
        """
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        (ax,) = make_panels(ax, 1, (5.2, 4.2), [1.0])
        drawn = sum(one.get_gid() == _CURVE for one in ax.lines)
        color, dashes = _STROKES[drawn % len(_STROKES)]
        label = f"area {self.area:.3f}" if self.name is None else f"{self.name}: area {self.area:.3f}"
        # Above the axis, on which the curve begins.
        usual = {"color": color, "linestyle": dashes, "linewidth": 2.0, "label": label, "clip_on": False, "zorder": 3}
        (self.line_,) = ax.plot(self.fpr, self.ccr, **(usual | normalize_kwargs(line, Line2D)), gid=_CURVE)
        ax.plot(self.fpr[-1:], self.ccr[-1:], "o", color=self.line_.get_color(), markersize=5, clip_on=False, zorder=3)
        remove_spines(ax)
        ax.grid(color=SHADE, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.set_xlim(0.0, 1.0)
        ax.set_ylim(0.0, 1.0)
        ax.set_xlabel("false positive rate: unknown samples accepted")
        ax.set_ylabel("correct classification rate of known samples")
        ax.legend(frameon=False, loc="lower right", fontsize="small", handlelength=2.6)
        return self._keep_axes(ax)


class OpenSetConfusionDisplay(Display):
    r"""Confusion matrix whose last row holds the unknown samples and whose last column the rejections.

    Right and wrong predictions have a color each, and a cell is darker the larger its share of the row: a good
    classifier shows a diagonal of one color, and errors stand out however many classes there are.
    ``from_predictions`` and ``from_estimator`` compute, ``plot(ax=None)`` draws.

    Parameters
    ----------
    labels : ndarray (n_classes + 1,)
        Classes, then the unknown label.
    matrix : ndarray of int (n_classes + 1, n_classes + 1)
        As :func:`srosr.open_set_confusion` returns it.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure

    See Also
    --------
    srosr.open_set_confusion : The numbers.

    Examples
    --------
    >>> from srosr import OpenSetConfusionDisplay
    >>> d = OpenSetConfusionDisplay.from_predictions(["a", "a", "b", "?"], ["a", "?", "b", "a"], unknown_label="?")
    >>> d.matrix.tolist()
    [[1, 0, 1], [0, 1, 0], [1, 0, 0]]
    """

    def __init__(self, labels: AnyArray, matrix: IntArray) -> None:
        self.labels, self.matrix = np.asarray(labels), np.asarray(matrix)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_pred: Any, *, unknown_label: Any, classes: Any = None
    ) -> OpenSetConfusionDisplay:
        """Compute the confusion of predictions.

        Parameters
        ----------
        y_true, y_pred, unknown_label, classes :
            As for :func:`srosr.open_set_confusion`.
        """
        return cls(*open_set_confusion(y_true, y_pred, unknown_label=unknown_label, classes=classes))

    @classmethod
    def from_estimator(cls, clf: Any, X: Any, y: Any) -> OpenSetConfusionDisplay:
        """Compute the confusion of a fitted open set classifier's predictions for test samples.

        Parameters
        ----------
        clf : fitted open set classifier, or a pipeline or search that ends in one
            With ``classes_``, ``unknown_label_`` and ``predict``.
        X : array-like (n_samples, n_features)
        y : array-like (n_samples,)
            Labels that are not among ``classes_`` count as unknown.
        """
        final, X, marked = unwrap_classifier(clf, X, y, "predict", need_unknown=False)
        return cls.from_predictions(
            marked, final.predict(X), unknown_label=final.unknown_label_, classes=final.classes_
        )

    def plot(self, ax: Axes | None = None, *, counts: bool | None = None) -> OpenSetConfusionDisplay:
        """Draw the matrix.

        Parameters
        ----------
        ax : Axes, optional
        counts : bool, optional
            Whether the cells show their counts; by default only for up to 24 labels.
        """
        n = len(self.labels)
        side = float(np.clip(1.6 + 0.42 * n, 4.0, 9.0))
        (ax,) = make_panels(ax, 1, (side, side), [1.0])
        ax.imshow(self._compute_colors(), aspect="equal", interpolation="nearest")
        # Lines separate the unknown row and column from the classes.
        for draw in (ax.axhline, ax.axvline):
            draw(n - 1.5, color=INK, linewidth=1.0)
        self._set_ticks(ax)
        if counts or (counts is None and n <= MAX_COUNTED):
            self._write_counts(ax)
        self._draw_legend(ax)
        return self._keep_axes(ax)

    def _compute_shares(self) -> Array:
        rows = self.matrix.sum(axis=1, keepdims=True)
        return self.matrix / np.maximum(rows, 1)

    def _compute_colors(self) -> Array:
        from matplotlib.colors import to_rgb

        depth = np.where(self.matrix > 0, _FAINTEST + (1.0 - _FAINTEST) * self._compute_shares(), 0.0)[..., None]
        right = np.eye(len(self.labels), dtype=bool)[..., None]
        full = np.where(right, to_rgb(KNOWN_COLOR), to_rgb(UNKNOWN_COLOR))
        return 1.0 - depth * (1.0 - full)

    def _set_ticks(self, ax: Axes) -> None:
        n = len(self.labels)
        names = [str(label) for label in self.labels.tolist()]
        if not isinstance(self.labels.tolist()[-1], str):
            names[-1] = "unknown"
        size = float(np.clip(260.0 / n, 6.5, 9.0))
        upright = max(map(len, names[:-1]), default=0) > 3
        ax.set_xticks(range(n), names, fontsize=size, rotation=90 if upright else 0)
        ax.set_yticks(range(n), names, fontsize=size)
        if not upright and n > 4:  # the one long name would run into the next
            ax.get_xticklabels()[-1].set_rotation(90)
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_color(INK)
        ax.set_xticks(np.arange(n - 1) + 0.5, minor=True)
        ax.set_yticks(np.arange(n - 1) + 0.5, minor=True)
        ax.grid(which="minor", color=SHADE, linewidth=0.6)
        ax.tick_params(which="minor", length=0)
        ax.set_xlabel("predicted")
        ax.set_ylabel("true class")

    def _write_counts(self, ax: Axes) -> None:
        shares = self._compute_shares()
        size = float(np.clip(150.0 / len(self.labels), 6.0, 9.0))
        for i, j in np.argwhere(self.matrix > 0):
            ax.text(
                j, i, str(self.matrix[i, j]), ha="center", va="center", fontsize=size,
                color="white" if shares[i, j] > 0.55 else INK,
            )  # fmt: skip

    def _draw_legend(self, ax: Axes) -> None:
        from matplotlib.patches import Patch

        ax.legend(
            handles=[Patch(color=KNOWN_COLOR, label="right"), Patch(color=UNKNOWN_COLOR, label="wrong")],
            title="darker: larger share of the true class", title_fontsize="small", alignment="left",
            frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, borderpad=0.1,
            fontsize="small", handlelength=1.0, columnspacing=1.2,
        )  # fmt: skip
