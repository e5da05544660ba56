"""``SROSRClassifier``: a known class for every sample, or the answer that it belongs to none of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_positive, check_rate
from .._support.threads import one_blas_thread
from ..coding import Problem
from ..dictionary import Dictionary, Queries
from ..evidence import EVIDENCE, LEAST_SQUARES, Collaborative, Evidence, evidence_of
from ..scoring import CalibratedRule, Calibration, HeldOutScores, TailRule, calibrate, codes_suffice
from ..thresholds import Aside
from .base import Judgement
from .dictionary_classifier import DictionaryClassifier

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..inspection import Explanation
    from ..tails import TailDiagnostics

__all__ = ["SROSRClassifier"]

RULES = ("calibrated", "paper", "matched")


class SROSRClassifier(DictionaryClassifier):
    r"""Open set recognition by sparse representation.

    The training samples are the dictionary. A sample is coded over all of them; what the classes' parts of the code
    leave unexplained names the candidate class and says how strange the sample is. No unknown sample is needed, neither
    for the score nor for its threshold: held-out training samples, and known classes left out in turn, stand in.

    Parameters
    ----------
    problem : BPDN, Lasso, Ridge or OMP, optional
        The coding problem; None is ``Lasso(0.02)``. The paper's is ``BPDN(0.001)``.
    kernel : str or callable, default "linear"
        As for :class:`Dictionary`. With "precomputed" fit takes the Gram matrix of the training samples and the other
        methods a :class:`Queries`.
    gamma, degree, coef0 :
        Parameters of the named kernels.
    normalize : bool or {"feature", "kernel"}, default True
        Scale samples to unit length, see :class:`Dictionary`.
    n_repeats : int, default 50
        How often the training samples are split into cross-train and cross-test (the paper's L).
    holdout : float, default 0.2
        Share of each class that a split holds out.
    tail_size : float or "auto", default 0.1
        Share of the errors that make a tail (the paper's :math:`\rho`); "auto" chooses it by goodness of fit.
    rule : {"calibrated", "paper", "matched"}, default "calibrated"
        "calibrated": eight kinds of evidence, fused with weights learnt on simulated openness; the unknown score is one
        minus a p-value. "paper": matched and non-matched tail probabilities, :math:`S = G_m + wG_{nm}`, the unknown
        score being :math:`S/(1 + w)`. "matched": :math:`G_m` alone. With these two and a threshold that is a number,
        samples are held out once more only when something asks for it: another threshold, ``save``, ``add_class``.
    openness : float, default 0.0
        Of the problem, for the paper's weight; rarely known in life.
    weight : float, optional
        w of the rule "paper"; None is the paper's :math:`(1 - \text{openness})/3`.
    threshold : float or {"risk", "f", "youden"}, optional
        On the unknown score, above which a sample is refused (the paper's :math:`\delta = c(1 + w)` is c here); or what
        simulated openness is to optimise. None: by ``target_rejection``.
    target_rejection : float, default 0.05
        Share of known samples that may be refused.
    per_class : bool, default False
        A threshold for each candidate class that has enough held-out samples, instead of one for all.
    calibration : {"cross", "split"}, default "cross"
        Where the target's scores come from. "cross": held-out training samples, each coded once over nearly all others;
        approximate. "split": a part of the training samples that is kept out of everything else; the rate of false
        rejection is then guaranteed (conformal) for new samples of the classes in the proportions of the training
        samples, and the dictionary smaller.
    calibration_size : float, default 0.25
        Share of each class that "split" keeps out.
    risk_weight : float, default 1.0
        :math:`\lambda` of ``threshold="risk"``: the weight of errors on known samples.
    unknown_label : label, optional
        What ``predict`` says of refused samples; None is −1 for numbers, "unknown" for text (where those are classes:
        the smallest number minus one, "__unknown__").
    n_jobs : int, optional
        Threads over samples.
    random_state : int, RandomState or None
        Of the splits.
    verbose : bool, default False
        Show a progress bar while fitting.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
    unknown_label_ : label
    threshold_ : float
        On the unknown score; ``thresholds_`` has one a class, ``threshold_info_`` says where they come from.
    dictionary_ : Dictionary
    problem_, rule_ : Problem, str
        Those of the fit.
    calibration_ : Calibration
        What was learnt from held-out samples: ``known``, ``simulated`` and ``held_out`` tables, ``rule``, ``tails``.
    evidence_names_, evidence_weights_ : tuple of str, ndarray
        Of the fused score (rule "calibrated").
    training_rows_ : ndarray of int
        Rows of the training samples that are atoms: atom i is row ``training_rows_[dictionary_.order[i]]``.
    pooled_ : ndarray of bool (n_classes,)
        Classes of fewer than ten samples, which share the tails of all classes. (The fused score and its distribution
        are shared by all classes in any case.)
    n_features_in_ : int

    References
    ----------
    H. Zhang, V. M. Patel, "Sparse representation-based open set recognition", IEEE TPAMI, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from srosr import SROSRClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> known = y < 6
    >>> clf = SROSRClassifier(n_repeats=5, random_state=0).fit(X[:900][known[:900]], y[:900][known[:900]])
    >>> met = clf.predict(X[900:])
    >>> bool(np.mean(met[known[900:]] == -1) < 0.15), bool(np.mean(met[~known[900:]] == -1) > 0.6)
    (True, True)
    """

    def __init__(
        self,
        problem: Problem | None = None,
        *,
        kernel: str | Callable[[Array, Array], Array] = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        normalize: bool | str = True,
        n_repeats: int = 50,
        holdout: float = 0.2,
        tail_size: float | str = 0.1,
        rule: str = "calibrated",
        openness: float = 0.0,
        weight: float | None = None,
        threshold: float | str | None = None,
        target_rejection: float = 0.05,
        per_class: bool = False,
        calibration: str = "cross",
        calibration_size: float = 0.25,
        risk_weight: float = 1.0,
        unknown_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.problem = problem
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.normalize = normalize
        self.n_repeats = n_repeats
        self.holdout = holdout
        self.tail_size = tail_size
        self.rule = rule
        self.openness = openness
        self.weight = weight
        self.threshold = threshold
        self.target_rejection = target_rejection
        self.per_class = per_class
        self.calibration = calibration
        self.calibration_size = calibration_size
        self.risk_weight = risk_weight
        self.unknown_label = unknown_label
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- learning ----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> SROSRClassifier:
        """Learn the known classes and, from them alone, what is strange.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Training samples; with ``kernel="precomputed"`` their Gram matrix.
        y : array-like (n_samples,)
            Their classes, at least two; with three or more the weights of the evidence are learnt, with two they are
            equal. A class of one sample has its place in the dictionary; ten give it tails of its own.

        Warns
        -----
        CalibrationWarning
            Where there are too few held-out samples to keep a rate of false rejection.
        """
        return super().fit(X, y)

    def _fit(self, X: Any, y: Any) -> None:
        X, y, _, unknown_label = self._training_set(X, y)
        square = self._is_precomputed and X.shape[0] == X.shape[1]
        kept, aside = np.arange(len(y)), np.empty(0, np.int64)
        if self.calibration == "split":
            usable = np.diagonal(X) > 0 if square else X.any(axis=1)
            kept, aside = set_aside(y, usable, self.calibration_size, check_random_state(self.random_state))
        dictionary = self._dictionary_of(X[np.ix_(kept, kept)] if square else X[kept], y[kept])
        kept_out: Any = None
        if len(aside):
            kept_out = Queries(X[np.ix_(aside, kept)], np.diagonal(X)[aside]) if square else X[aside]
        self._install(
            dictionary,
            self._calibrated(dictionary, self._problem),
            problem_=self._problem,
            unknown_label_=unknown_label,
            training_rows_=kept,
            _kept_out=kept_out,
            _kept_out_labels=y[aside],
            _n_rows=len(y),
            _grown=False,
            _choice={},
            rule_=self.rule,
        )

    def _calibrated(self, dictionary: Dictionary, problem: Problem) -> Calibration:
        weight = (1.0 - self.openness) / 3.0 if self.weight is None else self.weight
        return calibrate(
            dictionary,
            problem,
            rule=self.rule,
            n_repeats=self.n_repeats,
            holdout=self.holdout,
            tail_size=self.tail_size,
            weight=0.0 if self.rule == "matched" else weight,
            rng=check_random_state(self.random_state),
            n_jobs=self.n_jobs,
            progress=bool(self.verbose),
        )

    def _install(self, dictionary: Dictionary, calibration: Calibration, **others: Any) -> None:
        """Take a dictionary and what was learnt over it, and choose the threshold anew: all of it or nothing."""
        collaborative = None
        if not codes_suffice(isinstance(calibration.rule, CalibratedRule), dictionary):
            with one_blas_thread():
                _ = dictionary.gram
                collaborative = Collaborative(dictionary)
        before = self.__dict__.copy()
        try:
            for name, value in others.items():
                setattr(self, name, value)
            self.dictionary_ = dictionary
            self.classes_ = np.asarray(dictionary.classes_)
            self.calibration_ = calibration
            self._collaborative = collaborative
            self.evidence_names_ = EVIDENCE
            self.evidence_weights_ = calibration.weights
            self.pooled_ = calibration.pooled
            self.set_threshold(**self._choice)
        except BaseException:
            self.__dict__ = before
            raise

    def set_weight(self, weight: float | None = None, *, openness: float | None = None) -> SROSRClassifier:
        r"""Weigh the second tail of the paper's rule anew, without fitting again; the threshold is chosen anew as well.

        Parameters
        ----------
        weight : float, optional
            w of :math:`S = G_m + wG_{nm}`; 0 leaves the matched tail alone.
        openness : float, optional
            Of the problem, instead of a weight: w is the paper's :math:`(1 - \text{openness})/3`.
        """
        check_is_fitted(self, "calibration_")
        if (weight is None) == (openness is None):
            raise ValueError("give weight or openness, one of the two.")
        rule = self.calibration_.rule
        if not isinstance(rule, TailRule) or self.rule_ != "paper":
            raise ValueError(
                f'the weight belongs to rule="paper"; this classifier was fitted with rule={self.rule_!r}.'
            )
        if weight is None:
            check_openness(openness)
            weight = (1.0 - float(openness)) / 3.0  # type: ignore[arg-type]
        check_positive("weight", weight, zero=True)
        before = self.__dict__.copy()
        tails = replace(rule, weight=float(weight))
        self.calibration_ = replace(self.calibration_, rule=tails, tails=tails)
        try:
            self.set_threshold(**self._choice)
        except BaseException:
            self.__dict__ = before
            raise
        return self

    def _held_out_scores(self) -> HeldOutScores:
        return self.calibration_.scores

    _without_original: ClassVar[str] = (
        "the paper has one for each of its data sets; with its own rule give that number, as "
        'SROSRClassifier(rule="paper", threshold=0.007) for Extended Yale B (0.006 for MNIST, 0.05 for UIUC, 0.1 for '
        "Caltech-256)."
    )

    def _promises_a_rate(self) -> bool:
        return self.calibration == "split"

    def _aside(self) -> Aside | None:
        if self._kept_out is None:
            return None
        evidence = self._gathered(self._kept_out)
        truth: Any = np.searchsorted(self.classes_, self._kept_out_labels)
        return Aside(self._scores(evidence), evidence.candidate, truth)

    # -- recognising -------------------------------------------------------------------------------------

    def _judge(self, X: Any) -> Judgement:
        evidence = self._gathered(X)
        return Judgement(evidence.candidate, self._scores(evidence), -evidence.residuals, evidence.empty)

    def unknown_score(self, X: Any) -> Array:
        """How strange each sample is, in [0, 1]; above the threshold it is refused.

        With the rule "calibrated" it is the share of known samples that look less strange, so that one minus it is a
        p-value. A sample of length zero has nothing to recognise and scores 1.
        """
        return super().unknown_score(X)

    def log_p_value(self, X: Any) -> Array:
        """Logarithm of one minus the unknown score; small is strange.

        With the rule "calibrated" it ranks samples strictly also where the unknown score has rounded to 1. (With the
        paper's rules it is only that logarithm: their unknown score is no probability.)
        """
        evidence = self._gathered(self._checked(X))
        out = self.calibration_.rule.log_p_value(evidence.values, evidence.candidate)
        return np.where(evidence.empty, -np.inf, out)

    def class_scores(self, X: Any) -> Array:
        """Minus the residual of each class, (n_samples, n_classes); the largest is the candidate's."""
        return super().class_scores(X)

    def evidence(self, X: Any) -> DataFrame:
        """The evidence for and against each sample as a table, with candidate class and unknown score.

        The columns are explained in :mod:`srosr.evidence.table`; a DataFrame's index is kept. With the
        paper's rules over many atoms (more than 11,585) those of regularised least squares, which they make no use of,
        are NaN.
        """
        from pandas import DataFrame

        evidence = self._gathered(self._checked(X))
        table = DataFrame(evidence.values, columns=list(EVIDENCE), index=X.index if hasattr(X, "iloc") else None)
        if self._collaborative is None:
            table[list(LEAST_SQUARES)] = np.nan
        table["candidate"] = self.classes_[evidence.candidate]
        table["unknown_score"] = self._scores(evidence)
        return table

    def explain(self, x: Any) -> Explanation:
        """Why one sample is recognised, or refused.

        Parameters
        ----------
        x : array-like (n_features,) or a row of a DataFrame
            One sample.

        Returns
        -------
        Explanation
            Prints as text; ``plot()`` draws it.
        """
        from ..inspection import explain

        return explain(self, x)

    def tail_diagnostics(
        self, label: Any, kind: str = "matched", *, n_resamples: int = 200, random_state: Any = None
    ) -> TailDiagnostics:
        """Standard errors and goodness of fit of a class's tail, by resampling training samples.

        Of a class that shares the tails of all classes (see ``pooled_``) it is that one.

        Parameters
        ----------
        label : label
            One of ``classes_``.
        kind : {"matched", "nonmatched"}
        n_resamples : int
        random_state : int, RandomState or None
        """
        from ..tails import tail_diagnostics

        check_is_fitted(self, "calibration_")
        if kind not in ("matched", "nonmatched"):
            raise ValueError(f'kind must be "matched" or "nonmatched", got {kind!r}.')
        rows, number = self.calibration_.known, self._number_of(label)
        if not self.pooled_[number]:
            rows = rows[rows.truth == number]
        if not len(rows):
            raise ValueError("no class has a second sample that could be held out: there are no tails.")
        errors = rows.matched if kind == "matched" else -rows.nonmatched
        return tail_diagnostics(
            errors, self.tail_size, groups=rows.sample, n_resamples=n_resamples, random_state=random_state
        )

    # -- classes come and go -----------------------------------------------------------------------------

    def add_class(self, X: Any, label: Any, *, recalibrate: str = "new") -> SROSRClassifier:
        """Learn one more class without fitting again.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Samples of the new class.
        label : label
            Not among ``classes_``.
        recalibrate : {"new", "all"}, default "new"
            "new": held-out samples of the new class are coded and join those there are; what was learnt of the other
            classes stays, their non-matched tails scaled to the new number of classes. "all": all held-out samples are
            coded again, as a fit on all samples would.
        """
        from .class_changes import with_class

        check_is_fitted(self, "calibration_")
        with_class(self, X, label, recalibrate)
        return self

    def remove_class(self, label: Any, *, recalibrate: str = "none") -> SROSRClassifier:
        """Forget a class without fitting again.

        Parameters
        ----------
        label : label
            Among ``classes_``; two classes must be left.
        recalibrate : {"none", "all"}, default "none"
            "none": held-out samples of the other classes stay as they were coded. "all": they are coded again.
        """
        from .class_changes import without_class

        check_is_fitted(self, "calibration_")
        without_class(self, label, recalibrate)
        return self

    # -- inside ------------------------------------------------------------------------------------------

    def _scores(self, evidence: Evidence) -> Array:
        scores = self.calibration_.rule.score(evidence.values, evidence.candidate)
        return np.where(evidence.empty, 1.0, scores)

    def _gathered(self, X: Any) -> Evidence:
        """The evidence of samples that have been checked."""
        parts = []
        for queries, codes in self._coded(X):
            scores = distances = np.zeros((len(queries), len(self.classes_)))
            if self._collaborative is not None:
                with one_blas_thread():
                    scores, distances = self._collaborative.scores(queries), self._collaborative.distances(queries)
            parts.append(evidence_of(queries, codes, self.dictionary_, scores, distances))
        return Evidence.joined(parts)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (isinstance(self.rule, str) and self.rule in RULES):
            raise ValueError(f"rule must be one of {', '.join(map(repr, RULES))}, got {self.rule!r}.")
        if self.calibration not in ("cross", "split"):
            raise ValueError(f'calibration must be "cross" or "split", got {self.calibration!r}.')
        if not isinstance(self.n_repeats, Integral) or isinstance(self.n_repeats, bool) or self.n_repeats < 1:
            raise ValueError(f"n_repeats must be a positive integer, got {self.n_repeats!r}.")
        check_rate("holdout", self.holdout)
        check_rate("calibration_size", self.calibration_size)
        if not (isinstance(self.tail_size, str) and self.tail_size == "auto") and not (
            isinstance(self.tail_size, Real) and not isinstance(self.tail_size, bool) and 0 < self.tail_size <= 1
        ):
            raise ValueError(f'tail_size must be a share in (0, 1] or "auto", got {self.tail_size!r}.')
        check_openness(self.openness)
        if self.weight is not None:
            check_positive("weight", self.weight, zero=True)


def check_openness(openness: Any) -> None:
    """Refuse an openness that is none."""
    if not (isinstance(openness, Real) and 0 <= float(openness) < 1):
        raise ValueError(f"openness must be a number in [0, 1), got {openness!r}.")


def set_aside(y: AnyArray, usable: AnyArray, share: float, rng: Any) -> tuple[IntArray, IntArray]:
    """Rows of the dictionary, and rows kept out of it: of each class the share, but never its last sample.

    At least one of every class that has two: the promise is made to all classes. Samples of length zero tell nothing of
    thresholds; they stay.
    """
    aside: list[IntArray] = []
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero((y == label) & usable))
        aside.append(rows[: max(min(max(round(share * len(rows)), 1), len(rows) - 1), 0)])
    out = np.sort(np.concatenate(aside))
    return np.setdiff1d(np.arange(len(y)), out), out
