"""The coder: what a batch shares, and the way of a chunk of samples from similarities to certified codes."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.threads import Job, ThreadPool
from ..dictionary import Dictionary, Queries
from .certificate import Certificate, certify
from .problems import BPDN, OMP, Lasso, Problem, Ridge, path_end
from .products import OnDemandGram, StoredGram
from .solvers.fallback import solve_safely
from .solvers.homotopy import Paths, follow_paths
from .solvers.least_squares import RidgeSolver, inverse_gram, solve_least_squares
from .solvers.omp import pursue_batch, pursue_on_demand
from .solvers.on_demand import follow_on_demand
from .solvers.reverse_homotopy import follow_paths_back
from .solvers.workspace import DOUBTFUL, LOST, OUT_OF_STEPS, UNREACHABLE
from .sparse_rows import Rows, placed, rows_of
from .spectrum import Spectrum

# Largest Gram matrix that is computed, in bytes; above it columns are computed on demand.
_GRAM_BYTES = 2**30
# BPDN starts from least squares where the least-squares residual exceeds this share of epsilon (measured: the two
# ends cost the same there), and gives up that end where more than this share of the atoms is inactive.
_NEAR_LEAST_SQUARES = 0.78
_STEPS_AN_ATOM, _PATH_STEPS_AN_ATOM = 40, 3
_MOST_INACTIVE = 0.6
# The inverse of the Gram matrix is worth its cost up to this many atoms, or for enough samples.
_CHEAP_INVERSE = 1024
# Over dependent atoms the reach of epsilon is decided before coding where epsilon is below this share of a sample's
# length. The span, which that takes, is computed from a Gram matrix of at most this many atoms, or from features with
# at most this many multiplications.
_SMALL_EPSILON = 0.02
_CHEAP_SPECTRUM = 4096
_CHEAP_SVD = 4 * 10**10
# Squared epsilon, relative to a sample's squared length, that is lost in the rounding of a squared residual.
_ZERO = 1e-15
# The level, relative to the first, at which it is decided whether a path can reach a larger epsilon at all.
_DOUBT = 1e-4
# Relative duality gap at which basis pursuit by homotopy counts as solved; else the safe solver is asked.
_SLACK = 1e-7


@dataclass(frozen=True)
class Part:
    """Codes of one chunk."""

    codes: Rows
    certificate: Certificate
    steps: IntArray


# Codes, steps, which ran out of steps, and dual points where the solver has them.
_Solution: TypeAlias = tuple[Rows, IntArray, np.ndarray, Rows | None]


class Coder:
    """What the chunks of a batch share: the Gram matrix, factorizations, limits and the stop flag.

    Parameters
    ----------
    dictionary : Dictionary
    problem : Problem
    tol : float
    max_iter : int or None
        The user's limit, which is final; None is a generous one of ours.
    n_samples : int
        Of the batch, to tell what pays.
    workers : ThreadPool
        For the Gram matrix and its factor; :meth:`wait` for them before :meth:`encode`.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        problem: Problem,
        tol: float,
        max_iter: int | None,
        n_samples: int,
        workers: ThreadPool,
    ) -> None:
        self.dictionary, self.problem, self.tol, self.max_iter = dictionary, problem, tol, max_iter
        self.stop = workers.stop
        n = dictionary.n_atoms
        self.max_steps = int(max_iter) if max_iter is not None else _STEPS_AN_ATOM * n + 1000
        # Over dependent atoms a path to a small epsilon can lose its way; the fallback solver is then faster.
        self.path_steps = int(max_iter) if max_iter is not None else _PATH_STEPS_AN_ATOM * n + 1000
        self.lock = Lock()
        self.gram: Array | None = None
        self.inverse: Array | None = None
        self.slack = 0.0
        self.ridge: RidgeSolver | None = None
        self.products: Any = None  # Products, once the Gram matrix is there
        self.filling: list[Job] = []
        if dictionary.has_gram:
            self.gram = np.ascontiguousarray(dictionary.gram)
        elif _gram_pays(dictionary, n_samples):
            self.gram, fill, tiles = dictionary._gram_work()
            self.filling = [workers.submit(fill, tile) for tile in tiles]
        self.factoring: Job | None = None
        if isinstance(problem, (BPDN, Ridge)):
            self._wait_for_gram()
            self.factoring = workers.submit(self._factorize, n_samples)

    def wait(self) -> None:
        """Wait for the Gram matrix and its factor, which are still being computed when the coder is there."""
        self._wait_for_gram()
        if self.factoring is not None:
            self.factoring.result()

    def _wait_for_gram(self) -> None:
        if self.products is not None:
            return
        for task in self.filling:
            task.result()
        if self.filling:
            self.dictionary._gram = self.gram
        self.products = OnDemandGram(self.dictionary) if self.gram is None else StoredGram(self.gram)

    def _factorize(self, n_samples: int) -> None:
        dictionary, problem, n = self.dictionary, self.problem, self.dictionary.n_atoms
        if isinstance(problem, BPDN) and self.gram is not None:
            self.inverse = _shared_inverse(dictionary, n_samples)
            if self.inverse is not None:  # N times a bound on the norm of the inverse for unit atoms
                self.slack = n * float(np.diagonal(self.inverse) @ np.diagonal(self.gram))
        if isinstance(problem, Ridge):
            atoms = dictionary.linear_atoms if self.gram is None else None
            if self.gram is None and atoms is None:
                raise ValueError(
                    f"Ridge over {n} atoms with a non-linear kernel needs their Gram matrix "
                    f"({8 * n * n / 2**30:.0f} GiB); call dictionary.gram first if memory allows, or use Lasso."
                )
            self.ridge = RidgeSolver(problem.alpha, gram=self.gram, atoms=atoms)

    def encode(self, queries: Queries, chunk: slice) -> Part:
        """Solve, certify, and hand what does not hold to the safe solver."""
        cross, squared_norms = queries.cross[chunk], queries.squared_norms[chunk]
        # What is clearly out of epsilon's reach over dependent atoms has a better solver in _repair.
        beyond = self._beyond(cross, squared_norms)
        if not beyond.any():
            codes, steps, out_of_steps, witness = self._solve(cross, squared_norms)
        else:
            rows = np.flatnonzero(~beyond)
            steps, out_of_steps = np.zeros(len(cross), np.int64), np.zeros(len(cross), dtype=bool)
            codes, steps[rows], out_of_steps[rows], witness = self._solve(cross[rows], squared_norms[rows])
            codes = placed(cross.shape, (rows, codes))
            witness = None if witness is None else placed(cross.shape, (rows, witness))
        certificate = certify(self.problem, codes, cross, squared_norms, self.products, self.tol, witness)
        self._question_infeasible(certificate, cross, squared_norms)
        certificate.gap[beyond] = np.inf
        again = np.flatnonzero(~certificate.holds(self.tol) | beyond)
        if self.max_iter is not None:
            again = again[~out_of_steps[again]]
        if len(again) and isinstance(self.problem, BPDN):
            again, certificate = self._prove(again, codes, certificate, cross, squared_norms)
        if len(again) and self.stop[0] == 0 and isinstance(self.problem, (BPDN, Lasso)):
            codes, certificate = self._repair(again, codes, certificate, cross, squared_norms, steps)
        return Part(codes, certificate, steps)

    # -- solving -----------------------------------------------------------------------------------------

    def _solve(self, cross: Array, squared_norms: Array) -> _Solution:
        """The fast solver of the problem at hand."""
        problem, gram = self.problem, self.gram
        n_samples = len(cross)
        never = np.zeros(n_samples, dtype=bool)
        if self.ridge is not None:
            return rows_of(self.ridge.solve(cross)), np.ones(n_samples, np.int64), never, None
        if isinstance(problem, OMP):
            if gram is not None:
                indptr, indices, data, chosen = pursue_batch(gram, cross, squared_norms, problem.n_nonzero, self.stop)
                return Rows(indptr, indices, data, cross.shape), chosen, never, None
            codes = pursue_on_demand(self.products, cross, squared_norms, problem.n_nonzero, self.stop)
            return codes, codes.counts, never, None
        if gram is None:
            codes, witness, steps, endings = follow_on_demand(
                self.products, cross, squared_norms, problem, self.max_steps, self.stop
            )
            return codes, steps, endings == OUT_OF_STEPS, witness
        if isinstance(problem, BPDN) and self.inverse is not None:
            return self._solve_bpdn(problem.epsilon, cross, squared_norms)
        return self._follow(cross, squared_norms)

    def _follow(self, cross: Array, squared_norms: Array) -> _Solution:
        """Follow paths from the front; one so low that epsilon is likely out of reach is decided in the span."""
        is_bpdn, goal = path_end(self.problem)
        doubt = _DOUBT if is_bpdn and self.inverse is None and not self._asked(squared_norms).all() else 0.0

        def follow(some: Array, norms: Array, doubt: float) -> Paths:
            assert self.gram is not None
            most = self.path_steps if is_bpdn else self.max_steps
            return follow_paths(
                self.gram, some, norms, is_bpdn=is_bpdn, goal=goal, max_steps=most, stop=self.stop, doubt=doubt
            )

        codes, witness, steps, endings = follow(cross, squared_norms, doubt)
        doubtful = np.flatnonzero(endings == DOUBTFUL)
        spectrum = self._spectrum() if len(doubtful) else None
        if spectrum is not None:
            doubtful = doubtful[~_out_of_reach(goal, cross[doubtful], squared_norms[doubtful], spectrum)]
        if len(doubtful):
            others = np.setdiff1d(np.arange(len(cross)), doubtful)
            some, duals, steps[doubtful], endings[doubtful] = follow(cross[doubtful], squared_norms[doubtful], 0.0)
            codes = placed(cross.shape, (others, codes.take(others)), (doubtful, some))
            witness = placed(cross.shape, (others, witness.take(others)), (doubtful, duals))
        return codes, steps, endings == OUT_OF_STEPS, witness if is_bpdn else None

    def _solve_bpdn(self, epsilon: float, cross: Array, squared_norms: Array) -> _Solution:
        """Independent atoms: out of reach is least squares, nearly so starts there, the rest starts at the front."""
        gram, inverse = self.gram, self.inverse
        assert gram is not None and inverse is not None
        n_samples, n = cross.shape
        fit = cross @ inverse
        floor = np.sqrt(np.maximum(squared_norms - np.einsum("ij,ij->i", cross, fit), 0.0))
        near = (floor > _NEAR_LEAST_SQUARES * epsilon) & (squared_norms > epsilon * epsilon)
        if not near.any():
            return self._follow(cross, squared_norms)
        steps = np.ones(n_samples, np.int64)
        out_of_steps = np.zeros(n_samples, dtype=bool)
        beyond, short = np.flatnonzero(near & (floor >= epsilon)), np.flatnonzero(near & (floor < epsilon))
        order = np.concatenate([beyond, short])
        fit = solve_least_squares(gram, inverse, cross[order], fit[order])
        dual = np.sign(fit) @ inverse
        backwards = slice(len(beyond), None)
        kept = np.ones(len(order), dtype=bool)
        if len(short):
            fit[backwards], steps[short], endings = follow_paths_back(
                gram,
                inverse,
                cross[short],
                squared_norms[short],
                fit[backwards],
                dual[backwards],
                epsilon,
                int(_MOST_INACTIVE * n),
                self.max_steps,
                self.stop,
            )
            out_of_steps[short] = endings == OUT_OF_STEPS
            dual[backwards] = 0.0
            kept[backwards] = endings != LOST
        done, codes, witness = order[kept], rows_of(fit[kept]), rows_of(dual[kept])
        front = np.concatenate([np.flatnonzero(~near), order[~kept]])
        if len(front) == 0:
            return placed(cross.shape, (done, codes)), steps, out_of_steps, placed(cross.shape, (done, witness))
        followed, steps[front], out_of_steps[front], duals = self._follow(cross[front], squared_norms[front])
        assert duals is not None
        return (
            placed(cross.shape, (done, codes), (front, followed)),
            steps,
            out_of_steps,
            placed(cross.shape, (done, witness), (front, duals)),
        )

    # -- solving again -----------------------------------------------------------------------------------

    def _prove(
        self, again: IntArray, codes: Rows, old: Certificate, cross: Array, squared_norms: Array
    ) -> tuple[IntArray, Certificate]:
        """Certify codes with the same dual point, the residual, in the span's coordinates; and which are left.

        There its image keeps digits that Gram quantities lose where the residual is nearly orthogonal to all atoms.
        """
        close = again[~old.infeasible[again] & (old.violation[again] <= self.tol)]
        spectrum = self._spectrum() if len(close) else None
        if spectrum is None:
            return again, old
        cross, squared_norms, some = cross[close], squared_norms[close], codes.take(close)
        images = spectrum.image(spectrum.residual(some.csr(), cross)[0])
        images /= np.abs(images).max(axis=1, keepdims=True) + np.finfo(np.float64).tiny
        new = certify(self.problem, some, cross, squared_norms, self.products, self.tol, None, images, spectrum)
        better = ~new.infeasible & (new.violation <= self.tol) & (new.gap < old.gap[close])
        old = old.replaced(close[better], new, better)
        return again[~old.holds(self.tol)[again]], old

    def _repair(
        self,
        again: IntArray,
        codes: Rows,
        old: Certificate,
        cross: Array,
        squared_norms: Array,
        steps: IntArray,
    ) -> tuple[Rows, Certificate]:
        """Solve samples again, more safely, and keep for each the better certified code; ``steps`` are added to."""
        problem, spectrum = self.problem, self._spectrum()
        cross, squared_norms = cross[again], squared_norms[again]
        fresh = np.zeros(cross.shape)
        images = np.zeros(cross.shape)
        hard = np.ones(len(again), dtype=bool)
        witness = None
        again_by: IntArray = np.empty(0, np.int64)
        if isinstance(problem, BPDN) and spectrum is not None:
            for i in np.flatnonzero(_out_of_reach(problem.epsilon, cross, squared_norms, spectrum)):
                limit = self.max_steps - int(steps[again[i]])
                fresh[i], images[i], taken, hard[i] = self._pursue(spectrum, cross[i], limit)
                steps[again[i]] += taken
        if spectrum is None or self._gram_of(spectrum) is None:
            rows = np.flatnonzero(hard)
            careful, duals, followed, _ = follow_on_demand(
                self.products,
                cross[rows],
                squared_norms[rows],
                problem,
                self.max_steps,
                self.stop,
                atoms=self.dictionary.linear_atoms,
                careful=True,
            )
            fresh[rows] = careful.toarray()
            witness = placed(cross.shape, (rows, duals))
            steps[again[rows]] += followed
        else:
            again_by = self._solve_safely(spectrum, np.flatnonzero(hard), cross, squared_norms, fresh, images)
        solved = rows_of(fresh)
        new = certify(problem, solved, cross, squared_norms, self.products, self.tol, witness, images, spectrum)
        self._question_infeasible(new, cross, squared_norms)
        left = again_by[~new.holds(self.tol)[again_by]]
        if len(left) and spectrum is not None:
            new = self._try_conic(spectrum, left, cross, squared_norms, fresh, new)
            solved = rows_of(fresh)
        better = np.maximum(new.gap, new.violation) < np.maximum(old.gap[again], old.violation[again])
        if isinstance(problem, BPDN) and spectrum is not None:
            # A code judged by one question and a code judged by the other: the one that was asked counts.
            floor = spectrum.least_squares_residual(cross, squared_norms)
            beyond = floor > problem.epsilon + self.tol * np.sqrt(squared_norms)
            unlike = (new.infeasible != old.infeasible[again]) & np.isfinite(old.gap[again])
            better = np.where(unlike, new.infeasible == beyond, better)
        chosen, others = again[better], np.setdiff1d(np.arange(codes.shape[0]), again[better])
        repaired = placed(codes.shape, (others, codes.take(others)), (chosen, solved.take(np.flatnonzero(better))))
        return repaired, old.replaced(chosen, new, better)

    def _solve_safely(
        self,
        spectrum: Spectrum,
        rows: IntArray,
        cross: Array,
        squared_norms: Array,
        fresh: Array,
        images: Array,
        *,
        by_conic: bool = False,
    ) -> IntArray:
        """Write codes, and images of dual points, of some rows; which of them another solver could be tried on."""
        others = []
        for i in rows:
            if self.stop[0]:
                break
            fresh[i], image, other = solve_safely(
                spectrum, cross[i], float(squared_norms[i]), self.problem, by_conic=by_conic
            )
            images[i] = 0.0 if image is None else image
            if other:
                others.append(i)
        return np.array(others, dtype=np.int64)

    def _try_conic(
        self, spectrum: Spectrum, rows: IntArray, cross: Array, squared_norms: Array, fresh: Array, old: Certificate
    ) -> Certificate:
        """Have Clarabel solve what the interior point method leaves uncertified; the better of two codes is kept."""
        other, images = np.zeros(cross.shape), np.zeros(cross.shape)
        self._solve_safely(spectrum, rows, cross, squared_norms, other, images, by_conic=True)
        new = certify(
            self.problem, rows_of(other[rows]), cross[rows], squared_norms[rows], self.products, self.tol, None,
            images[rows], spectrum,
        )  # fmt: skip
        self._question_infeasible(new, cross[rows], squared_norms[rows])
        better = np.maximum(new.gap, new.violation) < np.maximum(old.gap[rows], old.violation[rows])
        fresh[rows[better]] = other[rows[better]]
        return old.replaced(rows[better], new, better)

    def _pursue(self, spectrum: Spectrum, corr: Array, limit: int) -> tuple[Array, Array, int, bool]:
        """Basis pursuit in the span's coordinates: code, image of its dual point, steps, and whether that failed."""
        target = spectrum.coordinates(corr[None])[0]
        x = np.zeros(len(corr))
        if limit <= 0:
            return x, x, 0, False
        gram = self._gram_of(spectrum)
        seen, length2 = spectrum.lengths * (spectrum.vectors @ target), float(target @ target)
        if gram is not None:
            codes, duals, taken, endings = follow_paths(
                gram, seen[None], np.array([length2]), is_bpdn=True, goal=0.0, max_steps=limit, stop=self.stop
            )
            steps, ending = int(taken[0]), endings[0]
            atoms, values = codes.indices, codes.data
            x[atoms] = values
            image = duals.data @ gram[atoms]
            if np.abs(image).max(initial=0.0) > 1 + _SLACK:
                x[atoms], image = spectrum.vertex(atoms, np.sign(values), target)
        else:
            products = OnDemandGram(Dictionary(spectrum.vectors * spectrum.lengths[:, None]))
            codes, duals, taken, endings = follow_on_demand(
                products, seen[None], np.array([length2]), BPDN(0.0), limit, self.stop
            )
            x, steps, ending = codes.toarray()[0], int(taken[0]), endings[0]
            image = products.times(duals)[0]
        size = np.abs(x).sum()
        slack = min(_SLACK, 0.1 * self.tol)
        proved = np.abs(image).max(initial=0.0) <= 1 + slack and image @ x >= (1 - slack) * size
        miss = (spectrum.lengths * x) @ spectrum.vectors - target
        proved = proved and np.abs(miss).max(initial=0.0) <= slack * np.abs(target).max(initial=0.0)
        failed = ending != UNREACHABLE or not proved
        return x, image, steps, failed and not (ending == OUT_OF_STEPS and self.max_iter is not None)

    # -- the span ----------------------------------------------------------------------------------------

    def _question_infeasible(self, certificate: Certificate, cross: Array, squared_norms: Array) -> None:
        """Withdraw the certificate of codes that miss an epsilon within reach.

        Over atoms that a solver takes for dependent, though they are not quite, a code can be stationary to ``tol`` and
        short of epsilon all the same. Whether epsilon is in reach is for the rank tolerance of the spectrum to say.
        """
        if not isinstance(self.problem, BPDN):
            return
        epsilon = self.problem.epsilon
        doubtful = certificate.infeasible & certificate.holds(self.tol)
        if self.inverse is not None:
            # r^2 less the square of its part in the span, (Y'r)'H(Y'r), is the distance to the span.
            part2 = self.slack * certificate.violation**2 * squared_norms
            doubtful &= certificate.least_residual**2 - part2 <= epsilon * epsilon
        rows = np.flatnonzero(doubtful)
        spectrum = self._spectrum() if len(rows) else None
        if spectrum is not None:
            floor2 = spectrum.least_squares_residual(cross[rows], squared_norms[rows]) ** 2
            clear = floor2 - spectrum.reach_blur * squared_norms[rows] > epsilon * epsilon
            certificate.violation[rows[~clear]] = np.inf

    def _beyond(self, cross: Array, squared_norms: Array) -> np.ndarray:
        """Samples out of the reach of a small epsilon over dependent atoms."""
        none = np.zeros(len(cross), dtype=bool)
        if not isinstance(self.problem, BPDN) or self.gram is None or self.inverse is not None:
            return none
        asked = self._asked(squared_norms)
        spectrum = self._spectrum() if asked.any() else None
        if spectrum is None:
            return none
        return asked & _out_of_reach(self.problem.epsilon, cross, squared_norms, spectrum)

    def _asked(self, squared_norms: Array) -> np.ndarray:
        """Samples for which epsilon is so small that its reach is decided before coding."""
        return np.asarray(path_end(self.problem)[1] <= _SMALL_EPSILON * np.sqrt(squared_norms))

    def _spectrum(self) -> Spectrum | None:
        """The span of the atoms, computed by the first thread that needs it; None where that takes too long."""
        dictionary = self.dictionary
        with self.lock:
            if dictionary._spectrum is None:
                n, m = dictionary.n_atoms, dictionary.n_features
                atoms = dictionary.linear_atoms
                if n > _CHEAP_SPECTRUM if atoms is None else n * m * min(n, m) > _CHEAP_SVD:
                    return None
                gram = dictionary.gram if atoms is None else None
                dictionary._spectrum = Spectrum(dictionary.squared_norms, gram=gram, atoms=atoms)
            return dictionary._spectrum

    def _gram_of(self, spectrum: Spectrum) -> Array | None:
        """The Gram matrix in the span's coordinates, computed by the first thread that needs it, if it fits."""
        if self.gram is None and not gram_fits(self.dictionary):
            return None
        with self.lock:
            return spectrum.gram


def _out_of_reach(epsilon: float, cross: Array, squared_norms: Array, spectrum: Spectrum) -> np.ndarray:
    """Samples that no code brings within epsilon, or for which epsilon is as good as zero."""
    nothing = epsilon * epsilon <= max(_ZERO, spectrum.reach_blur) * squared_norms
    return (spectrum.least_squares_residual(cross, squared_norms) > epsilon) | nothing


def gram_fits(dictionary: Dictionary) -> bool:
    """Whether the Gram matrix of all atoms is small enough to be had without being asked for."""
    return 8 * dictionary.n_atoms**2 <= _GRAM_BYTES


def gram_wanted(dictionary: Dictionary) -> bool:
    """Whether a classifier computes the Gram matrix of all its atoms: one that is small, or of another than the linear
    kernel, where it is also what the kernel is checked by."""
    return gram_fits(dictionary) or dictionary.linear_atoms is None


def _gram_pays(dictionary: Dictionary, n_samples: int) -> bool:
    """Whether to compute the whole Gram matrix: it must fit, and not dwarf the work on the samples."""
    n = dictionary.n_atoms
    return gram_fits(dictionary) and (n <= 4096 or n_samples * 16 >= n)


def _shared_inverse(dictionary: Dictionary, n_samples: int) -> Array | None:
    """The inverse of the Gram matrix where atoms are independent and it pays; kept with the dictionary."""
    n = dictionary.n_atoms
    atoms = dictionary.linear_atoms
    if (atoms is not None and n > atoms.shape[1]) or not (n <= _CHEAP_INVERSE or n_samples * 8 >= n):
        return None
    if dictionary._factor is None:
        dictionary._factor = (inverse_gram(dictionary.gram),)
    return dictionary._factor[0]
