"""``sparse_encode``: from samples and atoms to certified codes."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse

from .._support.array_types import AnyArray, Array, IntArray
from .._support.devices import find_device, is_tensor, to_numpy
from .._support.parameter_checks import check_count, check_n_jobs, check_positive
from .._support.threads import ThreadPool, one_blas_thread, progress_bar
from ..dictionary.dictionary import Dictionary, Queries, split_range
from ..exceptions import CertificateWarning
from .coder import Coder, Part
from .problems import PROBLEMS, Problem, problem_names
from .sparse_rows import stack_rows

# Similarities between samples and atoms held at once, in bytes.
_HELD_BYTES = 64 * 2**20
# A number of threads above this and above the number of cores is a mistake.
_MAX_THREADS = 64
# Up to this many samples times atoms squared (one sample over 1024 atoms) the calling thread codes on its own: it takes
# milliseconds, of which the start of a thread would be a good part. Ctrl-C then waits for the compiled solver.
_INLINE_WORK = 2**20
# What is taken of codes on a device besides the codes themselves.
_DEVICE_FIELDS = (
    "residual_norm", "objective", "gap", "violation", "infeasible", "certified", "steps", "on_device",
)  # fmt: skip
_STATUSES = np.array(["ok", "infeasible", "max_iter"])
# Seconds that this process has spent in coding, for the times that experiments report.
_seconds = 0.0
_counting = Lock()


def coding_seconds() -> float:
    """Return the seconds that calls of :func:`srosr.sparse_encode` have taken in this process, summed over threads."""
    return _seconds


@contextmanager
def coding_time() -> Iterator[None]:
    """Add the time of this block to the count."""
    global _seconds
    started = time.perf_counter()
    try:
        yield
    finally:
        with _counting:
            _seconds += time.perf_counter() - started


@dataclass(frozen=True, repr=False)
class Codes:
    """Codes of a batch of samples, with a certificate for each.

    Attributes
    ----------
    codes : csr_array or ndarray (n_samples, n_atoms)
        Of several optimal codes of Lasso or BPDN the one of least :math:`\\ell_2` norm.
    residual_norm : ndarray (n_samples,)
        Length of the residual, :math:`\\|y - Yx\\|_2`.
    objective : ndarray (n_samples,)
        The objective of the problem: :math:`\\|x\\|_1` for BPDN, else the penalized squared residual.
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
    on_device : ndarray of bool (n_samples,) or None
        Where coding ran on a device: which codes were solved and certified there, and not by the CPU. For samples in a
        tensor it is a tensor, and so are all arrays above but ``status``; ``codes`` then is a sparse CSR tensor.
    """

    codes: Any
    residual_norm: Array
    objective: Array
    gap: Array
    violation: Array
    status: AnyArray
    n_iter: IntArray
    problem: Problem
    on_device: Any = None

    def __len__(self) -> int:
        return len(self.status)

    def __repr__(self) -> str:
        statuses = ", ".join(f"{n} {s}" for s, n in zip(*np.unique(self.status, return_counts=True), strict=True))
        gaps = to_numpy(self.gap)
        gap = "" if np.isnan(gaps).all() else f", worst gap {np.nanmax(gaps):.1e}"
        if self.on_device is not None:
            gap += f", {100 * to_numpy(self.on_device).mean():.4g} % on the device"
        return f"<Codes of {len(self)} samples over {self.codes.shape[1]} atoms, {self.problem}: {statuses}{gap}>"

    def toarray(self) -> Array:
        """Return the codes as a dense array, or tensor."""
        if is_tensor(self.codes):
            return self.codes.to_dense()
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
    device: Any = "cpu",
) -> Codes:
    """Code samples over atoms, each with a certificate.

    Parameters
    ----------
    X : array-like (n_samples, n_features) or Queries
        Samples, one a row. A Torch tensor on a GPU stays there, and so do the codes.
    atoms : array-like (n_atoms, n_features) or Dictionary
        Atoms, one a row. A :class:`Dictionary` brings its own kernel and scaling, and keeps its Gram matrix for the
        next call; the columns of the codes are in the order of its atoms.
    problem : BPDN, Lasso, Ridge or OMP
        The problem to solve for each sample.
    kernel, normalize :
        As for :class:`Dictionary`. Leave them out where ``atoms`` is a dictionary, which has its own. For parameters of
        a kernel construct a dictionary.
    n_jobs : int, optional
        Number of threads: None is one (or that of the active joblib backend), -1 is all cores.
    tol : float, default 1e-6
        Relative duality gap and constraint violation a code must reach. A code that does not is solved again by a
        slower fallback solver.
    max_iter : int, optional
        Largest number of homotopy steps for a sample. By default there is a generous limit and the fallback solver
        beyond it. A limit given here is final: samples that reach it have the status ``"max_iter"``. (That solver takes
        no steps; it still solves samples again that end within the limit uncertified.)
    progress : bool, default False
        Show a progress bar.
    sparse_output : bool, default True
        Return the codes as a CSR array, else dense.
    device : {"cpu", "cuda", "auto"}, default "cpu"
        Where to code: "cuda" is the GPU that PyTorch sees first ("cuda:1" the second), "auto" is it if there is one. It
        pays from some thousands of samples on. Needs ``pip install "srosr[gpu]"``. The codes are certified by the same
        formulas; what the device does not certify goes to the CPU. A ``torch.device("cpu")`` runs the same algorithm in
        plain PyTorch, slowly.

    Returns
    -------
    Codes

    Warns
    -----
    CertificateWarning
        Where some codes are not certified to ``tol``.

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
    dictionary = _get_dictionary(atoms, kernel, normalize)
    if type(problem) not in PROBLEMS.values():
        raise ValueError(f"problem must be a {problem_names()}, got {problem!r}.")
    tol = check_positive("tol", tol)
    max_iter = check_count("max_iter", max_iter, none=True)
    check_n_jobs(n_jobs)
    is_on_card = is_tensor(X) and X.device.type != "cpu"
    torch_device = X.device if is_on_card and device == "cpu" else find_device(device)
    if torch_device is not None:
        from .device import encode_on_device

        as_tensors = is_tensor(X)
        with coding_time(), progress_bar(len(X) if progress else None) as done:
            collected = encode_on_device(
                X, dictionary, problem, torch_device, tol=tol, max_iter=max_iter, n_jobs=n_jobs, done=done,
                collect=partial(_collect_device_codes, sparse_output=sparse_output, as_tensors=as_tensors),
            )  # fmt: skip
        return _assemble_device_codes(collected, problem, tol)
    X = to_numpy(X)
    are_queries = isinstance(X, Queries) or dictionary.is_precomputed
    samples: Any = dictionary.query(X) if are_queries else dictionary.check_features(X)
    n_samples = len(samples)
    parts: list[Part] = []
    with (
        coding_time(),
        one_blas_thread(),
        progress_bar(n_samples if progress else None) as done,
        ThreadPool(_count_threads(n_jobs, n_samples, dictionary.n_atoms)) as pool,
    ):
        coder = Coder(dictionary, problem, tol, max_iter, n_samples, pool)
        # The same tiles and chunks whatever the number of threads: that number does not change a bit of the result.
        held = max(coder.n_held, _HELD_BYTES // (8 * dictionary.n_atoms))
        for rows in split_range(0, n_samples, held):
            queries = samples[rows] if are_queries else dictionary.query_features(samples[rows], spread=pool.map)
            coder.wait()
            parts += pool.map(partial(coder.encode, queries), split_range(0, len(queries), coder.chunk), done)
    return _assemble_codes(parts, problem, tol, sparse_output)


def _count_threads(n_jobs: int | None, n_samples: int, n_atoms: int) -> int:
    """Return the number of threads to start, 0 for little work."""
    if n_samples * n_atoms**2 <= _INLINE_WORK:
        return 0
    n_threads = int(effective_n_jobs(n_jobs))
    return n_threads if n_threads <= _MAX_THREADS else min(n_threads, max(_MAX_THREADS, os.cpu_count() or 1))


def _get_dictionary(atoms: Any, kernel: Any, normalize: Any) -> Dictionary:
    if not isinstance(atoms, Dictionary):
        return Dictionary(atoms, kernel=kernel, normalize=normalize)
    if kernel not in ("linear", atoms.kernel) or normalize not in (False, atoms.normalize):
        raise ValueError("kernel and normalize come from the Dictionary; leave them out, or give plain atoms.")
    return atoms


def _assemble_codes(parts: list[Part], problem: Problem, tol: float, sparse_output: bool) -> Codes:
    """Return the codes of all chunks as one batch, and warn of those that are not certified."""

    def concatenate(arrays: list[Any]) -> Any:
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def collect(name: str) -> Array:
        return concatenate([getattr(part.certificate, name) for part in parts])

    codes: Any = (parts[0].codes if len(parts) == 1 else stack_rows([part.codes for part in parts])).csr()
    if not codes.data.all():
        codes.eliminate_zeros()
    gap, violation = collect("gap"), collect("violation")
    certified = concatenate([part.certificate.holds(tol) for part in parts])
    status = _find_status(certified, collect("infeasible"), gap, violation, tol)
    return Codes(
        codes if sparse_output else codes.toarray(),
        collect("residual_norm"),
        collect("objective"),
        gap,
        violation,
        status,
        concatenate([part.steps for part in parts]),
        problem,
    )


def _find_status(certified: AnyArray, infeasible: AnyArray, gap: Array, violation: Array, tol: float) -> AnyArray:
    """Return the status of codes in words, and warn of those that are not certified."""
    if not certified.all():
        warnings.warn(
            f"{(~certified).sum()} of {len(certified)} codes are not certified to tol={tol:g} "
            f"(worst relative gap {np.nanmax(gap):.2g}, worst violation {violation.max():.2g}); "
            "their status is 'max_iter'.",
            CertificateWarning,
            stacklevel=4,
        )
    return _STATUSES[np.where(certified, infeasible, 2)]


def _collect_device_codes(part: Any, *, sparse_output: bool, as_tensors: bool) -> dict[str, Any]:
    """Return the codes of a chunk as they are to be returned: dense ones of all chunks may not fit into the memory."""
    if as_tensors:
        codes = part.to_sparse_tensor() if sparse_output else part.codes
    else:
        codes = part.to_csr() if sparse_output else to_numpy(part.codes)
    out = {name: getattr(part, name) for name in _DEVICE_FIELDS}
    return {"codes": codes} | (out if as_tensors else {name: to_numpy(value) for name, value in out.items()})


def _assemble_device_codes(parts: list[dict[str, Any]], problem: Problem, tol: float) -> Codes:
    """Return the codes of all chunks of a device as one batch, of NumPy arrays or of tensors."""
    from .device.device_codes import stack_parts

    merged = {name: stack_parts([part[name] for part in parts]) for name in parts[0]}
    status = _find_status(
        to_numpy(merged.pop("certified")), to_numpy(merged.pop("infeasible")), to_numpy(merged["gap"]),
        to_numpy(merged["violation"]), tol,
    )  # fmt: skip
    return Codes(problem=problem, status=status, n_iter=merged.pop("steps"), **merged)
