"""Exact class scores fitted on a device, and those of atoms that are held out.

What is fitted is a :class:`ClassScorer` like any other, of NumPy's arrays: models are saved, and predict on the CPU, as
if they had been fitted there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._support.torch_loader import torch
from ..coding.device import name_failures
from ..dictionary.device_dictionary import DeviceDictionary, put_on_device
from ..dictionary.dictionary import Dictionary
from .class_scores import NEED_FEATURES, ClassScorer, HoldOut
from .device_scores import DeviceScores
from .device_subspaces import DeviceHoldOut, SubspaceFit, make_membership, send_hold_outs
from .gaussian import GAUSSIAN_PENALTY, GaussianClasses
from .landmarks import Regression
from .neighbors import DOUBLE_ROUNDING
from .ridge import COLLABORATIVE_PENALTY, DecayingSimilarity
from .standardized import StandardizedColumns
from .subspaces import Subspaces
from .tensor_formulas import (
    ClassBlocks,
    TensorColumns,
    TensorGaussian,
    fetch,
    find_nearest,
    find_similarities,
    find_squared_distances,
    find_width,
    sharpen,
    solve_positive_tensor,
    sum_squares,
)

if TYPE_CHECKING:
    from torch import Tensor


def fit_class_scorer(
    dictionary: Dictionary, kinds: Sequence[str], hold_outs: Sequence[HoldOut], device: torch.device
) -> ClassScorer:
    """Return the :class:`ClassScorer` of a dictionary, with the scores of atoms that are held out."""
    with name_failures(device, f"the class scores of {dictionary.n_atoms} atoms"):
        return _ExactFit(put_on_device(dictionary, device), dictionary, kinds, hold_outs).make()


class _ExactFit:
    """The fit of a :class:`ClassScorer`, kind after kind."""

    def __init__(
        self, on_device: DeviceDictionary, dictionary: Dictionary, kinds: Sequence[str], hold_outs: Sequence[HoldOut]
    ) -> None:
        self.dictionary, self.host, self.kinds = on_device, dictionary, tuple(kinds)
        self.device = on_device.device
        self.held = send_hold_outs(hold_outs, self.device)
        self.scores = [DeviceScores() for _ in hold_outs]
        self.blocks = ClassBlocks(on_device.starts, on_device.n_atoms, self.device)
        self.membership = make_membership(on_device.class_of, len(on_device.starts))
        #: Attributes of the scorer.
        self.fitted: dict[str, Any] = {}

    def make(self) -> ClassScorer:
        """Return the scorer."""
        if set(self.kinds) & {"collaborative", "local", "gaussian", "nearest", "subspace"}:
            self._fit_by_kernel()
        if set(self.kinds) & set(NEED_FEATURES):
            self._fit_by_features()
        scores = [part.fetch() for part in self.scores]
        return ClassScorer.restore(self.host, self.kinds, scores, self.fitted)

    def _fit_by_kernel(self) -> None:
        gram, kinds = self.dictionary.gram, self.kinds
        squares = gram.diagonal().clone()
        width = find_width(gram, squares)
        self.fitted |= {"squares": fetch(squares), "similarity": DecayingSimilarity.restore(fetch(squares), width)}

        def compare() -> Tensor:
            return find_similarities(find_squared_distances(gram, squares, squares), width)

        if "nearest" in kinds:
            self._hold_out_nearest("nearest", gram, squares)
        if "collaborative" in kinds:
            self._regress("collaborative", compare())
        if "local" in kinds:
            self._regress("local", sharpen(compare()))
        if "gaussian" in kinds:
            self._fit_gaussian(gram, squares)
        if "subspace" in kinds:
            subspaces = SubspaceFit(self.dictionary, self.blocks, [False] * self.blocks.n_classes)
            factors = [fetch(factor) for factor in subspaces.factors]
            self.fitted["subspaces"] = Subspaces.restore(self.host, factors)
            for out, held in zip(self.scores, self.held, strict=True):
                out.by_kind["subspace"] = -subspaces.measure_without(held)

    def _fit_gaussian(self, gram: Tensor, squares: Tensor) -> None:
        unit = float(squares.mean()) or 1.0
        sizes = self.blocks.sizes
        regression, ridge = self._fit_ridge(gram / unit, GAUSSIAN_PENALTY)
        self.fitted |= {
            "unit": unit,
            "linear": regression,
            "gaussian": GaussianClasses(regression.totals, GAUSSIAN_PENALTY, sizes),
        }
        for out, held in zip(self.scores, self.held, strict=True):
            scores, totals = ridge.score(held)
            present = held.present
            left = sizes - np.bincount(self.host.class_of[held.source.removed], minlength=len(sizes))
            classes = TensorGaussian.fit(totals[present][:, present], GAUSSIAN_PENALTY, left[held.source.present])
            out.add_gaussian(classes, scores[held.places][:, present])

    def _fit_by_features(self) -> None:
        rows = self.host.rows
        if rows is None:
            raise ValueError('standardized columns need features, which kernel="precomputed" does not have.')
        columns = StandardizedColumns(rows)
        assert self.dictionary.rows is not None
        scaled = TensorColumns(columns, self.device).transform(self.dictionary.rows)
        squares = sum_squares(scaled)
        self.fitted |= {"columns": columns, "rows": fetch(scaled), "row_squares": fetch(squares)}
        if not self.held and "standardized" not in self.kinds:
            return
        gram = scaled @ scaled.T
        if "standardized_nearest" in self.kinds:
            self._hold_out_nearest("standardized_nearest", gram, squares)
        if "standardized" in self.kinds:
            width = find_width(gram, squares)
            self.fitted["row_similarity"] = DecayingSimilarity.restore(fetch(squares), width)
            distances = find_squared_distances(gram, squares, squares)
            del gram
            self._regress("standardized", find_similarities(distances, width))

    def _regress(self, kind: str, similarities: Tensor) -> None:
        self.fitted[kind], ridge = self._fit_ridge(similarities, COLLABORATIVE_PENALTY)
        for out, held in zip(self.scores, self.held, strict=True):
            out.by_kind[kind] = ridge.score(held)[0][held.places][:, held.present]

    def _fit_ridge(self, similarities: Tensor, penalty: float) -> tuple[Regression, _HeldOutRidge]:
        """Fit a ridge regression; ``similarities``, a tensor of its own, is overwritten."""
        similarities.diagonal().add_(penalty)
        factor = torch.linalg.cholesky(similarities)
        coefficients = torch.cholesky_solve(self.membership, factor)
        totals = self.membership.T @ coefficients
        inverse = torch.cholesky_inverse(factor) if self.held else factor[:0]
        return Regression(fetch(coefficients), fetch(totals)), _HeldOutRidge(
            inverse, self.membership, coefficients, totals
        )

    def _hold_out_nearest(self, kind: str, gram: Tensor, squares: Tensor) -> None:
        for out, held in zip(self.scores, self.held, strict=True):
            own = squares[held.test]
            distances = find_squared_distances(gram[held.test], own, squares)
            distances[:, held.removed] = torch.inf
            nearest = find_nearest(distances, own, self.blocks, DOUBLE_ROUNDING)
            out.by_kind[kind] = -nearest[:, held.present]


class _HeldOutRidge(NamedTuple):
    """Class scores of atoms as if they, and others, were not in the dictionary, see :class:`.ridge.HeldOutRidge`."""

    inverse: Tensor
    membership: Tensor
    coefficients: Tensor
    totals: Tensor

    def score(self, held: DeviceHoldOut) -> tuple[Tensor, Tensor]:
        """Compute the scores of the atoms that are removed, and the totals without them."""
        removed = held.removed
        own = self.coefficients[removed]
        solved = solve_positive_tensor(self.inverse[removed][:, removed], own)
        return self.membership[removed] - solved, self.totals - own.T @ solved
