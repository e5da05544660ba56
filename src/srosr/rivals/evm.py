"""The extreme value machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_choice, check_count, check_rate
from ..exceptions import TailWarning, warn
from ..tails.weibull import MIN_VALUES, Weibull, fit_weibull
from .cross_fitted import ComparingClassifier, Learned, Model, SamplesOfClasses, Tuned

#: The authors' program adds this to the mirrored distances, in the unit of the features.
SHIFT = 1.0
#: The unknown score at which probabilities of the released form reach zero; none before it is larger, because shapes
#: are at most a million and logarithms of numbers above −750.
BEYOND = 25.0
# The unknown score of a probability of exp(−10⁶); sums of smaller ones are not computed.
_TINY_PROBABILITY = float(np.log(1e6))


@dataclass(frozen=True, eq=False)
class ExtremeVectors(SamplesOfClasses):
    """Class number (sorted), shape and scale of each extreme vector, and how many per class are averaged.

    If distances are mirrored, ``ends`` are those at which the probabilities reach zero, otherwise zeros.
    """

    shapes: ClassVar = dict.fromkeys(("members", "shape", "scale", "ends"), ("columns",))

    shape: Array
    scale: Array
    ends: Array
    mirrored: int
    n_averaged: int

    def score_vectors(self, squared: Array) -> Array:
        r"""Return :math:`\log(1 - \log\Psi_i)` from squared distances, one column per vector.

        The result is finite and increases with the distance however small the probability: it is computed from the
        logarithm of :math:`-\log\Psi_i` in the form of the paper; in the released form it is 25 and more beyond the
        distance at which the probability ends.
        """
        distances = np.sqrt(squared)
        with np.errstate(divide="ignore"):
            if not self.mirrored:
                return np.logaddexp(0.0, self.shape * (np.log(distances) - np.log(self.scale)))
            inside = np.maximum(self.ends - distances, np.finfo(np.float64).tiny)
            out = np.log1p(-Weibull(self.shape, self.scale).logcdf(inside))
        beyond = BEYOND + np.log1p(np.maximum(distances - self.ends, 0.0))
        return np.where(distances < self.ends, np.minimum(out, BEYOND), beyond)

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        of_vectors, starts = self.score_vectors(inputs), self.starts
        if self.n_averaged == 1:
            of_classes = np.minimum.reduceat(of_vectors, starts, axis=1)
        else:
            ends = [*starts[1:], len(self.members)]
            of_classes = np.column_stack(
                [average_scores(of_vectors[:, a:b], self.n_averaged) for a, b in zip(starts, ends, strict=True)]
            )
        return of_classes.argmin(axis=1), of_classes.min(axis=1), -of_classes

    def is_sound(self, n_classes: int) -> bool:
        positive = bool((self.shape > 0).all() and (self.scale > 0).all())
        counts = isinstance(self.n_averaged, int) and self.n_averaged >= 1 and self.mirrored in (0, 1)
        return super().is_sound(n_classes) and positive and counts


def average_scores(scores: Array, n: int) -> Array:
    r"""Return the score :math:`\log(1 - \log P)` of the mean P of the n largest probabilities of each row.

    All are averaged if there are fewer; the largest is taken alone if it is too small for a floating-point number.
    """
    n = min(n, scores.shape[1])
    least = np.partition(scores, n - 1, axis=1)[:, :n]
    first = least.min(axis=1)
    logs = -np.expm1(np.minimum(least, _TINY_PROBABILITY))
    top = logs.max(axis=1)
    with np.errstate(under="ignore"):
        mean = top + np.log(np.exp(logs - top[:, None]).mean(axis=1))
    return np.where(first < _TINY_PROBABILITY, np.log1p(-mean), first)


@dataclass(eq=False, repr=False, kw_only=True)
class EVM(ComparingClassifier):
    r"""The extreme value machine.

    Every training sample :math:`x_i` has a probability that a point at some distance from it is still of its class,

    .. math:: \Psi_i(x) = \exp\left(-\left(\frac{\|x - x_i\|}{\lambda_i}\right)^{\kappa_i}\right),

    with :math:`\kappa_i, \lambda_i` a Weibull distribution fitted to the ``tail_size`` smallest half distances to
    samples of other classes: the class ends half way to those at the latest. A class has the probability
    :math:`P(c \mid x) = \max_{y_i = c}\Psi_i(x)`. Only the samples needed to cover all samples of the class with
    :math:`\Psi_i(x_j) \ge` ``cover_threshold`` are kept, chosen greedily by how many they cover: its *extreme vectors*.
    The method assumes that the distance to other known classes shows how far a class reaches. If classes are far apart
    compared with the spread within them it accepts much, if they touch it rejects much. And if samples are farther from
    their own class than half way to the others, as is common with many features, all probabilities are tiny, and the
    largest is that of the smallest :math:`\kappa_i` rather than of the nearest class.

    The unknown score is :math:`\log(1 - \log\max_c P(c \mid x))`, at least 0. It has the same order as
    :math:`1 - \max_c P(c \mid x)`, which is useless as a score: with hundreds of features probabilities can be so
    small, even for known samples, that it rounds to 1. The paper's rule "reject below :math:`\delta`" is
    ``threshold=log(1 - log(delta))``; it gives no number for :math:`\delta`. ``class_scores`` are
    :math:`-\log(1 - \log P(c \mid x))`.

    Parameters
    ----------
    tail_size : int, default 50
        How many of the half distances are fitted, as in the authors' program; all if there are fewer. In the form of
        the paper a sample of another class at distance zero shows no margin and is left out; if no other is left,
        :math:`\Psi_i` is 1 at the sample and 0 elsewhere.
    form : {"paper", "released"}, default "paper"
        "paper": the formula above, which does not depend on the unit of the features. "released": that of the authors'
        program, :math:`\Psi_i(x) = 1 - \exp(-((1 + m_i - \|x - x_i\|)/\lambda_i)^{\kappa_i})`, 0 for distances
        above :math:`1 + m_i`, with :math:`m_i` the largest of the half distances and the Weibull distribution fitted to
        the mirrored ones, :math:`1 + m_i` minus each (beyond that distance the score continues from 25 with the
        logarithm of the distance). The added 1 is in the unit of the features: for samples of unit length
        (``normalize=True``) it reaches far beyond half way, and keeps probabilities apart that the formula of the paper
        rounds to zero.
    cover_threshold : float or None, default 0.5
        Probability with which extreme vectors cover their class; None keeps all samples.
    n_averaged : int, default 1
        The probability of a class is the mean of this many of its largest :math:`\Psi_i` (of all if it has fewer). One
        is the paper's formula; the authors' program has 4.
    threshold : float or {"risk", "f", "youden"}, optional
        Threshold on the unknown score: ``np.log(1 - np.log(delta))`` for the probability delta below which the paper
        rejects.
    normalize, cv, target_rejection, per_class, risk_weight, unknown_label, random_state :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.

    Attributes
    ----------
    classes_, unknown_label_, threshold_, thresholds_, threshold_info_, n_features_in_ :
        As for every open set classifier.
    samples_ : ndarray (n_extreme_vectors, n_features)
        The extreme vectors, class by class.

    Warns
    -----
    TailWarning
        If a tail has fewer than three distances.

    References
    ----------
    E. M. Rudd, L. P. Jain, W. J. Scheirer, T. E. Boult, "The extreme value machine", IEEE TPAMI 40, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import EVM
    >>> X, y = np.array([[0.0], [1.0], [2.0], [12.0], [13.0], [14.0]]), 3 * ["a"] + 3 * ["b"]
    >>> clf = EVM(threshold=np.log(1 - np.log(0.5))).fit(X, y)
    >>> clf.samples_.ravel().tolist()
    [0.0, 12.0]
    >>> clf.predict([[4.0], [-10.0]]).tolist()
    ['a', 'unknown']
    """

    score_range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    model_type: ClassVar[type[Model]] = ExtremeVectors
    _checks: ClassVar = {
        "tail_size": check_count,
        "n_averaged": check_count,
        "form": partial(check_choice, choices=("paper", "released")),
        "cover_threshold": lambda name, value: value is None or check_rate(name, value),
    }

    tail_size: int = field(default=50, kw_only=False)
    form: str = "paper"
    cover_threshold: float | None = 0.5
    n_averaged: int = 1

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        columns, parts, shortest = [], [], len(rows)
        for c in range(int(members.max()) + 1):
            own, others = rows[members == c], rows[members != c]
            fit, fewest = self._fit_class(inputs[np.ix_(own, others)], c)
            shortest = min(shortest, fewest)
            kept = np.arange(len(own))
            if self.cover_threshold is not None:
                among = fit.score_vectors(inputs[np.ix_(own, own)].T).T
                kept = find_cover(among <= np.log1p(-np.log(self.cover_threshold)))
            columns.append(own[kept])
            parts.append((fit.members[kept], fit.shape[kept], fit.scale[kept], fit.ends[kept]))
        if shortest < MIN_VALUES:
            warn(
                f"a tail of {shortest} distances to other classes is too short for a Weibull distribution "
                f"(tail_size={self.tail_size}): probabilities jump from 1 to 0. Use a larger tail_size or more "
                "samples.",
                TailWarning,
            )
        owners, shapes, scales, ends = (np.concatenate(part) for part in zip(*parts, strict=True))
        model = ExtremeVectors(owners, shapes, scales, ends, int(self.form == "released"), int(self.n_averaged))
        return model, np.concatenate(columns)

    def _fit_class(self, squared: Array, number: int) -> tuple[ExtremeVectors, int]:
        """Return all samples of a class as extreme vectors, by distances to the others, and the shortest tail."""
        owners, ends = np.full(len(squared), number), np.zeros(len(squared))
        released = self.form == "released"
        size = min(int(self.tail_size), squared.shape[1])
        # In the form of the paper a sample of another class at distance zero shows no margin.
        margins = squared if released else np.where(squared > 0.0, squared, np.inf)
        tails = 0.5 * np.sqrt(np.sort(np.partition(margins, size - 1, axis=1)[:, :size], axis=1))
        if released:
            ends = SHIFT + tails[:, -1]
            fits, fewest = fit_weibull(ends[:, None] - tails), size
        else:
            fits, fewest = fit_margins(tails)
        return ExtremeVectors(owners, fits.shape, fits.scale, ends, int(released), int(self.n_averaged)), fewest


def fit_margins(tails: Array) -> tuple[Weibull, int]:
    """Fit Weibull distributions to the finite half distances of each row; return the fewest in a row too."""
    lengths = np.isfinite(tails).sum(axis=1)
    shape, scale = np.empty(len(tails)), np.empty(len(tails))
    for length in np.unique(lengths):
        of_it = lengths == length
        fit = fit_weibull(tails[of_it, :length] if length else np.zeros((int(of_it.sum()), 1)))
        shape[of_it], scale[of_it] = fit.shape, fit.scale
    return Weibull(shape, scale), int(lengths.min())


def find_cover(covers: AnyArray) -> IntArray:
    """Return few rows that cover all columns, greedily: next is the one that covers most of those not yet covered.

    Every point covers itself, whatever the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> find_cover(np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]], bool)).tolist()
    [1]
    """
    covers = covers | np.eye(len(covers), dtype=np.bool_)
    gain, open_ = covers.sum(axis=1), np.ones(len(covers), np.bool_)
    chosen = []
    while open_.any():
        best = int(gain.argmax())
        chosen.append(best)
        new = covers[best] & open_
        gain -= covers[:, new].sum(axis=1)
        open_ &= ~new
    return np.sort(np.array(chosen, dtype=np.int64))
