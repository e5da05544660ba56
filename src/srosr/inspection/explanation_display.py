"""The figure of an explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import Array
from .._support.plotting import INK, KNOWN_COLOR, PALE, SHADE, UNKNOWN_COLOR, Display, make_panels, remove_spines
from .explanation_facts import ExplanationFacts
from .explanation_text import NAMES, format_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..classifiers.srosr_classifier import SROSRClassifier

#: Most classes drawn; of more, those that matter most.
MAX_CLASSES = 15
#: Kinds of evidence that are drawn; the others are summed up.
MAX_KINDS = 8
# Training samples shown as pictures, two by two, and letters of the class name below one.
_N_SHOWN, _LETTERS = 4, 7


class ExplanationDisplay(Display):
    """Residuals of the classes, contributions of the evidence, and the training samples that reconstruct a sample.

    Parameters
    ----------
    explanation : Explanation

    Attributes
    ----------
    axes_ : tuple of Axes
        Residuals, evidence, atoms; before them the pictures, if there are any.
    ax_ : Axes
        The first of them.
    figure_ : Figure
    """

    def __init__(self, explanation: ExplanationFacts) -> None:
        self.explanation = explanation

    @classmethod
    def from_estimator(cls, clf: SROSRClassifier, x: Any) -> ExplanationDisplay:
        """Explain one sample.

        Parameters
        ----------
        clf : SROSRClassifier
        x : array-like (n_features,)
            As :meth:`SROSRClassifier.explain` takes it.
        """
        return cls(clf.explain(x))

    def plot(
        self, ax: Any = None, *, image_shape: tuple[int, int] | None = None, pictures: Any = None
    ) -> ExplanationDisplay:
        """Draw the explanation.

        Parameters
        ----------
        ax : Axes, or as many as there are panels, optional
            One Axes is replaced by three panels, or four with pictures.
        image_shape : (height, width), optional
            If features are pixels and the kernel is linear: show the sample, and the training samples with the largest
            coefficients, as pictures.
        pictures : (array (height, width), sequence of array), optional
            Instead, if features are computed from pictures: that of the sample, and those of the training samples in
            the order of ``explanation.atoms`` (the first four are shown); gray values from 0, black, to 1, white.
        """
        draw = [self._draw_residuals, self._draw_evidence, self._draw_atoms]
        ratios, width = [1.0, 0.9, 1.15], 12.0
        if image_shape is not None and pictures is not None:
            raise ValueError("pass image_shape or pictures, not both.")
        if image_shape is not None or pictures is not None:
            # Features that are pixels are often ink on paper, with large values dark.
            color_map = "Greys" if pictures is None else "gray"
            sample, atoms = _reshape_to_pictures(self.explanation, image_shape) if pictures is None else pictures
            draw.insert(0, lambda ax: self._draw_pictures(ax, sample, atoms, color_map))
            ratios, width = [1.1, *ratios], 14.5
        axes = make_panels(ax, len(draw), (width, 3.4), ratios)
        for draw_on, one in zip(draw, axes, strict=True):
            remove_spines(one)
            draw_on(one)
        axes[0].set_title(self._make_title(), loc="left", fontsize="medium", color=self.color)
        return self._keep_axes(*axes)

    @property
    def color(self) -> str:
        """The color of known samples, or of unknown ones if the sample is rejected."""
        return UNKNOWN_COLOR if self.explanation.rejected else KNOWN_COLOR

    def _make_title(self) -> str:
        e = self.explanation
        if e.length == 0:
            return "rejected: the sample has length zero"
        score, threshold = format_apart(e.unknown_score, e.threshold)
        if e.rejected:
            return f"rejected; closest class {e.candidate}\nunknown score {score} > {threshold}"
        return f"recognized as class {e.candidate}\nunknown score {score} ≤ {threshold}"

    def _draw_residuals(self, ax: Axes) -> None:
        e = self.explanation
        if e.length == 0:
            _write_note(ax, "no errors:\nthere is nothing to reconstruct")
            return
        labels = list(e.residuals)
        if len(labels) > MAX_CLASSES:
            # The candidate need not be among the classes of the least residuals.
            labels = sorted(labels, key=lambda label: (label != e.candidate, e.residuals[label]))[:MAX_CLASSES]
            labels.sort(key=lambda label: e.residuals[label])
        colors = [self.color if label == e.candidate else PALE for label in labels]
        ax.bar(range(len(labels)), [e.residuals[label] for label in labels], color=colors, width=0.72)
        if np.isfinite(e.usual_residual):
            place = labels.index(e.candidate)
            whose = f"class {e.candidate}" if e.compared_with == "class" else "known samples"
            ax.plot(
                [place - 0.5, place + 0.5], [e.usual_residual] * 2, color=INK, linewidth=2.2,
                label=f"90 % of {whose} lie below", solid_capstyle="butt",
            )  # fmt: skip
            ax.set_ylim(0, 1.2 * max(*e.residuals.values(), e.usual_residual))
            ax.legend(frameon=False, fontsize="small", loc="upper left", borderpad=0.1, handlelength=1.2)
        _set_class_ticks(ax, labels)
        ax.set_xlabel(_label_classes("class", len(labels), len(e.residuals), "least error"))
        ax.set_ylabel("reconstruction error")

    def _draw_evidence(self, ax: Axes) -> None:
        e = self.explanation
        parts = [part for part in e.evidence if part.weight > 0][::-1]
        if not parts:
            _write_note(ax, "no evidence:\nthe sample has length zero" if e.length == 0 else "no evidence has weight")
            return
        bars = [(NAMES[part.name], part.contribution) for part in parts]
        if len(bars) > MAX_KINDS:
            # Those that matter most, in their order, and the sum of the rest at the bottom.
            least = sorted(abs(value) for _, value in bars)[len(bars) - MAX_KINDS]
            rest = [value for _, value in bars if abs(value) <= least]
            bars = [(f"{len(rest)} other kinds", sum(rest)), *(bar for bar in bars if abs(bar[1]) > least)]
        values = [value for _, value in bars]
        colors = [UNKNOWN_COLOR if value > 0 else KNOWN_COLOR for value in values]
        ax.barh(range(len(bars)), values, height=0.36, color=colors)
        ax.axvline(0, color=INK, linewidth=0.8)
        for place, (name, _) in enumerate(bars):
            ax.annotate(
                name, (0.0, place + 0.2), xycoords=("axes fraction", "data"), xytext=(2, 1),
                textcoords="offset points", va="bottom", fontsize="small",
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.3},
            )  # fmt: skip
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_ylim(-0.4, max(len(bars), 3) - 0.2)
        total, limit = f"{e.score:.2g}", f"{e.score_threshold:.2g}"
        if total == limit:
            total, limit = format_apart(e.score, e.score_threshold)
        above = f", rejected above {limit}" if np.isfinite(e.score_threshold) else ""
        ax.set_xlabel(f"contribution to the score (right: unknown)\nsum {total}{above}".replace("-", "−"))

    def _draw_atoms(self, ax: Axes) -> None:
        """Draw the coefficients, one band per class, each at the place of its sample within the class."""
        e = self.explanation
        if not e.atoms:
            _write_note(ax, "the code is zero:\nit uses no training sample")
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
            color = self.color if label == e.candidate else INK
            ax.vlines(x, 0, [atom.coefficient for atom in own], color=color, linewidth=1.3)
            ax.plot(x, [atom.coefficient for atom in own], "o", color=color, markersize=3)
        ax.axhline(0, color=INK, linewidth=0.6)
        ax.set_xlim(-0.6, len(labels) - 0.4)
        _set_class_ticks(ax, labels)
        ax.set_xlabel(_label_classes("class of the training sample", len(labels), len(e.shares), "most of the code"))
        ax.set_ylabel("coefficient")

    def _draw_pictures(self, ax: Axes, sample: Array, atoms: Any, color_map: str) -> None:
        """Draw the sample, 4 units high, and the training samples that matter most, two by two."""
        e = self.explanation
        aspect = sample.shape[1] / sample.shape[0]
        _draw_picture(ax, sample, 0.0, 0.0, 4.0, aspect, self.color, color_map)
        ax.text(2.0 * aspect, -0.12, "the sample", ha="center", va="top", fontsize="small")
        height = 1.72
        for i, (picture, atom) in enumerate(zip(atoms[:_N_SHOWN], e.atoms, strict=False)):
            left, bottom = 4.0 * aspect + 0.6 + (i % 2) * (height * aspect + 0.5), 2.28 * (1 - i // 2)
            frame = self.color if atom.label == e.candidate else PALE
            _draw_picture(ax, picture, left, bottom, height, aspect, frame, color_map)
            name = str(atom.label)
            name = name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"
            text = f"{name}: {atom.coefficient:+.2f}".replace("-", "−")
            ax.text(left + height * aspect / 2, bottom - 0.08, text, ha="center", va="top", fontsize="x-small")
        ax.set_xlim(-0.1, 4.0 * aspect + 1.1 + 2 * height * aspect + 0.1)
        ax.set_ylim(-0.75, 4.1)
        ax.set_aspect("equal", anchor="W")
        ax.set_axis_off()


def _reshape_to_pictures(e: ExplanationFacts, image_shape: Any) -> tuple[Array, Array]:
    """Return the sample and the first atoms in the shape of pictures."""
    if e.sample is None or e.pictures is None:
        raise ValueError("image_shape needs features that are pixels and the linear kernel; omit it.")
    shape = tuple(np.atleast_1d(image_shape).tolist())
    if len(shape) != 2 or int(np.prod(shape)) != len(e.sample):
        raise ValueError(
            f"image_shape must be (height, width) with height × width = {len(e.sample)} features, got {image_shape!r}."
        )
    return e.sample.reshape(shape), e.pictures[:_N_SHOWN].reshape(-1, *shape)


def _draw_picture(
    ax: Axes, picture: Array, left: float, bottom: float, height: float, aspect: float, frame: str, color_map: str
) -> None:
    from matplotlib.patches import Rectangle

    extent = (left, left + height * aspect, bottom, bottom + height)
    low, high = (0.0, 1.0) if color_map == "gray" else (None, None)
    ax.imshow(picture, cmap=color_map, interpolation="nearest", extent=extent, aspect="equal", vmin=low, vmax=high)
    ax.add_patch(Rectangle((left, bottom), height * aspect, height, fill=False, edgecolor=frame, linewidth=1.4))


def _set_class_ticks(ax: Axes, labels: Sequence[Any]) -> None:
    texts = [text if len(text) <= 16 else f"{text[:7]}…{text[-8:]}" for text in map(str, labels)]
    long = max(map(len, texts)) * len(texts) > 30
    ax.set_xticks(
        range(len(texts)), texts, rotation=45 if long else 0, ha="right" if long else "center", fontsize="small"
    )
    if long:
        for tick in ax.get_xticklabels():
            tick.set_rotation_mode("anchor")
    ax.tick_params(axis="x", length=0)


def _label_classes(name: str, shown: int, all_: int, which: str) -> str:
    return name if shown == all_ else f"{name} ({shown} of {all_}: {which})"


def _write_note(ax: Axes, text: str) -> None:
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, fontsize="small")
    ax.set_axis_off()
