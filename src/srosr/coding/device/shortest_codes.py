r"""The least-norm code on a device: see :mod:`srosr.coding.least_norm`, which says what it is.

The distinct atoms A of a code are independent; others, E, may be tight as well. With :math:`U = G_{AA}^{-1}G_{AE}`, the
null vectors w of the small matrix :math:`S = G_{EE} - G_{EA}U` give those of all tight atoms, :math:`(-Uw, w)`. If
there are none the code is the only one. Else z, the code with its signs taken off, loses its part along them; if that
leaves negative entries, the shortest :math:`z_0 + Nu \ge 0` with orthonormal null vectors N is found by the dual active
set method of Goldfarb and Idnani (Mathematical Programming 27, 1983), for all samples at once: of the entries below
zero the most negative one is bound to zero, and entries whose price would become negative are let go. What is not found
like this, or does not satisfy the optimality conditions, is left to the CPU.
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
# The most steps to the shortest code, squared distances of unit rows from a span that are none, and violations.
_STEPS, _DEPENDENT, _VIOLATION = 60, 1e-10, 1e-12
# Eigenvalues of products of unit rows below this share of the largest are rounding.
_ZERO = 1e-13


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
    system = inner[:, k:, k:] - half.mT @ half
    left = (info != 0) | ~system.isfinite().all(dim=2).all(dim=1)
    values, vectors = _decompose(torch.where(left[:, None, None], eye[k:, k:], system))
    left |= ((values > _NULL) & (values <= _CLEAR)).any(dim=1)
    dimension, size = (values <= _NULL).sum(dim=1), z.amax(dim=1)
    changed = (dimension > 0) & ~left & (size > 0)
    some = torch.nonzero(changed)[:, 0]
    if len(some):
        is_null = (values <= _NULL)[some, None, : int(dimension[some].max())]
        w = torch.where(is_null, vectors[some][:, :, : is_null.shape[2]], 0.0)
        null = torch.cat([-u[some] @ w, w], dim=1) / (lengths * weights)[some][:, :, None]
        null, is_good = _orthonormalize(torch.where(present[some][:, :, None], null, 0.0))
        null = torch.where((null.abs().amax(dim=2) <= _UNINVOLVED)[:, :, None], 0.0, null)
        found, failed = _find_shortest(null, z[some] / size[some, None])
        failed |= ~is_good
        z[some] = torch.where(failed[:, None], z[some], found * size[some, None])
        left[some], changed[some] = failed, ~failed
    values = torch.where(present & (z > _SMALL * size[:, None]), s * z * weights, 0.0)
    fresh = torch.zeros_like(ties.codes).scatter_add_(1, atoms, values)
    return torch.where(changed[:, None], fresh, ties.codes), left


def _list_atoms(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the atoms chosen in each row, in as many columns as the longest list has, and which entries are atoms."""
    flags, atoms = chosen.to(torch.int8).topk(max(int(chosen.sum(dim=1).max()), 1), dim=1)
    return atoms, flags > 0


def _decompose(systems: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues and eigenvectors of small symmetric matrices, from the CPU if the card finds none."""
    try:
        values, vectors = torch.linalg.eigh(systems)
    except torch.linalg.LinAlgError:
        values, vectors = (part.to(systems.device) for part in torch.linalg.eigh(systems.cpu()))
    return values, vectors


def _invert(systems: Tensor, least: float) -> Tensor:
    """Return the pseudoinverses of small positive matrices; eigenvalues below a share of the largest are zero."""
    values, vectors = _decompose(systems)
    counts = values > least * values.amax(dim=1, keepdim=True)
    inverse = torch.where(counts, 1.0 / torch.where(counts, values, 1.0), 0.0)
    return (vectors * inverse[:, None, :]) @ vectors.mT


def _orthonormalize(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return orthonormal columns with the same span, and where there are any; columns of zeros stay."""
    absent = torch.diag_embed((columns == 0.0).all(dim=1).to(columns.dtype))
    is_good = torch.ones(len(columns), dtype=torch.bool, device=columns.device)
    for _ in range(2):  # twice for accuracy
        factor, info = torch.linalg.cholesky_ex(columns.mT @ columns + absent)
        columns = torch.linalg.solve_triangular(factor, columns.mT, upper=False).mT
        is_good &= (info == 0) & columns.isfinite().all(dim=2).all(dim=1)
        columns = torch.where(is_good[:, None, None], columns, 0.0)
    return columns, is_good


def _find_shortest(null: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Return the shortest z' >= 0 that differs from z by null vectors, and which were not found."""
    out = z - torch.einsum("nij,nkj,nk->ni", null, null, z)
    rows = torch.nonzero(out.amin(dim=1) < -_SMALL)[:, 0]
    failed = torch.zeros(len(z), dtype=torch.bool, device=z.device)
    if len(rows):
        sizes = torch.linalg.vector_norm(null[rows], dim=2)
        sizes = torch.where(sizes > 0.0, sizes, 1.0)
        unit, start = null[rows] / sizes[:, :, None], out[rows] / sizes
        out[rows], good = _solve_bound(unit, start, _bind(unit, start), sizes)
        failed[rows] = ~good
    return out, failed


def _bind(rows: Tensor, start: Tensor) -> Tensor:
    """Return which entries of the shortest start + rows u >= 0 are zero, at most as many as u has.

    The rows are of unit length or zero.
    """
    is_free = (rows == 0.0).all(dim=2)
    u, prices = torch.zeros_like(rows[:, 0]), torch.zeros_like(start)
    bound = torch.zeros_like(is_free)
    samples = torch.arange(len(rows), device=rows.device)
    joining = torch.full_like(samples, -1)  # the entry that is being bound, whose price is in its place already
    for _ in range(_STEPS):
        slack = torch.where(is_free | bound, torch.inf, start + (rows @ u[:, :, None])[:, :, 0])
        worst = slack.argmin(dim=1)
        violated = slack[samples, worst] < -_VIOLATION
        active = violated | (joining >= 0)
        if not bool(active.any()):
            break
        joining = torch.where(joining >= 0, joining, worst)
        row = rows[samples, joining]
        held = torch.where(bound[:, :, None], rows, 0.0)
        inverse = _invert(held.mT @ held, _ZERO)
        change = (held @ (inverse @ row[:, :, None]))[:, :, 0]
        direction = row - (held.mT @ change[:, :, None])[:, :, 0]
        steep = (direction * row).sum(dim=1)
        whole = torch.where(steep > _DEPENDENT, -slack[samples, joining] / steep.clamp(min=_DEPENDENT), torch.inf)
        ends = torch.where(change > 0.0, prices / change.clamp(min=1e-300), torch.inf)
        part, leaving = ends.min(dim=1)
        step = torch.where(active, torch.minimum(whole, part), 0.0)
        step = torch.where(step.isfinite(), step, 0.0)
        u = u + torch.where(steep > _DEPENDENT, step, 0.0)[:, None] * direction
        prices = (prices - step[:, None] * change).scatter_add(1, joining[:, None], step[:, None])
        is_whole, leaves = active & (whole <= part) & whole.isfinite(), active & (part < whole)
        bound[samples, joining] |= is_whole
        bound[samples, leaving] &= ~leaves
        prices[samples, leaving] = torch.where(leaves, 0.0, prices[samples, leaving])
        joining = torch.where(leaves, joining, -1)
    return bound


def _solve_bound(unit: Tensor, start: Tensor, bound: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return sizes (start + unit u) with the shortest u that makes some entries zero, and which are optimal."""
    rows = torch.where(bound[:, :, None], unit, 0.0)
    inverse = _invert(rows.mT @ rows, _ZERO)
    u = torch.zeros_like(rows[:, 0])
    for _ in range(3):  # with two rounds of iterative refinement
        missing = torch.where(bound, -start, 0.0) - (rows @ u[:, :, None])[:, :, 0]
        u = u + torch.einsum("ndk,nik,ni->nd", inverse, rows, missing)
    out = torch.where(bound, 0.0, sizes * (start + (unit @ u[:, :, None])[:, :, 0]))
    # Optimal if nothing is negative, what is bound is zero, and u is a combination of bound rows with prices >= 0.
    missing = torch.where(bound, sizes * (start + (rows @ u[:, :, None])[:, :, 0]), 0.0)
    paid = torch.einsum("nid,ndk,nk->ni", rows, inverse, u)
    good = (out.amin(dim=1) >= -_VIOLATION) & (missing.abs().amax(dim=1) <= _VIOLATION)
    return out.clamp(min=0.0), good & (paid.amin(dim=1) >= -_VIOLATION)
