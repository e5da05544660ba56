"""Copies of atoms: they are coded as one atom, whose coefficient they then share.

Of all optimal codes that is the one of least norm, as long as the distinct atoms of a code are independent
(:mod:`srosr.coding.least_norm`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._support.torch_loader import torch
from ..spectrum import RANK

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = 2**26


class Copies:
    """The distinct atoms of a Gram matrix.

    Attributes
    ----------
    firsts : Tensor (n_distinct,)
        The first atom of each group of copies.
    group : Tensor (N,)
        Number of the group of each atom.
    counts : Tensor (n_distinct,)
        Atoms in each group.
    shares : Tensor (N,)
        What each atom gets of the coefficient of its group: with a minus where it points the other way.
    """

    def __init__(self, gram: Tensor) -> None:
        n, squares = len(gram), gram.diagonal()
        first = torch.arange(n, device=gram.device)
        size = max(1, _BLOCK // n)
        for start in range(0, n, size):
            rows = slice(start, start + size)
            distance2 = squares[rows, None] + squares - 2.0 * gram[rows].abs()
            same = (distance2 <= RANK * squares[rows, None]) & (squares[rows, None] > 0)
            same &= torch.arange(n, device=gram.device) <= first[rows, None]
            found = same.to(torch.int8).argmax(dim=1)  # the first one
            first[rows] = torch.where(same.any(dim=1), found, first[rows])
        first = first[first]
        self.firsts, self.group = torch.unique(first, return_inverse=True)
        self.counts = torch.bincount(self.group)
        # A zero atom has no copies: its sign is that of nothing.
        sign = torch.where(gram[torch.arange(n, device=gram.device), first] < 0.0, -1.0, 1.0).to(gram.dtype)
        self.shares = sign / self.counts[self.group]

    def __bool__(self) -> bool:
        return len(self.firsts) < len(self.group)

    def share(self, codes: Tensor) -> Tensor:
        """Return codes over distinct atoms as codes over all."""
        return codes[:, self.group] * self.shares

    def collect(self, codes: Tensor) -> Tensor:
        """Return codes over all atoms, shared among copies, as codes over distinct ones."""
        return codes[:, self.firsts] * self.counts
