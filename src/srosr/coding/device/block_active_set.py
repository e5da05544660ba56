r"""The block active set method: Lasso and BPDN for many samples at once.

At a level :math:`\lambda` the Lasso is solved by an active set A with signs s and coefficients x, all atoms at a time:

1. A few atoms that violate optimality most, :math:`|c_j - G_{jA}x| > \lambda`, join A with the sign of that
   correlation. One that depends on A, :math:`Y_j = Y_Au`, shortens the code if :math:`|u^Ts| > 1`: x moves along the
   null vector until another atom leaves, whose place it takes. Else it does not join; such as a copy of an atom in A.
2. x moves toward the optimum on A, :math:`x + H\rho` with :math:`H = G_{AA}^{-1}` and :math:`\rho = r_A - \lambda s`.
   Where a coefficient would change its sign x stops, its atom leaves A, and x moves on; :math:`\rho` shrinks with it.
3. The correlations of all atoms, :math:`r = c - Gx`, are computed anew.

The objective falls in every round, so no active set comes back. The inverse is updated atom by atom, and since every
round starts from the true correlations, errors of H are corrected like those of an iterative refinement: H may be in
single precision while x and r are not. Where a move misses its goal, H is computed anew. The Lasso is solved at its own
level at once: on the way through larger levels more atoms join and leave. For BPDN levels are halved from the largest
correlation until the residual has the length epsilon, which on an active set is the root of
:math:`\|r\|^2 = \epsilon^2` with :math:`d\|r\|^2/d\lambda^2 = s^THs`. A homotopy adds one atom a pass over all atoms;
this method needs fewer passes for the same codes.

This is the plain path, on any device that Torch has; :mod:`.triton_kernel` is the fast one.

References
----------
H. Lee, A. Battle, R. Raina, A. Y. Ng, "Efficient sparse coding algorithms", NIPS 2006 (the search for signs in an
active set at a fixed level). M. R. Osborne, B. Presnell, B. A. Turlach, "A new approach to variable selection in least
squares problems", IMA J. Numer. Anal. 20, 2000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..._support.torch_loader import torch
from ..problems import PathEnd

if TYPE_CHECKING:
    from torch import Tensor

#: How a sample ended: solved, lost its way, epsilon below the smallest level, or more atoms than slots.
SOLVED, LOST, UNREACHED, FULL = 1, 2, 3, 4
# Rounding of correlations, relative to the largest.
_ROUNDING = 1e-14
# Share of the way to an optimum that a move may miss before the inverse is computed anew.
_MISSED = 0.01
#: Atoms up to which a pass over all of them is cheap.
FEW_ATOMS = 1024


class Rules(NamedTuple):
    """The constants of the method."""

    #: From one level to the next: to a goal that is a level at once, to a residual by and by.
    ratio: float = 0.05
    residual_ratio: float = 0.5
    #: Violations below these shares of the level count as none, in single and in double precision.
    coarse_slack: float = 1e-4
    fine_slack: float = 1e-9
    #: How nearly a code by an inverse in single precision has to solve the equations of its atoms: ties show then.
    coarse_fit: float = 1e-12
    #: An atom depends on others if they leave less than this share of its squared length, in either precision.
    coarse_dependent: float = 1e-5
    fine_dependent: float = 1e-10
    #: Atoms that join at a time, of few and of many atoms.
    added: int = 4
    added_of_many: int = 8
    #: Passes over all atoms after which a sample counts as lost.
    max_passes: int = 200

    def find_ratio(self, end: PathEnd) -> float:
        """Return the ratio of levels on the way to an end."""
        return self.residual_ratio if end.at_residual else self.ratio

    def count_added(self, n_atoms: int) -> int:
        """Return how many atoms join at a time."""
        return self.added if n_atoms <= FEW_ATOMS else self.added_of_many


class SlotCodes(NamedTuple):
    """Codes of a chunk of samples, by slots."""

    atoms: Tensor  # (n, K), -1 in an empty slot
    values: Tensor  # (n, K)
    status: Tensor  # (n,), and so are the others
    levels: Tensor
    passes: Tensor  # over all atoms
    steps: Tensor  # atoms that joined or left
    gram_rows: Tensor  # that were read
    table_entries: Tensor  # of the inverse, that were read or written: of kernels, else 0

    def take(self, rows: Tensor) -> SlotCodes:
        """Return the codes of some of the samples."""
        return SlotCodes(*(values[rows] for values in self))


class BlockActiveSet:
    """The state of a chunk of samples, all of which go through each step together.

    Parameters
    ----------
    gram : Tensor (N, N), or (n, N, N) with a Gram matrix for each sample
    cross : Tensor (n, N)
    squares : Tensor (n,)
    end : PathEnd
    n_slots : int
        The most atoms of a code.
    """

    def __init__(
        self, gram: Tensor, cross: Tensor, squares: Tensor, end: PathEnd, n_slots: int, rules: Rules | None = None
    ) -> None:
        self.rules, self.end = rules or Rules(), end
        self.gram, self.c, self.squares = gram, cross, squares
        n, new = len(cross), cross.new_zeros
        self.r, self.free = cross.clone(), torch.ones_like(cross, dtype=torch.bool)
        self.atoms = torch.zeros((n, n_slots), dtype=torch.int64, device=cross.device)
        self.used = torch.zeros_like(self.atoms, dtype=torch.bool)
        self.x, self.s = new(n, n_slots), new(n, n_slots)
        self.inverse = new(n, n_slots, n_slots)
        self.status, self.passes, self.steps, self.gram_rows = (torch.zeros_like(self.atoms[:, 0]) for _ in range(4))
        self._before = torch.full_like(squares, torch.inf)  # how far x was from the optimum before its last move
        self.slots = torch.arange(n_slots, device=cross.device)
        self.top = top = cross.abs().amax(dim=1)
        self.lowest = 1e-9 * top if end.at_residual else torch.full_like(top, end.goal)
        self.level = torch.maximum(self.lowest, self.rules.find_ratio(end) * top)
        done = squares <= end.goal**2 if end.at_residual else top <= end.goal
        self.status[done] = SOLVED

    def solve(self) -> SlotCodes:
        """Solve all samples."""
        while True:
            self._choose_levels()
            rows = torch.nonzero(self.status == 0)[:, 0]
            if len(rows) == 0:
                break
            self._add_atoms(rows)
            self._move(rows[self.status[rows] == 0])
            self._correlate(rows[self.status[rows] == 0])
        atoms = torch.where(self.used, self.atoms, -1)
        values = torch.where(self.used, self.x, 0.0)
        counts = self.passes, self.steps, self.gram_rows, torch.zeros_like(self.steps)
        return SlotCodes(atoms, values, self.status, self.level, *counts)

    # -- the steps ---------------------------------------------------------------------------------------

    def _choose_levels(self) -> None:
        """Go on to the next level, or end, where a level is solved."""
        slack, level, ratio = self.rules.fine_slack, self.level, self.rules.find_ratio(self.end)
        r_active = self.r.gather(1, self.atoms)
        worst = torch.where(self.free, self.r.abs(), 0.0).amax(dim=1)
        error = torch.where(self.used, (r_active - level[:, None] * self.s).abs(), 0.0).amax(dim=1)
        running = self.status == 0
        rounding = _ROUNDING * self.top
        solved = running & (worst <= level * (1.0 + slack) + rounding) & (error <= slack * level + rounding)
        if self.end.at_residual:
            goal2 = self.end.goal**2
            c_active = self.c.gather(1, self.atoms)
            left = self.squares - (self.x * (c_active + r_active)).sum(dim=1) - goal2
            close = left.abs() <= 2e-10 * self.squares.mul(1e-6).clamp(min=goal2)
            rate = (self.s * torch.einsum("bij,bj->bi", self.inverse, self.s)).sum(dim=1)
            change = torch.where(rate > 0.0, left / rate, torch.inf)
            wanted = (level * level - change).clamp(min=0.0).sqrt().maximum(ratio * level)
            ends, below = solved & close, wanted <= self.lowest
            self.status[ends] = SOLVED
            self.status[solved & ~close & below] = UNREACHED
            self.level = torch.where(solved & ~close, wanted, level)
        else:
            self.status[solved & (level <= self.lowest)] = SOLVED
            self.level = torch.where(solved, torch.maximum(self.lowest, ratio * level), level)
        self.status[(self.status == 0) & (self.passes >= self.rules.max_passes)] = LOST
        self._renew_inverses(torch.where(error > slack * level + rounding, error, 0.0))

    def _renew_inverses(self, error: Tensor) -> None:
        """Compute the inverse anew where the last move has not led to the optimum on the active set."""
        rows = torch.nonzero((error > _MISSED * self._before) & (self.status == 0))[:, 0]
        self._before[:] = torch.inf
        if len(rows) == 0:
            return
        used, atoms = self.used[rows], self.atoms[rows]
        both = used[:, :, None] & used[:, None, :]
        if self.gram.ndim == 2:
            blocks = self.gram[atoms[:, :, None], atoms[:, None, :]]
        else:
            blocks = self.gram[rows[:, None, None], atoms[:, :, None], atoms[:, None, :]]
        eye = torch.eye(blocks.shape[1], dtype=blocks.dtype, device=blocks.device)
        factor, info = torch.linalg.cholesky_ex(torch.where(both, blocks, eye))
        half = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
        self.inverse[rows] = torch.where(both, half.transpose(1, 2) @ half, 0.0)
        self.status[rows[info != 0]] = LOST

    def _add_atoms(self, rows: Tensor) -> None:
        """Let the atoms that violate most join."""
        open_ = self.free.clone()
        fresh = torch.zeros_like(self.status, dtype=torch.bool)  # samples with an atom that joined in this round
        for _ in range(self.rules.count_added(self.c.shape[1])):
            size = torch.where(open_[rows], self.r[rows].abs(), 0.0)
            best, who = size.max(dim=1)
            rows, who = self._select(best > self.level[rows] * (1.0 + self.rules.fine_slack), rows, who)
            if len(rows) == 0:
                return
            g = torch.where(self.used[rows], self._entries(rows, who, self.atoms[rows]), 0.0)
            own = self._entries(rows, who, who[:, None])[:, 0]
            u = torch.einsum("bij,bj->bi", self.inverse[rows], g)
            schur = own - (g * u).sum(dim=1)
            open_[rows, who] = False
            depends = schur <= self.rules.fine_dependent * own
            gains = depends & ((u * self.s[rows]).sum(dim=1).abs() > 1.0 + self.rules.fine_slack)
            now = gains & ~fresh[rows]  # else in a round of its own
            self._exchange(*self._select(now, rows, who, u, g, own))
            open_[rows[gains]] = False
            rows, who, u, schur = self._select(~gains, rows, who, u, schur)
            again, depends = rows, depends[~gains]
            rows, who, u, schur = self._select(~depends, rows, who, u, schur)
            full = self.used[rows].all(dim=1)
            self.status[rows[full]] = FULL
            rows, who, u, schur = self._select(~full, rows, who, u, schur)
            if len(rows):
                slot = self.used[rows].to(torch.int8).argmin(dim=1)
                self._append(rows, who, slot, u, schur, torch.zeros_like(schur))
                fresh[rows] = True
            rows = again[self.status[again] == 0]

    def _exchange(self, rows: Tensor, who: Tensor, u: Tensor, g: Tensor, own: Tensor) -> None:
        """Move along null vectors until an atom leaves, and let another one take its place."""
        sign = self.r[rows, who].sign()
        d = -sign[:, None] * u
        # Only atoms without which the new one is independent: what u has at others is rounding.
        diagonal = self.inverse[rows].diagonal(dim1=1, dim2=2)
        involved = u * u > self.rules.fine_dependent * own[:, None] * diagonal
        meets = self.used[rows] & involved & (d * self.s[rows] < 0.0)
        t, leaves = torch.where(meets, -self.x[rows] / torch.where(meets, d, 1.0), torch.inf).min(dim=1)
        self.status[rows[t.isinf()]] = LOST
        rows, who, t, leaves, d, g, own = self._select(t.isfinite(), rows, who, t, leaves, d, g, own)
        self.x[rows] += t[:, None] * torch.where(self.used[rows], d, 0.0)
        self._drop(rows, leaves)
        g = torch.where(self.used[rows], g, 0.0)
        u = torch.einsum("bij,bj->bi", self.inverse[rows], g)
        schur = own - (g * u).sum(dim=1)
        bad = schur <= self.rules.fine_dependent * own
        self.status[rows[bad]] = LOST
        self._append(*self._select(~bad, rows, who, leaves, u, schur, t))

    def _append(self, rows: Tensor, who: Tensor, slot: Tensor, u: Tensor, schur: Tensor, size: Tensor) -> None:
        """Put atoms into slots, with coefficients of a size."""
        v = u.clone()
        v.scatter_(1, slot[:, None], -1.0)
        self.inverse[rows] += v[:, :, None] * (v / schur[:, None])[:, None, :]
        sign = self.r[rows, who].sign()
        self.atoms[rows, slot], self.used[rows, slot] = who, True
        self.x[rows, slot], self.s[rows, slot] = sign * size, sign
        self.free[rows, who] = False
        self.steps[rows] += 1

    def _drop(self, rows: Tensor, slot: Tensor) -> None:
        """Empty slots."""
        h = self.inverse[rows, slot]
        pivot = h.gather(1, slot[:, None])
        gone = self.slots == slot[:, None]
        inverse = self.inverse[rows] - h[:, :, None] * (h / pivot)[:, None, :]
        self.inverse[rows] = torch.where(gone[:, :, None] | gone[:, None, :], 0.0, inverse)
        self.free[rows, self.atoms[rows, slot]] = True
        self.used[rows, slot], self.atoms[rows, slot] = False, 0
        self.x[rows, slot], self.s[rows, slot] = 0.0, 0.0
        self.steps[rows] += 1

    def _move(self, rows: Tensor) -> None:
        """Move to the optimum on the active set; atoms whose sign would change leave on the way."""
        r_active = self.r[rows].gather(1, self.atoms[rows])
        rho = torch.where(self.used[rows], r_active - self.level[rows, None] * self.s[rows], 0.0)
        self._before[rows] = rho.abs().amax(dim=1)
        while len(rows):
            x, s, used = self.x[rows], self.s[rows], self.used[rows]
            d = torch.einsum("bij,bj->bi", self.inverse[rows], rho)
            bad = used & (s * (x + d) < 0.0)
            t, leaves = torch.where(bad, x / torch.where(bad, -d, 1.0), 2.0).min(dim=1)
            self.x[rows] = torch.where(used, x + t.clamp(max=1.0)[:, None] * d, 0.0)
            rows, leaves, t, rho = self._select(t <= 1.0, rows, leaves, t, rho)
            self._drop(rows, leaves)
            rho = torch.where(self.used[rows], rho * (1.0 - t)[:, None], 0.0)

    def _correlate(self, rows: Tensor) -> None:
        """Compute the correlations of all atoms with the residuals."""
        if self.gram.ndim == 3:
            picked = self.gram[rows[:, None], self.atoms[rows]]
            self.r[rows] = self.c[rows] - torch.einsum("bk,bkn->bn", self.x[rows], picked)
        else:
            dense = torch.zeros_like(self.c[rows]).scatter_add_(1, self.atoms[rows], self.x[rows])
            self.r[rows] = self.c[rows] - dense @ self.gram
        self.passes[rows] += 1
        self.gram_rows[rows] += self.used[rows].sum(dim=1)

    # -- small things ------------------------------------------------------------------------------------

    def _entries(self, rows: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Return Gram entries of one atom a sample with several others."""
        return (
            self.gram[left[:, None], right] if self.gram.ndim == 2 else self.gram[rows[:, None], left[:, None], right]
        )

    @staticmethod
    def _select(chosen: Tensor, *tensors: Tensor) -> Any:
        """Return the rows of tensors that are chosen."""
        return tuple(tensor[chosen] for tensor in tensors)
