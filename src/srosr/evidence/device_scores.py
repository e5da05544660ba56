"""Class scores of new samples on a device: the coefficients of a fitted scorer as tensors, sent there once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from .._support.torch_loader import torch
from ..dictionary.device_dictionary import DeviceQueries
from ..dictionary.dictionary import split_range
from .class_scores import NEED_FEATURES, ClassScorer, ClassScores
from .class_subspaces import ClassSubspaces
from .landmark_scores import LandmarkScorer
from .landmark_view import LandmarkView
from .neighbors import DOUBLE_ROUNDING, SINGLE_ROUNDING
from .sampled_subspaces import SampledSubspaces
from .tensor_formulas import (
    ClassBlocks,
    TensorColumns,
    TensorGaussian,
    fetch,
    find_nearest,
    find_similarities,
    find_squared_distances,
    send,
    sharpen,
    sum_squares,
)

if TYPE_CHECKING:
    from torch import Tensor

# Atoms whose standardized columns are in double precision at a time.
_TILE = 65536

_ON_DEVICE: WeakKeyDictionary[Any, dict[str, DeviceScorer]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class DeviceScores:
    """:class:`ClassScores` as tensors."""

    by_kind: dict[str, Tensor] = field(default_factory=dict)
    background: list[Tensor] = field(default_factory=list)

    def fetch(self) -> ClassScores:
        """Return the scores as arrays."""
        by_kind = {kind: fetch(scores) for kind, scores in self.by_kind.items()}
        return ClassScores(by_kind, [fetch(part) for part in self.background])

    def add_gaussian(self, gaussian: TensorGaussian, scores: Tensor) -> None:
        """Add ``gaussian`` from ridge scores."""
        distances, background = gaussian.measure(scores)
        self.by_kind["gaussian"] = -distances
        self.background.append(background)


def put_scorer_on_device(scorer: ClassScorer | LandmarkScorer, device: torch.device) -> DeviceScorer:
    """Return a fitted scorer on a device, the same one as before if it is there already."""
    here = _ON_DEVICE.setdefault(scorer, {})
    if str(device) not in here:
        kind = DeviceClassScorer if isinstance(scorer, ClassScorer) else DeviceLandmarkScorer
        here[str(device)] = kind(scorer, device)  # type: ignore[arg-type]
    return here[str(device)]


class DeviceScorer:
    """Scores samples by all kinds but ``residual``, on a device. It does not keep the scorer itself alive."""

    def score(self, queries: DeviceQueries) -> DeviceScores:
        """Compute the class scores of new samples."""
        raise NotImplementedError


class DeviceClassScorer(DeviceScorer):
    """A :class:`ClassScorer` on a device."""

    def __init__(self, scorer: ClassScorer, device: torch.device) -> None:
        self.kinds = scorer.kinds
        self.blocks = ClassBlocks(scorer.starts, len(scorer.class_of), device)
        #: The coefficients of each regression.
        self.coefficients: dict[str, Tensor] = {}
        for kind in ("collaborative", "local", "standardized"):
            if kind in self.kinds:
                self.coefficients[kind] = send(getattr(scorer, kind).coefficients, device)
        if set(self.kinds) & {"collaborative", "local", "gaussian", "nearest", "subspace"}:
            self.squares, self.width = send(scorer.squares, device), scorer.similarity.width
        if "gaussian" in self.kinds:
            self.coefficients["gaussian"] = send(scorer.linear.coefficients / scorer.unit, device)
            self.gaussian = TensorGaussian.send(scorer.gaussian, device)
        if "subspace" in self.kinds:
            factors = [_invert_factor(send(factor, device)) for factor in scorer.subspaces.factors]
            self.factors = self.blocks.stack(factors)
        if set(self.kinds) & set(NEED_FEATURES):
            self.columns = TensorColumns(scorer.columns, device)
            self.rows, self.row_squares = send(scorer.rows, device), send(scorer.row_squares, device)
        if "standardized" in self.kinds:
            self.row_width = scorer.row_similarity.width

    def score(self, queries: DeviceQueries) -> DeviceScores:
        """Compute the class scores of new samples; a ValueError says that they have no features."""
        out = DeviceScores()
        self._score_by_kernel(queries, out)
        if set(self.kinds) & set(NEED_FEATURES):
            if queries.rows is None:
                raise ValueError(
                    "X holds similarities alone, and this model also compares features in standardized columns: pass "
                    "the samples themselves."
                )
            rows = self.columns.transform(queries.rows)
            squares = sum_squares(rows)
            distances = find_squared_distances(rows @ self.rows.T, squares, self.row_squares)
            if "standardized_nearest" in self.kinds:
                nearest = find_nearest(distances, squares, self.blocks, DOUBLE_ROUNDING)
                out.by_kind["standardized_nearest"] = -nearest
            if "standardized" in self.kinds:
                similar = find_similarities(distances, self.row_width)
                out.by_kind["standardized"] = similar @ self.coefficients["standardized"]
        return out

    def _score_by_kernel(self, queries: DeviceQueries, out: DeviceScores) -> None:
        kinds, by_kind, squares = self.kinds, out.by_kind, queries.squared_norms
        if set(kinds) & {"collaborative", "local", "nearest"}:
            distances = find_squared_distances(queries.cross, squares, self.squares)
            if "nearest" in kinds:
                by_kind["nearest"] = -find_nearest(distances, squares, self.blocks, DOUBLE_ROUNDING)
            if set(kinds) & {"collaborative", "local"}:
                similar = find_similarities(distances, self.width)
                if "collaborative" in kinds:
                    by_kind["collaborative"] = similar @ self.coefficients["collaborative"]
                if "local" in kinds:
                    by_kind["local"] = sharpen(similar) @ self.coefficients["local"]
        if "gaussian" in kinds:
            out.add_gaussian(self.gaussian, queries.cross @ self.coefficients["gaussian"])
        if "subspace" in kinds:
            inside = torch.empty((len(queries), self.blocks.n_classes), dtype=torch.float64, device=squares.device)
            for block in self.blocks.split(len(queries)):
                features = block.take(queries.cross)
                inside[:, block.classes] = _square_images(features, self.factors[block.group][block.places]).T
            by_kind["subspace"] = -(squares[:, None] - inside).clamp_(min=0.0).sqrt_()


class DeviceLandmarkView:
    """A :class:`LandmarkView` on a device."""

    def __init__(self, view: LandmarkView, device: torch.device) -> None:
        self.landmarks, self.squares = send(view.landmarks, device), send(view.squares, device)
        self.width, self.unit, self.row_width = view.width, view.unit, view.row_width
        self.has_features = view.has_features
        if view.columns is not None:
            self.columns = TensorColumns(view.columns, device)
            self.rows, self.row_squares = send(view.rows, device), send(view.row_squares, device)

    def pick(self, queries: DeviceQueries) -> DeviceQueries:
        """Return the similarities to the landmarks of samples that were compared with all atoms."""
        return DeviceQueries(queries.cross[:, self.landmarks], queries.squared_norms, queries.rows)

    def compare(self, kind: str, queries: DeviceQueries) -> Tensor:
        """Return the similarities of a kind of class score to the landmarks; features where there are no landmarks."""
        if kind == "gaussian":
            if not self.has_features:
                return queries.cross / self.unit
            assert queries.rows is not None
            return queries.rows / float(np.sqrt(self.unit))
        if kind == "standardized":
            assert queries.rows is not None
            rows = self.columns.transform(queries.rows)
            distances = find_squared_distances(rows @ self.rows.T, sum_squares(rows), self.row_squares)
            return find_similarities(distances, self.row_width)
        distances = find_squared_distances(queries.cross, queries.squared_norms, self.squares)
        similar = find_similarities(distances, self.width)
        return sharpen(similar) if kind == "local" else similar


class DeviceLandmarkScorer(DeviceScorer):
    """A :class:`LandmarkScorer` on a device."""

    def __init__(self, scorer: LandmarkScorer, device: torch.device) -> None:
        self.kinds, self.needs_features = scorer.kinds, scorer._needs_features()
        self.view = DeviceLandmarkView(scorer.view, device)
        starts = np.array([part.start for part in scorer.dictionary.class_slices])
        self.blocks = ClassBlocks(starts, scorer.dictionary.n_atoms, device)
        self.squares = send(scorer.squares, device)
        self.coefficients = {kind: send(one.coefficients, device) for kind, one in scorer.regressions.items()}
        if "gaussian" in self.kinds:
            self.gaussian = TensorGaussian.send(scorer.gaussian, device)
        self.subspaces = None
        if scorer.subspaces is not None:
            self.subspaces = DeviceDistances(scorer.subspaces, self.blocks)
        if "standardized_nearest" in self.kinds:
            self.rows, self.row_squares = send(scorer.rows, device), send(scorer.row_squares, device)

    def score(self, queries: DeviceQueries) -> DeviceScores:
        """Compute the class scores of new samples; a ValueError says that they have no features."""
        if queries.rows is None and self.needs_features:
            raise ValueError(
                "X holds similarities alone, and this model also compares features: pass the samples themselves."
            )
        out, squares = DeviceScores(), queries.squared_norms
        near = self.view.pick(queries)
        for kind, coefficients in self.coefficients.items():
            scores = self.view.compare(kind, near) @ coefficients
            if kind == "gaussian":
                out.add_gaussian(self.gaussian, scores)
            else:
                out.by_kind[kind] = scores
        if self.subspaces is not None:
            out.by_kind["subspace"] = -self.subspaces.measure(queries)
        if "nearest" in self.kinds:
            distances = find_squared_distances(queries.cross, squares, self.squares)
            out.by_kind["nearest"] = -find_nearest(distances, squares, self.blocks, DOUBLE_ROUNDING)
        if "standardized_nearest" in self.kinds:
            assert queries.rows is not None
            rounded = self.view.columns.transform(queries.rows).to(self.rows.dtype).to(torch.float64)
            nearest = find_nearest_single(rounded, self.rows, self.row_squares, self.blocks)
            out.by_kind["standardized_nearest"] = -nearest
        return out


def find_nearest_single(
    rounded: Tensor, rows: Tensor, row_squares: Tensor, blocks: ClassBlocks, without: Tensor | None = None
) -> Tensor:
    """Return distances to the nearest of rows in single precision of each class, without some of them.

    Products are those of the stored numbers in double precision. ``rounded`` are samples rounded to single precision.
    """
    squares = sum_squares(rounded)
    products = torch.empty((len(rounded), len(rows)), dtype=torch.float64, device=rows.device)
    for tile in split_range(0, len(rows), _TILE):
        products[:, tile] = rounded @ rows[tile].to(torch.float64).T
    distances = find_squared_distances(products, squares, row_squares)
    if without is not None:
        distances[:, without] = torch.inf
    return find_nearest(distances, squares, blocks, SINGLE_ROUNDING)


class DeviceDistances:
    """Distances of new samples to the subspaces of a :class:`LandmarkScorer` on a device."""

    def __init__(self, subspaces: ClassSubspaces | SampledSubspaces, blocks: ClassBlocks) -> None:
        device, self.blocks = blocks.device, blocks
        self.is_sampled = isinstance(subspaces, SampledSubspaces)
        #: How each class is described: by its atoms (False), features (True), or landmarks and their transform.
        self.maps: list[Any] = []
        if isinstance(subspaces, SampledSubspaces):
            self.penalty, self.maps = 0.0, list(subspaces._by_features)
            self.matrices = [send(form, device) for form in subspaces.forms]
        else:
            self.penalty = subspaces.penalty
            for how in subspaces._maps:
                self.maps.append((send(how[0], device), send(how[1], device)) if isinstance(how, tuple) else how)
            self.matrices = [_invert_factor(send(factor, device)) for factor in subspaces._factors]
        self.stacked = None if any(how is not False for how in self.maps) else blocks.stack(self.matrices)

    def measure(self, queries: DeviceQueries) -> Tensor:
        """Compute the distances, (n_samples, n_classes)."""
        out = torch.empty((len(queries), self.blocks.n_classes), dtype=torch.float64, device=self.blocks.device)
        for block in self.blocks.split(len(queries), single=self.stacked is None):
            how = False if self.stacked is not None else self.maps[int(block.numbers[0])]
            if how is False:
                features = block.take(queries.cross)
            elif how is True:
                assert queries.rows is not None
                features = queries.rows[None]
            else:
                features = (queries.cross[:, how[0]] @ how[1])[None]
            matrices = (
                self.matrices[int(block.numbers[0])][None]
                if self.stacked is None
                else self.stacked[block.group][block.places]
            )
            out[:, block.classes] = self._find_outside(how, features, matrices, queries.squared_norms).T
        return out.clamp_(min=0.0).sqrt_()

    def _find_outside(self, how: Any, features: Tensor, matrices: Tensor, squares: Tensor) -> Tensor:
        """Return the squared distances of samples to some classes, (n_classes, n_samples)."""
        if self.is_sampled:
            return squares - ((features @ _fit_to(matrices, features)) * features).sum(dim=2)
        inside = _square_images(features, matrices)
        return squares - inside if how is False else squares - sum_squares(features) + self.penalty * inside


def _fit_to(matrices: Tensor, features: Tensor) -> Tensor:
    """Return matrices without the padding that features do not have."""
    return matrices[:, : features.shape[2], : features.shape[2]]


def _invert_factor(factor: Tensor) -> Tensor:
    """Return the inverse of a lower triangular matrix: products cost less than solutions, again and again."""
    eye = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
    return torch.linalg.solve_triangular(factor, eye, upper=False)


def _square_images(features: Tensor, inverses: Tensor) -> Tensor:
    """Return the squared lengths of features, (n_classes, n_samples, size), times inverse factors."""
    return sum_squares(features @ _fit_to(inverses, features).mT)
