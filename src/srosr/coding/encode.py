"""``sparse_encode``: from samples and atoms to certified codes."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse

from .._support.array_types import AnyArray, Array, IntArray
from .._support.threads import Workers, one_blas_thread, progress_bar
from ..dictionary import Dictionary, Queries, slices
from ..exceptions import CertificateWarning
from .clock import coding_time
from .coder import Coder, Part
from .problems import PROBLEMS, Problem, problem_names
from .sparse_rows import stacked

__all__ = ["Codes", "sparse_encode"]

# Similarities between samples and atoms held at once, in bytes, and samples coded together (fewer share the work among
# threads more evenly, and let Ctrl-C and the progress bar in earlier).
_HELD_BYTES = 64 * 2**20
# More threads than this, or than there are cores, are asked for by mistake only.
_MOST_THREADS = 64
_CHUNK = 64


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        statuses = ", ".join(f"{n} {s}" for s, n in zip(*np.unique(self.status, return_counts=True), strict=True))
        gap = "" if np.isnan(self.gap).all() else f", worst gap {np.nanmax(self.gap):.1e}"
        return f"<Codes of {len(self)} samples over {self.codes.shape[1]} atoms, {self.problem}: {statuses}{gap}>"

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
        As for :class:`Dictionary`, which has its own: leave them out where ``atoms`` is one. For parameters of a kernel
        make a dictionary.
    n_jobs : int, optional
        Threads over samples: None is one (or what a joblib backend says), -1 is all.
    tol : float, default 1e-6
        Relative duality gap and constraint violation a code must reach. A code that does not is solved again by a
        slower, safe solver before it is returned.
    max_iter : int, optional
        Most steps of the homotopy for a sample. By default there is a generous limit and the safe solver beyond it;
        a limit of your own is final and samples that reach it have the status ``"max_iter"``. (The safe solver takes
        no steps; it still mends what ends within the limit and is not certified.)
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
    if type(problem) not in PROBLEMS.values():
        raise ValueError(f"problem must be a {problem_names()}, got {problem!r}.")
    if not (isinstance(tol, (float, int)) and math.isfinite(tol) and tol > 0):
        raise ValueError(f"tol must be a positive number, got {tol!r}.")
    if max_iter is not None and (not isinstance(max_iter, (int, np.integer)) or max_iter < 1):
        raise ValueError(f"max_iter must be a positive integer or None, got {max_iter!r}.")
    if n_jobs is not None and (not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0):
        raise ValueError(f"n_jobs must be a non-zero integer or None, got {n_jobs!r}.")
    by_hand = isinstance(X, Queries) or dictionary.is_precomputed
    samples: Any = dictionary.query(X) if by_hand else dictionary.checked(X)
    n_samples = len(samples)
    parts: list[Part] = []
    # The same tiles and chunks whatever the number of threads: that number does not change a bit of the result.
    held = max(_CHUNK, _HELD_BYTES // (8 * dictionary.n_atoms))
    jobs = min(int(effective_n_jobs(n_jobs)), max(_MOST_THREADS, os.cpu_count() or 1))
    with (
        coding_time(),
        one_blas_thread(),
        progress_bar(n_samples if progress else None) as done,
        Workers(jobs) as workers,
    ):
        coder = Coder(dictionary, problem, tol, max_iter, n_samples, workers)
        for rows in slices(0, n_samples, held):
            queries = samples[rows] if by_hand else dictionary._query(samples[rows], spread=workers.map)
            coder.wait()
            parts += workers.map(partial(coder.encode, queries), slices(0, len(queries), _CHUNK), done)
    return _assembled(parts, problem, dictionary.n_atoms, tol, sparse_output)


def _dictionary(atoms: Any, kernel: Any, normalize: Any) -> Dictionary:
    if not isinstance(atoms, Dictionary):
        return Dictionary(atoms, kernel=kernel, normalize=normalize)
    if kernel not in ("linear", atoms.kernel) or normalize not in (False, atoms.normalize):
        raise ValueError("kernel and normalize come from the Dictionary; leave them out, or give plain atoms.")
    return atoms


def _assembled(parts: list[Part], problem: Problem, n_atoms: int, tol: float, sparse_output: bool) -> Codes:
    def joined(name: str) -> Array:
        return np.concatenate([getattr(p.certificate, name) for p in parts])

    codes: Any = stacked([p.codes for p in parts]).csr()
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
