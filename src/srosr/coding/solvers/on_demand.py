r"""Large dictionaries: the homotopy on the few atoms that matter, without an N x N Gram matrix.

A sample is coded over a small set of atoms whose Gram block is computed for it; then the optimality
conditions of *all* atoms are checked, for a whole batch of samples as matrix products, and the atoms that violate them
join the set. When none does, the code is optimal for the whole dictionary.

The conditions are those of the path, :math:`|Y^Tr| \le \lambda`, except where epsilon is out of the set's reach. Then
first the atoms join that can lessen the residual, :math:`Y^Tr \ne 0`, and when there is none those that violate the
dual constraint :math:`|Y^Tv| \le 1` of basis pursuit.
"""

from __future__ import annotations

import numpy as np

from ..._support.array_types import Array, IntArray
from ...dictionary.dictionary import widen
from ..batch import Batch
from ..problems import Problem
from ..products import Products
from ..sparse_rows import SparseRows, to_sparse_rows
from ..spectrum import Spectrum
from .fallback import solve_safely
from .homotopy import follow_paths
from .solver import Solution, Solver
from .workspace import LOST, OUT_OF_STEPS, REACHED, STOPPED, UNREACHABLE

# Atoms a sample starts with, and at least gets at a time (else half as many as it has).
_FIRST = 96
_MORE = 128
_ROUNDS = 200
# Gram blocks of at most this many atoms are kept from round to round.
_KEPT = 512
# Violations of the optimality conditions below this are none.
_SLACK = 1e-9
_ROUNDING = 4e-15


class _Sample:
    """One sample: its set of atoms, and its code, dual point and steps so far."""

    def __init__(self, cross: Array, squared_norm: float) -> None:
        n = len(cross)
        count = min(_FIRST, n)
        self.cross, self.squared_norm = cross, squared_norm
        self.atoms: IntArray = np.sort(np.argpartition(np.abs(cross), n - count)[n - count :])
        self.gram: Array | None = None
        self.code: Array = np.zeros(0)
        self.dual: Array = np.zeros(0)
        self.steps = 0
        self.ending = STOPPED

    def follow_path(self, products: Products, problem: Problem, max_steps: int, stop: np.ndarray) -> None:
        """Follow the path over this sample's atoms."""
        gram, corr = self._get_gram(products), self.cross[self.atoms]
        at_residual, goal = problem.require_path_end()
        paths = follow_paths(
            gram,
            corr[None],
            np.array([self.squared_norm]),
            is_bpdn=at_residual,
            goal=goal,
            max_steps=max_steps - self.steps,
            stop=stop,
        )
        self.steps += int(paths.steps[0])
        self.ending = int(paths.endings[0])
        self.code, self.dual = paths.codes.toarray()[0], paths.duals.toarray()[0]

    def solve_safely(self, products: Products, problem: Problem, atoms: Array | None) -> None:
        """Solve the problem over this sample's atoms by the fallback solver."""
        rows = None if atoms is None else widen(atoms[self.atoms])
        gram, corr = self._get_gram(products), self.cross[self.atoms]
        spectrum = Spectrum(np.diagonal(gram), gram=gram, atoms=rows)
        self.code, image, _ = solve_safely(problem, spectrum, corr, self.squared_norm, by_conic=True)
        self.dual = np.zeros(len(corr)) if image is None else spectrum.find_dual_point(image)
        floor = spectrum.compute_least_squares_residual(corr[None], np.array([self.squared_norm]))[0]
        at_residual, goal = problem.require_path_end()
        self.ending = UNREACHABLE if at_residual and floor >= goal else REACHED

    def _get_gram(self, products: Products) -> Array:
        gram = products.block(self.atoms, self.atoms) if self.gram is None else self.gram
        self.gram = gram if len(gram) <= _KEPT else None
        return gram

    def measure_violation(
        self, residual_corr: Array, image: Array, lengths: Array, largest_square: float, goal: float
    ) -> Array:
        """Return how much every atom violates the optimality conditions; ``goal`` is the level, NaN to read it off."""
        size = np.abs(residual_corr)
        rounding = _ROUNDING * (np.abs(self.cross).max() + largest_square * np.abs(self.code).sum())
        if self.ending == UNREACHABLE:
            excess = size / lengths - _SLACK * np.sqrt(self.squared_norm) - rounding / lengths
            excess[self.atoms] = 0.0
            if (excess <= 0.0).all():
                blur = _ROUNDING * largest_square * np.abs(self.dual).sum()
                excess = np.abs(image) - (1.0 + _SLACK + blur)
        else:
            level = size[self.atoms].max() if np.isnan(goal) else goal
            excess = size - (level * (1.0 + _SLACK) + rounding)
        excess[self.atoms] = 0.0
        return np.maximum(excess, 0.0)

    def admit(self, products: Products, excess: Array) -> None:
        """Add the atoms that violate most to the set."""
        new = np.flatnonzero(excess)
        most = max(_MORE, len(self.atoms) // 2)
        if len(new) > most:
            new = new[np.argpartition(excess[new], len(new) - most)[-most:]]
        if self.gram is not None and len(self.atoms) + len(new) <= _KEPT:
            cross = products.block(self.atoms, new)
            self.gram = np.block([[self.gram, cross], [cross.T, products.block(new, new)]])
        else:
            self.gram = None
        self.atoms = np.concatenate([self.atoms, new])


def follow_on_demand(
    products: Products,
    cross: Array,
    squared_norms: Array,
    problem: Problem,
    max_steps: int,
    stop: np.ndarray,
    *,
    atoms: Array | None = None,
    careful: bool = False,
) -> tuple[SparseRows, SparseRows, IntArray, IntArray]:
    """Code samples without a Gram matrix; return codes, dual points, steps, and endings of :mod:`.workspace`.

    With ``careful`` the sets are solved by the fallback solver instead of the homotopy, in the coordinates of ``atoms``
    if the kernel is linear.
    """
    at_residual, goal = problem.require_path_end()
    samples = [_Sample(c, float(q)) for c, q in zip(cross, squared_norms, strict=True)]
    left = samples
    for _ in range(_ROUNDS):
        for sample in left:
            if stop[0]:
                sample.ending = STOPPED
            elif careful:
                sample.solve_safely(products, problem, atoms)
            else:
                sample.follow_path(products, problem, max_steps, stop)
                if sample.ending == LOST:
                    sample.solve_safely(products, problem, atoms)
        left = [s for s in left if s.ending in (REACHED, UNREACHABLE)]
        if not left:
            break
        residual_corr = np.stack([s.cross for s in left]) - products.times(
            _spread_vectors(left, "code", cross.shape[1])
        )
        unreachable = any(s.ending == UNREACHABLE for s in left)
        images = products.times(_spread_vectors(left, "dual", cross.shape[1])) if unreachable else residual_corr
        remaining = []
        for sample, correlations, image in zip(left, residual_corr, images, strict=True):
            excess = sample.measure_violation(
                correlations, image, products.lengths, products.largest_square, np.nan if at_residual else goal
            )
            if excess.any():
                sample.admit(products, excess)
                remaining.append(sample)
            else:
                sample.gram = None
        left = remaining
        if not left:
            break
    for sample in left:
        sample.ending = LOST
    return (
        _spread_vectors(samples, "code", cross.shape[1]),
        _spread_vectors(samples, "dual", cross.shape[1]),
        np.array([s.steps for s in samples], np.int64),
        np.array([s.ending for s in samples], np.int64),
    )


def _spread_vectors(samples: list[_Sample], name: str, n: int) -> SparseRows:
    """Return a vector of each sample, spread over all atoms."""
    dense = np.zeros((len(samples), n))
    for row, sample in zip(dense, samples, strict=True):
        values = getattr(sample, name)
        row[sample.atoms[: len(values)]] = values
    return to_sparse_rows(dense)


class OnDemandPath(Solver):
    """The homotopy path without a Gram matrix."""

    @classmethod
    def supports(cls, batch: Batch) -> bool:
        """Return whether a path solves the problem."""
        return batch.problem.path_end is not None

    @classmethod
    def cost(cls, batch: Batch) -> float:
        """Count Gram blocks and products with all atoms for each sample: more than any path with a Gram matrix."""
        entries = batch.n_atoms * (batch.dictionary.n_features + batch.n_atoms)
        return 100.0 * batch.n_samples * entries + batch.n_atoms**3

    def solve(self, cross: Array, squared_norms: Array) -> Solution:
        """Follow the paths of a chunk of samples."""
        batch = self.batch
        codes, duals, steps, endings = follow_on_demand(
            batch.products, cross, squared_norms, batch.problem, batch.max_steps, batch.stop
        )
        return Solution(codes, steps, endings == OUT_OF_STEPS, duals)
