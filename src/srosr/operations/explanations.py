"""Explanations of decisions as people look at them: rows numbered as in the file, pictures, the figure as a file."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._support.array_types import AnyArray
    from ..classifiers.base import OpenSetClassifier
    from ..inspection.explanation import Explanation

#: Largest number of training pictures in a figure.
MOST_PICTURES = 6


def number_as_in_file(explanation: Explanation, clf: OpenSetClassifier) -> Explanation:
    """Return the explanation with training samples numbered as in their file, if rows of it were left out."""
    if clf.feature_recipe_ is None or clf.feature_recipe_.rows is None:
        return explanation
    rows = clf.feature_recipe_.rows.tolist()
    return replace(explanation, atoms=tuple(replace(atom, row=rows[atom.row]) for atom in explanation.atoms))


def gather_pictures(clf: OpenSetClassifier, explanation: Any, thumbnail: AnyArray) -> tuple[AnyArray, list[AnyArray]]:
    """Return the picture of a sample, and those of the training samples it is reconstructed from, for the figure."""
    recipe = clf.feature_recipe_
    assert recipe is not None and recipe.thumbnails is not None
    atoms = getattr(explanation, "atoms", ())[:MOST_PICTURES]
    return thumbnail / 255.0, [recipe.thumbnails[atom.row] / 255.0 for atom in atoms]


def render_explanation(explanation: Any, pictures: Any, kind: str, image_shape: tuple[int, int] | None = None) -> bytes:
    """Return the figure of an explanation as a file: ``kind`` is "png", "pdf" or "svg".

    ``pictures`` and ``image_shape`` are those of :meth:`srosr.Explanation.plot`.
    """
    from matplotlib import pyplot, rc_context, use

    use("agg")
    content = BytesIO()
    dates: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    with rc_context({"text.parse_math": False, "svg.hashsalt": "explanation"}):  # a class may have dollars in its name
        shape = {} if image_shape is None else {"image_shape": image_shape}
        drawn = explanation.plot(pictures=pictures, **shape)
        figure = getattr(drawn, "figure_", drawn)
        try:
            figure.savefig(content, format=kind, dpi=150, bbox_inches="tight", metadata=dates)
        finally:
            pyplot.close(figure)
    return content.getvalue()
