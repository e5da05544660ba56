"""``ExplanationDisplay``: the figure of an explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import Array
from .._support.plotting import INK, KNOWN_COLOUR, PALE, SHADE, UNKNOWN_COLOUR, panels, tidy
from .explanation import Explanation, explain
from .explanation_text import NAMES, apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..classifiers import SROSRClassifier

__all__ = ["ExplanationDisplay"]

#: Of more classes than this those that matter most are drawn.
MAX_CLASSES = 15
# Training samples shown as pictures, two by two, and letters of a class under one.
_N_SHOWN, _LETTERS = 4, 7


class ExplanationDisplay:
    """Residuals of the classes, contributions of the evidence, and the training samples that rebuilt a sample.

    Parameters
    ----------
    explanation : Explanation

    Attributes
    ----------
    axes_ : tuple of Axes
        Residuals, evidence, atoms; before them the pictures, where there are any.
    ax_ : Axes
        The first of them.
    figure_ : Figure
    """

    ax_: Axes
    axes_: tuple[Axes, ...]
    figure_: Figure

    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation

    @classmethod
    def from_estimator(cls, clf: SROSRClassifier, x: Any) -> ExplanationDisplay:
        """The explanation of one sample.

        Parameters
        ----------
        clf : SROSRClassifier
        x : array-like (n_features,)
            As :meth:`SROSRClassifier.explain` takes it.
        """
        return cls(explain(clf, x))

    def plot(
        self, ax: Any = None, *, image_shape: tuple[int, int] | None = None, pictures: Any = None
    ) -> ExplanationDisplay:
        """Draw it.

        Parameters
        ----------
        ax : Axes, or as many as there are panels, optional
            One Axes gives up its place to three panels, or four with pictures.
        image_shape : (height, width), optional
            Where features are pixels and the kernel is linear: show the sample, and the training samples with the
            largest coefficients, as pictures.
        pictures : (array (height, width), sequence of array), optional
            Instead, where features are made from pictures: that of the sample, and those of the training samples in
            the order of ``explanation.atoms`` (the first four are shown); grey values from 0, black, to 1, white.
        """
        draw = [self._draw_residuals, self._draw_evidence, self._draw_atoms]
        ratios, width = [1.0, 0.9, 1.15], 12.0
        if image_shape is not None and pictures is not None:
            raise ValueError("give image_shape or pictures, not both.")
        if image_shape is not None or pictures is not None:
            # Features that are pixels are often ink on paper: large is dark.
            colours = "Greys" if pictures is None else "gray"
            sample, atoms = _as_pictures(self.explanation, image_shape) if pictures is None else pictures
            draw.insert(0, lambda ax: self._draw_pictures(ax, sample, atoms, colours))
            ratios, width = [1.1, *ratios], 14.5
        axes = panels(ax, len(draw), (width, 3.4), ratios)
        for draw_on, one in zip(draw, axes, strict=True):
            tidy(one)
            draw_on(one)
        axes[0].set_title(self._title(), loc="left", fontsize="medium", color=self.colour)
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure  # type: ignore[assignment]
        return self

    @property
    def colour(self) -> str:
        """The colour of known samples, or of unknown ones where the sample is refused."""
        return UNKNOWN_COLOUR if self.explanation.refused else KNOWN_COLOUR

    def _title(self) -> str:
        e = self.explanation
        if e.length == 0:
            return "refused: the sample has length zero"
        score, threshold = apart(e.unknown_score, e.threshold)
        if e.refused:
            return f"refused; closest class {e.candidate}\nunknown score {score} > {threshold}"
        return f"recognised as class {e.candidate}\nunknown score {score} ≤ {threshold}"

    def _draw_residuals(self, ax: Axes) -> None:
        e = self.explanation
        if e.length == 0:
            _say(ax, "no errors:\nthere is nothing to rebuild")
            return
        labels = list(e.residuals)
        if len(labels) > MAX_CLASSES:
            labels = sorted(labels, key=lambda label: e.residuals[label])[:MAX_CLASSES]
        colours = [self.colour if label == e.candidate else PALE for label in labels]
        ax.bar(range(len(labels)), [e.residuals[label] for label in labels], color=colours, width=0.72)
        if np.isfinite(e.usual_residual):
            place = labels.index(e.candidate)
            whose = f"class {e.candidate}" if e.compared_with == "class" else "known samples"
            ax.plot(
                [place - 0.5, place + 0.5], [e.usual_residual] * 2, color=INK, linewidth=2.2,
                label=f"90 % of {whose} leave less", solid_capstyle="butt",
            )  # fmt: skip
            ax.set_ylim(0, 1.2 * max(*e.residuals.values(), e.usual_residual))
            ax.legend(frameon=False, fontsize="small", loc="upper left", borderpad=0.1, handlelength=1.2)
        _class_ticks(ax, labels)
        ax.set_xlabel(_of_classes("class", len(labels), len(e.residuals), "least error"))
        ax.set_ylabel("reconstruction error")

    def _draw_evidence(self, ax: Axes) -> None:
        e = self.explanation
        parts = [part for part in e.evidence if part.weight > 0][::-1]
        if not parts:
            _say(ax, "no evidence:\nthe sample has length zero" if e.length == 0 else "no evidence has weight")
            return
        values = [part.contribution for part in parts]
        colours = [UNKNOWN_COLOUR if value > 0 else KNOWN_COLOUR for value in values]
        ax.barh(range(len(parts)), values, height=0.36, color=colours)
        ax.axvline(0, color=INK, linewidth=0.8)
        for place, part in enumerate(parts):
            ax.annotate(
                NAMES[part.name], (0.0, place + 0.2), xycoords=("axes fraction", "data"), xytext=(2, 1),
                textcoords="offset points", va="bottom", fontsize="small",
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.3},
            )  # fmt: skip
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_ylim(-0.4, max(len(parts), 3) - 0.2)
        total, limit = f"{e.score:.2g}", f"{e.score_threshold:.2g}"
        if total == limit:
            total, limit = apart(e.score, e.score_threshold)
        above = f", refused above {limit}" if np.isfinite(e.score_threshold) else ""
        ax.set_xlabel(f"score: right speaks for a stranger\n(sum {total}{above})".replace("-", "−"))

    def _draw_atoms(self, ax: Axes) -> None:
        """The coefficients, a band a class; the place in the band is the place among the samples of the class."""
        e = self.explanation
        if not e.atoms:
            _say(ax, "the code is zero:\nno training sample has a part in it")
            return
        labels = list(e.shares)
        if len(labels) > MAX_CLASSES:
            heaviest = sorted(labels, key=lambda label: -e.shares[label])[:MAX_CLASSES]
            labels = [label for label in labels if label in heaviest]
        starts = dict(zip(e.class_sizes, np.cumsum([0, *e.class_sizes.values()])[:-1].tolist(), strict=True))
        for place, label in enumerate(labels):
            if place % 2 == 0:
                ax.axvspan(place - 0.5, place + 0.5, color=SHADE, linewidth=0, zorder=0)
            own = [atom for atom in e.atoms if atom.label == label]
            x = [place - 0.42 + 0.84 * (atom.atom - starts[label] + 0.5) / e.class_sizes[label] for atom in own]
            colour = self.colour if label == e.candidate else INK
            ax.vlines(x, 0, [atom.coefficient for atom in own], color=colour, linewidth=1.3)
            ax.plot(x, [atom.coefficient for atom in own], "o", color=colour, markersize=3)
        ax.axhline(0, color=INK, linewidth=0.6)
        ax.set_xlim(-0.6, len(labels) - 0.4)
        _class_ticks(ax, labels)
        ax.set_xlabel(_of_classes("class of the training sample", len(labels), len(e.shares), "most of the code"))
        ax.set_ylabel("coefficient")

    def _draw_pictures(self, ax: Axes, sample: Array, atoms: Any, colours: str) -> None:
        """The sample, large, and the training samples that matter most, two by two; 4 units are its height."""
        e = self.explanation
        aspect = sample.shape[1] / sample.shape[0]
        _picture(ax, sample, 0.0, 0.0, 4.0, aspect, self.colour, colours)
        ax.text(2.0 * aspect, -0.12, "the sample", ha="center", va="top", fontsize="small")
        height = 1.72
        for i, (picture, atom) in enumerate(zip(atoms[:_N_SHOWN], e.atoms, strict=False)):
            left, bottom = 4.0 * aspect + 0.6 + (i % 2) * (height * aspect + 0.5), 2.28 * (1 - i // 2)
            frame = self.colour if atom.label == e.candidate else PALE
            _picture(ax, picture, left, bottom, height, aspect, frame, colours)
            name = str(atom.label)
            name = name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"
            text = f"{name}: {atom.coefficient:+.2f}".replace("-", "−")
            ax.text(left + height * aspect / 2, bottom - 0.08, text, ha="center", va="top", fontsize="x-small")
        ax.set_xlim(-0.1, 4.0 * aspect + 1.1 + 2 * height * aspect + 0.1)
        ax.set_ylim(-0.75, 4.1)
        ax.set_aspect("equal", anchor="W")
        ax.set_axis_off()


def _as_pictures(e: Explanation, image_shape: Any) -> tuple[Array, Array]:
    """The sample and the first atoms in the shape of pictures, or a ValueError that says why there are none."""
    if e.sample is None or e.pictures is None:
        raise ValueError("image_shape needs features that are pixels and the linear kernel; leave it out.")
    shape = tuple(np.atleast_1d(image_shape).tolist())
    if len(shape) != 2 or int(np.prod(shape)) != len(e.sample):
        raise ValueError(
            f"image_shape must be (height, width), in all the {len(e.sample)} features, got {image_shape!r}."
        )
    return e.sample.reshape(shape), e.pictures[:_N_SHOWN].reshape(-1, *shape)


def _picture(
    ax: Axes, picture: Array, left: float, bottom: float, height: float, aspect: float, colour: str, colours: str
) -> None:
    from matplotlib.patches import Rectangle

    extent = (left, left + height * aspect, bottom, bottom + height)
    low, high = (0.0, 1.0) if colours == "gray" else (None, None)
    ax.imshow(picture, cmap=colours, interpolation="nearest", extent=extent, aspect="equal", vmin=low, vmax=high)
    ax.add_patch(Rectangle((left, bottom), height * aspect, height, fill=False, edgecolor=colour, linewidth=1.4))


def _class_ticks(ax: Axes, labels: Sequence[Any]) -> None:
    texts = [text if len(text) <= 16 else f"{text[:7]}…{text[-8:]}" for text in map(str, labels)]
    long = max(map(len, texts)) * len(texts) > 30
    ax.set_xticks(
        range(len(texts)), texts, rotation=45 if long else 0, ha="right" if long else "center", fontsize="small"
    )
    if long:
        for tick in ax.get_xticklabels():
            tick.set_rotation_mode("anchor")
    ax.tick_params(axis="x", length=0)


def _of_classes(name: str, shown: int, all_: int, which: str) -> str:
    return name if shown == all_ else f"{name} ({shown} of {all_}: {which})"


def _say(ax: Axes, text: str) -> None:
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, fontsize="small")
    ax.set_axis_off()
