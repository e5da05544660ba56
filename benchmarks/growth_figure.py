"""The figure of ``benchmarks.growth``: time and memory against the number of training samples, one line per method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = (
    ("fit_seconds", 1.0, "fit, s"),
    ("predict_ms", 1.0, "predict, ms a sample"),
    ("fit_bytes", 2.0**-20, "fit, MiB beyond the data (less than 1 is drawn as 1)"),
    ("predict_bytes", 2.0**-20, "predict, MiB beyond the model (less than 1 is drawn as 1)"),
)
"""Key of a record, factor and title of each panel."""
LEAST_MIB = 1.0
"""Less memory is drawn as this: it is noise, and a logarithm has no zero."""
COLORS = ("#1f6f8b", "#d1603d", "#7a5195", "#8a8d3b", "#5c6370", "#c2a83e")
MARKERS = ("o", "s", "^", "v", "D", "P")


def draw_growth(records: Sequence[Record], title: str) -> Figure:
    """Return the figure of the records of one run, on logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 7.0), layout="constrained")
    axes: Any = figure.subplots(2, 2, sharex=True)
    methods = list(dict.fromkeys(r["method"] for r in records))
    for ax, (key, factor, name) in zip(axes.flat, PANELS, strict=True):
        for i, method in enumerate(methods):
            series = sorted((r["n"], r[key] * factor) for r in records if r["method"] == method)
            values = [max(value, LEAST_MIB) if "bytes" in key else value for _, value in series]
            style = {"color": COLORS[i % len(COLORS)], "marker": MARKERS[i % len(MARKERS)]}
            ax.plot([n for n, _ in series], values, label=method, linewidth=1.8, markersize=5, **style)
        _finish_panel(ax, name, sorted({r["n"] for r in records}))
    for ax in axes[1]:
        ax.set_xlabel("training samples")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    figure.suptitle(title, fontsize=11)
    return figure


def _finish_panel(ax: Axes, name: str, sizes: list[int]) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator

    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_title(name, loc="left", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#f1f2f5", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())


def write_growth(path: Path, records: Sequence[Record], title: str) -> None:
    """Write the figure; the suffix says in which format."""
    draw_growth(records, title).savefig(path, dpi=150)
