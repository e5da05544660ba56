r"""Homotopy: the exact path of Lasso solutions, followed over Gram quantities alone.

For one sample the coder sees ``gram`` :math:`G = Y^TY`, its correlations ``corr`` :math:`c = Y^Ty` and
:math:`\|y\|^2`. As the level :math:`\lambda` falls from :math:`\max|c|`, the minimizer of
:math:`\tfrac12\|y - Yx\|^2 + \lambda\|x\|_1` moves along straight pieces: with active atoms :math:`A` and signs
:math:`s`,

.. math:: x_A(\lambda) = G_{AA}^{-1}(c_A - \lambda s), \qquad |c_j - G_{jA}x_A| \le \lambda \ (j \notin A),

and a piece ends where an active coefficient reaches zero or another atom's correlation reaches
:math:`\pm\lambda`. ``Lasso`` stops at :math:`\lambda = \alpha`; ``BPDN`` stops where the residual is
:math:`\epsilon`, which on a piece is a quadratic equation in :math:`\lambda`; an :math:`\epsilon` out of reach
ends at :math:`\lambda \to 0`.

What makes it fast
------------------
A plain homotopy reads the Gram rows of all active atoms over all N atoms at every step and is bound by memory.
Here each step looks only at a *working set* W of promising atoms whose Gram entries are gathered into a small
block that stays in cache. From time to time (every quarter more of active atoms, and at the end) all N
correlations are computed. Atoms outside W that should have entered meanwhile, the *late* ones, are not repaired
by starting again: their own level t, first the largest late correlation, is lowered to :math:`\lambda` while
the level of all others rests. That is a homotopy too, with the same steps, so the path is followed exactly from
where it is. The inverse of :math:`G_{AA}` and the direction are updated, not solved for.

Degenerate atoms
----------------
An atom that depends linearly on the active ones and reaches its level either runs along with it (a duplicate
does) and is masked until an active atom leaves, or crosses it and takes the place of the active atom that
first reaches zero along the null direction. Nothing is assumed about rank.

References
----------
M. R. Osborne, B. Presnell, B. A. Turlach, "A new approach to variable selection in least squares problems",
IMA J. Numer. Anal. 20, 2000. D. L. Donoho, Y. Tsaig, "Fast solution of l1-norm minimization problems when the
solution may be sparse", IEEE Trans. Inf. Theory 54, 2008.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._support.array_types import Array, IntArray
from ..._support.compiled import leaf, loop, part
from ..sparse_rows import SparseRows
from .active_set import settle, solve
from .block_inverse import combine, write_if_due
from .path_corrections import invert_afresh, is_last_piece, settle_low
from .path_steps import (
    drop_candidate,
    find_event,
    finish,
    join,
    leave,
    make_room,
    measure_distance,
    meet,
    meet_again,
    move,
)
from .working_set import choose_candidates, find_bound, find_largest
from .workspace import (
    DIRECTION,
    DOUBTFUL,
    DRIVE,
    DUAL,
    IS_LATE,
    LATE,
    LOST,
    MASKED,
    OUT_OF_STEPS,
    RATE,
    REACHED,
    SIGN,
    STOPPED,
    TARGET,
    UNREACHABLE,
    E,
    G,
    U,
    X,
    enlarge,
    make_path,
    make_workspace,
)

# Where compiled code goes on when it is called again.
_START, _LOOK, _SETTLED, _COMPARE, _LEG, _STEP, _ENTER, _LEAVE, _END, _WRITE = range(10)
# What it needs before that; nothing once all paths have ended.
_NOTHING, _ROOM, _FRESH_INVERSE, _LOW_LEVEL, _LAST_PIECE, _OUTPUT = range(6)

# Active atoms added before all correlations are looked at again: a quarter of those there, within these bounds (with
# more, too many come late, and rounding errors of the inverse have longer to grow).
_REFRESH_MIN, _REFRESH_MAX = 12, 48
# The level, relative to the first one, from which an unreachable epsilon is taken to level zero in one piece, and how
# far below it the path is followed where there are more pieces.
_LEVEL_ZERO = 1e-8
_LEVEL_LAST = 1e-13
# Times the last look may find late atoms, or an exchange fail, before the path counts as lost.
_MAX_CHECKS = 200
# Error of the active correlations, relative to their level, above which the inverse is computed afresh.
_SETTLED_TO = 1e-9


class Paths(NamedTuple):
    """Where the paths of a batch end."""

    codes: SparseRows
    duals: SparseRows  # for BPDN, z of the dual points v = Yz in the span of the active atoms
    steps: IntArray
    endings: IntArray  # as listed in .workspace


def follow_paths(
    gram: Array,
    corr: Array,
    squared_norms: Array,
    *,
    is_bpdn: bool,
    goal: float,
    max_steps: int,
    stop: np.ndarray,
    doubt: float = 0.0,
) -> Paths:
    """Follow the path of every sample to its end.

    Parameters
    ----------
    gram : ndarray (N, N)
    corr : ndarray (n, N)
    squared_norms : ndarray (n,)
    is_bpdn : bool
        Whether ``goal`` is epsilon, else it is alpha.
    goal : float
    max_steps : int
        Of each sample.
    stop : uint8 ndarray (1,)
        Raised (non-zero) by the caller to end the paths early.
    doubt : float
        BPDN: the level, relative to the first, below which a path ends as DOUBTFUL.
    """
    # As a matrix that cannot be written, whether it can or not: Numba would compile all of this again for one that
    # cannot, such as a memory map of joblib's.
    gram = gram.view()
    gram.flags.writeable = False
    n_samples, n = corr.shape
    path, ws = make_path(), make_workspace(n)
    # By item: attributes of a record take Python microseconds.
    path["is_bpdn"], path["goal"], path["doubt"], path["max_steps"] = is_bpdn, goal, doubt, max_steps
    path["longest"] = np.diagonal(gram).max()
    indices, values = np.empty(32 * n_samples + 64, np.int64), np.empty((2, 32 * n_samples + 64))
    tally = np.zeros((3, n_samples), np.int64)
    while True:
        need = _follow_batch(gram, corr, squared_norms, stop, path, ws, indices, values, tally)
        if need == _NOTHING:
            return _collect(tally, indices[: path["used"]], values[:, : path["used"]], n)
        sample = corr[path["sample"]]
        if need == _ROOM:
            ws = enlarge(ws, path["k"], path["w"])
        elif need == _FRESH_INVERSE:
            inverse, counts, path["error"] = invert_afresh(gram, sample, path, ws)
            ws = ws._replace(inverse=inverse, counts=counts)
        elif need == _LOW_LEVEL:
            path["noise"] = settle_low(gram, sample, path, ws)
        elif need == _LAST_PIECE:
            if is_last_piece(gram, sample, path, ws):
                path["stage"] = _END
            else:
                path["stage"], path["arrived"], path["last_level"] = _LOOK, False, 0.01 * path["last_level"]
        elif need == _OUTPUT:
            more = path["used"] + 2 * path["k"]
            indices = np.concatenate([indices, np.empty(more, np.int64)])
            values = np.hstack([values, np.empty((2, more))])


def _collect(tally: IntArray, indices: IntArray, values: Array, n: int) -> Paths:
    """Return the paths' ends with the entries of every row in the order of the atoms."""
    counts, steps, endings = tally
    n_samples = len(counts)
    order = np.argsort(np.repeat(np.arange(n_samples) * n, counts) + indices)
    indptr, indices = np.concatenate([[0], np.cumsum(counts)]), indices[order]
    shape = (n_samples, n)
    return Paths(
        SparseRows(indptr, indices, values[0, order], shape),
        SparseRows(indptr, indices, values[1, order], shape),
        steps,
        endings,
    )


@loop()
def _follow_batch(gram, corr, squared_norms, stop, path, ws, indices, values, tally):
    """Follow one path after the other; returns what the one under way needs, _NOTHING when all have ended.

    ``indices`` and ``values`` receive atoms, coefficients and dual points, ``tally`` the number of entries, the steps
    and the ending of each.
    """
    while path.sample < corr.shape[0]:
        sample, stage = corr[path.sample], path.stage
        if stage == _STEP:
            if path.k == ws.atoms.shape[0]:
                return _ROOM
            if not _may_step(stop, path):
                continue
            combine(ws.block, ws.vectors[DIRECTION], path.k, path.w, ws.work[RATE])
            leaves, enters, new_sign, step = find_event(path, ws)
            if not abs(step) < np.inf:
                path.ending, path.stage = LOST, _WRITE
                continue
            move(step, path, ws)
            if enters >= 0:
                meet(enters, new_sign, path, ws)
                path.stage = _ENTER
            elif leaves >= 0:
                path.leaving, path.exchanging, path.stage = leaves, False, _LEAVE
            else:
                _end_leg(sample, path, ws)
        elif stage == _ENTER:
            _enter(gram, path, ws)
        elif stage == _LEAVE:
            leave(gram, path, ws)
            write_if_due(ws.inverse, ws.counts, path.k)
            path.stage = _STEP
            if path.exchanging:
                meet_again(gram, path, ws)
                path.stage = _ENTER
        elif stage == _LEG:
            _begin_leg(path, ws)
        elif stage == _START:
            _start(sample, squared_norms[path.sample], find_largest(sample), path, ws)
        elif stage == _LOOK:
            if stop[0] != 0:
                path.ending, path.stage = STOPPED, _WRITE
                continue
            path.stage = _SETTLED
            if not _settle(gram, sample, path, ws):
                return _FRESH_INVERSE
        elif stage == _SETTLED:
            path.stage = _COMPARE
            _estimate_noise(path, ws)
            if not path.error <= 1e-6 * path.first_level or not path.noise < np.inf:
                path.ending, path.stage = LOST, _WRITE
            elif path.k > 0 and path.noise > 1e-11 * path.level:
                return _LOW_LEVEL
        elif stage == _COMPARE:
            if _compare(gram, sample, path, ws):
                return _LAST_PIECE
        elif stage == _END:
            path.stage = _WRITE
            if path.unreachable:
                path.ending = UNREACHABLE
            if path.is_bpdn:
                finish(sample, path, ws)
        elif path.used + path.k > indices.shape[0]:
            return _OUTPUT
        else:
            _write_out(path, ws, indices, values, tally)
    return _NOTHING


@leaf()
def _write_out(path, ws, indices, values, tally):
    """Write where a path ends, and go on to the next sample."""
    used, k, b = path.used, path.k, path.sample
    has_dual = path.is_bpdn and (path.ending == REACHED or path.ending == UNREACHABLE)
    for i in range(k):
        indices[used + i] = ws.atoms[i]
        values[0, used + i] = ws.vectors[X, i]
        values[1, used + i] = ws.vectors[DUAL, i] if has_dual else 0.0
    tally[0, b], tally[1, b], tally[2, b] = k, path.steps, path.ending
    path.used = used + k
    path.sample = b + 1
    path.stage = _START


@leaf()
def _start(corr, squared_norm, level, path, ws):
    """Begin at the first level, with no active atom."""
    for j in range(corr.shape[0]):
        ws.active[j] = False
        ws.residual_corr[j] = corr[j]
    goal, is_bpdn = path.goal, path.is_bpdn
    path.squared_norm = path.residual2 = squared_norm
    path.level = path.first_level = level
    path.last_level = _LEVEL_ZERO * level if is_bpdn else goal
    # An epsilon lost in the rounding of a squared residual is as good as zero: the path is followed to the end.
    path.seeks_epsilon = is_bpdn and goal * goal > 1e-15 * squared_norm
    path.k = path.w = path.steps = path.checks = 0
    path.arrived = path.unreachable = False
    path.ending = REACHED
    path.stage = _LOOK
    ws.counts[0] = ws.counts[1] = 0
    if level == 0.0 or (is_bpdn and squared_norm <= goal * goal) or (not is_bpdn and level <= goal):
        if is_bpdn and squared_norm > goal * goal:
            path.ending = UNREACHABLE
        path.stage = _WRITE


@leaf()
def _may_step(stop, path):
    """Count a step, or end the path where there may be no more; returns whether there may."""
    if path.steps >= path.max_steps:
        path.ending, path.stage = OUT_OF_STEPS, _WRITE
        return False
    path.steps += 1
    if path.steps % 64 == 0 and stop[0] != 0:
        path.ending, path.stage = STOPPED, _WRITE
        return False
    return True


@part()
def _enter(gram, path, ws):
    """Make the entering atom active, if need be in exchange for an active one.

    Where rounding hides what an exchange has freed the path does without the atom.
    """
    schur = measure_distance(gram, path, ws)
    if schur != 0.0:
        if not path.exchanging:
            drop_candidate(path, ws)
        join(gram, schur, path, ws)
        write_if_due(ws.inverse, ws.counts, path.k)
        is_due = path.added >= path.refresh and not path.arrived and not path.lowering_late
        path.stage = _LOOK if is_due else _STEP
    elif path.exchanging:
        path.checks += 1
        path.stage = _LOOK
    else:
        path.leaving = make_room(path, ws)
        path.stage = _STEP
        if path.leaving >= 0:
            drop_candidate(path, ws)
            path.stage = _LEAVE


@part()
def _settle(gram, corr, path, ws):
    """Bring the coefficients to rounding level and compute all correlations; returns whether that is accurate."""
    path.error = 0.0
    if path.k == 0:
        return True
    v, k, level, first = ws.vectors, path.k, path.level, path.first_level
    for i in range(k):
        v[TARGET, i] = level * v[SIGN, i]
    path.error = settle(
        gram, ws.own, corr, v[TARGET], ws.atoms, ws.inverse, ws.counts, k, 1e-12 * first,
        v[X], ws.residual_corr, v[G], v[U], v[E],
    )  # fmt: skip
    return path.error <= _SETTLED_TO * level or path.error <= 1e-12 * first  # an error may be not a number


@leaf()
def _estimate_noise(path, ws):
    """Estimate the rounding of a correlation."""
    noise = 2e-15 * path.first_level
    for i in range(path.k):
        noise += 2e-15 * path.longest * abs(ws.vectors[X, i])
    path.noise = noise


@leaf()
def _square_residual(corr, path, ws):
    """Compute the squared residual, from settled coefficients."""
    residual2 = path.squared_norm
    for i in range(path.k):
        residual2 -= ws.vectors[X, i] * (corr[ws.atoms[i]] + path.level * ws.vectors[SIGN, i])
    path.residual2 = residual2


@part()
def _compare(gram, corr, path, ws):
    """Compare all correlations with the level: end there, or choose a working set.

    Returns True where the path has arrived at a level near zero; it ends there only if the rest of it is one piece.
    """
    k, level, first = path.k, path.level, path.first_level
    if k > 0:
        _square_residual(corr, path, ws)
        for i in range(k):
            ws.residual_corr[ws.atoms[i]] = level * ws.vectors[SIGN, i]
    top = find_largest(ws.residual_corr)
    too_high = level * (1.0 + 1e-9) + path.noise
    if path.is_bpdn and level < path.doubt * first:
        path.ending, path.stage = DOUBTFUL, _WRITE
        return False
    if path.arrived and top <= too_high:
        path.stage = _END
        return path.unreachable and path.last_level >= _LEVEL_LAST * first
    path.checks += path.arrived
    if path.checks > _MAX_CHECKS:
        path.ending, path.stage = LOST, _WRITE
        return False
    bound, count = find_bound(ws.residual_corr, top, ws.atoms, k, ws.histogram)
    choose_candidates(gram, bound, count, too_high, path, ws)
    for i in range(k):
        ws.vectors[IS_LATE, i] = 0.0
    path.lowering_late = path.late_level > 0.0
    path.added = 0
    path.refresh = k // 4
    if path.refresh < _REFRESH_MIN:
        path.refresh = _REFRESH_MIN
    elif path.refresh > _REFRESH_MAX:
        path.refresh = _REFRESH_MAX
    path.stage = _LEG
    return False


@part()
def _begin_leg(path, ws):
    """Compute the direction in which a level falls: first that of the late atoms, down to the common one, then that."""
    v, k = ws.vectors, path.k
    path.speed = 1.0
    if not path.lowering_late and path.seeks_epsilon and path.residual2 < path.goal * path.goal:
        path.speed = -1.0
    for i in range(k):
        v[DRIVE, i] = v[SIGN, i] * (v[IS_LATE, i] if path.lowering_late else path.speed)
    solve(ws.own, ws.inverse, ws.counts, k, v[DRIVE], 0.0, -1.0, 0.0, v[DIRECTION], v[E], v[U])
    path.stage = _STEP


@leaf()
def _end_leg(corr, path, ws):
    """Go on with the common level where all late atoms have come down to it; else the path has arrived."""
    path.stage = _LOOK
    if not path.lowering_late:
        path.arrived = True
        path.unreachable = path.is_bpdn and not path.at_epsilon
        return
    path.lowering_late = False
    for i in range(path.k):
        ws.vectors[IS_LATE, i] = 0.0
    for j in range(path.w):
        ws.work[LATE, j] = 0.0
        ws.work[MASKED, j] = 0.0
    if path.is_bpdn:
        _square_residual(corr, path, ws)
    # Lasso that had arrived has arrived again.
    there = not path.is_bpdn or (path.unreachable and path.residual2 > path.goal * path.goal)
    path.stage = _LOOK if path.arrived and there else _LEG
