"""``SROSRClassifier``: open set recognition by sparse representation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._support.array_types import AnyArray, Array, IntArray
from .._support.devices import find_device
from .._support.parameter_checks import (
    check_choice,
    check_count,
    check_positive,
    check_rate,
    check_share,
    check_tail_size,
)
from .._support.threads import one_blas_thread
from ..coding.batch import gram_wanted
from ..coding.encode import Codes
from ..coding.problems import Problem
from ..dictionary.dictionary import Dictionary, Queries
from ..evidence.class_scores import ClassScorer
from ..evidence.landmark_scores import LandmarkScorer
from ..evidence.landmarks import RegressionSamples
from ..evidence.scorer_fits import fit_sampled_scorer, fit_scorer
from ..evidence.table import (
    EVIDENCE,
    FIRST_EVIDENCE,
    LEAST_SQUARES,
    Evidence,
    build_evidence,
    find_class_scores,
    list_class_scores,
    list_evidence,
    measure_codes,
)
from ..scoring.calibration import Calibration, calibrate, count_atoms
from ..scoring.cross_fitting import cross_fit
from ..scoring.cross_test import compute_margins
from ..scoring.decision_rules import CalibratedRule, TailRule
from ..scoring.group_splits import check_groups
from ..scoring.held_out_scores import HeldOutScores
from ..scoring.splits import split_off_calibration
from ..thresholds.guarantees import PredictionSets, describe_guarantees
from ..thresholds.p_values import CalibrationSplit, ClassComparison, count_needed
from .changing_classifier import ChangingClassifier
from .small_dictionary import (
    AtomFinder,
    check_atoms,
    find_nearest_samples,
    make_sampler,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..discovery.discovery import Discovery
    from ..evidence.device_evidence import DeviceGatherer
    from ..inspection.explanation import Explanation
    from .base import RawPrediction

RULES = ("calibrated", "paper", "matched")
LABELS = ("fused", "residual")
#: Rates for which prepared calibration samples are kept.
MOST_RATES = 4


@dataclass(eq=False, repr=False, kw_only=True)
class SROSRClassifier(ChangingClassifier):
    r"""Open set recognition by sparse representation.

    The training samples are the dictionary. A sample is coded over all of them; the residuals of the classes' parts of
    the code, and other class scores from the same inner products, give the candidate class and the evidence for the
    sample being unknown. Neither the score nor its threshold needs unknown samples: held-out training samples, and
    known classes left out in turn, take their place.

    Parameters
    ----------
    problem : BPDN, Lasso, Ridge or OMP, optional
        The coding problem; None is ``Lasso(0.02)``. The paper's is ``BPDN(0.001)``.
    kernel : str or callable, default "linear"
        As for :class:`Dictionary`. With "precomputed" ``fit`` takes the Gram matrix of the training samples and the
        other methods take a :class:`Queries`.
    gamma, degree, coef0 :
        Parameters of the named kernels.
    normalize : bool or {"feature", "kernel"}, default True
        Scale samples to unit length, see :class:`Dictionary`.
    atoms : float, int or object with fit_resample, optional
        A small dictionary: a share of each class, a number of atoms a class (both stand for :class:`LearnAtoms`), or an
        object such as :class:`SelectAtoms`. None: all training samples are atoms. Class scores and calibration use all
        samples in any case, those that are no atoms too: samples are held out by five folds, up to 1,000 samples by two
        to four times five, whatever ``n_repeats`` and ``holdout``, and atoms are found without each fold. The sampler's
        ``normalize`` is set to what this classifier does.
    n_repeats : int, default 50
        Number of splits of the training samples into cross-train and cross-test samples (the paper's L).
    holdout : float, default 0.2
        Share of each class that a split holds out.
    max_codings : int, optional
        The most held-out samples that each of the three passes of a fit codes, drawn evenly from all classes. None is
        10,000, and 20,000 in the first pass, to which tails are fitted. More lower ``threshold_info_.standard_error``.
    tail_size : float or "auto", default 0.1
        Share of the errors that make a tail (the paper's :math:`\rho`); "auto" chooses it by goodness of fit.
    rule : {"calibrated", "paper", "matched"}, default "calibrated"
        "calibrated": many kinds of evidence, fused with weights learned on simulated openness; the unknown score is
        one minus a p-value. "paper": matched and non-matched tail probabilities, :math:`S = G_m + wG_{nm}`, the unknown
        score being :math:`S/(1 + w)`. "matched": :math:`G_m` alone. With these two rules and a threshold that is a
        number, the held-out scores are computed only when they are needed: for another threshold, ``save``,
        ``add_class``.
    label_by : {"fused", "residual"}, default "fused"
        How the candidate class is found. "fused": by eight kinds of class scores, with weights learned on held-out
        samples. "residual": by the smallest residual, as in the paper and always with its rules.
    evidence_kinds : "auto" or sequence of str, default "auto"
        The kinds of evidence that the rule "calibrated" fuses, from ``srosr.evidence.table.EVIDENCE``; "auto" takes
        all. Those on standardized columns need features and are left out with ``kernel="precomputed"``.
    openness : float, default 0.0
        Openness of the problem, for the paper's weight; rarely known in practice.
    weight : float, optional
        w of the rule "paper"; None is the paper's :math:`(1 - \text{openness})/3`.
    threshold : float or {"risk", "f", "youden"}, optional
        The unknown score above which a sample is rejected (the paper's :math:`\delta = c(1 + w)` is c here); or the
        objective of simulated openness. None: by ``target_rejection``.
    target_rejection : float, default 0.05
        Share of known samples that may be rejected.
    per_class : bool, default False
        Choose a threshold for each candidate class with enough held-out samples, instead of one for all.
    calibration : {"cross", "split"}, default "cross"
        The scores from which the target's threshold is chosen. "cross": held-out training samples, each coded once over
        nearly all others; approximate. "split": a calibration split of the training samples, kept out of dictionary,
        tails and fusion. The rate of false rejection is then guaranteed (conformal) for new samples of the classes in
        the proportions of the training samples, at the price of a smaller dictionary.
    calibration_size : float, default 0.25
        Share of each class in the calibration split.
    risk_weight : float, default 1.0
        :math:`\lambda` of ``threshold="risk"``: the weight of errors on known samples.
    unknown_label : label, optional
        The label of rejected samples, which is no class; None is −1 for numbers, "unknown" for text.
    n_jobs : int, optional
        Number of threads.
    device : {"cpu", "cuda", "auto"} or torch.device, default "cpu"
        Where samples are coded and class scores computed: "cuda" is an NVIDIA GPU ("cuda:1" the second one) and needs
        PyTorch, "auto" the GPU if there is one. Labels are the same on all of them, unknown scores to about 1e-6. It is
        not saved: a model that is loaded is on the CPU until ``device`` is set.
    random_state : int, RandomState or None
        Seed of the splits.
    verbose : bool, default False
        Show a progress bar while fitting.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
    unknown_label_ : label
    threshold_ : float
        On the unknown score; ``thresholds_`` has one for each class, ``threshold_info_`` says how they were chosen.
    dictionary_ : Dictionary
    problem_, rule_ : Problem, str
        Those used by the fit.
    calibration_ : Calibration
        What was learned from held-out samples: ``known``, ``simulated`` and ``held_out`` tables, ``rule``, ``tails``.
    evidence_names_, evidence_weights_ : tuple of str, ndarray
        Names of the evidence and its weights in the fused score (rule "calibrated").
    class_score_names_, class_weights_ : tuple of str, ndarray
        Names of the class scores and their weights in the fused class score; only "residual" where candidates are those
        of the smallest residual and no evidence needs the others.
    training_rows_ : ndarray of int
        Rows of the training samples that are atoms: atom i is row ``training_rows_[dictionary_.order[i]]``. Of learned
        atoms (``learned_atoms_``), which are no samples, it is the nearest sample of the same class.
    pooled_ : ndarray of bool (n_classes,)
        Classes of fewer than ten samples, which share the tails of all classes. (All classes share the fused score and
        its distribution.)
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
    >>> labels = clf.predict(X[900:])
    >>> bool(np.mean(labels[known[900:]] == -1) < 0.2), bool(np.mean(labels[~known[900:]] == -1) > 0.6)
    (True, True)
    """

    problem: Problem | None = field(default=None, kw_only=False)
    kernel: str | Callable[[Array, Array], Array] = "linear"
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1.0
    normalize: bool | str = True
    atoms: Any = None
    n_repeats: int = 50
    holdout: float = 0.2
    max_codings: int | None = None
    tail_size: float | str = 0.1
    rule: str = "calibrated"
    label_by: str = "fused"
    evidence_kinds: str | Sequence[str] = "auto"
    openness: float = 0.0
    weight: float | None = None
    threshold: float | str | None = None
    target_rejection: float = 0.05
    per_class: bool = False
    calibration: str = "cross"
    calibration_size: float = 0.25
    risk_weight: float = 1.0
    unknown_label: Any = None
    n_jobs: int | None = None
    device: Any = "cpu"
    random_state: Any = None
    verbose: bool = False

    # -- learning ----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, *, groups: Any = None, cluster: str | None = None) -> SROSRClassifier:
        """Learn the known classes and, from them alone, when a sample is unknown.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Training samples; with ``kernel="precomputed"`` their Gram matrix.
        y : array-like (n_samples,)
            Their classes, at least two. With three or more the weights of the evidence are learned, with two they are
            those of a prior. A class may have a single sample; from ten samples on it has tails of its own.
        groups : array-like (n_samples,), optional
            The person, patient, device or session that each sample comes from: samples of one group are held out
            together, and the calibration split has whole groups. Rates then speak of samples of new groups, each group
            counting the same in the calibration split. A class with a single group is never held out.
        cluster : str, optional
            A Dask cluster whose workers code the held-out samples: the address of a scheduler, such as
            "tcp://127.0.0.1:8786", or "local:2" for two processes on this machine. The model is the same but for
            rounding. Workers code on the CPU, whatever ``device`` says.

        Warns
        -----
        CalibrationWarning
            Where there are too few held-out samples for the target rate of false rejection.

        Raises
        ------
        srosr.distributed.dask_cluster.ClusterError
            If the cluster cannot be reached, has workers of another version, or is lost; the classifier is as before.
        srosr.exceptions.DeviceError
            If there is no such ``device``.
        """
        with ExitStack() as stack:
            # For this fit only: no setting of the estimator, and not saved.
            stack.callback(lambda: [self.__dict__.pop(name, None) for name in ("_given_groups", "_workers")])
            if groups is not None:
                self._given_groups = groups
            if cluster is not None:
                from ..distributed.dask_cluster import DaskCluster

                work = DaskCluster(cluster, work="code held-out samples", after_loss="Nothing was fitted.")
                self._workers = stack.enter_context(work)
            return super().fit(X, y)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("rule", self.rule, RULES)
        check_choice("label_by", self.label_by, LABELS)
        self._check_evidence_kinds()
        check_atoms(self.atoms)
        if self.atoms is not None and isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError('atoms needs features, which kernel="precomputed" has not: leave it out.')
        check_choice("calibration", self.calibration, ("cross", "split"))
        check_count("n_repeats", self.n_repeats)
        check_rate("holdout", self.holdout)
        check_count("max_codings", self.max_codings, none=True)
        check_rate("calibration_size", self.calibration_size)
        check_tail_size(self.tail_size)
        check_share("openness", self.openness)
        if self.weight is not None:
            check_positive("weight", self.weight, zero=True)

    def _fit(self, X: Array, y: AnyArray) -> None:
        is_gram = isinstance(self.kernel, str) and self.kernel == "precomputed" and X.shape[0] == X.shape[1]
        kept, split = np.arange(len(y)), np.empty(0, np.int64)
        # Number of the group of each training sample, and the names of the groups.
        self._row_groups, self._group_names = None, None
        if getattr(self, "_given_groups", None) is not None:
            self._row_groups, self._group_names = check_groups(self._given_groups, y)
        if self.calibration == "split":
            usable: AnyArray = np.asarray(np.diagonal(X) > 0 if is_gram else X.any(axis=1))
            rng = check_random_state(self.random_state)
            kept, split = split_off_calibration(y, usable, self.calibration_size, rng, self._row_groups)
        self._calibration_samples = None
        if len(split):
            self._calibration_samples = Queries(X[np.ix_(split, kept)], np.diagonal(X)[split]) if is_gram else X[split]
        self._calibration_labels = y[split]
        self._calibration_groups = None if self._row_groups is None else self._row_groups[split]
        self._recalibration = None
        self.problem_ = self._problem
        self.training_rows_, self._n_rows, self._grown = kept, len(y), False
        self.learned_atoms_ = False
        # Samples that calibrate, and those of each class that the model has; None where they are the atoms.
        self._n_samples, self._class_sizes = None, None
        if len(split):
            X, y = X[np.ix_(kept, kept)] if is_gram else X[kept], y[kept]
        if self.atoms is None:
            self._calibrate(self._build_dictionary(X, y))
        else:
            self._calibrate_small(X, y)

    def _calibrate_small(self, X: AnyArray, y: AnyArray) -> None:
        """Find atoms among the samples, and learn everything else from all of them."""
        whole = self._make_dictionary(X, y)
        finder = AtomFinder(self._make_sampler(), X, y, self._build_dictionary, whole)
        dictionary, rows = finder.find()
        if rows is not None and len(rows) == len(X):  # all samples are atoms
            self._calibrate(self._build_dictionary(X, y))
            return
        evidence, class_scores = self._choose_kinds(dictionary)
        calibration = cross_fit(
            whole,
            lambda numbers: finder.find_among(np.sort(whole.order[numbers])),
            self.problem_,
            rule=self.rule,
            evidence=evidence,
            class_scores=class_scores,
            by_residual=self.label_by == "residual" or self.rule != "calibrated",
            tail_size=self.tail_size,
            weight=self._get_weight(),
            max_codings=self.max_codings,
            rng=check_random_state(self.random_state),
            n_jobs=self.n_jobs,
            progress=bool(self.verbose),
            cluster=getattr(self, "_workers", None),
            device=find_device(self.device),
            groups=None if self._row_groups is None else self._row_groups[self.training_rows_[whole.order]],
        )
        scorer = None
        if len(class_scores) > 1:
            assert whole.rows is not None
            with one_blas_thread():
                scorer = fit_sampled_scorer(
                    dictionary, class_scores, RegressionSamples(whole.rows, whole.class_of), n_jobs=self.n_jobs,
                    device=find_device(self.device),
                )  # fmt: skip
        if rows is None:
            self.learned_atoms_ = True
            places = np.empty(dictionary.n_atoms, np.int64)
            places[dictionary.order] = whole.order[find_nearest_samples(dictionary, whole)]
            rows = places
        self.training_rows_ = self.training_rows_[rows]
        self._n_samples, self._class_sizes = len(X), count_atoms(whole)
        self.rule_, self.label_by_ = self.rule, self.label_by if self.rule == "calibrated" else "residual"
        self._adopt(dictionary, calibration, class_scores, scorer)

    def _make_sampler(self) -> Any:
        """Return what finds atoms among samples as the kernel sees them."""
        scales = self.normalize == "feature" or (self.normalize is True and self.kernel == "linear")
        return make_sampler(self.atoms, self.random_state, normalize=bool(scales))

    def _check_evidence_kinds(self) -> None:
        """Raise a ValueError for evidence that does not exist, or that needs features where there are none."""
        kinds = self.evidence_kinds
        if isinstance(kinds, str) and kinds == "auto":
            return
        names = [kinds] if isinstance(kinds, str) or not isinstance(kinds, Collection) else list(kinds)
        if not names or any(name not in EVIDENCE for name in names):
            raise ValueError(f'evidence_kinds must be "auto" or some of {", ".join(EVIDENCE)}, got {kinds!r}.')
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            missing = sorted(set(names) - set(list_evidence(has_features=False)))
            if missing:
                raise ValueError(f'evidence_kinds: {missing[0]!r} needs features, which kernel="precomputed" has not.')

    def _choose_kinds(self, dictionary: Dictionary) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the kinds of evidence and of class scores that the rule needs."""
        has_features = not dictionary.is_precomputed
        if self.rule != "calibrated":
            # The paper's rules do not use least squares, and over many atoms it is expensive: it takes the Gram matrix.
            shown = FIRST_EVIDENCE if gram_wanted(dictionary, self.problem_) else ()
            return FIRST_EVIDENCE, find_class_scores(shown, has_features=has_features)
        kinds = self.evidence_kinds
        wanted = list_evidence(has_features=has_features) if isinstance(kinds, str) and kinds == "auto" else kinds
        names = tuple(name for name in EVIDENCE if name in ([wanted] if isinstance(wanted, str) else list(wanted)))
        if self.label_by == "fused":
            return names, list_class_scores(has_features=has_features)
        return names, find_class_scores(names, has_features=has_features)

    def _calibrate(self, dictionary: Dictionary) -> None:
        """Learn tails, fusions and distribution over a dictionary, by the rule of the constructor."""
        evidence, class_scores = self._choose_kinds(dictionary)
        calibration, scorer = calibrate(
            dictionary,
            self.problem_,
            rule=self.rule,
            evidence=evidence,
            class_scores=class_scores,
            by_residual=self.label_by == "residual",
            n_repeats=self.n_repeats,
            holdout=self.holdout,
            tail_size=self.tail_size,
            weight=self._get_weight(),
            max_codings=self.max_codings,
            rng=check_random_state(self.random_state),
            n_jobs=self.n_jobs,
            progress=bool(self.verbose),
            cluster=getattr(self, "_workers", None),
            device=find_device(self.device),
            groups=self._find_atom_groups(dictionary),
        )
        self.rule_, self.label_by_ = self.rule, self.label_by if self.rule == "calibrated" else "residual"
        self._adopt(dictionary, calibration, class_scores, scorer)

    def _get_weight(self) -> float:
        """Return the weight of the second tail."""
        if self.rule == "matched":
            return 0.0
        return (1.0 - self.openness) / 3.0 if self.weight is None else float(self.weight)

    def _adopt(
        self,
        dictionary: Dictionary,
        calibration: Calibration,
        class_scores: tuple[str, ...],
        scorer: ClassScorer | LandmarkScorer | None = None,
    ) -> None:
        """Set the attributes that follow from a dictionary and its calibration, and from class scores over it."""
        if scorer is None and len(class_scores) > 1:
            with one_blas_thread():
                device = find_device(self.device)
                scorer = fit_scorer(dictionary, class_scores, n_jobs=self.n_jobs, device=device)
        self.dictionary_ = dictionary
        self.classes_ = np.asarray(dictionary.classes_)
        self.calibration_ = calibration
        self._split_scores = self._kept_comparison = None
        self._class_scores, self._scorer = class_scores, scorer
        self.evidence_names_ = calibration.evidence
        self.evidence_weights_ = calibration.weights
        fusion = calibration.class_fusion
        self.class_score_names_ = ("residual",) if fusion is None else fusion.kinds
        self.class_weights_ = np.ones(1) if fusion is None else fusion.weights
        self.pooled_ = calibration.pooled

    def _held_out_scores(self) -> HeldOutScores:
        split = self._calibration_split()
        if split is None or not split.fresh:
            return self.calibration_.scores
        return replace(self.calibration_.scores, scores=split.scores, candidate=split.candidate, truth=split.truth)

    _no_original_threshold: ClassVar[str] = (
        "the paper has one for each of its data sets; with its own rule give that number, as "
        'SROSRClassifier(rule="paper", threshold=0.007) for Extended Yale B (0.006 for MNIST, 0.05 for UIUC, 0.1 for '
        "Caltech-256)."
    )

    def _wants_guarantee(self) -> bool:
        return self.calibration == "split"

    def _calibration_split(self) -> CalibrationSplit | None:
        if self._calibration_samples is None:
            return None
        if self._split_scores is None:
            evidence = self._gather_evidence(self._calibration_samples)
            truth: Any = np.searchsorted(self.classes_, self._calibration_labels)
            candidate = self._select_class_scores(evidence).argmax(axis=1)
            is_fresh = self._recalibration is not None
            facts = self._recalibration or {"labeled": True, "exact": True}
            source = "samples collected after the fit" if is_fresh else "samples of the calibration split"
            own = None
            if facts["labeled"] and self.calibration_.margins is not None:
                own = self._measure_classes(evidence)[np.arange(len(truth)), truth]
            self._split_scores = CalibrationSplit(
                self._score_evidence(evidence), candidate, truth, own, self._calibration_groups, exact=facts["exact"],
                labeled=facts["labeled"], fresh=is_fresh,
                source=source,
            )  # fmt: skip
        return self._split_scores

    def _get_calibration(self) -> CalibrationSplit:
        found, recipe = super()._get_calibration(), self.feature_recipe_
        if not found.fresh and recipe is not None and (recipe.center is not None or recipe.imputer is not None):
            found = replace(found, exact=False)  # columns were scaled, or gaps filled, with the help of these samples
        if self._calibration_samples is not None or self.calibration_.margins is None:
            return found
        rows = self.calibration_.held_out
        log_p = self._log_p_value_of_fit(rows.values, rows.residual_candidate)
        return replace(found, class_scores=-(log_p + self.calibration_.margins.logsf(rows.margin)))

    def _log_p_value_of_fit(self, values: Array, residual_candidate: IntArray) -> Array:
        """Return the logarithm of the p-values by the distribution of the fit, whatever has been recalibrated since.

        What compares calibration samples with new ones must not depend on the calibration samples.
        """
        rule = self.calibration_.rule
        if isinstance(rule, CalibratedRule):
            rule = replace(rule, recalibrated=None)
        return rule.log_p_value(values, residual_candidate)

    def _measure_classes(self, evidence: Evidence) -> Array:
        """Return how little each sample resembles each class, (n_samples, n_classes)."""
        assert self.calibration_.margins is not None
        log_p = self._log_p_value_of_fit(evidence.values, evidence.residual_candidate)
        log_p = np.where(evidence.empty, -np.inf, log_p)
        margins = compute_margins(self._select_class_scores(evidence))
        return -(log_p[:, None] + self.calibration_.margins.logsf(margins))

    def set_weight(self, weight: float | None = None, *, openness: float | None = None) -> SROSRClassifier:
        r"""Set the weight of the second tail of the paper's rule and choose the threshold anew, without fitting again.

        Parameters
        ----------
        weight : float, optional
            w of :math:`S = G_m + wG_{nm}`; 0 leaves the matched tail alone.
        openness : float, optional
            Openness of the problem, instead of a weight: w is the paper's :math:`(1 - \text{openness})/3`.
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
            weight = (1.0 - check_share("openness", openness)) / 3.0
        tails = replace(rule, weight=check_positive("weight", weight, zero=True))
        with self._restore_on_error():
            self.calibration_ = replace(self.calibration_, rule=tails, tails=tails)
            self._split_scores = None
            self.set_threshold(**self._threshold_arguments)
        return self

    # -- prediction --------------------------------------------------------------------------------------

    def _build_evidence(self, queries: Queries, codes: Codes) -> Evidence:
        scores = None if self._scorer is None else self._scorer.score(queries)
        return build_evidence(measure_codes(queries, codes, self.dictionary_), scores, self.calibration_.class_fusion)

    def _start_gathering(self, device: Any) -> DeviceGatherer:
        from ..evidence.device_evidence import DeviceGatherer

        return DeviceGatherer(
            self.dictionary_, self.problem_, device, self._scorer, self.calibration_.class_fusion, n_jobs=self.n_jobs
        )

    def _select_class_scores(self, evidence: Evidence) -> Array:
        return evidence.class_scores if self.label_by_ == "fused" else -evidence.residuals

    def _score_evidence(self, evidence: Evidence) -> Array:
        scores = self.calibration_.rule.score(evidence.values, evidence.residual_candidate)
        return np.where(evidence.empty, 1.0, scores)

    def unknown_score(self, X: Any) -> Array:
        """Return the unknown score of each sample, in [0, 1]; above the threshold the sample is rejected.

        With the rule "calibrated" it is the share of known samples with a smaller fused score; one minus it is a
        p-value. A sample of length zero scores 1.
        """
        return super().unknown_score(X)

    def log_p_value(self, X: Any) -> Array:
        """Return the logarithm of one minus the unknown score; small for unknown samples.

        With the rule "calibrated" it still ranks samples whose unknown score has rounded to 1. (With the paper's rules
        it is only that logarithm: their unknown score is not a probability.)
        """
        evidence = self._gather_evidence(self._check_queries(X))
        out = self.calibration_.rule.log_p_value(evidence.values, evidence.residual_candidate)
        return np.where(evidence.empty, -np.inf, out)

    def class_p_values(self, X: Any, *, rate: float | None = None) -> Array:
        r"""Return for each sample and class the p-value of the sample being of that class, (n_samples, n_classes).

        A sample resembles class k the less, the smaller the p-value of its being known at all, and the more another
        class leads over k: :math:`-\log p - \log\bar F(m_k)`, with :math:`m_k` the best other class score minus that of
        class k and :math:`\bar F` the share of held-out samples whose own class trails by more. This number is compared
        with those of the calibration samples of class k (Mondrian conformal prediction): a sample of class k has a
        p-value of at most t with a probability of at most t, for each class. Guaranteed with a calibration split or
        after ``recalibrate``, else approximate; see :meth:`guarantees`.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
        rate : float, optional
            The smallest p-value that matters, by default ``target_rejection``: classes with fewer than 1/rate − 1
            calibration samples share theirs.
        """
        rate = check_rate("rate", self.target_rejection if rate is None else rate)
        comparison, _ = self._compare_classes(rate)
        with one_blas_thread():
            return comparison.compute(self._measure_classes(self._gather_evidence(self._check_queries(X))))

    def _compare_classes(self, rate: float) -> tuple[ClassComparison, str]:
        """Return the calibration samples of each class, prepared, and what they guarantee at a rate.

        Both are kept for the next call, for a few rates: they take longer than the coding of a sample.
        """
        check_is_fitted(self, "calibration_")
        # What the calibration samples and their scores come from; all are replaced, never changed.
        origin = (self.calibration_, self._calibration_split(), self.feature_recipe_)
        kept = self._kept_comparison
        is_same = kept is not None and all(a is b for a, b in zip(kept[0], origin, strict=True))
        found = kept[1] if kept is not None and is_same else {}
        if rate not in found:
            split = self._get_calibration()
            if split.class_scores is None:
                raise ValueError(
                    "p-values of classes need calibration samples of known classes, and the samples that it was "
                    "recalibrated with had no labels: recalibrate with labels."
                )
            comparison = ClassComparison(split, len(self.classes_), count_needed(rate))
            latest = dict([*found.items()][1 - MOST_RATES :])  # a new one: other threads use the old one
            found = latest | {rate: (comparison, describe_guarantees(split, self.classes_, rate).by_class)}
            self._kept_comparison = origin, found
        return found[rate]

    def prediction_set(self, X: Any, coverage: float = 0.9) -> PredictionSets:
        """Return for each sample the classes that cannot be excluded; none of them says that it is unknown.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
        coverage : float, default 0.9
            The share of known samples whose class is in the set, class by class: classes whose p-value
            (:meth:`class_p_values`) is at most one minus it are excluded. Classes with fewer than
            coverage / (1 − coverage) calibration samples are treated together.

        Returns
        -------
        PredictionSets
            A sequence of arrays; prints as a summary that says for which samples the coverage is guaranteed.
        """
        return self._predict_with_sets(X, coverage)[1]

    def _predict_with_sets(self, X: Any, coverage: float) -> tuple[RawPrediction, PredictionSets]:
        rate = 1.0 - check_rate("coverage", coverage)
        comparison, guarantee = self._compare_classes(rate)
        with one_blas_thread():
            evidence = self._gather_evidence(self._check_queries(X))
            raw, p_values = self._conclude(evidence), comparison.compute(self._measure_classes(evidence))
        # A p-value is a multiple of one over n + 1, and the rate may be one too.
        contains = p_values > rate * (1.0 + 1e-9)
        return raw, PredictionSets(self.classes_, contains, p_values, float(coverage), guarantee)

    def class_scores(self, X: Any) -> Array:
        """Return the fused score of each class, (n_samples, n_classes); the largest is the candidate's.

        With ``label_by="residual"`` and with the paper's rules it is minus the residual.
        """
        return super().class_scores(X)

    def evidence(self, X: Any) -> DataFrame:
        """Return the evidence of each sample as a table, with candidate class and unknown score.

        :mod:`srosr.evidence` explains the columns; the index of a DataFrame is kept. With the paper's rules over many
        atoms (more than 11,585) the columns of regularized least squares, which these rules do not use, are NaN.
        """
        from pandas import DataFrame

        evidence = self._gather_evidence(self._check_queries(X))
        table = DataFrame(
            evidence.values[:, np.isin(EVIDENCE, self.evidence_names_)],
            columns=list(self.evidence_names_),
            index=X.index if hasattr(X, "iloc") else None,
        )
        if self._scorer is None:
            table[[name for name in LEAST_SQUARES if name in self.evidence_names_]] = np.nan
        table["candidate"] = self.classes_[self._select_class_scores(evidence).argmax(axis=1)]
        table["unknown_score"] = self._score_evidence(evidence)
        return table

    def explain(self, x: Any) -> Explanation:
        """Explain why one sample is recognized or rejected.

        Parameters
        ----------
        x : array-like (n_features,) or (1, n_features), a row of a DataFrame, or a one-row DataFrame
            One sample; with ``kernel="precomputed"`` a :class:`Queries` of one sample. Feature names are checked as in
            ``predict``.

        Returns
        -------
        Explanation
            Prints as text; ``plot()`` draws it.
        """
        from ..inspection.explanation import explain

        return explain(self, x)

    def discover(self, X: Any, **options: Any) -> Discovery:
        """Group the samples that are rejected: tight groups may be new classes.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
        **options
            Those of :func:`srosr.discovery.discover_classes.discover`.

        Returns
        -------
        Discovery
            Prints as a table of the groups.
        """
        from ..discovery.discover_classes import discover

        return discover(self, X, **options)
