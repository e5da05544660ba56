r"""An epsilon out of reach over dependent atoms: basis pursuit on a device.

The answer is :math:`\min\|x\|_1` subject to :math:`Yx = Py`, where the path of Lasso solutions ends as the level goes
to zero. On the last active set A, with signs s, it is :math:`x_A = G_{AA}^{-1}c_A`, and :math:`z_A = G_{AA}^{-1}s_A`
gives the dual point Yz that proves it. Which samples are out of reach is decided as on the CPU, by the rank tolerance
of the singular values of the atoms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._support.torch_loader import torch
from ...dictionary.device_dictionary import DeviceDictionary, DeviceQueries
from ..spectrum import RANK, ROUNDING
from .block_active_set import SlotCodes
from .chunks import split_by_memory

if TYPE_CHECKING:
    from torch import Tensor


class Span:
    """The span of the atoms, for the distances of samples to it: see :class:`srosr.coding.spectrum.Spectrum`."""

    def __init__(self, dictionary: DeviceDictionary) -> None:
        self.lengths = dictionary.lengths
        rows = dictionary.rows if dictionary.is_linear else None
        if rows is not None:
            vectors, singular, _ = torch.linalg.svd(rows / self.lengths[:, None], full_matrices=False)
        else:
            squares, vectors = torch.linalg.eigh(dictionary.gram / (self.lengths[:, None] * self.lengths))
            singular = squares.clamp(min=0.0).sqrt()
        counts = singular**2 > RANK * singular.max() ** 2
        self._map = vectors[:, counts] / singular[counts]
        self._blur = ROUNDING * (1.0 + float(torch.linalg.vector_norm(1.0 / singular[counts])))

    def find_out_of_reach(self, queries: DeviceQueries, epsilon: float) -> Tensor:
        """Return which samples are farther from the span than epsilon, rounding considered."""
        squares = queries.squared_norms
        along = (queries.cross / self.lengths) @ self._map
        floor2 = squares - (along * along).sum(dim=1)
        return (floor2 - self._blur * squares > epsilon * epsilon) & (squares > epsilon * epsilon)


def solve_vertices(gram: Tensor, cross: Tensor, found: SlotCodes) -> tuple[Tensor, Tensor]:
    """Return codes and dual points (n, N) on the active sets of some samples; zero where they are dependent."""
    rows = split_by_memory(len(cross), 6 * 8 * found.atoms.shape[1] ** 2, cross.device)
    parts = [_solve_some(gram, cross[some], found.atoms[some], found.values[some]) for some in rows]
    codes, duals = (torch.cat(values) for values in zip(*parts, strict=True))
    return codes, duals


def _solve_some(gram: Tensor, cross: Tensor, slots: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    used, atoms = slots >= 0, slots.clamp(min=0)
    blocks = gram[atoms[:, :, None], atoms[:, None, :]]
    eye = torch.eye(blocks.shape[1], dtype=blocks.dtype, device=blocks.device)
    blocks = torch.where(used[:, :, None] & used[:, None, :], blocks, eye)
    right = torch.stack([torch.where(used, cross.gather(1, atoms), 0.0), values.sign()], dim=2)
    factor, info = torch.linalg.cholesky_ex(blocks)
    solution = _solve(factor, right)
    solution = solution + _solve(factor, right - blocks @ solution)  # a round of iterative refinement
    solution = torch.where((used & (info == 0)[:, None])[:, :, None], solution, 0.0)
    codes, duals = (torch.zeros_like(cross).scatter_add_(1, atoms, solution[:, :, i]) for i in range(2))
    return codes, duals


def _solve(factor: Tensor, right: Tensor) -> Tensor:
    half = torch.linalg.solve_triangular(factor, right, upper=False)
    return torch.linalg.solve_triangular(factor.transpose(1, 2), half, upper=True)
