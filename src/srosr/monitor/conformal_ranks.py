r"""Smoothed conformal p-values of a stream: the randomized rank of each score among those before it.

Sample t with score s, and u uniform on (0, 1], has the p-value

.. math:: p_t = \frac{\#\{i < t: s_i > s_t\} + u_t \, (\#\{i < t: s_i = s_t\} + 1)}{t}

over a bag of t − 1 earlier scores. If the stream, with the scores that the bag began with, is exchangeable, then
:math:`p_1, p_2, \dots` are independent and uniform, whatever the distribution of the scores and however many are equal.

References
----------
V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", Springer 2005, chapter 2.
"""

from __future__ import annotations

import numpy as np

from .._support.array_types import Array

#: Scores that are ranked among each other by comparing all pairs.
_CHUNK = 512


class RankBag:
    """The scores of earlier samples, sorted, in which those of new samples are ranked.

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
