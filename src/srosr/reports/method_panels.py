"""Figures with one panel per method (small multiples).

A display holds numbers: ``from_results`` builds it from the results table of an experiment, and ``plot`` draws it into
a given or a new pyplot figure and stores ``axes_`` and ``figure_``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.plotting import INK, KNOWN_COLOR, PALE, SHADE, UNKNOWN_COLOR, remove_spines
from ..experiments import METRIC_INFO, Curve, compute_curves
from .method_styles import OURS, OURS_COLOR, escape_label, order_methods, shorten_names
from .openness_figures import compute_value_limits, require_curves

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MethodGridDisplay", "TradeDisplay", "compute_grid_size"]

_COLUMNS = 4
_GRID_WIDTH = 7.6


class MethodGridDisplay:
    """A metric against openness, one panel per method: its curve in color over all others in gray.

    Parameters
    ----------
    curves : dict of str to Curve
    metric : str
    methods : sequence of str, optional
        Methods of the panels; None takes those with a curve. A method without a curve has an empty panel.
    ours : str
    n_trials : int, optional
        As for :class:`OpennessDisplay`.

    Attributes
    ----------
    axes_ : tuple of Axes
    figure_ : Figure
    """

    axes_: tuple[Axes, ...]
    figure_: Figure

    def __init__(
        self,
        compute_curves: Mapping[str, Curve],
        metric: str,
        *,
        methods: Sequence[str] | None = None,
        ours: str = OURS,
        n_trials: int | None = None,
    ) -> None:
        self.curves, self.metric, self.ours = dict(compute_curves), metric, ours
        self.methods = order_methods(self.curves, ours) if methods is None else list(methods)
        self.n_trials = max((c.n_trials for c in self.curves.values()), default=0) if n_trials is None else n_trials

    @classmethod
    def from_results(
        cls, results: pd.DataFrame, metric: str, *, methods: Sequence[str] | None = None, ours: str = OURS
    ) -> MethodGridDisplay:
        """Build the display from a results table; the parameters are those of :class:`OpennessDisplay`."""
        return cls(require_curves(results, metric), metric, methods=methods, ours=ours)

    def plot(self, figure: Any = None) -> MethodGridDisplay:
        """Draw the panels.

        Parameters
        ----------
        figure : Figure or SubFigure, optional
        """
        figure, axes = _make_panels(figure, len(self.methods))
        titles = shorten_names(self.methods, 18)
        for ax, name, title in zip(axes, self.methods, titles, strict=True):
            for other, curve in self.curves.items():
                if other != name and name in self.curves:
                    ax.plot(
                        100 * curve.openness, curve.mean, color=PALE, linewidth=0.7, **_mark_single_point(curve, 2.0)
                    )
            if name in self.curves:
                _highlight(ax, self.curves[name], OURS_COLOR if name == self.ours else KNOWN_COLOR)
            _title_panel(ax, name, title, self.curves.get(name), self.ours, self.n_trials)
        _share_axes(axes, self.curves.values())
        figure.supxlabel("openness in %", fontsize="medium")
        figure.supylabel(METRIC_INFO[self.metric].label, fontsize="medium")
        self.axes_, self.figure_ = axes, figure
        return self


class TradeDisplay:
    """Recognition, rejection and accuracy against openness, one panel per method.

    Recognition accuracy is the share of known samples that are accepted as their class, rejection accuracy the share of
    unknown samples that are rejected. The higher the openness, the more samples are unknown, and the closer accuracy
    comes to rejection accuracy.

    Parameters
    ----------
    recognition, rejection, accuracy : dict of str to Curve
    ours : str
    n_trials : int, optional

    Attributes
    ----------
    axes_ : tuple of Axes
    figure_ : Figure
    """

    axes_: tuple[Axes, ...]
    figure_: Figure

    def __init__(
        self,
        recognition: Mapping[str, Curve],
        rejection: Mapping[str, Curve],
        accuracy: Mapping[str, Curve],
        *,
        ours: str = OURS,
        n_trials: int | None = None,
    ) -> None:
        self.recognition, self.rejection, self.accuracy = dict(recognition), dict(rejection), dict(accuracy)
        self.ours = ours
        self.methods = order_methods({*self.recognition, *self.rejection}, ours)
        most = max((c.n_trials for c in (*self.recognition.values(), *self.rejection.values())), default=0)
        self.n_trials = most if n_trials is None else n_trials

    @classmethod
    def from_results(cls, results: pd.DataFrame, *, ours: str = OURS) -> TradeDisplay:
        """Build the display from a results table, for all methods with recognition or rejection accuracy."""
        recognition, rejection = (
            compute_curves(results, "recognition_accuracy"),
            compute_curves(results, "rejection_accuracy"),
        )
        if not recognition and not rejection:
            raise ValueError("results has neither recognition_accuracy nor rejection_accuracy.")
        return cls(recognition, rejection, compute_curves(results, "accuracy"), ours=ours)

    def plot(self, figure: Any = None) -> TradeDisplay:
        """Draw the panels.

        Parameters
        ----------
        figure : Figure or SubFigure, optional
        """
        figure, axes = _make_panels(figure, len(self.methods), above=0.35)
        kinds: tuple[tuple[dict[str, Curve], str, str, Any, float], ...] = (
            (self.recognition, "recognition: known samples accepted as their class", KNOWN_COLOR, "-", 2.0),
            (self.rejection, "rejection: unknown samples rejected", UNKNOWN_COLOR, (0, (5, 1.5)), 2.0),
            (self.accuracy, "accuracy", INK, (0, (1, 1)), 1.4),
        )
        for ax, name, title in zip(axes, self.methods, shorten_names(self.methods, 18), strict=True):
            for found, _, color, dashes, width in kinds:
                if name in found:
                    _highlight(ax, found[name], color, dashes, width)
            drawn = self.recognition.get(name) or self.rejection.get(name)
            _title_panel(ax, name, title, drawn, self.ours, self.n_trials)
        _share_axes(axes, [c for found, *_ in kinds for name, c in found.items() if name in self.methods])
        figure.supxlabel("openness in %", fontsize="medium")
        figure.supylabel("share of samples", fontsize="medium")
        from matplotlib.lines import Line2D

        handles = [Line2D([], [], color=c, linestyle=d, linewidth=w, label=text) for _, text, c, d, w in kinds]
        figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False, fontsize="small")
        self.axes_, self.figure_ = axes, figure
        return self


# -- what the figures share -----------------------------------------------------------------------------------


def compute_grid_size(n_panels: int, above: float = 0.0) -> tuple[float, float]:
    """Return the size in inches of a figure with so many panels."""
    return _GRID_WIDTH, 0.6 + above + 1.5 * -(-n_panels // _COLUMNS)


def _make_panels(figure: Any, n: int, above: float = 0.0) -> tuple[Any, tuple[Axes, ...]]:
    """Return the figure and n panels in rows of four."""
    if figure is None:
        from matplotlib import pyplot as plt

        figure = plt.figure(figsize=compute_grid_size(n, above), layout="constrained")
    columns = min(n, _COLUMNS)
    rows = -(-n // columns)
    made = np.ravel(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True))
    for ax in made[n:]:
        ax.set_visible(False)
    for ax in made[max(n - columns, 0) : n]:
        ax.tick_params(labelbottom=True)
    return figure, tuple(made[:n])


def _share_axes(axes: Sequence[Axes], drawn: Iterable[Curve]) -> None:
    """Set the same limits, grid and ticks in all panels."""
    from matplotlib.ticker import MaxNLocator

    drawn = list(drawn)
    limits = compute_value_limits(drawn)
    for ax in axes:
        remove_spines(ax)
        ax.grid(color=SHADE, linewidth=0.7)
        ax.set_axisbelow(True)
        ax.set_ylim(*limits)
        ax.tick_params(labelsize="small", length=2.5)
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.yaxis.set_major_locator(MaxNLocator(5))
    if len(axes) and all(len(c.openness) == 1 for c in drawn):
        for ax in axes:
            ax.set_xticks([100 * c.openness[0] for c in drawn][:1])
            ax.margins(x=0.5)


def _mark_single_point(curve: Curve, size: float) -> dict[str, Any]:
    """Return a marker style if a curve is a single point."""
    return {"marker": "o", "markersize": size} if np.sum(np.isfinite(curve.mean)) == 1 else {}


def _highlight(ax: Axes, curve: Curve, color: str, dashes: Any = "-", width: float = 2.0) -> None:
    x = 100 * curve.openness
    ax.plot(x, curve.mean, color=color, linestyle=dashes, linewidth=width, zorder=4, **_mark_single_point(curve, 4.5))
    ax.fill_between(x, curve.low, curve.high, color=color, alpha=0.22, linewidth=0, zorder=3)


def _title_panel(ax: Axes, name: str, title: str, curve: Curve | None, ours: str, most: int) -> None:
    weight = "bold" if name == ours else "normal"
    fewer = curve is not None and curve.n_trials < most
    text = escape_label(title + (" (ours)" if name == ours else ""))
    if fewer and curve is not None:
        text += f"\n{curve.n_trials} of {most} trials"
    ax.set_title(text, fontsize="small", fontweight=weight, loc="left", pad=3)
    if curve is None:
        ax.text(0.5, 0.5, "no result", transform=ax.transAxes, ha="center", va="center", fontsize="small")
