r"""Figures of how well samples are recognised, in the manner of scikit-learn's displays.

A display holds numbers; ``from_predictions`` makes it from labels and scores, ``from_estimator`` from a fitted open set
classifier and test samples, ``plot`` draws it and leaves what was drawn in ``ax_`` and ``figure_``. Without ``ax`` a
new figure is made with pyplot; with it, pyplot has no part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.plotting import INK, KNOWN_COLOUR, SHADE, UNKNOWN_COLOUR, panels, tidy
from ..metrics import open_set_confusion, oscr_curve
from ..model_selection import _open_set

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["OSCRDisplay", "OpenSetConfusionDisplay"]

# Curves in one figure differ in colour and, for who cannot tell colours apart or prints in grey, in dashes.
_STROKES: tuple[tuple[str, Any], ...] = (
    (KNOWN_COLOUR, "-"),
    (UNKNOWN_COLOUR, (0, (6, 2))),
    (INK, (0, (2, 1.5))),
    ("#8a6fb0", (0, (6, 2, 1.5, 2))),
    ("#c9a227", (0, (1, 1))),
    ("#5b8c5a", (0, (9, 2, 1.5, 2, 1.5, 2))),
)
_CURVE = "oscr"

#: Up to so many labels the cells of a confusion hold their counts.
MAX_COUNTED = 24
# A cell with one sample out of many is still to be seen.
_FAINTEST = 0.2


class OSCRDisplay:
    r"""The OSCR curve: correct classifications of known samples against accepted unknown ones.

    ``from_predictions`` and ``from_estimator`` compute, ``plot(ax=None)`` draws. Plotted into the same axes, displays
    keep apart by colour and dashes and share one legend.

    Parameters
    ----------
    fpr, ccr : ndarray (n_points,)
        As :func:`srosr.oscr_curve` returns them.
    name : str, optional
        What the legend calls the curve.

    Attributes
    ----------
    area : float
        Below the curve, as :func:`srosr.oscr_area` has it.
    line_ : Line2D
    ax_ : Axes
    figure_ : Figure

    See Also
    --------
    srosr.oscr_curve : the numbers.

    Examples
    --------
    >>> from srosr import OSCRDisplay
    >>> y_true, candidate = ["a", "b", "b", "?"], ["a", "b", "a", "a"]
    >>> d = OSCRDisplay.from_predictions(y_true, candidate, [0.1, 0.2, 0.6, 0.4], unknown_label="?", name="mine")
    >>> round(d.area, 3)
    0.667
    """

    line_: Any
    ax_: Axes
    figure_: Figure

    def __init__(self, fpr: Array, ccr: Array, *, name: str | None = None) -> None:
        self.fpr, self.ccr, self.name = np.asarray(fpr), np.asarray(ccr), name

    @property
    def area(self) -> float:
        """Area below the curve."""
        return float(np.sum(np.diff(self.fpr) * (self.ccr[1:] + self.ccr[:-1])) / 2.0)

    @classmethod
    def from_predictions(
        cls, y_true: Any, candidate: Any, unknown_score: Any, *, unknown_label: Any, name: str | None = None
    ) -> OSCRDisplay:
        """The curve of candidates and scores.

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
        """The curve of a fitted open set classifier on test samples.

        Parameters
        ----------
        clf : fitted open set classifier, or a pipeline or search that ends in one
            With ``classes_``, ``unknown_label_``, ``candidate`` and ``unknown_score``.
        X : array-like (n_samples, n_features)
        y : array-like (n_samples,)
            Labels that are not among ``classes_`` count as unknown; there must be some.
        name : str, optional
            None takes the name of the classifier's type.
        """
        final, X, marked = _open_set(clf, X, y, "candidate", "unknown_score", need_unknown=False)
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
            Such as ``ax_`` of another display, to have both in one figure.
        **line
            For Matplotlib's ``plot``: ``color``, ``linestyle`` and so on.
        """
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        (ax,) = panels(ax, 1, (5.2, 4.2), [1.0])
        drawn = sum(one.get_gid() == _CURVE for one in ax.lines)
        colour, dashes = _STROKES[drawn % len(_STROKES)]
        label = f"area {self.area:.3f}" if self.name is None else f"{self.name}: area {self.area:.3f}"
        # Over the axis, on which the curve begins.
        usual = {"color": colour, "linestyle": dashes, "linewidth": 2.0, "label": label, "clip_on": False, "zorder": 3}
        (self.line_,) = ax.plot(self.fpr, self.ccr, **(usual | normalize_kwargs(line, Line2D)), gid=_CURVE)
        ax.plot(self.fpr[-1:], self.ccr[-1:], "o", color=self.line_.get_color(), markersize=5, clip_on=False, zorder=3)
        tidy(ax)
        ax.grid(color=SHADE, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.set_xlim(0.0, 1.0)
        ax.set_ylim(0.0, 1.0)
        ax.set_xlabel("false positive rate: unknown samples accepted")
        ax.set_ylabel("correct classification rate of known samples")
        ax.legend(frameon=False, loc="lower right", fontsize="small", handlelength=2.6)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self


class OpenSetConfusionDisplay:
    r"""Confusion matrix whose last row holds the unknown samples and whose last column the refusals.

    Right answers and wrong ones have a colour each, and a cell is the darker the larger its share of the row: a good
    recogniser shows a diagonal of one colour, and what mars it stands out however many classes there are.
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
    srosr.open_set_confusion : the numbers.

    Examples
    --------
    >>> from srosr import OpenSetConfusionDisplay
    >>> d = OpenSetConfusionDisplay.from_predictions(["a", "a", "b", "?"], ["a", "?", "b", "a"], unknown_label="?")
    >>> d.matrix.tolist()
    [[1, 0, 1], [0, 1, 0], [1, 0, 0]]
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, labels: AnyArray, matrix: IntArray) -> None:
        self.labels, self.matrix = np.asarray(labels), np.asarray(matrix)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_pred: Any, *, unknown_label: Any, classes: Any = None
    ) -> OpenSetConfusionDisplay:
        """The confusion of answers.

        Parameters
        ----------
        y_true, y_pred, unknown_label, classes :
            As for :func:`srosr.open_set_confusion`.
        """
        return cls(*open_set_confusion(y_true, y_pred, unknown_label=unknown_label, classes=classes))

    @classmethod
    def from_estimator(cls, clf: Any, X: Any, y: Any) -> OpenSetConfusionDisplay:
        """The confusion of a fitted open set classifier's answers to test samples.

        Parameters
        ----------
        clf : fitted open set classifier, or a pipeline or search that ends in one
            With ``classes_``, ``unknown_label_`` and ``predict``.
        X : array-like (n_samples, n_features)
        y : array-like (n_samples,)
            Labels that are not among ``classes_`` count as unknown.
        """
        final, X, marked = _open_set(clf, X, y, "predict", need_unknown=False)
        return cls.from_predictions(
            marked, final.predict(X), unknown_label=final.unknown_label_, classes=final.classes_
        )

    def plot(self, ax: Axes | None = None, *, counts: bool | None = None) -> OpenSetConfusionDisplay:
        """Draw the matrix.

        Parameters
        ----------
        ax : Axes, optional
        counts : bool, optional
            Whether the cells hold their counts; None writes them where there is room, for up to 24 labels.
        """
        n = len(self.labels)
        side = float(np.clip(1.6 + 0.42 * n, 4.0, 9.0))
        (ax,) = panels(ax, 1, (side, side), [1.0])
        ax.imshow(self._colours(), aspect="equal", interpolation="nearest")
        # The unknown row and column stand apart from the classes.
        for draw in (ax.axhline, ax.axvline):
            draw(n - 1.5, color=INK, linewidth=1.0)
        self._name_the_ticks(ax)
        if counts or (counts is None and n <= MAX_COUNTED):
            self._write_counts(ax)
        self._explain_the_colours(ax)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self

    # -- inside ------------------------------------------------------------------------------------------

    def _shares(self) -> Array:
        rows = self.matrix.sum(axis=1, keepdims=True)
        return self.matrix / np.maximum(rows, 1)

    def _colours(self) -> Array:
        from matplotlib.colors import to_rgb

        depth = np.where(self.matrix > 0, _FAINTEST + (1.0 - _FAINTEST) * self._shares(), 0.0)[..., None]
        right = np.eye(len(self.labels), dtype=bool)[..., None]
        full = np.where(right, to_rgb(KNOWN_COLOUR), to_rgb(UNKNOWN_COLOUR))
        return 1.0 - depth * (1.0 - full)

    def _name_the_ticks(self, ax: Axes) -> None:
        n = len(self.labels)
        names = [str(label) for label in self.labels.tolist()]
        if not isinstance(self.labels.tolist()[-1], str):
            names[-1] = "unknown"
        size = float(np.clip(260.0 / n, 6.5, 9.0))
        upright = max(map(len, names[:-1]), default=0) > 3
        ax.set_xticks(range(n), names, fontsize=size, rotation=90 if upright else 0)
        ax.set_yticks(range(n), names, fontsize=size)
        if not upright and n > 4:  # the one long name would run into its neighbour
            ax.get_xticklabels()[-1].set_rotation(90)
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_color(INK)
        ax.set_xticks(np.arange(n - 1) + 0.5, minor=True)
        ax.set_yticks(np.arange(n - 1) + 0.5, minor=True)
        ax.grid(which="minor", color=SHADE, linewidth=0.6)
        ax.tick_params(which="minor", length=0)
        ax.set_xlabel("answered")
        ax.set_ylabel("true class")

    def _write_counts(self, ax: Axes) -> None:
        shares = self._shares()
        size = float(np.clip(150.0 / len(self.labels), 6.0, 9.0))
        for i, j in np.argwhere(self.matrix > 0):
            ax.text(
                j, i, str(self.matrix[i, j]), ha="center", va="center", fontsize=size,
                color="white" if shares[i, j] > 0.55 else INK,
            )  # fmt: skip

    def _explain_the_colours(self, ax: Axes) -> None:
        from matplotlib.patches import Patch

        ax.legend(
            handles=[Patch(color=KNOWN_COLOUR, label="right"), Patch(color=UNKNOWN_COLOUR, label="wrong")],
            title="darker: larger share of the true class", title_fontsize="small", alignment="left",
            frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, borderpad=0.1,
            fontsize="small", handlelength=1.0, columnspacing=1.2,
        )  # fmt: skip
