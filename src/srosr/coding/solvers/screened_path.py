r"""Candidates first: the homotopy on a few atoms of a large dictionary, all the others screened in single precision.

A sample starts with the atoms most similar to it, its *candidates*. Their Gram block is computed, the path is followed
over them, and the residual is compared with all atoms: those that violate the optimality conditions,
:math:`|a_j^Tr| > \lambda`, join the candidates, and those that are far from doing so leave. When none violates them,
the code is optimal for the whole dictionary.

The comparison with all atoms is a product of matrices in single precision, at half the cost. An inner product of m
terms is then off by at most :math:`(m + 4)\,2^{-24}` times the lengths; atoms within that of the level are compared
again in double precision. So no atom is overlooked, and the certificate, which is computed apart from this and in
double precision, finds nothing new.

Candidates that stay far below the level may leave, since they do not change the code over the others: each round lowers
the objective, so that no set of candidates comes twice.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..._support.array_types import AnyArray, Array, IntArray
from ..._support.compiled import loop
from ...dictionary.dictionary import split_range, widen
from ..batch import Batch
from ..sparse_rows import SparseRows
from .homotopy import follow_paths
from .solver import Solution, Solver
from .workspace import LOST, OUT_OF_STEPS, REACHED, STOPPED

# Candidates a sample starts with, and those it gets at a time: at least as many, or half as many again as are active.
_FIRST = 128
_MORE, _MORE_PER_ACTIVE = 112, 1.0
# Candidates whose correlation is below this share of the level leave.
_FAR = 0.8
_ROUNDS = 200
# Violations of the optimality conditions below this are none, relative to the level, and rounding of an inner product.
_SLACK = 1e-9
_ROUNDING = 4e-15
# Atoms that are screened at a time, and room for those found among them.
_TILE = 2048
_ROOM = 8192
# Samples that are solved together: products with few are slow. A matrix of them and all atoms takes at most so many
# bytes.
_CHUNK, _LEAST_CHUNK = 256, 32
_CHUNK_BYTES = 96 * 2**20
# Where single precision blurs correlations by more than this share of the level, double precision is used.
_BLUR = 0.1
_SINGLE = 2.0**-24


class _Sample:
    """One sample: its candidates with their Gram block, and its code so far."""

    def __init__(self, cross: Array, squared_norm: float, atoms: AnyArray) -> None:
        n = len(cross)
        count = min(_FIRST, n)
        self.cross, self.squared_norm = cross, squared_norm
        self.candidates: IntArray = np.sort(np.argpartition(np.abs(cross), n - count)[n - count :])
        rows = widen(atoms[self.candidates])
        self.gram: Array = rows @ rows.T
        self.active: IntArray = np.empty(0, np.int64)  # places among the candidates
        self.values: Array = np.empty(0)
        self.steps, self.ending = 0, STOPPED

    def follow_path(self, goal: float, max_steps: int, stop: np.ndarray) -> None:
        """Follow the path over the candidates."""
        paths = follow_paths(
            self.gram, self.cross[self.candidates][None], np.array([self.squared_norm]), is_bpdn=False, goal=goal,
            max_steps=max_steps - self.steps, stop=stop,
        )  # fmt: skip
        self.steps += int(paths.steps[0])
        self.ending = int(paths.endings[0])
        self.active, self.values = paths.codes.indices, paths.codes.data

    @property
    def support(self) -> IntArray:
        """The active atoms."""
        return self.candidates[self.active]

    def exchange(self, new: IntArray, sizes: Array, goal: float, atoms: AnyArray) -> None:
        """Let candidates far from the level go, and admit the atoms that violate the conditions most."""
        most = max(_MORE, int(_MORE_PER_ACTIVE * len(self.active)))
        if len(new) > most:
            new = new[np.argpartition(sizes, len(new) - most)[-most:]]
        corr = self.cross[self.candidates] - self.values @ self.gram[self.active]
        near = np.abs(corr) >= _FAR * goal
        near[self.active] = True
        stay: IntArray = np.flatnonzero(near)
        old_rows, new_rows = widen(atoms[self.candidates[stay]]), widen(atoms[new])
        k = len(stay)
        gram = np.empty((k + len(new), k + len(new)))
        gram[:k, :k] = self.gram.take(stay, axis=0).take(stay, axis=1)
        np.matmul(old_rows, new_rows.T, out=gram[:k, k:])
        gram[k:, :k] = gram[:k, k:].T
        gram[k:, k:] = new_rows @ new_rows.T
        self.candidates, self.gram = np.concatenate([self.candidates[stay], new]), gram


class ScreenedPath(Solver):
    """The homotopy to a level over candidates, without a Gram matrix of all atoms; for the linear kernel."""

    @classmethod
    def supports(cls, batch: Batch) -> bool:
        """Return whether the path ends at a level, over atoms that are rows of features."""
        end = batch.problem.path_end
        return end is not None and not end.at_residual and end.goal > 0 and batch.dictionary.linear_atoms is not None

    @classmethod
    def cost(cls, batch: Batch) -> float:
        """Count the products with all atoms and a Gram block: more than any path with a Gram matrix."""
        entries = batch.n_atoms * (batch.dictionary.n_features + batch.n_atoms)
        return 20.0 * batch.n_samples * entries + batch.n_atoms**3

    @classmethod
    def count_chunk(cls, batch: Batch) -> tuple[int, int]:
        """Return as many as make the products fast, within some memory, and two chunks for two threads."""
        chunk = min(_CHUNK, max(_LEAST_CHUNK, _CHUNK_BYTES // (8 * batch.n_atoms)))
        return chunk, 2 * chunk

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self.goal = batch.problem.require_path_end().goal
        atoms = batch.dictionary.linear_atoms
        assert atoms is not None
        self.atoms: AnyArray = atoms
        self.longest = float(np.sqrt(batch.dictionary.squared_norms.max()))
        self._single: AnyArray = batch.keep("single", lambda: atoms.astype(np.float32, copy=False))

    def solve(self, cross: Array, squared_norms: Array) -> Solution:
        """Follow the paths of a chunk of samples."""
        batch, goal = self.batch, self.goal
        samples = [_Sample(c, float(q), self.atoms) for c, q in zip(cross, squared_norms, strict=True)]
        left: IntArray = np.arange(len(samples))
        for _ in range(_ROUNDS):
            for i in left:
                if batch.stop[0]:
                    samples[i].ending = STOPPED
                else:
                    samples[i].follow_path(goal, batch.max_steps, batch.stop)
            left = np.array([i for i in left if samples[i].ending == REACHED], np.int64)
            if len(left) == 0:
                break
            images = np.stack([samples[i].values @ widen(self.atoms[samples[i].support]) for i in left])
            sums = np.array([np.abs(samples[i].values).sum() for i in left])
            found = self._screen(cross[left], images, sums, [samples[i].candidates for i in left])
            remaining = []
            for i, (new, sizes) in zip(left.tolist(), found, strict=True):
                if len(new):
                    samples[i].exchange(new, sizes, goal, self.atoms)
                    remaining.append(i)
            left = np.array(remaining, np.int64)
            if len(left) == 0:
                break
        for i in left:
            samples[i].ending = LOST
        endings = np.array([sample.ending for sample in samples])
        steps = np.array([sample.steps for sample in samples], np.int64)
        return Solution(_collect(samples, cross.shape[1]), steps, endings == OUT_OF_STEPS)

    def _screen(
        self, cross: Array, images: Array, sums: Array, candidates: list[IntArray]
    ) -> list[tuple[IntArray, Array]]:
        """Return the atoms whose correlation with a residual is above the level, and these, for each sample.

        ``images`` are the reconstructions of the samples, ``sums`` the sums of their absolute coefficients. Candidates
        are left out: active ones are at the level, and it takes double precision to see on which side.
        """
        # Lengths of the reconstructions, and what rounding may do to a correlation in double and in single precision.
        lengths = np.sqrt(np.einsum("ij,ij->i", images, images))
        largest = np.maximum(cross.max(axis=1), -cross.min(axis=1))
        level = self.goal * (1.0 + _SLACK) + _ROUNDING * (largest + self.longest**2 * sums)
        blur = (images.shape[1] + 4) * _SINGLE * lengths * self.longest
        is_single = bool((blur <= _BLUR * self.goal).all())
        atoms = self._single if is_single else self.atoms
        factors = images.astype(np.float32) if is_single else images
        least = level - blur if is_single else level
        found: list[tuple[IntArray, IntArray, Array]] = []
        for tile in split_range(0, cross.shape[1], _TILE):
            products = factors @ (atoms[tile] if is_single else widen(atoms[tile])).T
            found.append(_gather_above(cross[:, tile], products, least, tile.start))
        row, column, size = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.argsort(row, kind="stable")
        row, column, size = row[order], column[order], size[order]
        new = _find_others(row, column, candidates, cross.shape[1])
        row, column, size = row[new], column[new], size[new]
        if is_single:
            unsure: IntArray = np.flatnonzero(size <= (level + blur)[row])
            exact = np.einsum("ij,ij->i", images[row[unsure]], widen(self.atoms[column[unsure]]))
            size[unsure] = np.abs(cross[row[unsure], column[unsure]] - exact)
            kept = size > level[row]
            row, column, size = row[kept], column[kept], size[kept]
        edges = np.searchsorted(row, np.arange(len(cross) + 1))
        return [(column[a:b], size[a:b]) for a, b in pairwise(edges)]


def _find_others(row: IntArray, column: IntArray, candidates: list[IntArray], n: int) -> IntArray:
    """Return the places where ``column`` is no candidate of the sample ``row``; rows are sorted."""
    edges = np.searchsorted(row, np.arange(len(candidates) + 1))
    is_candidate = np.zeros(n, dtype=bool)
    places = []
    for own, (a, b) in zip(candidates, pairwise(edges), strict=True):
        is_candidate[own] = True
        places.append(a + np.flatnonzero(~is_candidate[column[a:b]]))
        is_candidate[own] = False
    return np.concatenate(places)


def _gather_above(cross: Array, products: AnyArray, least: Array, first: int) -> tuple[IntArray, IntArray, Array]:
    """Return rows, columns (from ``first`` on) and sizes of the differences above ``least``."""
    found, sizes = np.empty((2, _ROOM), np.int64), np.empty(_ROOM)
    count = _find_above(cross, products, least, found, sizes)
    if count > _ROOM:
        found, sizes = np.empty((2, count), np.int64), np.empty(count)
        _find_above(cross, products, least, found, sizes)
    return found[0, :count], found[1, :count] + first, sizes[:count]


@loop()
def _find_above(cross, products, least, found, sizes):
    """Write places and sizes of differences above ``least`` as far as there is room; returns how many there are."""
    count = 0
    for r in range(cross.shape[0]):
        bound = least[r]
        for j in range(cross.shape[1]):
            size = abs(cross[r, j] - products[r, j])
            if size > bound:
                if count < sizes.shape[0]:
                    found[0, count], found[1, count], sizes[count] = r, j, size
                count += 1
    return count


def _collect(samples: list[_Sample], n: int) -> SparseRows:
    """Return the codes over all atoms."""
    orders = [np.argsort(sample.support) for sample in samples]
    indices = [sample.support[order] for sample, order in zip(samples, orders, strict=True)]
    values = [sample.values[order] for sample, order in zip(samples, orders, strict=True)]
    indptr = np.concatenate([[0], np.cumsum([len(part) for part in indices])])
    return SparseRows(indptr, np.concatenate(indices), np.concatenate(values), (len(samples), n))
