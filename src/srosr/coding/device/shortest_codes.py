r"""The least-norm code on a device: see :mod:`srosr.coding.least_norm`, which says what it is.

The distinct atoms A of a code are independent; others, E, may be tight as well. With :math:`U = G_{AA}^{-1}G_{AE}`, the
null vectors w of the small matrix :math:`S = G_{EE} - G_{EA}U` give those of all tight atoms, :math:`(-Uw, w)`. If
there are none the code is the only one. Else z, the code with its signs taken off, loses its part along them; if that
leaves negative entries, the shortest :math:`z_0 + Nu \ge 0` with orthonormal null vectors N is found by division for
one of them, and for several from the dual problem

.. math:: \min_{\lambda \ge 0} \tfrac12\|N^T\lambda\|^2 + \lambda^Tz_0, \qquad u = N^T\lambda,

by accelerated projected gradients, whose nonzero entries say which of z are zero; then u solves a small system. What is
not found like this, or does not satisfy the optimality conditions, is left to the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..._support.torch_loader import torch
from ..spectrum import RANK
from .chunks import split_by_memory

if TYPE_CHECKING:
    from torch import Tensor

# The most atoms of a code and the most other tight ones; samples with more are left to the CPU.
_MOST_USED, _MOST_OTHERS = 128, 8
# Eigenvalues for unit atoms below the first are zero, above the second they are not; between them the CPU decides.
_NULL, _CLEAR = 10 * RANK, 1e-9
# As in srosr.coding.least_norm: coefficients, and entries of null vectors, that are rounding.
_SMALL, _UNINVOLVED = 1e-13, 1e-10
# Iterations for the dual problem, shares of the largest price that are tried as zero, and what violations are rounding.
_ITERATIONS = 300
_ZERO_PRICES, _VIOLATION = (1e-7, 1e-3, 1e-1, 1e-10), 1e-12


class Ties(NamedTuple):
    """Codes that may not be the only optimal ones, over distinct atoms.

    Attributes
    ----------
    codes : Tensor (n, N)
        The sums of the coefficients of copies.
    tight : Tensor of bool (n, N)
        Atoms that may take part, among them those of the codes.
    signs : Tensor (n, N)
        The signs that their coefficients may have.
    """

    codes: Tensor
    tight: Tensor
    signs: Tensor

    def take(self, rows: Tensor) -> Ties:
        """Return some of the samples."""
        return Ties(*(values[rows] for values in self))


def shorten_codes(ties: Ties, gram: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the codes of least norm, and which samples are left to the CPU.

    ``gram`` (N, N or more) is the Gram matrix of the distinct atoms and ``counts`` (N,) their numbers of copies.
    """
    out, used = ties.codes.clone(), ties.codes != 0
    n_used, n_others = used.sum(dim=1), (ties.tight & ~used).sum(dim=1)
    left = (n_used > _MOST_USED) | (n_others > _MOST_OTHERS)
    rows = torch.nonzero(~left)[:, 0]
    most = int((n_used + n_others)[rows].max()) if len(rows) else 0
    for part in split_by_memory(len(rows), 6 * 8 * (most + 1) ** 2, gram.device) if most else ():
        some = rows[part]
        out[some], left[some] = _shorten(ties.take(some), gram, counts)
    return out, left


def _shorten(ties: Ties, gram: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    used = ties.codes != 0
    first, is_first = _list_atoms(used)
    second, is_second = _list_atoms(ties.tight & ~used)
    atoms, present = torch.cat([first, second], dim=1), torch.cat([is_first, is_second], dim=1)
    s = torch.where(present, ties.signs.gather(1, atoms), 1.0)
    weights, lengths = counts[atoms].to(s.dtype).sqrt(), gram[atoms, atoms].sqrt()
    z = torch.where(present, (s * ties.codes.gather(1, atoms)).clamp(min=0.0) / weights, 0.0)
    unit = s / lengths
    inner = gram[atoms[:, :, None], atoms[:, None, :]] * unit[:, :, None] * unit[:, None, :]
    eye = torch.eye(inner.shape[1], dtype=inner.dtype, device=inner.device)
    inner = torch.where(present[:, :, None] & present[:, None, :], inner, eye)
    k = first.shape[1]
    factor, info = torch.linalg.cholesky_ex(inner[:, :k, :k])
    # Two triangular systems are solved for all samples at once; a solution by the factor would take them one by one.
    half = torch.linalg.solve_triangular(factor, inner[:, :k, k:], upper=False)
    u = torch.linalg.solve_triangular(factor.transpose(1, 2), half, upper=True)
    values, vectors = torch.linalg.eigh(inner[:, k:, k:] - half.transpose(1, 2) @ half)
    left = (info != 0) | ((values > _NULL) & (values <= _CLEAR)).any(dim=1) | ~values.isfinite().all(dim=1)
    dimension, size = (values <= _NULL).sum(dim=1), z.amax(dim=1)
    changed = torch.zeros_like(left)
    for d in range(1, int(dimension.max()) + 1):
        some = torch.nonzero((dimension == d) & ~left & (size > 0))[:, 0]
        if len(some) == 0:
            continue
        w = vectors[some][:, :, :d]
        null = torch.cat([-u[some] @ w, w], dim=1) / (lengths * weights)[some][:, :, None]
        null = _orthonormalize(torch.where(present[some][:, :, None], null, 0.0))
        null = torch.where((null.abs().amax(dim=2) <= _UNINVOLVED)[:, :, None], 0.0, null)
        found, failed = _find_shortest(null, z[some] / size[some, None])
        z[some] = torch.where(failed[:, None], z[some], found * size[some, None])
        left[some], changed[some] = failed, ~failed
    values = torch.where(present & (z > _SMALL * size[:, None]), s * z * weights, 0.0)
    fresh = torch.zeros_like(ties.codes).scatter_add_(1, atoms, values)
    return torch.where(changed[:, None], fresh, ties.codes), left


def _list_atoms(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the atoms chosen in each row, in as many columns as the longest list has, and which entries are atoms."""
    flags, atoms = chosen.to(torch.int8).topk(max(int(chosen.sum(dim=1).max()), 1), dim=1)
    return atoms, flags > 0


def _orthonormalize(columns: Tensor) -> Tensor:
    """Return orthonormal columns with the same span, twice for accuracy."""
    for _ in range(2):
        factor = torch.linalg.cholesky_ex(columns.transpose(1, 2) @ columns)[0]
        columns = torch.linalg.solve_triangular(factor, columns.transpose(1, 2), upper=False).transpose(1, 2)
    return columns


def _find_shortest(null: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Return the shortest z' >= 0 that differs from z by null vectors, and which were not found."""
    start = z - torch.einsum("nij,nkj,nk->ni", null, null, z)
    negative = start.amin(dim=1) < -_SMALL
    out, failed = start.clone(), torch.zeros_like(negative)
    rows = torch.nonzero(negative)[:, 0]
    if len(rows) == 0:
        return out, failed
    if null.shape[2] == 1:
        out[rows] = _move_least(null[rows, :, 0], start[rows])
    else:
        out[rows], failed[rows] = _find_least_distance(null[rows], start[rows])
    return out, failed


def _move_least(null: Tensor, start: Tensor) -> Tensor:
    """Return start + u null >= 0 with the least |u|, for one null vector a row."""
    involved = null != 0.0
    limits = torch.where(involved, -start / torch.where(involved, null, 1.0), 0.0)
    least = torch.where(null > 0.0, limits, -torch.inf).amax(dim=1)
    most = torch.where(null < 0.0, limits, torch.inf).amin(dim=1)
    step = torch.where(least > 0.0, least, most.clamp(max=0.0))
    out = start + step[:, None] * null
    return torch.where(involved & (limits == step[:, None]), 0.0, out)


def _find_least_distance(null: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Return start + null u >= 0 with the shortest u, for several null vectors a row, and which were not found."""
    prices, ahead, momentum = torch.zeros_like(start), torch.zeros_like(start), 1.0
    for _ in range(_ITERATIONS):
        slope = torch.einsum("nij,nkj,nk->ni", null, null, ahead) + start
        new = (ahead - slope).clamp(min=0.0)
        after = 0.5 * (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5)
        prices, ahead, momentum = new, new + (momentum - 1.0) / after * (new - prices), after
    out, failed = start.clone(), torch.ones(len(start), dtype=torch.bool, device=start.device)
    for share in _ZERO_PRICES:
        found, good = _solve_bound(null, start, prices > share * prices.amax(dim=1, keepdim=True))
        out = torch.where((failed & good)[:, None], found, out)
        failed &= ~good
    return out, failed


def _solve_bound(null: Tensor, start: Tensor, bound: Tensor) -> tuple[Tensor, Tensor]:
    """Return start + null u with the shortest u that makes some entries zero, and which are optimal."""
    rows = torch.where(bound[:, :, None], null, 0.0)
    inverse = torch.linalg.pinv(rows.transpose(1, 2) @ rows, hermitian=True, rtol=1e-10)
    u = torch.einsum("ndk,nik,ni->nd", inverse, rows, -start)
    out = torch.where(bound, 0.0, start + torch.einsum("nid,nd->ni", null, u))
    # Optimal if nothing is negative, what is bound is zero, and u is a combination of bound rows with prices >= 0.
    reached = (torch.einsum("nid,nd->ni", rows, u) + torch.where(bound, start, 0.0)).abs().amax(dim=1)
    paid = torch.einsum("nid,ndk,nk->ni", rows, inverse, u)
    good = (out.amin(dim=1) >= -_VIOLATION) & (reached <= _VIOLATION) & (paid.amin(dim=1) >= -_VIOLATION)
    return out.clamp(min=0.0), good
