r"""Bets against the uniformity of p-values: a conformal test martingale.

The capital is 1 at first and in reserve. Before sample t the share :math:`g_t` of it moves from the reserve to the
*arms*, in equal parts. Each arm has a betting function f on [0, 1] with mean 1, and multiplies what it has by
:math:`f(p_t)`:

.. math::

   W_t(f) = \bigl(W_{t-1}(f) + g_t / K\bigr) f(p_t), \qquad M_t = R_t + \sum_f W_t(f), \qquad
   R_t = 1 - \frac{\log(1 + t/c)}{\log(1 + H/c)}, \qquad g_t = R_{t-1} - R_t .

If the p-values are independent and uniform, the expectation of :math:`M_t` given what came before is
:math:`M_{t-1}`: the capital is a nonnegative martingale that begins at 1, and by Ville's inequality it ever reaches
1/r with probability at most r. The reserve lasts for the H samples of a watch, and about as much of it is bet on a
change between samples t and 2t for every t beyond c: money that was bet before a change is soon lost, and new money
finds the change.

References
----------
V. Vovk, "Testing randomness online", Statistical Science 36, 2021. J. Ville, "Étude critique de la notion de
collectif", 1939.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.compiled import loop

#: Scores that are ranked among each other by comparing all pairs.
_CHUNK = 512


class RankBag:
    r"""The scores of earlier samples, sorted, in which those of new samples get smoothed conformal p-values.

    Sample t with score s, and u uniform on (0, 1], has the p-value

    .. math:: p_t = \frac{\#\{i < t: s_i > s_t\} + u_t \, (\#\{i < t: s_i = s_t\} + 1)}{t}

    over a bag of t − 1 earlier scores. If the stream, with the scores that the bag began with, is exchangeable, then
    :math:`p_1, p_2, \dots` are independent and uniform, whatever the distribution of the scores and however many are
    equal (Vovk, Gammerman & Shafer 2005, chapter 2).

    Parameters
    ----------
    scores : ndarray
        What the bag begins with, sorted or not, without NaN.
    """

    def __init__(self, scores: Array) -> None:
        self.scores: Array = np.sort(np.asarray(scores, dtype=np.float64))

    def __len__(self) -> int:
        return len(self.scores)

    def rank(self, scores: Array, u: Array) -> Array:
        """Return the p-values of scores in the order of the stream, and add them to the bag.

        ``u`` has a number in (0, 1] for each of them.
        """
        if len(scores) <= _CHUNK:
            return self._rank_chunk(scores, u)
        parts = [self._rank_chunk(scores[i : i + _CHUNK], u[i : i + _CHUNK]) for i in range(0, len(scores), _CHUNK)]
        return np.concatenate(parts)

    def _rank_chunk(self, scores: Array, u: Array) -> Array:
        bag, n = self.scores, len(scores)
        left, right = np.searchsorted(bag, scores, side="left"), np.searchsorted(bag, scores, side="right")
        above, equal = len(bag) - right, right - left
        if n == 1:  # a sample at a time: without the general case's overhead
            self.scores = np.concatenate([bag[: right[0]], scores, bag[right[0] :]])
        else:
            # Row i, column j: whether sample j of the chunk came before sample i.
            before = np.tri(n, k=-1, dtype=bool)
            above = above + np.count_nonzero(before & (scores[None, :] > scores[:, None]), axis=1)
            equal = equal + np.count_nonzero(before & (scores[None, :] == scores[:, None]), axis=1)
            order = np.argsort(scores, kind="stable")
            self.scores = np.insert(bag, right[order], scores[order])
        return (above + u * (equal + 1)) / (len(bag) + np.arange(1, n + 1))


#: Slopes e of the betting functions 1 + e (p − 1/2): a negative one gains if scores rise, a positive one if they fall.
SLOPES = (-1.8, -1.2, -0.6, 0.6, 1.2, 1.8)
#: Exponents k of the betting functions k p^(k − 1), which gain most from a few very large scores.
POWERS = (0.3, 0.6)
N_ARMS = len(SLOPES) + len(POWERS)
_SLOPES, _POWERS = np.array(SLOPES), np.array(POWERS)
#: The c of the schedule: up to so many samples the bets on each are about equal.
_EVEN_START = 100.0


@dataclass
class ConformalMartingale:
    """The capital of a watch, as natural logarithms, which neither overflow nor underflow.

    Besides its money each arm remembers its best bet, the one of all samples s that would have grown most:
    :math:`\\max_s g_s \\prod_{i=s}^t f(p_i)`. Where that began is an estimate of the place of a change.
    """

    horizon: int
    samples: int = 0
    log_capital: float = 0.0
    log_peak: float = 0.0
    #: Of each arm: its money, its best bet, and the number of the sample at which that began, counted in the watch.
    log_money: Array = field(default_factory=lambda: np.full(N_ARMS, -np.inf))
    log_best: Array = field(default_factory=lambda: np.full(N_ARMS, -np.inf))
    best_start: IntArray = field(default_factory=lambda: np.zeros(N_ARMS, dtype=np.int64))

    def bet(self, p: Array) -> tuple[Array, IntArray]:
        """Bet on p-values above 0; return what is known after each of them.

        That is the logarithm of the capital, and the sample, counted from 0 in the watch, at which the best of all bets
        began.
        """
        log_capital, change = np.empty(len(p)), np.zeros(len(p), dtype=np.int64)
        if len(p):
            _follow(
                np.ascontiguousarray(p, dtype=np.float64), self.samples, self.horizon, _SLOPES, _POWERS,
                self.log_money, self.log_best, self.best_start, log_capital, change,
            )  # fmt: skip
            self.samples += len(p)
            self.log_capital = float(log_capital[-1])
            self.log_peak = max(self.log_peak, float(log_capital.max()))
        return log_capital, change


@loop()
def _follow(p, t, horizon, slopes, powers, log_money, log_best, best_start, log_capital, change):  # type: ignore[no-untyped-def]
    """Follow the money of all arms from sample t on; write capital and begin of the best bet after each sample."""
    n_slopes, n_arms = len(slopes), len(log_money)
    scale = math.log1p(horizon / _EVEN_START)
    for i in range(len(p)):
        log_share = math.log(math.log1p(1.0 / (_EVEN_START + t)) / scale / n_arms)
        t += 1
        reserve = 1.0 - math.log1p(t / _EVEN_START) / scale
        log_reserve = math.log(reserve) if reserve > 0.0 else -math.inf
        log_p, highest = math.log(p[i]), log_reserve
        for k in range(n_arms):
            if k < n_slopes:
                log_bet = math.log1p(slopes[k] * (p[i] - 0.5))
            else:
                power = powers[k - n_slopes]
                log_bet = math.log(power) + (power - 1.0) * log_p
            high, low = max(log_money[k], log_share), min(log_money[k], log_share)
            log_money[k] = high + math.log1p(math.exp(low - high)) + log_bet
            highest = max(highest, log_money[k])
            if log_best[k] <= log_share:
                log_best[k], best_start[k] = log_share, t - 1
            log_best[k] += log_bet
        total = math.exp(log_reserve - highest)
        best = 0
        for k in range(n_arms):
            total += math.exp(log_money[k] - highest)
            if log_best[k] > log_best[best]:
                best = k
        change[i] = best_start[best]
        log_capital[i] = highest + math.log(total)
