"""The formulas of this room on Torch tensors, in double precision: what the modules of NumPy's arrays do, many classes
at a time.

Nothing here writes into a tensor that it was given: on the CPU it may share its memory with an array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import AnyArray, IntArray
from .._support.torch_loader import torch
from .gaussian import GaussianClasses
from .ridge import solve_positive
from .standardized import MOST, StandardizedColumns

if TYPE_CHECKING:
    from torch import Tensor

# Numbers in a block of several classes.
_BLOCK = 2**26


def send(values: Any, device: torch.device) -> Tensor:
    """Return an array as a tensor on a device."""
    values = np.asarray(values)
    return torch.as_tensor(values if values.flags.writeable else values.copy(), device=device)


def fetch(values: Tensor) -> AnyArray:
    """Return a tensor as an array of its own."""
    return values.contiguous().cpu().numpy()


# -- distances and similarities ----------------------------------------------------------------------------


def find_squared_distances(products: Tensor, squares: Tensor, atom_squares: Tensor) -> Tensor:
    """Return squared distances, see :func:`.ridge.compute_squared_distances`."""
    return (products * -2.0).add_(squares[:, None]).add_(atom_squares).clamp_(min=0.0)


def find_similarities(squared_distances: Tensor, width: float) -> Tensor:
    """Return similarities that decay with distance, see :func:`.ridge.compare_at`."""
    return (squared_distances * (-1.0 / width)).exp_()


def find_width(gram: Tensor, squares: Tensor) -> float:
    """Return the mean squared distance between atoms, see :class:`.ridge.DecayingSimilarity`."""
    n = len(squares)
    mean = float(2.0 * (n * squares.sum() - gram.sum())) / max(n * (n - 1), 1)
    return mean if mean > 0 else 1.0


def sharpen(similarities: Tensor) -> Tensor:
    """Return the similarities of half the width, their fourth power."""
    return similarities.square().square_()


def sum_squares(rows: Tensor) -> Tensor:
    """Return the squared length of each row."""
    return (rows * rows).sum(dim=-1)


class TensorColumns:
    """The standardized columns of :mod:`.standardized`."""

    def __init__(self, columns: StandardizedColumns, device: torch.device) -> None:
        self.varies = None if columns.varies.all() else send(np.flatnonzero(columns.varies), device)
        self.units, self.center, self.scale = (send(a, device) for a in (columns.units, columns.center, columns.scale))

    def transform(self, rows: Tensor) -> Tensor:
        """Return rows in standard deviations, cut off; without constant columns."""
        picked = rows if self.varies is None else rows[:, self.varies]
        return (picked / self.units).sub_(self.center).div_(self.scale).clamp_(-MOST, MOST)


# -- positive definite matrices ----------------------------------------------------------------------------


def invert_positive_tensor(matrix: Tensor) -> Tensor:
    """Return the inverse of a positive definite matrix."""
    return torch.cholesky_inverse(torch.linalg.cholesky(matrix))


def solve_positive_tensor(matrix: Tensor, right: Tensor) -> Tensor:
    """Solve a positive definite system; one that is not, by rounding, as :func:`.ridge.solve_positive` does."""
    factor, info = torch.linalg.cholesky_ex(matrix)
    if int(info) != 0:
        return send(solve_positive(fetch(matrix), fetch(right)), matrix.device)
    return torch.cholesky_solve(right, factor)


def whiten_tensor(similarities: Tensor, rank: float) -> Tensor:
    """Return the transform of :func:`.landmarks.whiten`; ``rank`` is the share below which eigenvalues are rounding."""
    values, vectors = torch.linalg.eigh(similarities)
    kept = values > rank * max(float(values[-1]), 0.0)
    return vectors[:, kept] / values[kept].sqrt()


class TensorGaussian:
    """Squared distances to Gaussian classes, see :class:`.gaussian.GaussianClasses`."""

    def __init__(self, inverse: Tensor, scale: float, sizes: Tensor) -> None:
        self.inverse, self.scale, self.sizes = inverse, scale, sizes

    @classmethod
    def fit(cls, totals: Tensor, penalty: float, sizes: IntArray) -> TensorGaussian:
        """Invert the matrix Q."""
        inverse = invert_positive_tensor((0.5 * penalty) * (totals + totals.T))
        return cls(inverse, float(penalty * totals.sum()), send(sizes, totals.device).to(torch.float64))

    @classmethod
    def send(cls, classes: GaussianClasses, device: torch.device) -> TensorGaussian:
        """Put Gaussian classes on a device."""
        sizes = np.asarray(classes.sizes, dtype=np.float64)
        return cls(send(classes.inverse, device), float(classes.scale), send(sizes, device))

    def measure(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return squared distances to the classes and to the background."""
        image = scores @ self.inverse
        squares = (image * scores).sum(dim=1)[:, None] - 2.0 * image
        squares = squares + self.inverse.diagonal() - 1.0 / self.sizes
        background = (scores.sum(dim=1) - 1.0) ** 2 / self.scale - 1.0 / self.sizes.sum()
        return squares, background


# -- classes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassBlock:
    """Classes whose atoms are worked on together, one as a slice or several of similar size with padding."""

    #: Numbers of the classes, (n_classes,).
    numbers: IntArray
    classes: Tensor
    #: The group of the classes, and their places in it.
    group: int
    places: slice
    #: The atoms: a slice of one class; or (n_classes, size) numbers, and which of them are not padding.
    part: slice | None
    index: Tensor
    valid: Tensor | None

    def take(self, values: Tensor, fill: float = 0.0) -> Tensor:
        """Return the columns of the classes, (n_classes, n_rows, size)."""
        if self.part is not None:
            return values[:, self.part][None]
        out = values[:, self.index]
        return (out if self.valid is None else torch.where(self.valid, out, fill)).transpose(0, 1)

    def take_squares(self, values: Tensor) -> Tensor:
        """Return the square blocks of the classes, (n_classes, size, size), with anything in the padding."""
        if self.part is not None:
            return values[self.part, self.part][None]
        return values[self.index[:, :, None], self.index[:, None, :]]


class ClassBlocks:
    """The classes of atoms that are sorted by class, in groups of similar size.

    Parameters
    ----------
    starts : ndarray of int (n_classes,)
        Number of the first atom of each class.
    n_atoms : int
    device : torch.device
    """

    def __init__(self, starts: IntArray, n_atoms: int, device: torch.device) -> None:
        self.n_classes, self.device = len(starts), device
        self.starts, self.sizes = starts, np.diff(np.append(starts, n_atoms))
        shelf = np.ceil(np.log2(self.sizes)).astype(np.int64)
        #: Numbers of the classes of each group, and the size of its largest class.
        self.groups = [np.flatnonzero(shelf == value) for value in np.unique(shelf)]
        self.widths = [int(self.sizes[group].max()) for group in self.groups]

    def split(self, n_rows: int, *, single: bool = False) -> Iterator[ClassBlock]:
        """Yield blocks of classes, of not too many numbers for so many rows; of one class each if ``single``."""
        for number, (group, width) in enumerate(zip(self.groups, self.widths, strict=True)):
            count = 1 if single else max(1, _BLOCK // max(n_rows * width, width**2))
            for first in range(0, len(group), count):
                yield self._make_block(number, slice(first, min(first + count, len(group))), width)

    def _make_block(self, number: int, places: slice, width: int) -> ClassBlock:
        numbers = self.groups[number][places]
        starts, sizes = self.starts[numbers], self.sizes[numbers]
        part = None
        if len(numbers) == 1:
            width, part = int(sizes[0]), slice(int(starts[0]), int(starts[0] + sizes[0]))
        valid = np.arange(width) < sizes[:, None]
        index = np.where(valid, starts[:, None] + np.arange(width), 0)
        padding = None if valid.all() else send(valid, self.device)
        classes = send(numbers, self.device)
        return ClassBlock(numbers, classes, number, places, part, send(index, self.device), padding)

    def stack(self, matrices: list[Tensor]) -> list[Tensor]:
        """Return square matrices, one a class, as one tensor a group, with zeros in the padding."""
        out = []
        for group, width in zip(self.groups, self.widths, strict=True):
            stacked = torch.zeros((len(group), width, width), dtype=torch.float64, device=self.device)
            for place, k in enumerate(group):
                stacked[place, : self.sizes[k], : self.sizes[k]] = matrices[k]
            out.append(stacked)
        return out

    def find_least(self, values: Tensor) -> Tensor:
        """Return the least value of each row and class, (n_rows, n_classes)."""
        out = torch.empty((len(values), self.n_classes), dtype=values.dtype, device=values.device)
        for block in self.split(len(values)):
            out[:, block.classes] = block.take(values, torch.inf).amin(dim=2).T
        return out


def find_nearest(squared_distances: Tensor, squares: Tensor, blocks: ClassBlocks, rounding: float) -> Tensor:
    """Return distances to the nearest atom of each class, see :mod:`.neighbors`; 0 where they are rounding."""
    least = blocks.find_least(squared_distances)
    return torch.where(least > rounding * squares[:, None], least, 0.0).sqrt()
