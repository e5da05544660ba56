"""Orthogonal matching pursuit on a device: all samples choose their next atom together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._support.torch_loader import torch
from ...dictionary.device_dictionary import DeviceQueries
from .device_codes import DeviceProducts, DeviceRows

if TYPE_CHECKING:
    from torch import Tensor

# As in srosr.coding.solvers.omp.
_NOTHING_LEFT = 1e-10
_DEPENDENT = 1e-10


def pursue(products: DeviceProducts, queries: DeviceQueries, n_nonzero: int) -> tuple[Tensor, Tensor]:
    """Return the codes of samples, and how many atoms each has chosen."""
    cross, lengths = queries.cross, products.lengths
    n, n_atoms = cross.shape
    most = min(n_nonzero, n_atoms)
    codes, left = torch.zeros_like(cross), cross / lengths
    barred = (products.dictionary.squared_norms == 0).expand(n, -1).clone()
    support = torch.zeros((n, most), dtype=torch.int64, device=cross.device)
    inverse = cross.new_zeros((n, most, most))
    count = torch.zeros(n, dtype=torch.int64, device=cross.device)
    open_, slots = torch.ones(n, dtype=torch.bool, device=cross.device), torch.arange(most, device=cross.device)
    while True:
        best, who = torch.where(barred, 0.0, left.abs()).max(dim=1)
        open_ &= (best > _NOTHING_LEFT * queries.squared_norms.sqrt()) & (count < most)
        rows = torch.nonzero(open_)[:, 0]
        if len(rows) == 0:
            return codes, count
        j = who[rows]
        barred[rows, j] = True
        used = slots < count[rows, None]
        g = torch.where(used, _entries(products, j, support[rows]), 0.0)
        own = products.dictionary.squared_norms[j]
        u = torch.einsum("bij,bj->bi", inverse[rows], g)
        schur = own - (g * u).sum(dim=1)
        fits = schur > _DEPENDENT * own
        rows, j, u, schur = rows[fits], j[fits], u[fits], schur[fits]
        at = count[rows]
        v = u.scatter(1, at[:, None], -1.0)
        inverse[rows] += v[:, :, None] * (v / schur[:, None])[:, None, :]
        support[rows, at] = j
        count[rows] += 1
        atoms, used = support[rows], slots < count[rows, None]
        right = torch.where(used, cross[rows].gather(1, atoms), 0.0)
        x = torch.einsum("bij,bj->bi", inverse[rows], right)
        for _ in range(2):  # and once more from what is left: a round of iterative refinement
            dense = torch.zeros_like(cross[rows]).scatter_add_(1, atoms, torch.where(used, x, 0.0))
            apart = cross[rows] - products.times(DeviceRows(dense))
            rest = torch.where(used, apart.gather(1, atoms), 0.0)
            x = x + torch.einsum("bij,bj->bi", inverse[rows], rest)
        codes[rows] = torch.zeros_like(dense).scatter_add_(1, atoms, torch.where(used, x, 0.0))
        left[rows] = (cross[rows] - products.times(DeviceRows(codes[rows]))) / lengths


def _entries(products: DeviceProducts, left: Tensor, right: Tensor) -> Tensor:
    """Return Gram entries of one atom a sample with several others."""
    if not products.by_features:
        return products.dictionary.gram[left[:, None], right]
    atoms = products.dictionary.rows
    assert atoms is not None
    return torch.einsum("nm,nkm->nk", atoms[left], atoms[right])
