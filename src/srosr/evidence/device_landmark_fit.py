"""Class scores with landmarks fitted on a device, and those of atoms that are held out.

What is fitted is a :class:`LandmarkScorer` like any other, of NumPy's arrays: models are saved, and predict on the CPU,
as if they had been fitted there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import AnyArray
from .._support.torch_loader import torch
from ..coding.device import name_failures
from ..dictionary.device_dictionary import DeviceDictionary, count_memory, put_on_device
from ..dictionary.dictionary import Dictionary, split_range, widen
from .class_scores import HoldOut
from .class_subspaces import ClassSubspaces
from .device_scores import DeviceLandmarkView, DeviceScores, find_nearest_single
from .device_subspaces import DeviceHoldOut, SubspaceFit, find_maps, make_membership, map_tests, send_hold_outs
from .gaussian import GAUSSIAN_PENALTY
from .landmark_scores import REGRESSIONS, LandmarkScorer, prepare_landmarks
from .landmark_view import LandmarkView
from .landmarks import RANK, Regression, RegressionSamples
from .neighbors import DOUBLE_ROUNDING
from .ridge import COLLABORATIVE_PENALTY
from .sampled_subspaces import SampledSubspaces
from .subspaces import SUBSPACE_PENALTY
from .tensor_formulas import (
    ClassBlocks,
    TensorGaussian,
    fetch,
    find_nearest,
    find_squared_distances,
    invert_positive_tensor,
    send,
    solve_positive_tensor,
    whiten_tensor,
)

if TYPE_CHECKING:
    from torch import Tensor

# Samples whose features are computed at a time, and the share of the memory that those of all may take.
_ROWS = 16384
_SHARE = 0.125
# Arrays of tests by atoms, or by landmarks, that are in memory at the same time.
_ARRAYS = 6


def fit_landmark_scorer(
    dictionary: Dictionary,
    kinds: Sequence[str],
    hold_outs: Sequence[HoldOut] = (),
    *,
    device: torch.device,
    samples: RegressionSamples | None = None,
    like: LandmarkView | None = None,
) -> LandmarkScorer:
    """Return what :meth:`LandmarkScorer.fit` does."""
    with name_failures(device, f"the class scores of {dictionary.n_atoms} atoms"):
        return _LandmarkFit(put_on_device(dictionary, device), dictionary, kinds, hold_outs, samples, like).make()


class _LandmarkFit:
    """The fit of a :class:`LandmarkScorer`, kind after kind."""

    def __init__(
        self,
        on_device: DeviceDictionary,
        dictionary: Dictionary,
        kinds: Sequence[str],
        hold_outs: Sequence[HoldOut],
        samples: RegressionSamples | None,
        like: LandmarkView | None,
    ) -> None:
        self.dictionary, self.host, self.kinds, self.samples = on_device, dictionary, tuple(kinds), samples
        self.device = on_device.device
        self.view, regressed, self.sizes = prepare_landmarks(dictionary, self.kinds, samples, like)
        self.rows, self.class_of, weights = regressed
        self.weights = None if weights is None else send(weights, self.device)
        self.held = send_hold_outs(hold_outs, self.device)
        self.scores = [DeviceScores() for _ in hold_outs]
        self.blocks = ClassBlocks(on_device.starts, on_device.n_atoms, self.device)

    def make(self) -> LandmarkScorer:
        """Return the scorer."""
        view = DeviceLandmarkView(self.view, self.device)
        landmarks = DeviceDictionary(self.view.dictionary, self.device)
        fitted = {kind: self._regress(kind, view, landmarks) for kind in REGRESSIONS if kind in self.kinds}
        subspaces = self._fit_subspaces() if "subspace" in self.kinds else None
        scorer = LandmarkScorer(self.host, self.kinds, self.view, fitted, self.sizes, subspaces)
        self._hold_out_nearest(scorer)
        scorer.held_out = [part.fetch() for part in self.scores]
        return scorer

    def _regress(self, kind: str, view: DeviceLandmarkView, landmarks: DeviceDictionary) -> Regression:
        transform = None
        if kind != "gaussian" or not view.has_features:
            assert landmarks.rows is not None
            similar = view.compare(kind, landmarks.query(landmarks.rows))
            transform = whiten_tensor(0.5 * (similar + similar.T), RANK)

        def measure(which: slice | Tensor) -> Tensor:
            similar = view.compare(kind, landmarks.query(self._take_rows(which)))
            return similar if transform is None else similar @ transform

        penalty = GAUSSIAN_PENALTY if kind == "gaussian" else COLLABORATIVE_PENALTY
        sums = _RegressionSums(measure, send(self.class_of, self.device), len(self.sizes), penalty, self.weights)
        for out, held in zip(self.scores, self.held, strict=True):
            self._score_held_out(kind, sums, held, out)
        coefficients, totals = sums.solve(sums.squares, sums.by_class), np.empty((0, 0))
        if kind == "gaussian":
            sizes = np.bincount(self.class_of, None if self.weights is None else fetch(self.weights), len(self.sizes))
            totals = fetch(sums.compute_totals(coefficients, sums.by_class, sizes))
        return Regression(fetch(coefficients if transform is None else transform @ coefficients), totals)

    def _take_rows(self, which: slice | Tensor) -> Tensor:
        if self.samples is None:
            assert self.dictionary.rows is not None
            return self.dictionary.rows[which]
        picked = which if isinstance(which, slice) else fetch(which)
        return send(widen(self.rows[picked]), self.device)

    def _score_held_out(self, kind: str, sums: _RegressionSums, held: DeviceHoldOut, out: DeviceScores) -> None:
        scores, coefficients, by_class = sums.score_held_out(held)
        if kind != "gaussian":
            out.by_kind[kind] = scores
            return
        left = self.sizes - np.bincount(self.class_of[held.source.removed], minlength=len(self.sizes))
        left = left[held.source.present]
        totals = sums.compute_totals(coefficients, by_class, left)
        out.add_gaussian(TensorGaussian.fit(totals, GAUSSIAN_PENALTY, left), scores)

    def _fit_subspaces(self) -> ClassSubspaces | SampledSubspaces:
        if self.samples is not None:
            return SampledSubspaces(self.host, self._fit_forms())
        maps = find_maps(self.dictionary, self.blocks)
        subspaces = SubspaceFit(self.dictionary, self.blocks, maps)
        for out, held in zip(self.scores, self.held, strict=True):
            out.by_kind["subspace"] = -subspaces.measure_without(held)
        on_host = [(fetch(how[0]), fetch(how[1])) if isinstance(how, tuple) else how for how in maps]
        return ClassSubspaces.restore(self.host, on_host, [fetch(factor) for factor in subspaces.factors])

    def _fit_forms(self) -> list[AnyArray]:
        """Return the matrices of :class:`SampledSubspaces`."""
        penalty = SUBSPACE_PENALTY * (float(self.dictionary.squared_norms.mean()) or 1.0)
        forms = []
        for k, part in enumerate(self.host.class_slices):
            atoms = self.dictionary.subset(np.arange(part.start, part.stop))
            by_features = atoms.is_linear and part.stop - part.start > self.host.n_features
            transform = None if by_features else whiten_tensor(atoms.gram, RANK)
            first, last = np.searchsorted(self.class_of, [k, k + 1])
            system: Any = 0.0
            for block in split_range(int(first), int(last), _ROWS):
                queries = atoms.query(self._take_rows(block))
                inside = queries.rows if transform is None else queries.cross @ transform
                assert inside is not None
                weighed = inside if self.weights is None else inside * self.weights[block][:, None]
                system = system + inside.T @ weighed
            system.diagonal().add_(penalty)
            form = -penalty * invert_positive_tensor(system)
            form.diagonal().add_(1.0)
            forms.append(fetch(form if transform is None else transform @ form @ transform.T))
        return forms

    def _hold_out_nearest(self, scorer: LandmarkScorer) -> None:
        bytes_a_test = 8 * _ARRAYS * self.dictionary.n_atoms
        if "nearest" in self.kinds:
            for out, held in zip(self.scores, self.held, strict=True):
                out.by_kind["nearest"] = -map_tests(partial(self._find_nearest, held), held.test, bytes_a_test)
        if "standardized_nearest" not in self.kinds or not self.held:
            return
        rows, row_squares = send(scorer.rows, self.device), send(scorer.row_squares, self.device)

        def find_nearest_row(held: DeviceHoldOut, test: Tensor) -> Tensor:
            tests = rows[test].to(torch.float64)
            return find_nearest_single(tests, rows, row_squares, self.blocks, held.removed)[:, held.present]

        for out, held in zip(self.scores, self.held, strict=True):
            nearest = map_tests(partial(find_nearest_row, held), held.test, bytes_a_test)
            out.by_kind["standardized_nearest"] = -nearest

    def _find_nearest(self, held: DeviceHoldOut, test: Tensor) -> Tensor:
        """Return distances of some tests of a hold-out to the nearest atom of each class that is present."""
        dictionary, squares = self.dictionary, self.dictionary.squared_norms
        products = dictionary.gram[test] if dictionary.uses_gram else dictionary.block(test, slice(None))
        distances = find_squared_distances(products, squares[test], squares)
        distances[:, held.removed] = torch.inf
        return find_nearest(distances, squares[test], self.blocks, DOUBLE_ROUNDING)[:, held.present]


class _RegressionSums:
    """The sums of :class:`.landmarks.LandmarkRegression` over all samples; what is held out is taken off."""

    def __init__(
        self,
        measure: Callable[[slice | Tensor], Tensor],
        class_of: Tensor,
        n_classes: int,
        penalty: float,
        weights: Tensor | None,
    ) -> None:
        self.measure, self.class_of, self.penalty, self.weights = measure, class_of, penalty, weights
        self.n_classes = n_classes
        self.features: Tensor | None = None
        kept: list[Tensor] | None = []
        squares: Any = 0.0
        by_class: Any = 0.0
        for block in split_range(0, len(class_of), _ROWS):
            features = measure(block)
            more = self._sum_up(features, block)
            squares, by_class = squares + more[0], by_class + more[1]
            if kept is not None and 8 * len(class_of) * features.shape[1] <= _SHARE * count_memory(class_of.device):
                kept.append(features)
            else:
                kept = None
        self.squares, self.by_class = squares, by_class
        if kept is not None:
            self.features = torch.cat(kept)

    def _sum_up(self, features: Tensor, which: slice | Tensor) -> tuple[Tensor, Tensor]:
        weighed = features if self.weights is None else features * self.weights[which][:, None]
        return features.T @ weighed, make_membership(self.class_of[which], self.n_classes).T @ weighed

    def _get(self, which: Tensor) -> Tensor:
        return self.measure(which) if self.features is None else self.features[which]

    def score_held_out(self, held: DeviceHoldOut) -> tuple[Tensor, Tensor, Tensor]:
        """Return class scores of the tests without what is removed, and the coefficients and sums they come from."""
        system, by_class = self.squares, self.by_class
        for block in split_range(0, len(held.removed), _ROWS):
            which = held.removed[block]
            squares, sums = self._sum_up(self._get(which), which)
            system, by_class = system - squares, by_class - sums
        by_class = by_class[held.present]
        coefficients = self.solve(system, by_class)
        bytes_a_test = 8 * _ARRAYS * len(system)
        scores = map_tests(lambda test: self._get(test) @ coefficients, held.test, bytes_a_test)
        return scores, coefficients, by_class

    def solve(self, system: Tensor, by_class: Tensor) -> Tensor:
        """Return the coefficients."""
        out = system.clone()
        out.diagonal().add_(self.penalty)
        return solve_positive_tensor(out, by_class.T)

    def compute_totals(self, coefficients: Tensor, by_class: Tensor, sizes: AnyArray) -> Tensor:
        """Return the totals of :mod:`.ridge` from the sums of the classes and their sizes."""
        counts = send(np.asarray(sizes, dtype=np.float64), by_class.device)
        return (torch.diag(counts) - by_class @ coefficients) / self.penalty
