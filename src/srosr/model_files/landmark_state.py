"""The state of class scores with landmarks, which are not computed again when a model is read."""

from __future__ import annotations

import numpy as np

from .._support.array_types import AnyArray
from .._support.threads import one_blas_thread
from ..dictionary.dictionary import Dictionary
from ..evidence.class_subspaces import ClassSubspaces
from ..evidence.landmark_scores import LandmarkScorer
from ..evidence.landmark_view import LandmarkView
from ..evidence.landmarks import Regression
from ..evidence.sampled_subspaces import SampledSubspaces
from ..evidence.standardized import StandardizedColumns
from .classifier_state import LARGEST, check

_COLUMNS = ("varies", "units", "center", "scale")


def get_arrays(scorer: LandmarkScorer) -> dict[str, AnyArray]:
    """Return landmarks, scales and coefficients."""
    view = scorer.view
    out: dict[str, AnyArray] = {
        "landmarks/atoms": np.asarray(view.landmarks, dtype=np.int64),
        "landmarks/scales": np.array([view.width, view.unit, view.row_width]),
        "landmarks/sizes": np.asarray(scorer.sizes, dtype=np.int64),
    }
    for kind, regression in scorer.regressions.items():
        out[f"landmarks/{kind}/coefficients"] = regression.coefficients
        if kind == "gaussian":
            out[f"landmarks/{kind}/totals"] = regression.totals
    if isinstance(scorer.subspaces, SampledSubspaces):
        out["landmarks/subspaces"] = np.concatenate([form.ravel() for form in scorer.subspaces.forms])
    if view.columns is not None:
        out |= {f"landmarks/columns/{name}": np.asarray(getattr(view.columns, name)) for name in _COLUMNS}
    return out


def restore(arrays: dict[str, AnyArray], dictionary: Dictionary, kinds: tuple[str, ...]) -> LandmarkScorer:
    """Rebuild the class scores over a dictionary."""
    check(dictionary.rows is not None, "landmarks")
    atoms, scales, sizes = (arrays[f"landmarks/{name}"] for name in ("atoms", "scales", "sizes"))
    n_classes = len(dictionary.class_slices)
    check(atoms.ndim == 1 and atoms.dtype == np.int64 and 0 < len(atoms) <= dictionary.n_atoms, "landmarks")
    check(bool(atoms[0] >= 0 and atoms[-1] < dictionary.n_atoms and (np.diff(atoms) > 0).all()), "landmarks")
    check(scales.shape == (3,) and bool(((scales > 0) & (scales < LARGEST)).all()), "scales of landmarks")
    check(sizes.shape == (n_classes,) and sizes.dtype == np.int64 and bool((sizes > 0).all()), "sizes of classes")
    columns = None
    if "landmarks/columns/varies" in arrays:
        columns = _restore_columns(arrays, dictionary.n_features)
    with one_blas_thread():
        width, unit, row_width = map(float, scales)
        view = LandmarkView(dictionary, atoms, width, unit, columns, row_width)
        regressions = {}
        for kind in kinds:
            if f"landmarks/{kind}/coefficients" in arrays:
                regressions[kind] = _restore_regression(kind, arrays, view, n_classes)
        wanted = {"collaborative", "local", "gaussian", "standardized"} & set(kinds)
        check(wanted == set(regressions), "class scores")
        check(columns is not None or not {"standardized", "standardized_nearest"} & set(kinds), "class scores")
        subspaces = _restore_subspaces(arrays, dictionary) if "subspace" in kinds else None
        return LandmarkScorer(dictionary, kinds, view, regressions, sizes, subspaces)


def _restore_subspaces(arrays: dict[str, AnyArray], dictionary: Dictionary) -> ClassSubspaces | SampledSubspaces:
    flat = arrays.get("landmarks/subspaces")
    if flat is None:
        subspaces = ClassSubspaces(dictionary)
        subspaces.forget_sums()
        return subspaces
    check(flat.ndim == 1 and flat.dtype == np.float64 and bool((np.abs(flat) < LARGEST).all()), "subspaces")
    return SampledSubspaces.restore(dictionary, flat)


def _restore_regression(kind: str, arrays: dict[str, AnyArray], view: LandmarkView, n_classes: int) -> Regression:
    is_gaussian = kind == "gaussian"
    coefficients = arrays[f"landmarks/{kind}/coefficients"]
    totals = arrays[f"landmarks/{kind}/totals"] if is_gaussian else np.empty((0, 0))  # only Gaussian classes use them
    n = view.dictionary.n_features if is_gaussian and view.has_features else len(view.landmarks)
    check(coefficients.shape == (n, n_classes), "coefficients")
    check(not is_gaussian or totals.shape == (n_classes, n_classes), "coefficients")
    for numbers in (coefficients, totals):
        check(numbers.dtype == np.float64 and bool((np.abs(numbers) < LARGEST).all()), "coefficients")
    return Regression(coefficients, totals)


def _restore_columns(arrays: dict[str, AnyArray], n_features: int) -> StandardizedColumns:
    varies, units, center, scale = (arrays[f"landmarks/columns/{name}"] for name in _COLUMNS)
    check(varies.shape == (n_features,) and varies.dtype == np.bool_, "columns")
    for numbers in (units, center, scale):
        check(numbers.shape == (int(varies.sum()),) and numbers.dtype == np.float64, "columns")
        check(bool((np.abs(numbers) < LARGEST).all()), "columns")
    check(bool((units > 0).all() and (scale > 0).all()), "columns")
    return StandardizedColumns.restore(varies, units, center, scale)
