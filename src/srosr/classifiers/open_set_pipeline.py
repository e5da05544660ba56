"""A scikit-learn pipeline that ends in an open set classifier, with the methods of the classifier."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._support.array_types import AnyArray, Array
from .base import Decisions

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..coding.encode import Codes
    from ..thresholds.choice import Threshold
    from ..thresholds.guarantees import Guarantees


def _final_has(name: str) -> Callable[[Any], bool]:
    """Return a check that the last step has a method; the error of a missing one names the last step."""

    def check(pipeline: Any) -> bool:
        getattr(pipeline._final_estimator, name)
        return True

    return check


class OpenSetPipeline(Pipeline):
    """A pipeline of transformers and, at its end, an open set classifier.

    It is scikit-learn's ``Pipeline`` in all respects: ``fit``, ``predict`` and ``score``, names and parameters of the
    steps, ``clone``, searches, metadata routing. Beyond that it has the methods of the classifier. Those that take
    samples, such as ``decide``, ``unknown_score`` and ``explain``, pass them through the earlier steps first; keyword
    arguments go to the classifier. Those that change the classifier, such as ``set_threshold`` and ``add_class``, leave
    the earlier steps as they were fitted. A method that the classifier lacks, the pipeline lacks too.

    Parameters
    ----------
    steps : list of (str, estimator)
        Names and estimators, as for scikit-learn's pipeline; the last is an open set classifier.
    transform_input : list of str, optional
        Metadata that is transformed like the samples, with metadata routing.
    memory : str or object with the interface of joblib.Memory, optional
        Where to cache fitted transformers.
    verbose : bool, default False
        Print the time of each step of a fit.

    Attributes
    ----------
    classes_, unknown_label_, threshold_, thresholds_, threshold_info_, score_range :
        Those of the classifier; any other is an attribute of the last step, ``pipeline[-1]``.

    See Also
    --------
    make_open_set_pipeline : Give the steps their names.

    Notes
    -----
    Explanations, codes and evidence are about the features that the classifier gets, after the earlier steps.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> import srosr
    >>> X, y = load_digits(return_X_y=True)
    >>> known = y < 5
    >>> clf = srosr.SROSRClassifier(n_repeats=2, random_state=0)
    >>> pipeline = srosr.make_open_set_pipeline(MinMaxScaler(), clf)
    >>> pipeline = pipeline.fit(X[known][:200], y[known][:200])
    >>> decisions = pipeline.set_threshold(target_rejection=0.1).decide(X[~known][:100])
    >>> bool(decisions.rejected.mean() > 0.9)
    True
    """

    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Fit the earlier steps and, to the transformed samples, the classifier.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Training samples, as the first step takes them.
        y : array-like (n_samples,)
            Their classes.
        **params
            Further arguments for the steps: by the name of the step, as in ``srosrclassifier__groups=groups``. With
            metadata routing by their own name, as in ``groups=groups``, for those who have requested them.
        """
        final = self._final_estimator
        if not (hasattr(final, "decide") and hasattr(final, "unknown_score")):
            name = final if isinstance(final, str) else type(final).__name__
            raise ValueError(
                f"steps: the last step must be an open set classifier such as SROSRClassifier, but is {name}; use "
                "sklearn.pipeline.Pipeline for others."
            )
        super().fit(X, y, **params)
        return self

    def __getitem__(self, ind: Any) -> Any:
        """Return a step by place or name, or some of the steps: a plain pipeline if the classifier is left out."""
        part = super().__getitem__(ind)
        if isinstance(ind, slice) and not (part.steps and part.steps[-1] is self.steps[-1]):
            return Pipeline(part.steps, memory=self.memory, verbose=self.verbose)
        return part

    def _transform(self, X: Any) -> Any:
        """Return samples as the classifier takes them."""
        check_is_fitted(self)
        return self[:-1].transform(X) if len(self.steps) > 1 else X

    def _ask(self, method: str, X: Any, *arguments: Any, **keywords: Any) -> Any:
        """Call a method of the classifier with samples that went through the earlier steps."""
        return self._follow(getattr(self._final_estimator, method)(self._transform(X), *arguments, **keywords))

    def _follow(self, result: Any) -> Any:
        """Return what a method of the classifier returned, and the pipeline in place of the classifier itself."""
        return self if result is self._final_estimator else result

    # -- decisions ---------------------------------------------------------------------------------------

    @available_if(_final_has("decide"))
    def decide(self, X: Any, **arguments: Any) -> Decisions:
        """Return label, candidate, unknown score and rejection of each sample."""
        decisions = self._ask("decide", X, **arguments)
        sets = decisions.prediction_set
        return decisions if sets is None else replace(decisions, prediction_set=self._restate_guarantee(sets))

    @available_if(_final_has("unknown_score"))
    def unknown_score(self, X: Any, **arguments: Any) -> Array:
        """Return the unknown score of each sample; above the threshold it is rejected."""
        return self._ask("unknown_score", X, **arguments)

    @available_if(_final_has("candidate"))
    def candidate(self, X: Any, **arguments: Any) -> AnyArray:
        """Return the best known class of each sample, whether it would be rejected or not."""
        return self._ask("candidate", X, **arguments)

    @available_if(_final_has("class_scores"))
    def class_scores(self, X: Any, **arguments: Any) -> Array:
        """Return a score of each class, (n_samples, n_classes), in the order of ``classes_``; large is likely."""
        return self._ask("class_scores", X, **arguments)

    @available_if(_final_has("p_value"))
    def p_value(self, X: Any, **arguments: Any) -> Array:
        """Return the conformal p-value of each sample: small for unknown samples."""
        return self._ask("p_value", X, **arguments)

    @available_if(_final_has("log_p_value"))
    def log_p_value(self, X: Any, **arguments: Any) -> Array:
        """Return the logarithm of the p-value of each sample, where the unknown score itself is 1."""
        return self._ask("log_p_value", X, **arguments)

    @available_if(_final_has("class_p_values"))
    def class_p_values(self, X: Any, **arguments: Any) -> Array:
        """Return the p-value of each class, (n_samples, n_classes), in the order of ``classes_``."""
        return self._ask("class_p_values", X, **arguments)

    @available_if(_final_has("prediction_set"))
    def prediction_set(self, X: Any, *arguments: Any, **keywords: Any) -> Any:
        """Return for each sample the classes that cannot be excluded; none of them says that it is unknown."""
        return self._restate_guarantee(self._ask("prediction_set", X, *arguments, **keywords))

    def _restate_guarantee(self, sets: Any) -> Any:
        """Return prediction sets with what holds for samples before the earlier steps."""
        return replace(sets, guarantee=self.guarantees(1.0 - sets.coverage).by_class)

    @available_if(_final_has("discover"))
    def discover(self, X: Any, **arguments: Any) -> Any:
        """Return groups of similar samples among those that are rejected."""
        return self._ask("discover", X, **arguments)

    # -- inspection --------------------------------------------------------------------------------------

    @available_if(_final_has("explain"))
    def explain(self, x: Any, **arguments: Any) -> Any:
        """Explain why one sample is recognized or rejected.

        Parameters
        ----------
        x : array-like (n_features,) or (1, n_features), a row of a DataFrame, or a one-row DataFrame
            One sample, as the first step takes it.

        Returns
        -------
        Explanation
        """
        if hasattr(x, "to_frame") and np.ndim(x) == 1:
            x = x.to_frame().T
        elif np.ndim(x) == 1:
            x = np.reshape(x, (1, -1))
        return self._ask("explain", x, **arguments)

    @available_if(_final_has("evidence"))
    def evidence(self, X: Any, **arguments: Any) -> DataFrame:
        """Return the evidence on each sample as a table."""
        return self._ask("evidence", X, **arguments)

    @available_if(_final_has("encode"))
    def encode(self, X: Any, **arguments: Any) -> Codes:
        """Return the sparse codes of the samples."""
        return self._ask("encode", X, **arguments)

    @available_if(_final_has("guarantees"))
    def guarantees(self, *arguments: Any, **keywords: Any) -> Guarantees:
        """Say for which samples a rate of false rejection holds.

        Steps before the classifier were fitted to the samples of a calibration split, too, so that nothing is exact
        until the pipeline has been recalibrated with samples that no step has seen.
        """
        check_is_fitted(self)
        found = self._final_estimator.guarantees(*arguments, **keywords)
        return found if found.fresh or len(self.steps) == 1 else replace(found, exact=False)

    # -- changes of the classifier -----------------------------------------------------------------------

    @available_if(_final_has("set_threshold"))
    def set_threshold(self, *arguments: Any, **keywords: Any) -> Self:
        """Choose the threshold of the classifier anew, without fitting again."""
        return self._follow(self._final_estimator.set_threshold(*arguments, **keywords))

    @available_if(_final_has("set_weight"))
    def set_weight(self, *arguments: Any, **keywords: Any) -> Self:
        """Set the weight of the non-matched tail, for the rule of the paper, without fitting again."""
        return self._follow(self._final_estimator.set_weight(*arguments, **keywords))

    @available_if(_final_has("add_class"))
    def add_class(self, X: Any, label: Any, **arguments: Any) -> Self:
        """Add a class to the classifier; the earlier steps stay as they were fitted."""
        return self._ask("add_class", X, label, **arguments)

    @available_if(_final_has("remove_class"))
    def remove_class(self, label: Any, **arguments: Any) -> Self:
        """Remove a class from the classifier."""
        return self._follow(self._final_estimator.remove_class(label, **arguments))

    @available_if(_final_has("update"))
    def update(self, X: Any, y: Any, **arguments: Any) -> Self:
        """Add samples of known classes to the classifier; the earlier steps stay as they were fitted."""
        return self._ask("update", X, y, **arguments)

    @available_if(_final_has("recalibrate"))
    def recalibrate(self, X: Any, y: Any = None, **arguments: Any) -> Self:
        """Calibrate the classifier on samples that it has not seen; the earlier steps stay as they were fitted."""
        return self._ask("recalibrate", X, y, **arguments)

    def save(self, path: str | os.PathLike[str]) -> NoReturn:
        """Raise an error: model files hold classifiers, and no transformers of other libraries."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot be saved: model files hold no transformers; save the classifier alone with "
            "pipeline[-1].save(path) and keep the fitted pipeline[:-1] by other means, or let the command srosr fit "
            "impute and standardize, which its models remember."
        )

    # -- attributes --------------------------------------------------------------------------------------

    @property
    def unknown_label_(self) -> Any:
        """The label that ``predict`` gives to rejected samples."""
        return self._final_estimator.unknown_label_

    @property
    def threshold_(self) -> float:
        """The threshold on the unknown score."""
        return self._final_estimator.threshold_

    @property
    def thresholds_(self) -> Array:
        """The threshold of each class."""
        return self._final_estimator.thresholds_

    @property
    def threshold_info_(self) -> Threshold:
        """How the threshold was chosen."""
        return self._final_estimator.threshold_info_

    @property
    def score_range(self) -> tuple[float, float]:
        """Ends of the scale of the unknown score."""
        return self._final_estimator.score_range


def make_open_set_pipeline(*steps: Any, memory: Any = None, verbose: bool = False) -> OpenSetPipeline:
    """Return a pipeline of these steps, named after their classes, whose last step is an open set classifier.

    Parameters
    ----------
    *steps : estimators
        Transformers and, at the end, an open set classifier.
    memory : str or object with the interface of joblib.Memory, optional
        Where to cache fitted transformers.
    verbose : bool, default False
        Print the time of each step of a fit.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from srosr import SROSRClassifier, make_open_set_pipeline
    >>> list(make_open_set_pipeline(StandardScaler(), SROSRClassifier()).named_steps)
    ['standardscaler', 'srosrclassifier']
    """
    return OpenSetPipeline(make_pipeline(*steps).steps, memory=memory, verbose=verbose)
