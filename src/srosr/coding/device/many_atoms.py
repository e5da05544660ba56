r"""Coding over more atoms than a Gram matrix on the device has room for: working sets.

Each sample has a working set of a few hundred atoms, whose Gram matrix is computed from their features. The problem is
solved over it; then the correlations of all atoms with the residual, two matrix products for a whole chunk, show which
others belong there. The set keeps the atoms of the code and takes those that violate optimality most, until none does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..._support.torch_loader import torch
from ...dictionary.device_dictionary import DeviceDictionary, DeviceQueries
from .block_active_set import LOST, SOLVED, UNREACHED, SlotCodes
from .chunks import split_by_memory
from .path_solver import PathSolver

if TYPE_CHECKING:
    from torch import Tensor

#: Atoms of a working set at first; it is doubled for samples whose set does not settle.
WORKING_SET = 256
# The most rounds, those after which a set that has not settled is doubled, and the largest size.
_ROUNDS, _PATIENCE, _LARGEST = 32, 6, 2048
# Share of a set that a code may take.
_FILLED = 0.75
# Violations below this share of the level count as none.
_SLACK = 1e-9


class WorkingSets:
    """Solves Lasso and BPDN without the Gram matrix of all atoms.

    Parameters
    ----------
    dictionary : DeviceDictionary
        With a linear kernel.
    solver : PathSolver
    """

    def __init__(self, dictionary: DeviceDictionary, solver: PathSolver) -> None:
        self.dictionary, self.solver = dictionary, solver

    def solve(self, queries: DeviceQueries) -> SlotCodes:
        """Solve a chunk of samples; slots have the numbers of the atoms."""
        n, n_atoms = len(queries), self.dictionary.n_atoms
        size = min(WORKING_SET, n_atoms)
        rows = torch.arange(n, device=queries.cross.device)
        chosen = queries.cross.abs().topk(size, dim=1).indices
        parts: list[tuple[Tensor, SlotCodes]] = []
        for rounds in range(_ROUNDS):
            solution = self._solve_sets(queries[rows], chosen)
            violation = self._measure(queries[rows], solution)
            goes_on = (solution.status == SOLVED) | (solution.status == UNREACHED)
            settled = (violation.amax(dim=1) <= 0.0) | ~goes_on
            parts.append((rows[settled], solution.take(settled)))
            rows, violation, solution = rows[~settled], violation[~settled], solution.take(~settled)
            if len(rows) == 0:
                break
            # A set that its code nearly fills, or that does not settle, is too small.
            is_full = bool(((solution.atoms >= 0).sum(dim=1) > _FILLED * size).any())
            if is_full or rounds % _PATIENCE == _PATIENCE - 1:
                if size == min(_LARGEST, n_atoms):
                    break
                size = min(2 * size, _LARGEST, n_atoms)
            chosen = self._choose(solution, violation, size)
        if len(rows):
            parts.append((rows, solution._replace(status=torch.full_like(solution.status, LOST))))
        return _merge(n, parts)

    def _solve_sets(self, queries: DeviceQueries, chosen: Tensor) -> SlotCodes:
        """Solve samples over their working sets (n, size), as many at a time as there is room for."""
        size, n_features = chosen.shape[1], self._atoms.shape[1]
        rows = split_by_memory(len(queries), 8 * size * (4 * size + 2 * n_features), chosen.device)
        parts = [(some, self._solve_some_sets(queries[some], chosen[some])) for some in rows]
        return _merge(len(queries), parts)

    @property
    def _atoms(self) -> Tensor:
        atoms = self.dictionary.rows
        assert atoms is not None
        return atoms

    def _solve_some_sets(self, queries: DeviceQueries, chosen: Tensor) -> SlotCodes:
        atoms = self._atoms
        picked = atoms[chosen]
        gram = torch.bmm(picked, picked.transpose(1, 2))
        cross = queries.cross.gather(1, chosen)
        solution = self.solver.solve(gram, cross, queries.squared_norms)
        numbers = chosen.gather(1, solution.atoms.clamp(min=0))
        return solution._replace(atoms=torch.where(solution.atoms >= 0, numbers, -1))

    def _measure(self, queries: DeviceQueries, solution: SlotCodes) -> Tensor:
        """Return by how much each atom violates optimality, relative to the level; -1 for those of the codes."""
        atoms, at = self._atoms, solution.atoms.clamp(min=0)
        rows = split_by_memory(len(at), 2 * 8 * at.shape[1] * atoms.shape[1], at.device)
        images = [torch.einsum("nk,nkm->nm", solution.values[some], atoms[at[some]]) for some in rows]
        image = torch.cat(images) @ atoms.T
        out = (queries.cross - image).abs_().div_(solution.levels[:, None]).sub_(1.0 + _SLACK)
        if self.solver.end.at_residual:
            out[(solution.atoms < 0).all(dim=1)] = -1.0  # epsilon is reached by the zero code
        src = torch.where(solution.atoms >= 0, -1.0, torch.inf).to(out.dtype)
        return out.scatter_reduce_(1, at, src, reduce="amin")

    def _choose(self, solution: SlotCodes, violation: Tensor, size: int) -> Tensor:
        """Return working sets of the atoms of the codes and those that violate most, or nearly do."""
        src = torch.where(solution.atoms >= 0, torch.inf, -torch.inf).to(violation.dtype)
        ranked = violation.scatter_reduce(1, solution.atoms.clamp(min=0), src, reduce="amax")
        return ranked.topk(size, dim=1).indices


def _merge(n: int, parts: Sequence[tuple[Tensor | slice, SlotCodes]]) -> SlotCodes:
    """Return the solution of parts, each with the rows it goes to."""
    width = max(part.atoms.shape[1] for _, part in parts)
    like = parts[0][1]
    out = SlotCodes(
        like.atoms.new_full((n, width), -1),
        like.values.new_zeros((n, width)),
        *(values.new_zeros(n) for values in like[2:]),
    )
    for rows, part in parts:
        k = part.atoms.shape[1]
        out.atoms[rows, :k], out.values[rows, :k] = part.atoms, part.values
        for to, values in zip(out[2:], part[2:], strict=True):
            to[rows] = values
    return out
