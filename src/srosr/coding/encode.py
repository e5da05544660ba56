"""``sparse_encode``: from samples and atoms to certified codes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from threadpoolctl import ThreadpoolController

from .._types import AnyArray, Array, IntArray
from ..dictionary import Dictionary, Queries, joined_queries
from ..exceptions import CertificateWarning
from . import homotopy
from .certificate import Certificate, certify
from .least_squares import RidgeSolver, inverse_gram, solve_least_squares
from .omp import pursue_batch, pursue_on_demand
from .on_demand import walk_on_demand
from .problems import BPDN, OMP, Lasso, Problem, Ridge
from .products import OnDemandGram, Products, StoredGram
from .reverse import walk_back_batch
from .safe import solve_safely
from .spectrum import Spectrum

__all__ = ["Codes", "sparse_encode"]

# Largest Gram matrix that is computed, in bytes; above it columns are computed on demand.
_GRAM_BYTES = 2**30
# Similarities between samples and atoms held at once, in bytes; samples whose similarities are computed together (more
# cost less each), and samples coded together (fewer share the work among threads more evenly).
_HELD_BYTES = 64 * 2**20
_BLOCK = 256
_CHUNK = 64
# Multiplications from which on a Gram matrix is worth more than one BLAS thread.
_LARGE_PRODUCT = 10**9
# BPDN starts from least squares where the least-squares residual exceeds this share of epsilon (measured: the two
# ends cost the same there), and gives up that end where more than this share of the atoms is inactive.
_NEAR_LEAST_SQUARES = 0.78
_MOST_INACTIVE = 0.6
# The inverse of the Gram matrix is worth its cost up to this many atoms, or for enough samples.
_CHEAP_INVERSE = 1024
# Over dependent atoms the reach of epsilon is decided before coding where epsilon is below this share of a sample's
# length, and the eigenvectors that takes are computed from a Gram matrix of at most this size.
_SMALL_EPSILON = 0.02
_CHEAP_SPECTRUM = 4096
# Relative duality gap at which basis pursuit by homotopy counts as solved; else the safe solver is asked.
_SLACK = 1e-7


@dataclass(frozen=True)
class Codes:
    """Codes of a batch of samples and what is certified of each.

    Attributes
    ----------
    codes : csr_array or ndarray (n_samples, n_atoms)
    residual_norm : ndarray (n_samples,)
        Length of the residual, :math:`\\|y - Yx\\|_2`.
    objective : ndarray (n_samples,)
        What the problem minimises: :math:`\\|x\\|_1` for BPDN, else the penalised squared residual.
    gap : ndarray (n_samples,)
        Relative duality gap: the objective is at most this share above the optimum. NaN for OMP.
    violation : ndarray (n_samples,)
        Constraint violation relative to the length of the sample (0 where there is no constraint).
    status : ndarray of str (n_samples,)
        ``"ok"``; ``"infeasible"``, where BPDN's epsilon is out of reach and the code is the sparsest one (in
        :math:`\\ell_1`) that reconstructs the sample's projection on the atoms; ``"max_iter"``, where the code is not
        certified.
    n_iter : ndarray of int (n_samples,)
        Steps taken.
    problem : Problem
    """

    codes: Any
    residual_norm: Array
    objective: Array
    gap: Array
    violation: Array
    status: AnyArray
    n_iter: IntArray
    problem: Problem

    def __len__(self) -> int:
        return len(self.status)

    def toarray(self) -> Array:
        """The codes as a dense array."""
        return self.codes.toarray() if sparse.issparse(self.codes) else self.codes


def sparse_encode(
    X: Any,
    atoms: Any,
    problem: Problem,
    *,
    kernel: str | Callable[[Array, Array], Array] = "linear",
    normalize: bool | str = False,
    n_jobs: int | None = None,
    tol: float = 1e-6,
    max_iter: int | None = None,
    progress: bool = False,
    sparse_output: bool = True,
) -> Codes:
    """Code samples over atoms, each with a certificate.

    Parameters
    ----------
    X : array-like (n_samples, n_features) or Queries
        Samples, one a row.
    atoms : array-like (n_atoms, n_features) or Dictionary
        Atoms, one a row. A :class:`Dictionary` brings its own kernel and scaling, and keeps its Gram matrix for the
        next call; the columns of the codes are in the order of its atoms.
    problem : BPDN, Lasso, Ridge or OMP
        What to minimise.
    kernel, normalize :
        As for :class:`Dictionary`; not to be given together with one.
    n_jobs : int, optional
        Threads over samples: None is one (or what a joblib backend says), -1 is all.
    tol : float, default 1e-6
        Relative duality gap and constraint violation a code must reach. A code that does not is solved again by a
        slower, safe solver before it is returned.
    max_iter : int, optional
        Most steps of the homotopy for a sample. By default there is a generous limit and the safe solver beyond it;
        a limit of your own is final and such samples have the status ``"max_iter"``.
    progress : bool, default False
        Show a progress bar.
    sparse_output : bool, default True
        Return the codes as a CSR array, else dense.

    Returns
    -------
    Codes

    Warns
    -----
    CertificateWarning
        Where codes are returned that are not certified to ``tol``.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import Lasso, sparse_encode
    >>> rng = np.random.default_rng(0)
    >>> atoms, samples = rng.normal(size=(50, 20)), rng.normal(size=(3, 20))
    >>> result = sparse_encode(samples, atoms, Lasso(0.1), normalize=True)
    >>> result.codes.shape, bool((result.gap < 1e-6).all()), result.status.tolist()
    ((3, 50), True, ['ok', 'ok', 'ok'])
    """
    dictionary = _dictionary(atoms, kernel, normalize)
    if not isinstance(problem, (BPDN, Lasso, Ridge, OMP)):
        raise ValueError(f"problem must be a BPDN, Lasso, Ridge or OMP, got {problem!r}.")
    if not (isinstance(tol, (float, int)) and math.isfinite(tol) and tol > 0):
        raise ValueError(f"tol must be a positive number, got {tol!r}.")
    if max_iter is not None and (not isinstance(max_iter, (int, np.integer)) or max_iter < 1):
        raise ValueError(f"max_iter must be a positive integer or None, got {max_iter!r}.")
    if n_jobs is not None and (not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0):
        raise ValueError(f"n_jobs must be a non-zero integer or None, got {n_jobs!r}.")
    samples: Any
    see: Callable[[Any], Queries]
    if isinstance(X, Queries) or dictionary.is_precomputed:
        samples, see = dictionary.query(X), _as_is
    else:
        samples, see = dictionary.checked(X), dictionary._query
    n_samples = len(samples)
    jobs = int(effective_n_jobs(n_jobs))

    # Waking up BLAS threads takes longer than a small Gram matrix.
    work = dictionary.n_atoms**2 * max(dictionary.n_features, 1)
    with _blas_threads(jobs if work > _LARGE_PRODUCT else 1):
        coder = _Coder(dictionary, problem, tol, max_iter, n_samples)
    # The same blocks and chunks whatever the number of threads: that number does not change a bit of the result.
    parts: list[_Part] = []
    held = max(_CHUNK, _HELD_BYTES // (8 * dictionary.n_atoms))
    with _blas_threads(1), _Workers(jobs, coder.stop, n_samples if progress else None) as workers:
        for rows in _slices(0, n_samples, held):
            blocks = workers.map(lambda part: see(samples[part]), _slices(rows.start, rows.stop, _BLOCK))
            encode = partial(coder.encode, joined_queries(blocks))
            parts += workers.map(encode, _slices(0, rows.stop - rows.start, _CHUNK), count=True)
    return _assembled(parts, problem, dictionary.n_atoms, tol, sparse_output)


@dataclass(frozen=True)
class _Part:
    """Codes of one chunk."""

    codes: sparse.csr_array
    certificate: Certificate
    steps: IntArray
    out_of_steps: np.ndarray


# Codes, steps, which ran out of steps, and dual points where the solver has them.
_Solution: TypeAlias = tuple[sparse.csr_array, IntArray, np.ndarray, sparse.csr_array | None]


class _Coder:
    """What the chunks share: the Gram matrix, factorisations, limits and the stop flag."""

    def __init__(
        self, dictionary: Dictionary, problem: Problem, tol: float, max_iter: int | None, n_samples: int
    ) -> None:
        self.dictionary, self.problem, self.tol = dictionary, problem, tol
        n = dictionary.n_atoms
        self.max_iter = max_iter
        self.max_steps = int(max_iter) if max_iter is not None else 40 * n + 1000
        self.stop = np.zeros(1, np.uint8)
        self.lock = Lock()
        stored = dictionary.has_gram or _gram_pays(dictionary, n_samples)
        self.gram: Array | None = np.ascontiguousarray(dictionary.gram) if stored else None
        self.products: Products = OnDemandGram(dictionary) if self.gram is None else StoredGram(self.gram)
        self.inverse: Array | None = None
        if isinstance(problem, BPDN) and self.gram is not None:
            self.inverse = _shared_inverse(dictionary, n_samples)
        self.ridge: RidgeSolver | None = None
        if isinstance(problem, Ridge):
            atoms = dictionary.linear_atoms if self.gram is None else None
            if self.gram is None and atoms is None:
                raise ValueError(
                    f"Ridge over {n} atoms with a non-linear kernel needs their Gram matrix "
                    f"({8 * n * n / 2**30:.0f} GiB); call dictionary.gram first if memory allows, or use Lasso."
                )
            self.ridge = RidgeSolver(problem.alpha, gram=self.gram, atoms=atoms)

    def encode(self, queries: Queries, part: slice) -> _Part:
        """Solve, certify, and hand what does not hold to the safe solver."""
        cross, squared_norms = queries.cross[part], queries.squared_norms[part]
        # What is clearly out of epsilon's reach over dependent atoms has a better solver in _repair.
        beyond = self._beyond(cross, squared_norms)
        if not beyond.any():
            codes, steps, out_of_steps, witness = self._solve(cross, squared_norms)
        else:
            rows = np.flatnonzero(~beyond)
            codes, steps, out_of_steps, witness = self._solve(cross[rows], squared_norms[rows])
            codes, witness = _spread(codes, rows, len(cross)), _spread(witness, rows, len(cross))
            steps, out_of_steps = _filled(steps, rows, len(cross)), _filled(out_of_steps, rows, len(cross))
        certificate = certify(self.problem, codes, cross, squared_norms, self.products, self.tol, witness)
        self._question_infeasible(certificate, cross, squared_norms)
        again = np.flatnonzero(~certificate.holds(self.tol) | beyond)
        if self.max_iter is not None:
            again = again[~out_of_steps[again]]
        if len(again) and self.stop[0] == 0 and isinstance(self.problem, (BPDN, Lasso)) and self.gram is not None:
            codes, certificate = self._repair(again, codes, certificate, cross, squared_norms, steps)
        return _Part(codes, certificate, steps, out_of_steps)

    def _solve(self, cross: Array, squared_norms: Array) -> _Solution:
        """Codes, steps, which ran out of steps, and dual points where the solver has them."""
        problem, gram = self.problem, self.gram
        n_samples = len(cross)
        never = np.zeros(n_samples, dtype=bool)
        if self.ridge is not None:
            return sparse.csr_array(self.ridge.solve(cross)), np.ones(n_samples, np.int64), never, None
        if isinstance(problem, OMP):
            if gram is not None:
                indptr, indices, data, chosen = pursue_batch(gram, cross, squared_norms, problem.n_nonzero, self.stop)
                return sparse.csr_array((data, indices, indptr), shape=cross.shape), chosen, never, None
            dense = pursue_on_demand(
                self.products, cross, squared_norms, self.dictionary.squared_norms, problem.n_nonzero
            )
            return sparse.csr_array(dense), np.count_nonzero(dense, axis=1).astype(np.int64), never, None
        if gram is None:
            codes, steps, endings = walk_on_demand(
                self.products, cross, squared_norms, problem, self.max_steps, self.stop
            )
            return codes, steps, endings == homotopy.OUT_OF_STEPS, None
        if isinstance(problem, BPDN) and self.inverse is not None:
            return self._solve_bpdn(problem.epsilon, cross, squared_norms)
        return self._walk(cross, squared_norms)

    def _walk(self, cross: Array, squared_norms: Array) -> _Solution:
        problem = self.problem
        is_bpdn = isinstance(problem, BPDN)
        goal = problem.epsilon if isinstance(problem, BPDN) else problem.alpha  # type: ignore[attr-defined]
        indptr, indices, data, dual, steps, endings = homotopy.walk_batch(
            self.gram, cross, squared_norms, is_bpdn, goal, self.max_steps, self.stop
        )
        codes = sparse.csr_array((data, indices, indptr), shape=cross.shape)
        witness = sparse.csr_array((dual, indices, indptr), shape=cross.shape) if is_bpdn else None
        return codes, steps, endings == homotopy.OUT_OF_STEPS, witness

    def _solve_bpdn(self, epsilon: float, cross: Array, squared_norms: Array) -> _Solution:
        """Independent atoms: out of reach is least squares, nearly so starts there, the rest walks from the front."""
        gram, inverse = self.gram, self.inverse
        assert gram is not None and inverse is not None
        n_samples, n = cross.shape
        fit = cross @ inverse
        floor = np.sqrt(np.maximum(squared_norms - np.einsum("ij,ij->i", cross, fit), 0.0))
        near = (floor > _NEAR_LEAST_SQUARES * epsilon) & (squared_norms > epsilon**2)
        if not near.any():
            return self._walk(cross, squared_norms)
        steps = np.ones(n_samples, np.int64)
        out_of_steps = np.zeros(n_samples, dtype=bool)
        beyond, short = np.flatnonzero(near & (floor >= epsilon)), np.flatnonzero(near & (floor < epsilon))
        order = np.concatenate([beyond, short])
        fit = solve_least_squares(gram, inverse, cross[order])
        dual = np.sign(fit) @ inverse
        backwards = slice(len(beyond), None)
        fit[backwards], steps[short], endings = walk_back_batch(
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
        out_of_steps[short] = endings == homotopy.OUT_OF_STEPS
        dual[backwards] = 0.0
        kept = np.ones(len(order), dtype=bool)
        kept[backwards] = endings != homotopy.LOST
        front = np.concatenate([np.flatnonzero(~near), order[~kept]])
        codes, taken, out, witness = self._walk(cross[front], squared_norms[front])
        steps[front] = taken
        out_of_steps[front] = out
        place = np.argsort(np.concatenate([front, order[kept]]))

        def together(first: sparse.csr_array, second: Array) -> sparse.csr_array:
            return sparse.csr_array(sparse.vstack([first, sparse.csr_array(second[kept])], format="csr")[place])

        return together(codes, fit), steps, out_of_steps, together(witness, dual)

    def _repair(
        self,
        again: IntArray,
        codes: sparse.csr_array,
        old: Certificate,
        cross: Array,
        squared_norms: Array,
        steps: IntArray,
    ) -> tuple[sparse.csr_array, Certificate]:
        """Solve samples again, more safely, and keep for each the better certified code; ``steps`` are added to."""
        problem, spectrum = self.problem, self._spectrum()
        cross, squared_norms = cross[again], squared_norms[again]
        fresh = np.zeros((len(again), codes.shape[1]))
        images = np.zeros_like(fresh)
        hard = np.ones(len(again), dtype=bool)
        if isinstance(problem, BPDN):
            floor = spectrum.least_squares_residual(cross, squared_norms)
            for i in np.flatnonzero(floor > problem.epsilon):
                fresh[i], images[i], taken, hard[i] = self._pursue(spectrum, cross[i])
                steps[again[i]] += taken
        for i in np.flatnonzero(hard):
            if self.stop[0]:
                break
            fresh[i], image = solve_safely(spectrum, cross[i], float(squared_norms[i]), problem)
            images[i] = 0.0 if image is None else image
        new = certify(
            problem,
            sparse.csr_array(fresh),
            cross,
            squared_norms,
            self.products,
            self.tol,
            images=images,
            spectrum=spectrum,
        )
        self._question_infeasible(new, cross, squared_norms)
        better = np.maximum(new.gap, new.violation) < np.maximum(old.gap[again], old.violation[again])
        if not better.any():
            return codes, old
        chosen = again[better]
        source = np.arange(codes.shape[0])
        source[chosen] = codes.shape[0] + np.flatnonzero(better)
        repaired = sparse.csr_array(sparse.vstack([codes, sparse.csr_array(fresh)], format="csr")[source])
        fields = []
        for name in ("residual_norm", "objective", "gap", "violation", "infeasible"):
            values = getattr(old, name).copy()
            values[chosen] = getattr(new, name)[better]
            fields.append(values)
        return repaired, Certificate(*fields)

    def _question_infeasible(self, certificate: Certificate, cross: Array, squared_norms: Array) -> None:
        """Withdraw the certificate of codes that miss an epsilon within reach.

        Over atoms that a solver takes for dependent, though they are not quite, a code can be stationary to ``tol`` and
        short of epsilon all the same. Whether epsilon is in reach is for the rank tolerance of the spectrum to say.
        """
        rows = np.flatnonzero(certificate.infeasible & certificate.holds(self.tol))
        if len(rows) and isinstance(self.problem, BPDN) and self.gram is not None and self.inverse is None:
            floor = self._spectrum().least_squares_residual(cross[rows], squared_norms[rows])
            certificate.violation[rows[floor <= self.problem.epsilon]] = np.inf

    def _beyond(self, cross: Array, squared_norms: Array) -> np.ndarray:
        """Samples out of the reach of a small epsilon over dependent atoms."""
        none = np.zeros(len(cross), dtype=bool)
        if not isinstance(self.problem, BPDN) or self.gram is None or self.inverse is not None:
            return none
        epsilon = self.problem.epsilon
        small = epsilon <= _SMALL_EPSILON * np.sqrt(squared_norms)
        if not small.any() or (self.dictionary.linear_atoms is None and len(self.gram) > _CHEAP_SPECTRUM):
            return none
        return small & (self._spectrum().least_squares_residual(cross, squared_norms) > epsilon)

    def _spectrum(self) -> Spectrum:
        """The span of the atoms, computed by the first thread that needs it."""
        with self.lock:
            if self.dictionary._spectrum is None:
                self.dictionary._spectrum = Spectrum(self.dictionary.gram, self.dictionary.linear_atoms)
            return self.dictionary._spectrum

    def _pursue(self, spectrum: Spectrum, corr: Array) -> tuple[Array, Array, int, bool]:
        """Basis pursuit in the span's coordinates: code, image of its dual point, steps, and whether that failed."""
        target = spectrum.coordinates(corr[None])[0]
        gram = spectrum.gram
        atoms, values, dual, steps, ending = homotopy.walk(
            gram,
            float(np.diagonal(gram).max()),
            spectrum.lengths * (spectrum.vectors @ target),
            float(target @ target),
            True,
            0.0,
            self.max_steps,
            self.stop,
            homotopy.new_desk(len(corr)),
        )
        x = np.zeros(len(corr))
        x[atoms] = values
        image = dual @ gram[atoms]
        size = np.abs(x).sum()
        slack = min(_SLACK, 0.1 * self.tol)
        proved = np.abs(image).max(initial=0.0) <= 1 + slack and image @ x >= (1 - slack) * size
        return x, image, steps, ending != homotopy.UNREACHABLE or not proved


def _spread(part: sparse.csr_array | None, rows: IntArray, n: int) -> Any:
    """Rows of a CSR array as those rows of a taller one, the others empty."""
    if part is None:
        return None
    counts = np.zeros(n, np.int64)
    counts[rows] = np.diff(part.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return sparse.csr_array((part.data, part.indices, indptr), shape=(n, part.shape[1]))


def _filled(part: AnyArray, rows: IntArray, n: int) -> AnyArray:
    out = np.zeros(n, part.dtype)
    out[rows] = part
    return out


def _as_is(queries: Queries) -> Queries:
    return queries


def _dictionary(atoms: Any, kernel: Any, normalize: Any) -> Dictionary:
    if not isinstance(atoms, Dictionary):
        return Dictionary(atoms, kernel=kernel, normalize=normalize)
    if kernel not in ("linear", atoms.kernel) or normalize not in (False, atoms.normalize):
        raise ValueError("kernel and normalize come from the Dictionary; leave them out, or give plain atoms.")
    return atoms


def _gram_pays(dictionary: Dictionary, n_samples: int) -> bool:
    """Whether to compute the whole Gram matrix: it must fit, and not dwarf the work on the samples."""
    n = dictionary.n_atoms
    return 8 * n * n <= _GRAM_BYTES and (n <= 4096 or n_samples * 16 >= n)


def _shared_inverse(dictionary: Dictionary, n_samples: int) -> Array | None:
    """The inverse of the Gram matrix where atoms are independent and it pays; kept with the dictionary."""
    n = dictionary.n_atoms
    atoms = dictionary.linear_atoms
    if (atoms is not None and n > atoms.shape[1]) or not (n <= _CHEAP_INVERSE or n_samples * 8 >= n):
        return None
    if dictionary._factor is None:
        dictionary._factor = (inverse_gram(dictionary.gram),)
    return dictionary._factor[0]


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


_blas_lock = Lock()
_blas_users = 0
_blas_limit: Any = None


@contextmanager
def _blas_threads(n: int) -> Iterator[None]:
    """BLAS threads while samples are spread over threads of our own: the two must not multiply.

    The limit is the process's, so the first of several calls at a time sets it and the last one lifts it.
    """
    global _blas_users, _blas_limit
    with _blas_lock:
        if _blas_users == 0:
            _blas_limit = _controller().limit(limits=n, user_api="blas")
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limit.restore_original_limits()


def _slices(start: int, stop: int, size: int) -> list[slice]:
    return [slice(a, min(a + size, stop)) for a in range(start, stop, size)]


class _Workers:
    """Threads that work on parts while this thread waits for them, and for Ctrl-C."""

    def __init__(self, jobs: int, stop: np.ndarray, total: int | None) -> None:
        self.stop = stop
        self.pool = ThreadPoolExecutor(max_workers=jobs)
        self.bar: Any = None
        if total is not None:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

            self.bar = Progress("coding", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.task = self.bar.add_task("coding", total=total)

    def __enter__(self) -> _Workers:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.stop[0] = 1
        self.pool.shutdown(wait=True, cancel_futures=True)
        if self.bar is not None:
            self.bar.stop()

    def map(self, work: Callable[[slice], Any], parts: list[slice], count: bool = False) -> list[Any]:
        """``work`` on every part, in order; ``count`` moves the progress bar."""
        futures: dict[Future[Any], int] = {self.pool.submit(work, part): i for i, part in enumerate(parts)}
        results: list[Any] = [None] * len(parts)
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in done:
                i = futures[future]
                results[i] = future.result()
                if count and self.bar is not None:
                    self.bar.advance(self.task, parts[i].stop - parts[i].start)
        return results


def _assembled(parts: list[_Part], problem: Problem, n_atoms: int, tol: float, sparse_output: bool) -> Codes:
    def joined(name: str) -> Array:
        return np.concatenate([getattr(p.certificate, name) for p in parts])

    codes: Any = sparse.vstack([p.codes for p in parts], format="csr") if len(parts) > 1 else parts[0].codes
    codes = sparse.csr_array(codes)
    codes.eliminate_zeros()
    gap, violation, infeasible = joined("gap"), joined("violation"), joined("infeasible").astype(bool)
    certified = np.concatenate([p.certificate.holds(tol) for p in parts])
    status = np.where(certified, np.where(infeasible, "infeasible", "ok"), "max_iter")
    if not certified.all():
        warnings.warn(
            f"{(~certified).sum()} of {len(certified)} codes are not certified to tol={tol:g} "
            f"(worst relative gap {np.nanmax(gap):.2g}, worst violation {violation.max():.2g}); "
            "their status is 'max_iter'.",
            CertificateWarning,
            stacklevel=3,
        )
    return Codes(
        codes if sparse_output else codes.toarray(),
        joined("residual_norm"),
        joined("objective"),
        gap,
        violation,
        status,
        np.concatenate([p.steps for p in parts]),
        problem,
    )
