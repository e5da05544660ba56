"""The workspace of a homotopy: the arrays it works on, and the numbers that say where on the path it stands.

Compiled code allocates nothing. Where a path needs more room it stops, :func:`enlarge` makes a larger workspace, and
the path goes on from the same step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._support.array_types import Array, IntArray
from .block_inverse import WAIT

# Active atoms there is room for at first, and working-set atoms beyond the number of active ones.
_ATOMS = 64
_CANDIDATES = 264
_BINS = 128

# How a path ends.
REACHED = 0  # at the level, or the residual, asked for
UNREACHABLE = 1  # BPDN: the level is down to zero and the residual is still above epsilon
OUT_OF_STEPS = 2
LOST = 3  # numerically stuck; the fallback solver takes over
STOPPED = 4  # the caller's stop flag was raised
DOUBTFUL = 5  # BPDN: the level is so low that epsilon is likely to be out of reach

# Rows of Workspace.vectors, an entry an active atom.
X = 0  # coefficients
SIGN = 1  # of the correlations
IS_LATE = 2  # 1 where the atom is on the late level
DRIVE = 3  # right-hand side of the direction: sign times the speed of the atom's level
DIRECTION = 4  # in which x moves
DUAL = 5  # BPDN: z_A of the dual point v = Yz
TARGET, G, U, E = 6, 7, 8, 9  # scratch

# Rows of Workspace.work, an entry a candidate.
CORR = 0  # correlation with the residual
RATE = 1  # how fast that falls
LATE = 2  # 1 where the candidate is on the late level
MASKED = 3  # 1 where it runs along with its level and is not looked at


class Workspace(NamedTuple):
    """Arrays for one path after the other: k active atoms, w candidates (the working set), n atoms in all."""

    atoms: IntArray  # (capacity,) active atoms
    vectors: Array  # (10, capacity)
    own: Array  # (capacity, capacity) Gram matrix of the active atoms, its lower half
    inverse: Array  # of that matrix, as in block_inverse
    counts: IntArray
    candidates: IntArray  # (width,) inactive atoms that are looked at in every step
    work: Array  # (4, width)
    block: Array  # (capacity, width) Gram entries of active atoms and candidates
    residual_corr: Array  # (n,) correlations of all atoms with the residual
    active: np.ndarray  # (n,) flags
    histogram: IntArray


#: Where a path stands, and what it is to reach.
PATH = np.dtype(
    [
        ("stage", np.int64),
        ("sample", np.int64),  # row of the batch
        ("used", np.int64),  # entries of the output
        # What to reach.
        ("is_bpdn", np.bool_),
        ("goal", np.float64),  # epsilon, or alpha
        ("doubt", np.float64),
        ("max_steps", np.int64),
        ("longest", np.float64),  # the largest squared length of an atom
        ("squared_norm", np.float64),
        ("first_level", np.float64),
        ("last_level", np.float64),
        ("seeks_epsilon", np.bool_),
        # Where it stands.
        ("k", np.int64),  # active atoms
        ("w", np.int64),  # candidates
        ("steps", np.int64),
        ("checks", np.int64),  # times the last look has found late atoms, or an exchange has failed
        ("level", np.float64),
        ("late_level", np.float64),
        ("residual2", np.float64),
        ("error", np.float64),  # of the correlations of active atoms
        ("noise", np.float64),  # rounding of a correlation
        ("arrived", np.bool_),
        ("unreachable", np.bool_),
        ("ending", np.int64),
        # The leg under way.
        ("lowering_late", np.bool_),
        ("speed", np.float64),  # of the common level, downwards
        ("added", np.int64),
        ("refresh", np.int64),  # atoms added after which all correlations are looked at
        # The piece under way.
        ("fall", np.float64),
        ("curve", np.float64),
        ("at_epsilon", np.bool_),
        # The atom that enters or leaves at its end.
        ("leaving", np.int64),  # place among the active atoms
        ("candidate", np.int64),  # place of the entering atom in the working set
        ("entering", np.int64),
        ("new_sign", np.float64),
        ("is_late", np.float64),
        ("own_speed", np.float64),  # of its level
        ("rate", np.float64),
        ("shift", np.float64),  # its coefficient after an exchange
        ("exchanging", np.bool_),
    ],
    align=True,
)


def make_workspace(n: int, capacity: int = _ATOMS) -> Workspace:
    """Return a workspace for paths over n atoms with room for some active ones."""
    width = _CANDIDATES + capacity
    return Workspace(
        np.empty(capacity, np.int64),
        np.empty((10, capacity)),
        np.empty((capacity, capacity)),
        np.empty((capacity + WAIT, capacity + 8)),
        np.zeros(2, np.int64),
        np.empty(width, np.int64),
        np.empty((4, width)),
        np.empty((capacity, width)),
        np.empty(n),
        np.empty(n, np.bool_),
        np.empty(_BINS + 1, np.int64),
    )


def make_path() -> Any:
    """Return a record of the type `PATH`, all zero."""
    return np.zeros(1, PATH)[0]


def enlarge(old: Workspace, k: int, w: int) -> Workspace:
    """Return a workspace twice as large with the same k active atoms and w candidates."""
    before, size = len(old.atoms), old.counts[0]
    new = make_workspace(len(old.active), 2 * before)
    new.atoms[:k] = old.atoms[:k]
    new.vectors[:, :k] = old.vectors[:, :k]
    new.own[:k, :k] = old.own[:k, :k]
    new.inverse[:size, :size] = old.inverse[:size, :size]
    new.inverse[2 * before :, :before] = old.inverse[before:, :before]
    new.inverse[2 * before :, -1] = old.inverse[before:, -1]
    new.candidates[:w] = old.candidates[:w]
    new.work[:, :w] = old.work[:, :w]
    new.block[:k, :w] = old.block[:k, :w]
    return new._replace(counts=old.counts, residual_corr=old.residual_corr, active=old.active, histogram=old.histogram)
