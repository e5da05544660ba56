"""Repair of codes that are not certified: in better coordinates, or by the fallback solver."""

from __future__ import annotations

import numpy as np

from .._support.array_types import Array, IntArray
from ..dictionary.dictionary import Dictionary
from .batch import Batch
from .certificate import Certificate, measure
from .least_norm import DualPoints
from .problems import BPDN
from .products import OnDemandGram
from .solvers.fallback import solve_safely
from .solvers.forward_path import find_out_of_reach
from .solvers.homotopy import follow_paths
from .solvers.on_demand import follow_on_demand
from .solvers.workspace import OUT_OF_STEPS, UNREACHABLE
from .sparse_rows import SparseRows, place_rows, to_sparse_rows
from .spectrum import Spectrum

# Relative duality gap at which basis pursuit by homotopy counts as solved; else the fallback solver is asked.
_SLACK = 1e-7


class Repair:
    """What is done with codes that are not certified, for problems on the path of Lasso solutions.

    Parameters
    ----------
    batch : Batch
        Of a problem that has a ``path_end``.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch, self.problem = batch, batch.problem
        self.at_residual, self.goal = batch.problem.require_path_end()

    def review(self, certificate: Certificate, cross: Array, squared_norms: Array) -> None:
        """Withdraw the certificate of codes that miss an epsilon within reach.

        Over atoms that a solver takes for dependent, though they are not quite, a code can be stationary to ``tol`` and
        miss epsilon all the same. Whether epsilon is in reach is decided by the rank tolerance of the spectrum.
        """
        if not self.at_residual:
            return
        batch, epsilon = self.batch, self.goal
        doubtful = certificate.infeasible & certificate.holds(batch.tol)
        bound = batch.bound_inverse() if batch.bound_inverse is not None and doubtful.any() else np.inf
        if bound < np.inf:
            # |r|^2 less the square of its part in the span, (Y'r)'H(Y'r), is the squared distance to the span.
            part2 = bound * certificate.violation**2 * squared_norms
            doubtful &= certificate.least_residual**2 - part2 <= epsilon * epsilon
        rows: IntArray = np.flatnonzero(doubtful)
        spectrum = batch.spectrum if len(rows) else None
        if spectrum is not None:
            floor2 = spectrum.compute_least_squares_residual(cross[rows], squared_norms[rows]) ** 2
            clear = floor2 - spectrum.reach_blur * squared_norms[rows] > epsilon * epsilon
            certificate.violation[rows[~clear]] = np.inf

    def certify_in_span(
        self, again: IntArray, codes: SparseRows, old: Certificate, cross: Array, squared_norms: Array,
        points: DualPoints,
    ) -> tuple[IntArray, Certificate]:  # fmt: skip
        """Certify codes with the same dual point, the residual, in the span's coordinates; return which are left.

        There its image keeps digits that Gram quantities lose if the residual is nearly orthogonal to all atoms.
        """
        tol = self.batch.tol
        close = again[~old.infeasible[again] & (old.violation[again] <= tol)]
        spectrum = self.batch.spectrum if self.at_residual and len(close) else None
        if spectrum is None:
            return again, old
        cross, squared_norms, some = cross[close], squared_norms[close], codes.take(close)
        images = spectrum.compute_image(spectrum.compute_residual(some.csr(), cross)[0])
        images /= np.abs(images).max(axis=1, keepdims=True) + np.finfo(np.float64).tiny
        new = self._certify(some, cross, squared_norms, spectrum, images=images)
        better = ~new.infeasible & (new.violation <= tol) & (new.gap < old.gap[close])
        old = old.replace_rows(close[better], new, better)
        points.again[close[better]] = True
        return again[~old.holds(tol)[again]], old

    def solve_again(
        self, again: IntArray, codes: SparseRows, old: Certificate, cross: Array, squared_norms: Array, steps: IntArray,
        points: DualPoints,
    ) -> tuple[SparseRows, Certificate]:  # fmt: skip
        """Solve samples by the fallback solver and keep the better certified code of each.

        ``steps`` are added to, and ``points`` gets the dual points of the codes that are kept.
        """
        batch, spectrum = self.batch, self.batch.spectrum
        cross, squared_norms = cross[again], squared_norms[again]
        fresh, images = np.zeros(cross.shape), np.zeros(cross.shape)
        unsolved = np.ones(len(again), dtype=bool)
        duals = None
        others: IntArray = np.empty(0, np.int64)
        if self.at_residual and spectrum is not None:
            for i in np.flatnonzero(find_out_of_reach(self.goal, cross, squared_norms, spectrum)):
                limit = batch.max_steps - int(steps[again[i]])
                fresh[i], images[i], taken, unsolved[i] = self._pursue(spectrum, cross[i], limit)
                steps[again[i]] += taken
        rows: IntArray = np.flatnonzero(unsolved)
        if spectrum is None or batch.span_gram(spectrum) is None:
            careful, proposed, taken_by, _ = follow_on_demand(
                batch.products, cross[rows], squared_norms[rows], self.problem, batch.max_steps, batch.stop,
                atoms=batch.dictionary.linear_atoms, careful=True,
            )  # fmt: skip
            fresh[rows] = careful.toarray()
            duals = place_rows(cross.shape, (rows, proposed))
            steps[again[rows]] += taken_by
        else:
            others = self._solve_safely(spectrum, rows, cross, squared_norms, fresh, images)
        new = self._certify(to_sparse_rows(fresh), cross, squared_norms, spectrum, duals, images)
        self.review(new, cross, squared_norms)
        left = others[~new.holds(batch.tol)[others]]
        if len(left) and spectrum is not None:
            new = self._try_conic(spectrum, left, cross, squared_norms, fresh, new)
        better = self._choose(old, again, new, cross, squared_norms, spectrum)
        chosen, kept = again[better], np.setdiff1d(np.arange(codes.shape[0]), again[better])
        points.again[chosen] = True
        points.images.update(zip(chosen.tolist(), images[better], strict=True))
        if duals is not None and points.duals is not None:
            others = np.setdiff1d(np.arange(codes.shape[0]), again)
            points.duals = place_rows(codes.shape, (others, points.duals.take(others)), (again, duals))
        solved = to_sparse_rows(fresh[better])
        return place_rows(codes.shape, (kept, codes.take(kept)), (chosen, solved)), old.replace_rows(
            chosen, new, better
        )

    def _choose(
        self, old: Certificate, again: IntArray, new: Certificate, cross: Array, squared_norms: Array,
        spectrum: Spectrum | None,
    ) -> np.ndarray:  # fmt: skip
        """Return for which samples the new code is better."""
        better = np.maximum(new.gap, new.violation) < np.maximum(old.gap[again], old.violation[again])
        if self.at_residual and spectrum is not None:
            # One code may answer an epsilon in reach, the other one out of reach: the question that was asked counts.
            floor = spectrum.compute_least_squares_residual(cross, squared_norms)
            out_of_reach = floor > self.goal + self.batch.tol * np.sqrt(squared_norms)
            unlike = (new.infeasible != old.infeasible[again]) & np.isfinite(old.gap[again])
            better = np.where(unlike, new.infeasible == out_of_reach, better)
        return better

    def _certify(
        self, codes: SparseRows, cross: Array, squared_norms: Array, spectrum: Spectrum | None,
        duals: SparseRows | None = None, images: Array | None = None,
    ) -> Certificate:  # fmt: skip
        measures = measure(codes, cross, squared_norms, self.batch.products, spectrum)
        return self.problem.certify(measures, self.batch.tol, duals, images)

    def _solve_safely(
        self, spectrum: Spectrum, rows: IntArray, cross: Array, squared_norms: Array, fresh: Array, images: Array,
        *, by_conic: bool = False,
    ) -> IntArray:  # fmt: skip
        """Write codes and images of dual points of some rows; return the rows that another solver could be tried on."""
        others = []
        for i in rows:
            if self.batch.stop[0]:
                break
            fresh[i], image, other = solve_safely(
                self.problem, spectrum, cross[i], float(squared_norms[i]), by_conic=by_conic
            )
            images[i] = 0.0 if image is None else image
            if other:
                others.append(i)
        return np.array(others, dtype=np.int64)

    def _try_conic(
        self, spectrum: Spectrum, rows: IntArray, cross: Array, squared_norms: Array, fresh: Array, old: Certificate
    ) -> Certificate:
        """Solve by Clarabel what the interior point method left uncertified; the better of two codes is kept."""
        other, images = np.zeros(cross.shape), np.zeros(cross.shape)
        self._solve_safely(spectrum, rows, cross, squared_norms, other, images, by_conic=True)
        new = self._certify(
            to_sparse_rows(other[rows]), cross[rows], squared_norms[rows], spectrum, images=images[rows]
        )
        self.review(new, cross[rows], squared_norms[rows])
        better = np.maximum(new.gap, new.violation) < np.maximum(old.gap[rows], old.violation[rows])
        fresh[rows[better]] = other[rows[better]]
        return old.replace_rows(rows[better], new, better)

    def _pursue(self, spectrum: Spectrum, corr: Array, limit: int) -> tuple[Array, Array, int, bool]:
        """Solve basis pursuit in the span's coordinates: return code, image of its dual point, steps, and a failure."""
        batch = self.batch
        target = spectrum.compute_coordinates(corr[None])[0]
        x = np.zeros(len(corr))
        if limit <= 0:
            return x, x, 0, batch.max_iter is None
        gram = batch.span_gram(spectrum)
        seen, length2 = spectrum.lengths * (spectrum.vectors @ target), np.array([float(target @ target)])
        if gram is not None:
            paths = follow_paths(gram, seen[None], length2, is_bpdn=True, goal=0.0, max_steps=limit, stop=batch.stop)
            atoms, x, dual = paths.codes.indices, paths.codes.toarray()[0], paths.duals.data
            steps, ending = int(paths.steps[0]), paths.endings[0]
            image = dual @ gram[atoms]
            if np.abs(image).max(initial=0.0) > 1 + _SLACK:
                x[atoms], image = spectrum.solve_vertex(atoms, np.sign(paths.codes.data), target)
        else:
            products = OnDemandGram(Dictionary(spectrum.vectors * spectrum.lengths[:, None]))
            codes, duals, taken, endings = follow_on_demand(products, seen[None], length2, BPDN(0.0), limit, batch.stop)
            x, steps, ending = codes.toarray()[0], int(taken[0]), endings[0]
            image = products.times(duals)[0]
        size, slack = np.abs(x).sum(), min(_SLACK, 0.1 * batch.tol)
        proved = np.abs(image).max(initial=0.0) <= 1 + slack and image @ x >= (1 - slack) * size
        miss = (spectrum.lengths * x) @ spectrum.vectors - target
        proved = proved and np.abs(miss).max(initial=0.0) <= slack * np.abs(target).max(initial=0.0)
        failed = ending != UNREACHABLE or not proved
        return x, image, steps, failed and not (ending == OUT_OF_STEPS and batch.max_iter is not None)
