"""The figure of ``srosr demo``, from the scores of all samples to the explanation of one rejection."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import IntArray
from .._support.atomic_files import open_atomically
from .._support.plotting import INK, KNOWN_COLOR, PALE, SHADE, UNKNOWN_COLOR, draw_histogram
from ..experiments.digits_demo import IMAGE_SHAPE, DemoResult, Example
from ..inspection.explanation_display import ExplanationDisplay
from .html_page import use_page_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 13.5, 14.8
_LEFT, _RIGHT = 0.055, 0.985
# p-values below 10**-_FARTHEST are drawn there.
_FARTHEST = 6.0


def plot_demo(result: DemoResult, path: str | os.PathLike[str]) -> None:
    """Draw the demonstration and write it to `path` atomically; the suffix determines the format (png, pdf or svg).

    From top to bottom: unknown scores of known and unknown digits with the threshold; a few samples with their codes
    and residuals; the errors that the recognizer has learned; and the explanation of one rejection.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(path)
    with use_page_style(**{"font.size": 9.5, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=130, facecolor="white")
        FigureCanvasAgg(figure)
        _draw(figure, result)
        with open_atomically(path) as file:
            figure.savefig(file, format=path.suffix.removeprefix("."))


def _draw(figure: Figure, result: DemoResult) -> None:
    """Lay out the four parts of the figure."""
    samples = result.samples
    _draw_heading(figure, 0.978, "a", "Unknown scores of known and of unknown digits")
    _draw_scores(figure.add_subplot(_make_grid(figure, 0.948, 0.85, [1])[0]), result)

    _draw_heading(figure, 0.795, "b", "Typical samples; in color, the candidate class by all class scores")
    _draw_examples(figure, result, 0.756, 0.485)

    _draw_heading(
        figure, 0.438, "c", "Errors of held-out training samples and of all test samples, and the tail of one class"
    )
    errors, sums, tail = map(figure.add_subplot, _make_grid(figure, 0.39, 0.287, [1, 1, 1]))
    samples.errors.plot(errors)
    samples.nonmatched.plot(sums)
    samples.tail.plot(tail)
    _draw_legend(errors)

    kind = "unknown" if samples.explained_digit in result.unknown else "known"
    _draw_heading(figure, 0.235, "d", f"One {kind} digit, a {samples.explained_digit}, explained")
    four = [figure.add_subplot(place) for place in _make_grid(figure, 0.195, 0.055, [1.12, 1, 1, 1])]
    ExplanationDisplay(samples.explanation).plot(four, image_shape=IMAGE_SHAPE)


def _make_grid(figure: Figure, top: float, bottom: float, widths: Sequence[float]) -> Any:
    return figure.add_gridspec(
        1, len(widths), left=_LEFT, right=_RIGHT, top=top, bottom=bottom, width_ratios=list(widths), wspace=0.26
    )


def _draw_heading(figure: Figure, height: float, letter: str, text: str) -> None:
    figure.text(0.015, height, letter, fontsize=14, fontweight="bold", va="baseline")
    figure.text(0.035, height, text, fontsize=12.5, va="baseline")


def _draw_legend(ax: Axes) -> None:
    """Place the legend in one column above a narrow panel."""
    ax.legend(
        frameon=False, ncols=1, loc="lower left", bbox_to_anchor=(0.0, 0.98), borderaxespad=0.2, borderpad=0.1,
        fontsize="small", handlelength=1.4, labelspacing=0.25,
    )  # fmt: skip


def _draw_scores(ax: Axes, result: DemoResult) -> None:
    """Draw the unknown scores of all test samples, with as much room for 0.99 to 0.999 as for 0 to 0.9."""
    samples, rule = result.samples, result.calibrated
    distances = [np.minimum(-p / np.log(10.0), _FARTHEST) for p in (samples.known_log_p, samples.unknown_log_p)]
    end = max(2.0, 1.03 * float(np.max(np.concatenate(distances))))
    bins = np.linspace(0.0, end, 61)
    for values, color, name, share in (
        (distances[0], KNOWN_COLOR, "known", rule.known_rejected),
        (distances[1], UNKNOWN_COLOR, "unknown", rule.unknown_rejected),
    ):
        draw_histogram(ax, values, bins, color, f"{name}: {len(values)} samples, {share:.1%} rejected")
    threshold = -float(np.log10(max(1.0 - rule.threshold, 10.0**-end)))
    ax.axvline(threshold, color=INK, linewidth=1.2, linestyle=(0, (4, 2)))
    ax.set_ylim(0, 1.18 * ax.get_ylim()[1])
    for text, side, offset in (
        ("← accepted", "right", -6),
        (f"rejected: score above {rule.threshold:.3f} →", "left", 6),
    ):
        ax.annotate(
            text, (threshold, 0.99), xycoords=("data", "axes fraction"), xytext=(offset, 0),
            textcoords="offset points", ha=side, va="top",
        )  # fmt: skip
    whole = range(int(end) + 1)
    ax.set_xticks([*whole], ["0", *("0." + "9" * k for k in whole if k)])
    ax.set_xlim(0, end)
    ax.set_xlabel("unknown score: share of known samples that look more typical")
    ax.set_ylabel("% of samples")
    ax.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2, borderpad=0)
    ax.set_title(f"AUROC {rule.auroc:.3f}", loc="right", fontsize="medium", pad=4)


def _draw_examples(figure: Figure, result: DemoResult, top: float, bottom: float) -> None:
    """Draw one column per sample: its picture, its code over the atoms, and the residual of each class."""
    samples = result.samples
    groups = [[e for e in samples.examples if e.is_known == is_known] for is_known in (True, False)]
    groups = [group for group in groups if group]
    if not groups:
        return
    # A narrow empty column separates known and unknown samples.
    widths = [width for group in groups for width in (*(1.0 for _ in group), 0.15)][:-1]
    grid = figure.add_gridspec(
        3, len(widths), left=_LEFT, right=_RIGHT, top=top, bottom=bottom,
        width_ratios=widths, height_ratios=[1.4, 1.0, 1.0], hspace=0.28, wspace=0.14,
    )  # fmt: skip
    coefficients = np.concatenate([e.code for e in samples.examples])
    code_limits = (1.1 * min(0.0, float(coefficients.min())), 1.1 * float(coefficients.max()))
    residual_limit = 1.1 * max(float(e.residuals.max()) for e in samples.examples)
    column = 0
    for group in groups:
        for position, example in enumerate(group):
            picture, code, residuals = (figure.add_subplot(grid[row, column]) for row in range(3))
            _draw_picture(picture, example)
            _draw_code(code, example, samples.atom_labels, code_limits)
            _draw_residuals(residuals, example, result.known, residual_limit)
            if column == 0:
                code.set_ylabel("coefficient")
                residuals.set_ylabel("error of class")
            for ax in (code, residuals):
                ax.tick_params(axis="x", length=0)
                ax.tick_params(axis="y", labelleft=position == 0)
            column += 1
        column += 1


def _choose_color(example: Example) -> str:
    return KNOWN_COLOR if example.is_known else UNKNOWN_COLOR


def _draw_picture(ax: Axes, example: Example) -> None:
    ax.imshow(example.image, cmap="Greys", interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(_choose_color(example))
    ax.spines[:].set_linewidth(1.6)
    kind = "known" if example.is_known else "unknown"
    verdict = "rejected" if example.rejected else f"accepted as {example.candidate}"
    # Truncated, so that 0.99996 is not shown as 1.
    score = f"{np.floor(example.unknown_score * 1e4) / 1e4:.4f}" if example.unknown_score < 1 else "1"
    ax.set_title(
        f"{kind} {example.digit}: {verdict}\nunknown score {score}", fontsize="medium", color=_choose_color(example)
    )


def _draw_code(ax: Axes, example: Example, labels: IntArray, limits: tuple[float, float]) -> None:
    """Draw the coefficients over the atoms, one band per class, those of the candidate class in color."""
    classes = np.unique(labels)
    centers = []
    for position, k in enumerate(classes):
        atoms = np.flatnonzero(labels == k)
        centers.append(float(atoms.mean()))
        if position % 2 == 0:
            ax.axvspan(atoms[0] - 0.5, atoms[-1] + 0.5, color=SHADE, linewidth=0)
        active = atoms[example.code[atoms] != 0]
        color = _choose_color(example) if k == example.candidate else INK
        ax.vlines(active, 0, example.code[active], color=color, linewidth=1.4)
    ax.axhline(0, color=INK, linewidth=0.6)
    ax.set_xlim(-0.02 * len(labels), 1.02 * len(labels))
    ax.set_ylim(limits)
    ax.set_xticks(centers, [str(k) for k in classes])


def _draw_residuals(ax: Axes, example: Example, known: Sequence[int], limit: float) -> None:
    """Draw the residual of each class, that of the candidate in color."""
    colors = [_choose_color(example) if k == example.candidate else PALE for k in known]
    ax.bar(range(len(known)), example.residuals, color=colors, width=0.72)
    ax.set_ylim(0, limit)
    ax.set_xticks(range(len(known)), [str(k) for k in known])
    ax.set_xlabel("class of the training samples")
