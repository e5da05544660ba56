r"""Sparse representation-based classification with a threshold on one number: SCI, ratio of residuals, or residual.

The paper compares with these three. All code a sample as :class:`SROSRClassifier` does and take the class with the
smallest residual as the candidate; they differ in the unknown score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from .._support.array_types import AnyArray, Array
from .._support.devices import find_device
from .._support.parameter_checks import check_count
from .._support.threads import one_blas_thread
from ..classifiers.dictionary_classifier import DictionaryClassifier
from ..coding.problems import Problem
from ..dictionary.dictionary import Dictionary
from ..evidence.table import DIRECTION, EVIDENCE, Evidence
from ..scoring.cross_test import CrossTest, CrossTester
from ..scoring.held_out_scores import HeldOutScores
from ..scoring.splits import add_only_samples, draw_cross_splits, draw_folds, draw_left_out_classes

#: Share of each class that is held out in simulated openness.
HOLDOUT = 0.2


@dataclass(eq=False, repr=False, kw_only=True)
class SparseRejection(DictionaryClassifier):
    """Base of the methods that reject by one number of the sparse code.

    Parameters
    ----------
    problem : BPDN, Lasso, Ridge or OMP, optional
        The coding problem; None is ``Lasso(0.02)``, as for :class:`SROSRClassifier`.
    kernel, gamma, degree, coef0, normalize :
        As for :class:`SROSRClassifier`.
    n_repeats : int, default 10
        How often openness is simulated: each time 30 % of the classes, in turn, are left out of the dictionary.
    threshold : float or {"risk", "f", "youden"}, optional
        Reject samples whose unknown score is above this number; or the objective to optimize under simulated openness.
        None: by ``target_rejection``. (None of the papers gives a number.)
    target_rejection, per_class, risk_weight, unknown_label :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.
    n_jobs : int, optional
        Threads over samples.
    device : {"cpu", "cuda", "auto"} or torch.device, default "cpu"
        Where samples are coded, as for :class:`SROSRClassifier`.
    random_state : int, RandomState or None
        Seed of the splits.
    """

    #: The kind of evidence that is the unknown score, see :mod:`srosr.evidence.table`.
    kind: ClassVar[str]

    _held_out: HeldOutScores = field(init=False)
    _cross_tests: tuple[CrossTest, CrossTest] = field(init=False)

    problem: Problem | None = field(default=None, kw_only=False)
    kernel: str | Callable[[Array, Array], Array] = "linear"
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1.0
    normalize: bool | str = True
    n_repeats: int = 10
    threshold: float | str | None = None
    target_rejection: float = 0.05
    per_class: bool = False
    risk_weight: float = 1.0
    unknown_label: Any = None
    n_jobs: int | None = None
    device: Any = "cpu"
    random_state: Any = None

    # -- learning ----------------------------------------------------------------------------------------

    def _fit(self, X: Array, y: AnyArray) -> None:
        dictionary, rng = self._build_dictionary(X, y), check_random_state(self.random_state)
        slices = dictionary.class_slices
        folds = list(draw_folds(slices, rng))
        left_out = draw_left_out_classes(len(slices), self.n_repeats, rng)
        splits = list(draw_cross_splits(slices, len(left_out), HOLDOUT, rng))
        splits = add_only_samples(splits, left_out, dictionary.class_of)
        with one_blas_thread():
            tester = CrossTester(dictionary, self._problem, n_jobs=self.n_jobs, device=find_device(self.device))
            cross_tests = tester.test_known(folds), tester.test_simulated(splits, left_out)
        self._learn(dictionary, cross_tests)

    def _learn(self, dictionary: Dictionary, cross_tests: tuple[CrossTest, CrossTest]) -> None:
        """Take a dictionary, and the evidence of held-out samples and simulated unknowns over it."""
        held_out, simulated = cross_tests
        scores, elsewhere = (self._compute_score(rows.values) for rows in cross_tests)
        self._held_out = HeldOutScores(
            scores, held_out.candidate, held_out.truth, elsewhere, simulated.unknown, simulated.right, *self.score_range
        )
        self._cross_tests = cross_tests
        self.dictionary_, self.problem_ = dictionary, self._problem
        self.classes_ = np.asarray(dictionary.classes_)

    def _share_codes(self, kind: type[SparseRejection]) -> SparseRejection:
        """Return another method of this family, fitted to the same samples with the same parameters, without coding."""
        other = kind(**self.get_params())
        other._check_parameters()
        if hasattr(self, "feature_names_in_"):
            other.feature_names_in_ = self.feature_names_in_
        other.n_features_in_, other.unknown_label_ = self.n_features_in_, self.unknown_label_
        other._learn(self.dictionary_, self._cross_tests)
        return other.set_threshold()

    def _held_out_scores(self) -> HeldOutScores:
        return self._held_out

    # -- predicting --------------------------------------------------------------------------------------

    def _score_evidence(self, evidence: Evidence) -> Array:
        return np.where(evidence.empty, self.score_range[1], self._compute_score(evidence.values))

    def _compute_score(self, values: Array) -> Array:
        """Compute the unknown score from evidence tables."""
        column = values[:, EVIDENCE.index(self.kind)]
        return column if DIRECTION[self.kind] > 0 else 1.0 - column

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("n_repeats", self.n_repeats)


class SCIRejection(SparseRejection):
    r"""Rejection by the sparsity concentration index of the code (SCI).

    .. math:: \mathrm{SCI}(x) = \frac{K\max_k\|x_k\|_1/\|x\|_1 - 1}{K - 1}

    is 1 if one class alone explains the sample and 0 if all classes have an equal part. The unknown score is one minus
    it: the rule "reject below :math:`\tau`" is ``threshold=1 - tau``. It ignores how well the sample is explained, so
    an unknown sample whose code uses the atoms of one class is accepted however poor the fit.

    Parameters
    ----------
    problem, kernel, gamma, degree, coef0, normalize, n_repeats :
        What is coded, and how often openness is simulated: as for :class:`SparseRejection`.
    threshold, target_rejection, per_class, risk_weight :
        When a sample is rejected: as there.
    unknown_label, n_jobs, device, random_state :
        As there.

    References
    ----------
    J. Wright, A. Y. Yang, A. Ganesh, S. S. Sastry, Y. Ma, "Robust face recognition via sparse representation", IEEE
    TPAMI 31, 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from srosr import SCIRejection
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> clf = SCIRejection(random_state=0).fit(X[:300][y[:300] < 3], y[:300][y[:300] < 3])
    >>> bool((clf.predict(X[300:][y[300:] == 3]) == -1).mean() > 0.5)
    True
    """

    kind: ClassVar[str] = "concentration"


class RatioRejection(SparseRejection):
    r"""Rejection by the ratio of the best class's residual to the second best's.

    The unknown score is :math:`r_{(1)}/r_{(2)}`: small if one class explains the sample much better than all others,
    one if two do so equally well. (Patel et al. use projection scores, where large is good; the paper, and this class,
    use residuals.)

    Parameters
    ----------
    problem, kernel, gamma, degree, coef0, normalize, n_repeats :
        What is coded, and how often openness is simulated: as for :class:`SparseRejection`.
    threshold, target_rejection, per_class, risk_weight :
        When a sample is rejected: as there.
    unknown_label, n_jobs, device, random_state :
        As there.

    References
    ----------
    V. M. Patel, T. Wu, S. Biswas, P. J. Phillips, R. Chellappa, "Dictionary-based face recognition under variable
    lighting and pose", IEEE TIFS 7, 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from srosr import RatioRejection
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> clf = RatioRejection(random_state=0).fit(X[:300][y[:300] < 3], y[:300][y[:300] < 3])
    >>> bool((clf.predict(X[300:][y[300:] == 3]) == -1).mean() > 0.5)
    True
    """

    kind: ClassVar[str] = "ratio"


class NaiveRejection(SparseRejection):
    r"""Rejection by the residual of the best class, with a threshold directly from training errors.

    The paper's baseline: the unknown score is :math:`r_m = \min_k\|y - Y_kx_k\|_2`, and no tail is modeled; the
    threshold is a quantile of the held-out errors (``target_rejection``).

    Parameters
    ----------
    problem, kernel, gamma, degree, coef0, normalize, n_repeats :
        What is coded, and how often openness is simulated: as for :class:`SparseRejection`.
    threshold, target_rejection, per_class, risk_weight :
        When a sample is rejected: as there.
    unknown_label, n_jobs, device, random_state :
        As there.

    References
    ----------
    H. Zhang, V. M. Patel, "Sparse representation-based open set recognition", IEEE TPAMI, 2016 (the "Naive" baseline).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from srosr import NaiveRejection
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> clf = NaiveRejection(random_state=0).fit(X[:300][y[:300] < 3], y[:300][y[:300] < 3])
    >>> bool((clf.predict(X[300:][y[300:] == 3]) == -1).mean() > 0.5)
    True
    """

    score_range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    kind: ClassVar[str] = "matched"
