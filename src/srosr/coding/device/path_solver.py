"""Which variant of the block active set method solves which samples.

Most samples need few atoms, and the fewer slots a program has the faster it is: samples start in few slots, and those
for which there are not enough go on to twice as many. On cards that are slow in double precision they start in single
precision, and go on in double precision only if they lose their way. Without Triton, or on the CPU, plain PyTorch does
all of it.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from ..._support.torch_loader import torch
from ..problems import PathEnd
from .block_active_set import FEW_ATOMS, FULL, LOST, BlockActiveSet, Rules, SlotCodes
from .chunks import split_by_memory

if TYPE_CHECKING:
    from torch import Tensor

#: The most atoms whose whole Gram matrix is used; over more, working sets are faster.
MOST_ATOMS = 8192
# Slots of the first variant.
_FEWEST = 64
# Share of samples without room in a variant from which on others start with the next one; of so many at least.
_TOO_MANY, _ENOUGH = 0.3, 256
# Samples of a large chunk that are solved first, to see how many slots they need, and how large it must be.
_PROBED, _LARGE = 512, 8192
# Programs a multiprocessor, and the most bytes that their tables may take.
_PROGRAMS = 16
_TABLE_BYTES = 2**30
# Passes in single precision after which a sample is lost; in double precision it takes much to be.
_COARSE_PASSES = 80
# Compute capabilities of cards that multiply in double precision half as fast as in single, not a 64th.
_FAST_DOUBLE = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))


class Layout(NamedTuple):
    """How a program does its work; these were measured on an H200."""

    warps: int
    block: int  # atoms whose correlations are computed at a time
    rows: int  # of the table, that are read at a time
    gram_rows: int
    registers: int | None  # of a thread at most; fewer make room for more programs


class Variant(NamedTuple):
    """A kernel: its slots, and whether it works in double precision throughout."""

    n_slots: int
    fine: bool

    def lay_out(self, n_atoms: int) -> Layout:
        """Return the layout of a program over so many atoms."""
        is_small = n_atoms <= FEW_ATOMS
        warps = max(1 if is_small else 2, min(4, self.n_slots // 64))
        lanes, entries = 4 if is_small else 16, 8 if self.n_slots <= 64 else 16  # that a thread has at a time
        rows = min(self.n_slots, max(4, entries * 32 * warps // self.n_slots))
        registers = 128 if is_small and self.n_slots <= 128 and torch.version.cuda is not None else None
        return Layout(warps, lanes * 32 * warps, rows, min(self.n_slots, 32 // lanes), registers)

    def count_programs(self, n_samples: int, n_processors: int) -> int:
        """Return the number of programs on so many multiprocessors; each has a table of its own."""
        fit = _TABLE_BYTES // (self.n_slots**2 * (8 if self.fine else 4))
        return max(1, min(n_samples, _PROGRAMS * n_processors, fit))


class PathSolver:
    """Solves Lasso and BPDN for chunks of samples over one Gram matrix, or one Gram matrix a sample.

    Parameters
    ----------
    end : PathEnd
    rank : int
        The most atoms of a code: their number, or that of their features.
    device : torch.device
    rules : Rules, optional
    """

    def __init__(self, end: PathEnd, rank: int, device: torch.device, rules: Rules | None = None) -> None:
        self.end, self.device, self.rules = end, device, rules or Rules()
        # With room for atoms that are on their way out.
        self.most = rank + self.rules.added_of_many
        #: Whether kernels do the work, and in single precision first.
        self.by_kernel = device.type == "cuda" and find_spec("triton") is not None
        self.is_coarse = self.by_kernel and not _is_fast_in_double(device)
        self.sizes = [_FEWEST]
        while self.sizes[-1] < self.most:
            self.sizes.append(2 * self.sizes[-1])
        self._first, self._is_probed = 0, False

    def solve(self, gram: Tensor, cross: Tensor, squares: Tensor, coarse_gram: Tensor | None = None) -> SlotCodes:
        """Solve a chunk of samples.

        Parameters
        ----------
        gram : Tensor (N, ld) or (n, N, ld)
            Of all samples, or of each; with zeros behind the N-th column.
        cross : Tensor (n, N)
        squares : Tensor (n,)
        coarse_gram : Tensor, optional
            The Gram matrix in single precision, if it is at hand; only read if :attr:`is_coarse`.
        """
        if self.is_coarse and coarse_gram is None:
            coarse_gram = gram.float()
        if len(cross) >= _LARGE and gram.ndim == 2 and not self._is_probed:
            self._is_probed = True
            some = slice(None, None, len(cross) // _PROBED)
            self.solve(gram, cross[some], squares[some], coarse_gram)
        start = first = self._first  # another thread may change it meanwhile
        out = self._solve_in(self.sizes[start], gram, coarse_gram, cross, squares, slice(None))
        rows = torch.nonzero(out.status == FULL)[:, 0]
        for place in range(start + 1, len(self.sizes)):
            if len(rows) == 0:
                break
            if len(rows) > _TOO_MANY * len(cross) and len(cross) >= _ENOUGH:
                first = place
            found = self._solve_in(self.sizes[place], gram, coarse_gram, cross, squares, rows)
            out = _put(out, rows, found)
            rows = rows[found.status == FULL]
        self._first = max(first, self._first)
        return out

    def _solve_in(
        self, n_slots: int, gram: Tensor, coarse_gram: Tensor | None, cross: Tensor, squares: Tensor,
        rows: Tensor | slice,
    ) -> SlotCodes:  # fmt: skip
        """Solve some samples in so many slots."""
        cross, squares = cross[rows], squares[rows]
        if gram.ndim == 3:
            gram = gram[rows]
            coarse_gram = None if coarse_gram is None else coarse_gram[rows]
        if not self.by_kernel:
            return self._solve_plainly(gram[..., : cross.shape[1]], cross, squares, min(n_slots, self.most))
        found = self._launch(Variant(n_slots, fine=coarse_gram is None), gram, coarse_gram, cross, squares)
        lost = torch.nonzero(found.status == LOST)[:, 0]
        if len(lost) and coarse_gram is not None:
            some = gram[lost] if gram.ndim == 3 else gram
            again = self._launch(Variant(n_slots, fine=True), some, None, cross[lost], squares[lost])
            _replace(found, lost, again)
            lost = lost[again.status == LOST]
        if len(lost):  # those whose inverse has to be computed anew on the way
            some = (gram[lost] if gram.ndim == 3 else gram)[..., : cross.shape[1]]
            _replace(found, lost, self._solve_plainly(some, cross[lost], squares[lost], n_slots))
        return found

    def _solve_plainly(self, gram: Tensor, cross: Tensor, squares: Tensor, n_slots: int) -> SlotCodes:
        """Solve samples in plain PyTorch, as many at a time as there is room for their inverses."""
        parts = [
            BlockActiveSet(
                gram[rows] if gram.ndim == 3 else gram, cross[rows], squares[rows], self.end, n_slots, self.rules
            ).solve()
            for rows in split_by_memory(len(cross), 6 * 8 * n_slots**2, self.device)
        ]
        return SlotCodes(*(torch.cat(values) for values in zip(*parts, strict=True)))

    def _launch(
        self, variant: Variant, gram: Tensor, coarse_gram: Tensor | None, cross: Tensor, squares: Tensor
    ) -> SlotCodes:
        """Run a kernel."""
        from .triton_kernel import follow_samples

        n_samples, n = cross.shape
        if cross.stride(1) != 1:
            cross = cross.contiguous()
        squares = squares.contiguous()  # a probe has every so many samples of a chunk: a view with gaps
        n_slots, rules, device = variant.n_slots, self.rules, cross.device
        layout = variant.lay_out(n)
        programs = variant.count_programs(n_samples, _count_processors(device))
        precision = torch.float64 if variant.fine else torch.float32

        def new(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        atoms, info = new(n_samples, n_slots, dtype=torch.int32), new(n_samples, 5, dtype=torch.int64)
        values, levels = new(n_samples, n_slots), new(n_samples)
        table, scratch = new(programs, n_slots, n_slots, dtype=precision), new(programs, n_slots, dtype=precision)
        dependent = rules.fine_dependent if variant.fine else rules.coarse_dependent
        settings = [
            self.end.goal, rules.find_ratio(self.end), rules.coarse_slack, rules.fine_slack, dependent, rules.coarse_fit
        ]  # fmt: skip
        # Triton's interpreter, which tests use, takes tensors of the CPU.
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            follow_samples[(programs,)](
                gram if coarse_gram is None else coarse_gram, gram,
                0 if gram.ndim == 2 else gram.stride(0), gram.stride(-2),
                cross, cross.stride(0), squares, atoms, values, info, levels,
                new(programs, n), table, scratch, torch.tensor(settings, dtype=torch.float64, device=device),
                n_samples, n, rules.max_passes if variant.fine else _COARSE_PASSES,
                AT_RESIDUAL=self.end.at_residual, FINE=variant.fine, BLOCK=layout.block, K=n_slots,
                ADDED=rules.count_added(n), ROWS=layout.rows, GRAM_ROWS=layout.gram_rows, num_warps=layout.warps,
                enable_fp_fusion=True, **({} if layout.registers is None else {"maxnreg": layout.registers}),
            )  # fmt: skip
        status, passes, steps, gram_rows, entries = info.unbind(dim=1)
        return SlotCodes(atoms.to(torch.int64), values, status, levels, passes, steps, gram_rows, entries)


def _replace(old: SlotCodes, rows: Tensor, new: SlotCodes) -> None:
    """Put the solution of some samples, in as many slots, in its place."""
    for to, values in zip(old, new, strict=True):
        to[rows] = values


def _put(old: SlotCodes, rows: Tensor, part: SlotCodes) -> SlotCodes:
    """Return a solution with that of some samples, in more slots, in its place."""
    more = part.atoms.shape[1] - old.atoms.shape[1]
    if more > 0:
        pad = torch.nn.functional.pad
        old = old._replace(atoms=pad(old.atoms, (0, more), value=-1), values=pad(old.values, (0, more)))
    old.atoms[rows], old.values[rows] = part.atoms, part.values
    old.status[rows], old.levels[rows] = part.status, part.levels
    for name in ("passes", "steps", "gram_rows", "table_entries"):
        getattr(old, name)[rows] += getattr(part, name)
    return old


def spread_codes(solution: SlotCodes, n_atoms: int) -> Tensor:
    """Return the codes of slots as dense rows."""
    out = solution.values.new_zeros((len(solution.values), n_atoms))
    return out.scatter_add_(1, solution.atoms.clamp(min=0), solution.values)


@cache
def _is_fast_in_double(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) in _FAST_DOUBLE


@cache
def _count_processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
