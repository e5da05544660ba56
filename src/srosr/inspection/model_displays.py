r"""Figures of what a recognizer has learned, in the manner of scikit-learn's displays.

A display holds numbers; ``from_estimator`` makes it from a fitted :class:`SROSRClassifier`. ``plot`` draws it and keeps
what was drawn in ``ax_`` (all panels in ``axes_``) and ``figure_``; it uses pyplot only if no ``ax`` is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._support.array_types import Array
from .._support.parameter_checks import check_choice
from .._support.plotting import (
    INK,
    KNOWN_COLOR,
    PALE,
    SHADE,
    UNKNOWN_COLOR,
    Display,
    draw_histogram,
    find_bins,
    make_panels,
    remove_spines,
)
from ..evidence.table import EVIDENCE
from ..scoring.cross_test import CrossTest
from ..tails.gpd import GPDTail

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..classifiers.srosr_classifier import SROSRClassifier

_NONMATCHED = EVIDENCE.index("nonmatched")
# What the quantile plot says of a tail.
_TAIL_NUMBERS = (("u", "u"), ("σ", "sigma"), ("ξ", "xi"))


class HistogramDisplay(Display):
    """Base of displays of two histograms in one panel."""

    def _find_histograms(self) -> list[tuple[Array, str, str, str | None]]:
        """Return values, color, name and color of the outline of each histogram."""
        raise NotImplementedError

    def _make_labels(self) -> tuple[str, str]:
        """Return the labels of the axes."""
        raise NotImplementedError

    def plot(self, ax: Axes | None = None, *, bins: int = 40) -> Self:
        """Draw the two histograms.

        Parameters
        ----------
        ax : Axes, optional
        bins : int
        """
        (ax,) = make_panels(ax, 1, (6.0, 3.6), [1.0])
        histograms = self._find_histograms()
        edges = find_bins(bins, *(values for values, *_ in histograms))
        for values, color, name, edge in histograms:
            draw_histogram(ax, values, edges, color, name, edge=edge)
        remove_spines(ax)
        ax.set_xlim(edges[0], edges[-1])
        x_label, y_label = self._make_labels()
        ax.set_xlabel(x_label)
        ax.set_ylabel(y_label)
        _draw_legend_above(ax)
        return self._keep_axes(ax)


class ErrorHistogramDisplay(HistogramDisplay):
    r"""Histograms of matched and of non-matched errors of held-out training samples.

    The matched error of a sample is the residual of its own class; the non-matched one is the mean over the others,
    so that both have the scale of one residual. The farther apart the two are, the better classes are separated.

    Parameters
    ----------
    matched, nonmatched : ndarray (n,)
        One pair for each time a sample was held out.
    label : label, optional
        The class they belong to; None for all classes.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from srosr import ErrorHistogramDisplay, SROSRClassifier
    >>> clf = SROSRClassifier(n_repeats=5, random_state=0).fit(*load_iris(return_X_y=True))
    >>> d = ErrorHistogramDisplay.from_estimator(clf, label=0)
    >>> d.matched.shape, bool(d.matched.mean() < d.nonmatched.mean())
    ((50,), True)
    """

    def __init__(self, matched: Array, nonmatched: Array, *, label: Any = None) -> None:
        self.matched, self.nonmatched, self.label = np.asarray(matched), np.asarray(nonmatched), label

    @classmethod
    def from_estimator(cls, clf: SROSRClassifier, label: Any = None) -> ErrorHistogramDisplay:
        """Collect the errors of a fitted recognizer.

        Parameters
        ----------
        clf : SROSRClassifier
        label : label, optional
            One of ``classes_``; None for all.
        """
        rows = _select_rows(clf, label)
        return cls(rows.matched, rows.nonmatched / (len(clf.classes_) - 1), label=label)

    def _find_histograms(self) -> list[tuple[Array, str, str, str | None]]:
        return [
            (self.matched, KNOWN_COLOR, "matched: own class", None),
            (self.nonmatched, PALE, "non-matched: mean of the other classes", INK),
        ]

    def _make_labels(self) -> tuple[str, str]:
        whose = "" if self.label is None else f", class {self.label}"
        return f"reconstruction error{whose}", "% of held-out samples"


class NonMatchedDisplay(HistogramDisplay):
    r"""The sum of non-matched errors, of known samples and of unknown ones.

    A known sample is reconstructed by its own class and not by the others, so each of those has an error near the
    sample's length. An unknown sample is reconstructed by a little of everything, so the sum of all errors but the
    smallest is smaller.

    Parameters
    ----------
    known, unknown : ndarray
        Sums of the errors of all classes but the best.
    source : {"samples", "simulated"}
        Whether the unknown samples were given, or are known classes left out in turn.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    """

    def __init__(self, known: Array, unknown: Array, *, source: str = "samples") -> None:
        self.known, self.unknown, self.source = np.asarray(known), np.asarray(unknown), source

    @classmethod
    def from_estimator(cls, clf: SROSRClassifier, X: Any = None, y: Any = None) -> NonMatchedDisplay:
        """Collect the sums of samples, or of simulated openness.

        Parameters
        ----------
        clf : SROSRClassifier
        X : array-like (n_samples, n_features), optional
            Known and unknown samples. By default simulated unknowns: samples of known classes that were left out in
            turn, next to samples of the remaining classes. Those have fewer classes, so their sums are scaled to the
            number of all classes.
        y : array-like (n_samples,), optional
            Their labels; labels that are not among ``classes_`` are unknown.
        """
        check_is_fitted(clf, "calibration_")
        if (X is None) != (y is None):
            raise ValueError("pass X with y, the labels that tell which samples are unknown, or neither.")
        others = len(clf.classes_) - 1
        if X is None:
            rows = clf.calibration_.simulated
            if not rows.unknown.any() or rows.unknown.all():
                raise ValueError(
                    "there is no simulated openness to show (it needs three classes, one of them with two samples); "
                    "pass X and y with unknown samples."
                )
            sums = rows.values[:, _NONMATCHED] * others
            return cls(sums[~rows.unknown], sums[rows.unknown], source="simulated")
        labels = np.asarray(y)
        values = clf._gather_evidence(clf._check_queries(X)).values
        if labels.shape != (len(values),):
            raise ValueError(f"y must have one label for each of the {len(values)} samples, got shape {labels.shape}.")
        is_known = np.isin(labels, np.asarray(clf.classes_))
        if is_known.all() or not is_known.any():
            which = "unknown" if is_known.all() else "known"
            raise ValueError(f"y has no {which} sample; pass samples of both kinds to compare them.")
        sums = values[:, _NONMATCHED] * others
        return cls(sums[is_known], sums[~is_known])

    def _find_histograms(self) -> list[tuple[Array, str, str, str | None]]:
        name = "unknown" if self.source == "samples" else "simulated unknowns"
        return [(self.known, KNOWN_COLOR, "known", None), (self.unknown, UNKNOWN_COLOR, name, None)]

    def _make_labels(self) -> tuple[str, str]:
        return "sum of non-matched errors", "% of samples"


class TailDisplay(Display):
    r"""Quantile plot of a tail: the errors beyond its threshold against those that the fitted tail expects.

    A tail that fits has its points on the diagonal.

    Parameters
    ----------
    errors : ndarray (n,)
        Matched errors, or minus the sums of non-matched errors: larger is more unknown.
    tail : GPDTail
    label : label, optional
        The class; None if all classes share the tail.
    kind : {"matched", "nonmatched"}

    Attributes
    ----------
    expected, observed : ndarray (m,)
        Quantiles of the tail at :math:`(i - 1/2)/m`, and the m errors beyond its threshold in increasing order.
    ax_ : Axes
    figure_ : Figure
    """

    def __init__(self, errors: Array, tail: GPDTail, *, label: Any = None, kind: str = "matched") -> None:
        self.errors, self.tail, self.label, self.kind = np.asarray(errors), tail, label, kind
        self.observed = np.sort(self.errors[self.errors > tail.u])
        n = len(self.observed)
        self.expected = np.asarray(tail.ppf((np.arange(n) + 0.5) / max(n, 1)))

    @classmethod
    def from_estimator(cls, clf: SROSRClassifier, label: Any, kind: str = "matched") -> TailDisplay:
        """Take the tail of one class of a fitted recognizer, or of all classes if the class shares its tail.

        Parameters
        ----------
        clf : SROSRClassifier
        label : label
            One of ``classes_``.
        kind : {"matched", "nonmatched"}
        """
        check_choice("kind", kind, ("matched", "nonmatched"))
        check_is_fitted(clf, "calibration_")
        number = clf._find_class(label)
        own = None if clf.pooled_[number] else label
        rows, tails = _select_rows(clf, own), clf.calibration_.tails
        assert tails is not None  # there are errors
        errors = rows.matched if kind == "matched" else -rows.nonmatched
        return cls(errors, getattr(tails, kind)[number], label=own, kind=kind)

    def plot(self, ax: Axes | None = None) -> TailDisplay:
        """Draw the quantile plot.

        Parameters
        ----------
        ax : Axes, optional
        """
        (ax,) = make_panels(ax, 1, (4.2, 3.6), [1.0])
        if len(self.observed):
            low, high = float(self.tail.u), float(max(self.expected.max(), self.observed.max()))
            ax.plot([low, high], [low, high], color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
            ax.plot(
                self.expected, self.observed, "o", color=UNKNOWN_COLOR, markersize=3.5, alpha=0.7, markeredgewidth=0
            )
        text = "\n".join(f"{name} = {getattr(self.tail, key):.3g}" for name, key in _TAIL_NUMBERS)
        ax.text(0.04, 0.97, text.replace("-", "−"), transform=ax.transAxes, va="top", fontsize="small")
        remove_spines(ax)
        ax.grid(color=SHADE, linewidth=0.8)
        ax.set_axisbelow(True)
        name = "matched error" if self.kind == "matched" else "minus the sum of non-matched errors"
        ax.set_xlabel(f"{name} expected by the tail")
        ax.set_ylabel("observed, " + ("all classes" if self.label is None else f"class {self.label}"))
        return self._keep_axes(ax)


def _select_rows(clf: SROSRClassifier, label: Any) -> CrossTest:
    """Return the cross-test of one class, or of all."""
    check_is_fitted(clf, "calibration_")
    rows = clf.calibration_.known
    if label is not None:
        rows = rows[rows.truth == clf._find_class(label)]
    if not len(rows):
        which = "no class has" if label is None else f"class {label!r} does not have"
        raise ValueError(f"{which} two samples, so none could be held out and there are no errors to show.")
    return rows


def _draw_legend_above(ax: Axes) -> None:
    ax.legend(
        frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, borderpad=0.1,
        fontsize="small", handlelength=1.4, columnspacing=1.2,
    )  # fmt: skip
