r"""Figures of what a recogniser has learnt, in the manner of scikit-learn's displays.

A display holds numbers; ``from_estimator`` makes it from a fitted :class:`SROSRClassifier`, ``plot`` draws it and
leaves what was drawn in ``ax_`` (``axes_`` where there are several panels) and ``figure_``. Without ``ax`` a new figure
is made with pyplot; with it, pyplot has no part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._support.array_types import Array
from .._support.plotting import INK, KNOWN_COLOUR, PALE, SHADE, UNKNOWN_COLOUR, histogram, panels, shared_bins, tidy
from ..evidence import EVIDENCE
from ..scoring import CrossTest
from ..tails import TailDiagnostics, tail_diagnostics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..classifiers import SROSRClassifier

__all__ = ["ErrorHistogramDisplay", "NonMatchedDisplay", "TailDisplay"]

_NONMATCHED = EVIDENCE.index("nonmatched")
_DASHES = (0, (4, 2))


class ErrorHistogramDisplay:
    r"""Histograms of matched and of non-matched errors of held-out training samples.

    The matched error of a sample is the residual of its own class; the non-matched one is the mean over the others,
    so that both have the scale of one residual. Where the two lie apart, classes are told apart.

    Parameters
    ----------
    matched, nonmatched : ndarray (n,)
        One pair for each time a sample was held out.
    label : label, optional
        The class they belong to; None where they are of all classes.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from srosr.inspection.model_displays import ErrorHistogramDisplay
    >>> from srosr.classifiers.srosr_classifier import SROSRClassifier
    >>> clf = SROSRClassifier(n_repeats=5, random_state=0).fit(*load_iris(return_X_y=True))
    >>> d = ErrorHistogramDisplay.from_estimator(clf, label=0)
    >>> d.matched.shape, bool(d.matched.mean() < d.nonmatched.mean())
    ((50,), True)
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, matched: Array, nonmatched: Array, *, label: Any = None) -> None:
        self.matched, self.nonmatched, self.label = np.asarray(matched), np.asarray(nonmatched), label

    @classmethod
    def from_estimator(cls, clf: SROSRClassifier, label: Any = None) -> ErrorHistogramDisplay:
        """The errors of a fitted recogniser.

        Parameters
        ----------
        clf : SROSRClassifier
        label : label, optional
            One of ``classes_``; None takes all.
        """
        rows = _held_out_rows(clf, label)
        return cls(rows.matched, rows.nonmatched / (len(clf.classes_) - 1), label=label)

    def plot(self, ax: Axes | None = None, *, bins: int = 40) -> ErrorHistogramDisplay:
        """Draw the two histograms.

        Parameters
        ----------
        ax : Axes, optional
        bins : int
        """
        (ax,) = panels(ax, 1, (6.0, 3.6), [1.0])
        edges = shared_bins(bins, self.matched, self.nonmatched)
        histogram(ax, self.matched, edges, KNOWN_COLOUR, "matched: own class")
        histogram(ax, self.nonmatched, edges, PALE, "non-matched: mean of the other classes", edge=INK)
        tidy(ax)
        ax.set_xlim(edges[0], edges[-1])
        ax.set_xlabel("reconstruction error" + ("" if self.label is None else f", class {self.label}"))
        ax.set_ylabel("% of held-out samples")
        _legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self


class NonMatchedDisplay:
    r"""The sum of non-matched errors, of known samples and of unknown ones.

    A known sample is rebuilt by its own class and the others leave it whole: each has an error near the sample's
    length. An unknown sample is rebuilt by a little of everything, so that the sum of all errors but the smallest is
    smaller.

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

    ax_: Axes
    figure_: Figure

    def __init__(self, known: Array, unknown: Array, *, source: str = "samples") -> None:
        self.known, self.unknown, self.source = np.asarray(known), np.asarray(unknown), source

    @classmethod
    def from_estimator(cls, clf: SROSRClassifier, X: Any = None, y: Any = None) -> NonMatchedDisplay:
        """The sums of samples, or of simulated openness.

        Parameters
        ----------
        clf : SROSRClassifier
        X : array-like (n_samples, n_features), optional
            Known and unknown samples. Without them pretended strangers stand in: known classes that were left out in
            turn, beside samples of the other classes in the same smaller worlds. There the sum is that of the mean, so
            that it compares with sums over all classes.
        y : array-like (n_samples,), optional
            Their labels; what is not among ``classes_`` is unknown.
        """
        check_is_fitted(clf, "calibration_")
        if (X is None) != (y is None):
            raise ValueError("give X with y, the labels that say which samples are unknown, or neither.")
        others = len(clf.classes_) - 1
        if X is None:
            rows = clf.calibration_.simulated
            if not rows.unknown.any() or rows.unknown.all():
                raise ValueError(
                    "there is no simulated openness to show (it takes three classes, one with two samples); "
                    "give X and y with unknown samples."
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
            raise ValueError(f"y has no {which} sample; give both, to compare them.")
        sums = values[:, _NONMATCHED] * others
        return cls(sums[is_known], sums[~is_known])

    def plot(self, ax: Axes | None = None, *, bins: int = 40) -> NonMatchedDisplay:
        """Draw the two histograms.

        Parameters
        ----------
        ax : Axes, optional
        bins : int
        """
        (ax,) = panels(ax, 1, (6.0, 3.6), [1.0])
        edges = shared_bins(bins, self.known, self.unknown)
        stranger = "unknown" if self.source == "samples" else "pretended strangers"
        histogram(ax, self.known, edges, KNOWN_COLOUR, "known")
        histogram(ax, self.unknown, edges, UNKNOWN_COLOUR, stranger)
        tidy(ax)
        ax.set_xlim(edges[0], edges[-1])
        ax.set_xlabel("sum of non-matched errors")
        ax.set_ylabel("% of samples")
        _legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self


class TailDisplay:
    r"""The tail of the errors of a class: where it begins, what was fitted, and how well (quantile plot).

    Parameters
    ----------
    errors : ndarray (n,)
        Matched errors, or minus the sums of non-matched errors: large is strange.
    diagnostics : TailDiagnostics
    label : label, optional
        The class; None where the tail is shared by all.
    kind : {"matched", "nonmatched"}

    Attributes
    ----------
    axes_ : tuple of two Axes
        Histogram with the tail, quantile plot.
    ax_ : Axes
        The first of them.
    figure_ : Figure
    """

    ax_: Axes
    axes_: tuple[Axes, ...]
    figure_: Figure

    def __init__(
        self, errors: Array, diagnostics: TailDiagnostics, *, label: Any = None, kind: str = "matched"
    ) -> None:
        self.errors, self.diagnostics, self.label, self.kind = np.asarray(errors), diagnostics, label, kind

    @classmethod
    def from_estimator(
        cls,
        clf: SROSRClassifier,
        label: Any,
        kind: str = "matched",
        *,
        n_resamples: int = 200,
        random_state: Any = 0,
    ) -> TailDisplay:
        """The tail of one class of a fitted recogniser; of all of them, where the class shares its tail.

        Parameters
        ----------
        clf : SROSRClassifier
        label : label
            One of ``classes_``.
        kind : {"matched", "nonmatched"}
        n_resamples : int
            For standard errors and p-value.
        random_state : int, RandomState or None
        """
        if kind not in ("matched", "nonmatched"):
            raise ValueError(f'kind must be "matched" or "nonmatched", got {kind!r}.')
        check_is_fitted(clf, "calibration_")
        shared = bool(clf.pooled_[clf._find_class(label)])
        rows = _held_out_rows(clf, None if shared else label)
        errors = rows.matched if kind == "matched" else -rows.nonmatched
        if shared:
            found = tail_diagnostics(
                errors, clf.tail_size, groups=rows.sample, n_resamples=n_resamples, random_state=random_state
            )
        else:
            found = clf.tail_diagnostics(label, kind, n_resamples=n_resamples, random_state=random_state)
        return cls(errors, found, label=None if shared else label, kind=kind)

    def plot(self, ax: Any = None, *, bins: int = 40) -> TailDisplay:
        """Draw histogram and quantile plot.

        Parameters
        ----------
        ax : Axes or two of them, optional
            One Axes gives up its place to two panels.
        bins : int
        """
        left, right = panels(ax, 2, (9.0, 3.6), [1.5, 1.0])
        self._draw_tail(left, bins)
        self._draw_quantiles(right)
        self.axes_, self.ax_, self.figure_ = (left, right), left, left.figure  # type: ignore[assignment]
        return self

    def _draw_tail(self, ax: Axes, bins: int) -> None:
        tail = self.diagnostics.tail
        edges = shared_bins(bins, self.errors)
        width = float(edges[1] - edges[0])
        histogram(ax, self.errors, edges, PALE, "errors", edge=INK)
        r = np.linspace(tail.u, max(edges[-1], tail.u + 1e-3 * width), 200)
        # Per cent in a bin, as the histogram counts.
        ax.plot(
            r, 100 * tail.rho * np.exp(tail.logpdf(r)) * width, color=UNKNOWN_COLOUR, linewidth=2, label="fitted tail"
        )
        ax.axvline(tail.u, color=INK, linewidth=1.2, linestyle=_DASHES, label=f"tail beyond u = {_minus(tail.u)}")
        tidy(ax)
        ax.set_xlim(edges[0], edges[-1])
        ax.set_ylim(top=1.02 * ax.get_ylim()[1])
        name = "matched error" if self.kind == "matched" else "minus the sum of non-matched errors"
        ax.set_xlabel(f"{name}, " + ("all classes" if self.label is None else f"class {self.label}"))
        ax.set_ylabel("% of held-out samples")
        _legend_above(ax)

    def _draw_quantiles(self, ax: Axes) -> None:
        found = self.diagnostics
        theoretical, observed = found.qq
        if len(observed):
            low, high = float(found.tail.u), float(max(theoretical.max(), observed.max()))
            ax.plot([low, high], [low, high], color=INK, linewidth=0.8, linestyle=_DASHES)
            ax.plot(theoretical, observed, "o", color=UNKNOWN_COLOUR, markersize=3.5, alpha=0.7, markeredgewidth=0)
        ax.text(
            0.04, 0.97, self._measures(), transform=ax.transAxes, va="top", linespacing=1.35, fontsize="small",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
        )  # fmt: skip
        tidy(ax)
        ax.grid(color=SHADE, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.set_xlabel("error by the fitted tail")
        ax.set_ylabel("observed error")

    def _measures(self) -> str:
        found = self.diagnostics
        lines = [
            f"σ = {_minus(found.tail.sigma)}{_give_or_take(found.standard_error_sigma)}",
            f"ξ = {_minus(found.tail.xi)}{_give_or_take(found.standard_error_xi)}",
        ]
        if np.isfinite(found.p_value):
            lines.append(f"goodness of fit p = {found.p_value:.2g}")
        lines.append(f"{found.tail.n_excesses} errors of {found.n_groups} samples")
        return "\n".join(lines)


def _held_out_rows(clf: SROSRClassifier, label: Any) -> CrossTest:
    """Rows of the cross-test of one class, or of all."""
    check_is_fitted(clf, "calibration_")
    rows = clf.calibration_.known
    if label is not None:
        rows = rows[rows.truth == clf._find_class(label)]
    if not len(rows):
        which = "no class has" if label is None else f"class {label!r} does not have"
        raise ValueError(f"{which} two samples, so that none could be held out: there are no errors to show.")
    return rows


def _legend_above(ax: Axes) -> None:
    ax.legend(
        frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, borderpad=0.1,
        fontsize="small", handlelength=1.4, columnspacing=1.2,
    )  # fmt: skip


def _minus(number: float) -> str:
    return f"{number:.3g}".replace("-", "−")


def _give_or_take(error: float) -> str:
    return f" ± {error:.2g}" if np.isfinite(error) else ""
