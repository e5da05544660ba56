r"""Rejecting in batches with a bound on the false discovery rate: how many of those called unknown are known.

The procedure of Benjamini and Hochberg on conformal p-values: of m samples the k with the smallest p-values are
rejected, k being the largest number for which :math:`p_{(k)} \le \alpha k/m`. The p-values of the known samples of the
batch come from the same calibration samples and so depend on each other, but positively; the expected share of known
samples among the rejected ones is then still at most :math:`\alpha`, times the share of known samples in the batch.

References
----------
Y. Benjamini, Y. Hochberg, "Controlling the false discovery rate", J. R. Stat. Soc. B, 1995.

S. Bates, E. Candès, L. Lei, Y. Romano, M. Sesia, "Testing for outliers with conformal p-values", Ann. Stat., 2023.
"""

from __future__ import annotations

import numpy as np

from .._support.array_types import AnyArray, Array


def select_discoveries(p_values: Array, rate: float) -> AnyArray:
    """Return which hypotheses are rejected at a false discovery rate.

    Examples
    --------
    >>> import numpy as np
    >>> select_discoveries(np.array([0.02, 0.9, 0.04, 0.2]), 0.1)
    array([ True, False,  True, False])
    """
    n = len(p_values)
    if n == 0:
        return np.zeros(0, np.bool_)
    ordered = np.sort(p_values)
    # The p-values are multiples of 1/(n + 1), and a bound may be one too: it is met within rounding.
    met = np.flatnonzero(ordered <= rate * np.arange(1, n + 1) / n * (1.0 + 1e-12))
    return p_values <= ordered[met[-1]] if len(met) else np.zeros(n, np.bool_)
