"""The coder on a device: a chunk of samples from similarities to certified codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from ..._support.threads import ThreadPool, one_blas_thread
from ..._support.torch_loader import torch
from ...dictionary.device_dictionary import DeviceDictionary, DeviceQueries, count_memory, pad_columns
from ...dictionary.dictionary import split_range, wrap_queries
from ..batch import gram_fits
from ..certificate import measure
from ..coder import Coder, Part
from ..least_norm import NEARLY_TIGHT, SLACK, TIGHT
from ..problems import OMP, Problem, Ridge
from ..solvers.least_squares import INDEPENDENT
from ..solvers.solver import Solution
from ..sparse_rows import to_sparse_rows
from ..spectrum import ROUNDING
from .block_active_set import SOLVED, UNREACHED
from .copies import Copies
from .device_codes import DeviceCodes, DeviceProducts, DeviceRows
from .many_atoms import WORKING_SET, WorkingSets
from .path_solver import MOST_ATOMS, PathSolver, spread_codes
from .pursuit import pursue
from .shortest_codes import Ties, shorten_codes
from .vertices import Span, solve_vertices

if TYPE_CHECKING:
    from torch import Tensor

# Arrays of samples by atoms that are in memory at the same time, and the share of free memory that they may take.
_ARRAYS = 12
_MEMORY_SHARE = 0.5
# Codes that differ by less are the same.
_SAME = 1e-12
# The most samples of a chunk, over a Gram matrix and with working sets: more do not make it faster.
_MOST_ROWS, _MOST_WORKING = 65536, 4096


class _Found(NamedTuple):
    """What a solver found for a chunk of samples."""

    codes: Tensor  # (n, N)
    steps: Tensor
    solved: Tensor
    out_of_reach: Tensor  # samples whose epsilon is, if they are solved
    duals: DeviceRows | None = None  # dual points of these, zero for the others


class DeviceCoder:
    """Codes chunks of samples on a device: solve, certify, and hand the rest to the CPU.

    Parameters
    ----------
    dictionary : DeviceDictionary
    problem : Problem
    tol : float, default 1e-6
    max_iter : int, optional
        Limit of steps of the CPU's solvers.
    n_jobs : int, optional
        Threads of the CPU's solvers.
    """

    def __init__(
        self,
        dictionary: DeviceDictionary,
        problem: Problem,
        tol: float = 1e-6,
        *,
        max_iter: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.dictionary, self.problem, self.tol = dictionary, problem, tol
        self.max_iter, self.n_jobs, self.device = max_iter, n_jobs, dictionary.device
        n, rows = dictionary.n_atoms, dictionary.rows
        is_path = problem.path_end is not None
        self.by_features = dictionary.is_linear and (n > MOST_ATOMS if is_path else not dictionary.has_gram)
        self.products: Any = DeviceProducts(dictionary, by_features=self.by_features)
        self._copies: Copies | None = None
        self._inverse: Tensor | None = None
        self._span: Span | None = None
        self._working_sets: WorkingSets | None = None
        if is_path:
            self._prepare_paths(n if rows is None or not dictionary.is_linear else min(n, rows.shape[1]))
        elif isinstance(problem, Ridge):
            self._factor_ridge(problem.alpha)

    def count_rows(self) -> int:
        """Return how many samples of a chunk fit into the free memory."""
        n = self.dictionary.n_atoms
        each = 8 * _ARRAYS * n
        if self._working_sets is not None:
            width = 0 if self.dictionary.rows is None else self.dictionary.rows.shape[1]
            each += 8 * WORKING_SET * (3 * WORKING_SET + 2 * width)
        if isinstance(self.problem, OMP):
            each += 24 * min(self.problem.n_nonzero, n) ** 2
        most = _MOST_ROWS if self._working_sets is None else _MOST_WORKING
        return int(max(1, min(most, _MEMORY_SHARE * count_memory(self.device) // each)))

    def encode(self, queries: DeviceQueries) -> DeviceCodes:
        """Code a chunk of samples."""
        problem, n = self.problem, len(queries)
        steps = torch.ones(n, dtype=torch.int64, device=self.device)
        if isinstance(problem, Ridge):
            codes = self._solve_ridge(queries, problem.alpha)
        elif isinstance(problem, OMP):
            codes, steps = pursue(self.products, queries, problem.n_nonzero)
        else:
            return self._encode_paths(queries)
        certificate = self._certify(codes, queries, None)[1]
        good = certificate.holds(self.tol)
        out = self._assemble(codes, certificate, steps, good)
        rows = torch.nonzero(~good)[:, 0]
        if len(rows):
            self._ask_host(rows, queries, out, are_solved=False)
        return out

    # -- Lasso and BPDN ----------------------------------------------------------------------------------

    def _prepare_paths(self, rank: int) -> None:
        dictionary, end = self.dictionary, self.problem.require_path_end()
        if self.by_features:
            self._working_sets = WorkingSets(dictionary, PathSolver(end, rank, self.device))
            return
        if not dictionary.has_gram:
            raise ValueError(
                f"the Gram matrix of {dictionary.n_atoms} atoms does not fit into the memory of {self.device}, and "
                'only the linear kernel does without it; use device="cpu".'
            )
        gram = dictionary.padded_gram
        copies = Copies(dictionary.gram)
        if copies:
            self._copies = copies
            picked = dictionary.gram[copies.firsts][:, copies.firsts]
            gram = pad_columns(picked)
        self._gram = gram
        self._solver = PathSolver(end, min(rank, len(gram)), self.device)
        self._coarse_gram = gram.float() if self._solver.is_coarse else None
        if end.at_residual and not copies and rank == dictionary.n_atoms:
            self._inverse = _invert_independent(dictionary.gram)
        if end.at_residual and self._inverse is None:
            self._span = Span(dictionary)

    def _encode_paths(self, queries: DeviceQueries) -> DeviceCodes:
        """Solve, certify, choose among several optimal codes, and let the CPU do what is left."""
        found = self._solve_paths(queries)
        measures, certificate = self._certify(found.codes, queries, found.duals)
        # An epsilon is out of reach only where the span of the atoms says so; else the code misses it.
        good = found.solved & certificate.holds(self.tol) & (certificate.infeasible == found.out_of_reach)
        out = self._assemble(found.codes, certificate, found.steps, good)
        ties = self._settle_ties(good & ~found.out_of_reach, queries, measures, out)
        if found.duals is not None and self._inverse is None:
            ties = torch.cat([ties, self._find_vertex_ties(good & found.out_of_reach, found)])
        for rows, are_solved in ((torch.nonzero(~good)[:, 0], False), (ties, True)):
            if len(rows):
                self._ask_host(rows, queries, out, are_solved=are_solved)
        return out

    def _solve_paths(self, queries: DeviceQueries) -> _Found:
        """Solve a chunk of samples."""
        n, cross, squares = self.dictionary.n_atoms, queries.cross, queries.squared_norms
        nowhere = torch.zeros(len(queries), dtype=torch.bool, device=self.device)
        if self._working_sets is not None:
            solution = self._working_sets.solve(queries)
            return _Found(spread_codes(solution, n), solution.steps, solution.status == SOLVED, nowhere)
        if self._inverse is not None:
            return self._solve_independent(queries)
        if self._copies is not None:
            cross = cross[:, self._copies.firsts]
        solution = self._solver.solve(self._gram, cross, squares, self._coarse_gram)
        codes, solved, duals = spread_codes(solution, cross.shape[1]), solution.status == SOLVED, None
        out_of_reach = nowhere if self._span is None else self._span.find_out_of_reach(queries, self._epsilon)
        rows = torch.nonzero(out_of_reach & (solution.status == UNREACHED))[:, 0]
        if len(rows):
            duals = torch.zeros_like(codes)
            codes[rows], duals[rows] = solve_vertices(self._gram, cross[rows], solution.take(rows))
            solved[rows] = True
        if self._copies is not None:
            codes = self._copies.share(codes)
            duals = None if duals is None else self._copies.share(duals)
        return _Found(codes, solution.steps, solved, out_of_reach, None if duals is None else DeviceRows(duals))

    def _solve_independent(self, queries: DeviceQueries) -> _Found:
        """Solve BPDN over independent atoms, where an epsilon out of reach is least squares."""
        n, cross, squares = self.dictionary.n_atoms, queries.cross, queries.squared_norms
        codes = cross @ self._inverse
        codes = codes + (cross - codes @ self.dictionary.gram) @ self._inverse  # a round of iterative refinement
        floor2 = squares - (cross * codes).sum(dim=1)
        goal2 = self._epsilon**2
        # Rounding is relative to the terms of the sums, which are large where atoms are nearly dependent.
        sizes, reach = (cross * codes).abs().sum(dim=1), codes.abs() @ self.dictionary.lengths
        blur2 = ROUNDING * (squares + 2.0 * sizes + reach**2)
        is_fit = (floor2 - blur2 >= goal2) & (squares > goal2)
        steps, solved = torch.ones_like(is_fit, dtype=torch.int64), is_fit.clone()
        rows = torch.nonzero(~is_fit)[:, 0]
        if len(rows):
            solution = self._solver.solve(self._gram, cross[rows], squares[rows], self._coarse_gram)
            codes[rows] = spread_codes(solution, n)
            steps[rows], solved[rows] = solution.steps, solution.status == SOLVED
        return _Found(codes, steps, solved, is_fit, self._propose_duals(codes, is_fit))

    @property
    def _epsilon(self) -> float:
        return self.problem.require_path_end().goal

    def _propose_duals(self, codes: Tensor, is_fit: Tensor) -> DeviceRows:
        """Return dual points of least-squares codes, which use all atoms; zero for the others."""
        assert self._inverse is not None
        signs = torch.where(is_fit[:, None], codes.sign(), 0.0)
        duals = signs @ self._inverse
        return DeviceRows(duals + (signs - duals @ self.dictionary.gram) @ self._inverse)

    def _find_vertex_ties(self, good: Tensor, found: _Found) -> Tensor:
        """Return the samples out of reach whose codes may not be the only optimal ones, for the CPU to choose."""
        image = self.products.times(found.duals)
        tight = image.abs() >= (1.0 - NEARLY_TIGHT) * image.abs().amax(dim=1, keepdim=True)
        used = found.codes != 0
        if self._copies is not None:
            tight, used = tight[:, self._copies.firsts], used[:, self._copies.firsts]
        return torch.nonzero(good & ((tight | used).sum(dim=1) > used.sum(dim=1)))[:, 0]

    def _settle_ties(self, good: Tensor, queries: DeviceQueries, measures: Any, out: DeviceCodes) -> Tensor:
        """Replace codes that are not the only optimal ones by those of least norm; return which are left to the CPU.

        See :class:`srosr.coding.least_norm.LeastNorm`.
        """
        sums, used = measures.sums, out.codes != 0
        good = good & used.any(dim=1)
        # The residual is the dual point where it proves the code optimal; else the CPU has to find one.
        proves = sums.aligned - sums.quadratic >= (1.0 - NEARLY_TIGHT) * sums.peak * sums.l1
        blur = ROUNDING * (measures.length + sums.reach) * self.dictionary.lengths.max()
        least = (1.0 - TIGHT) * sums.peak - 2.0 * blur
        toward = measures.cross - measures.image
        tight = (toward.abs() >= least[:, None]) | used
        if self._copies is not None:  # one atom of each group counts
            firsts = self._copies.firsts
            toward, tight, used = toward[:, firsts], tight[:, firsts], used[:, firsts]
        rows = torch.nonzero(good & proves & (tight.sum(dim=1) > used.sum(dim=1)))[:, 0]
        others = torch.nonzero(good & ~proves)[:, 0]
        if len(rows) == 0 or self.by_features:
            return torch.cat([rows, others])
        counts = torch.ones(len(self._gram), device=self.device) if self._copies is None else self._copies.counts
        codes = out.codes[rows] if self._copies is None else self._copies.collect(out.codes[rows])
        fresh, left = shorten_codes(Ties(codes, tight[rows], toward[rows].sign()), self._gram, counts)
        fresh = fresh if self._copies is None else self._copies.share(fresh)
        new = self._certify(fresh, queries[rows], None)[1]
        better = ~left & new.holds(self.tol) & (new.objective <= (1.0 + SLACK) * out.objective[rows])
        at = rows[better]
        out.codes[at] = fresh[better]
        for name in ("residual_norm", "objective", "gap", "violation"):
            getattr(out, name)[at] = getattr(new, name)[better]
        return torch.cat([rows[left], others])

    # -- Ridge -------------------------------------------------------------------------------------------

    def _factor_ridge(self, alpha: float) -> None:
        if self.by_features:
            atoms = self.dictionary.rows
            assert atoms is not None
            system = atoms.T @ atoms
        else:
            system = self.dictionary.gram.clone()
        system.diagonal().add_(alpha)
        factor, info = torch.linalg.cholesky_ex(system)
        if int(info):
            raise ValueError(
                f"alpha={alpha:g} is lost in the rounding of the Gram matrix of dependent atoms; use a larger one."
            )
        self._ridge = factor

    def _solve_ridge(self, queries: DeviceQueries, alpha: float) -> Tensor:
        """Solve the factored system, see :class:`srosr.coding.solvers.least_squares.RidgeSolver`."""
        cross = queries.cross
        if not self.by_features:
            return torch.cholesky_solve(cross.T, self._ridge).T.contiguous()
        atoms = self.dictionary.rows
        assert atoms is not None
        return (cross - (atoms @ torch.cholesky_solve((cross @ atoms).T, self._ridge)).T) / alpha

    # -- certificates and the CPU ------------------------------------------------------------------------

    def _certify(self, codes: Tensor, queries: DeviceQueries, duals: Any) -> tuple[Any, Any]:
        """Return :class:`srosr.coding.certificate.Measures` and Certificate of codes, of tensors."""
        measures = measure(DeviceRows(codes), queries.cross, queries.squared_norms, self.products)
        return measures, self.problem.certify(measures, self.tol, duals)

    def _assemble(self, codes: Tensor, certificate: Any, steps: Tensor, good: Tensor) -> DeviceCodes:
        c = certificate
        return DeviceCodes(
            codes, c.residual_norm, c.objective, c.gap, c.violation, c.infeasible, good, steps, good.clone()
        )

    def _ask_host(self, rows: Tensor, queries: DeviceQueries, out: DeviceCodes, *, are_solved: bool) -> None:
        """Let the CPU code samples, or choose among the optimal codes of samples that are solved."""
        host = self.dictionary.host
        if not host.has_gram and gram_fits(host) and self.dictionary.has_gram:
            host._gram = self.dictionary.gram.cpu().numpy().copy()
        some = queries[rows]
        cross, squares = some.cross.cpu().numpy(), some.squared_norms.cpu().numpy()
        given = out.codes[rows].cpu().numpy() if are_solved else None
        with one_blas_thread(), ThreadPool(int(effective_n_jobs(self.n_jobs))) as pool:
            coder = Coder(host, self.problem, self.tol, self.max_iter, len(rows), pool)
            coder.wait()
            host_queries = wrap_queries(np.ascontiguousarray(cross), squares)

            def work(chunk: slice) -> Part:
                if given is None:
                    return coder.encode(host_queries, chunk)
                n = chunk.stop - chunk.start
                solution = Solution(to_sparse_rows(given[chunk]), np.ones(n, np.int64), np.zeros(n, dtype=bool))
                return coder.finish(solution, host_queries.cross[chunk], host_queries.squared_norms[chunk])

            parts = pool.map(work, split_range(0, len(rows), coder.chunk))
        for part, chunk in zip(parts, split_range(0, len(rows), coder.chunk), strict=True):
            at, c = rows[chunk], part.certificate
            fresh = self.dictionary.send(part.codes.toarray())
            # A code that the CPU has chosen among several optimal ones is not the device's.
            out.on_device[at] &= ((fresh - out.codes[at]).abs() <= _SAME).all(dim=1)
            out.codes[at] = fresh
            for to, values in (
                (out.residual_norm, c.residual_norm), (out.objective, c.objective), (out.gap, c.gap),
                (out.violation, c.violation), (out.infeasible, c.infeasible), (out.certified, c.holds(self.tol)),
            ):  # fmt: skip
                to[at] = self.dictionary.send(values)
            if given is None:
                out.steps[at] = self.dictionary.send(part.steps)


def _invert_independent(gram: Tensor) -> Tensor | None:
    """Return the inverse of the Gram matrix of independent atoms, None if they are dependent."""
    factor, info = torch.linalg.cholesky_ex(gram)
    if int(info) or bool((factor.diagonal() ** 2 <= INDEPENDENT * gram.diagonal()).any()):
        return None
    return torch.cholesky_inverse(factor)
