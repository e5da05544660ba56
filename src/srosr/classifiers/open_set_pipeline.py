"""A scikit-learn pipeline that ends in an open set classifier, with the methods of the classifier."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from inspect import signature
from typing import Any, NoReturn, Self

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from ..thresholds.guarantees import Guarantees, PredictionSets
from .base import Decisions

#: Methods of a classifier that take samples first, and those that do not.
_ON_SAMPLES = (
    "decide", "unknown_score", "candidate", "class_scores", "p_value", "log_p_value", "class_p_values",
    "prediction_set", "discover", "explain", "evidence", "encode", "add_class", "update", "recalibrate",
)  # fmt: skip
_METHODS = (*_ON_SAMPLES, "guarantees", "set_threshold", "set_weight", "remove_class")
_ATTRIBUTES = ("unknown_label_", "threshold_", "thresholds_", "threshold_info_", "score_range")


class OpenSetPipeline(Pipeline):
    """A pipeline of transformers and, at its end, an open set classifier.

    It is scikit-learn's ``Pipeline`` in all respects: ``fit``, ``predict`` and ``score``, names and parameters of the
    steps, ``clone``, searches, metadata routing. Beyond that it has the methods of the classifier, with their arguments
    and documentation; a method that the classifier lacks, the pipeline lacks too:

    - ``decide``, ``unknown_score``, ``candidate``, ``class_scores``, ``p_value``, ``log_p_value``, ``class_p_values``,
      ``prediction_set``, ``discover``, ``explain``, ``evidence`` and ``encode`` pass samples through the earlier steps
      first.
    - ``add_class``, ``update``, ``recalibrate``, ``remove_class``, ``set_threshold`` and ``set_weight`` change the
      classifier, leave the earlier steps as they were fitted, and return the pipeline.
    - ``guarantees`` calls nothing exact until the pipeline has been recalibrated with samples that no step has seen:
      steps before the classifier were fitted to the samples of a calibration split, too.

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

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the classifier, or one of its methods for samples before the earlier steps."""
        if name not in _ATTRIBUTES and name not in _METHODS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = getattr(self._final_estimator, name)  # the error of a missing one names the classifier
        return found if name in _ATTRIBUTES else wraps(found)(partial(self._ask, found))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in _ATTRIBUTES + _METHODS if hasattr(self._final_estimator, name))]

    def _ask(self, method: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Call a method of the classifier, with samples that went through the earlier steps."""
        check_is_fitted(self)
        given = signature(method).bind(*arguments, **keywords)
        if method.__name__ in _ON_SAMPLES:
            name = next(iter(given.arguments))
            X = given.arguments[name]
            X = _make_row(X) if method.__name__ == "explain" else X
            given.arguments[name] = self[:-1].transform(X) if len(self.steps) > 1 else X
        result = method(*given.args, **given.kwargs)
        if result is self._final_estimator:
            return self
        if isinstance(result, Guarantees) and not result.fresh and len(self.steps) > 1:
            return replace(result, exact=False)
        if isinstance(result, PredictionSets):
            return self._restate_guarantee(result)
        if isinstance(result, Decisions) and result.prediction_set is not None:
            return replace(result, prediction_set=self._restate_guarantee(result.prediction_set))
        return result

    def _restate_guarantee(self, sets: PredictionSets) -> PredictionSets:
        """Return prediction sets with what holds for samples before the earlier steps."""
        return replace(sets, guarantee=self.guarantees(1.0 - sets.coverage).by_class)

    def save(self, path: str | os.PathLike[str]) -> NoReturn:
        """Raise an error: model files hold classifiers, and no transformers of other libraries."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot be saved: model files hold no transformers; save the classifier alone with "
            "pipeline[-1].save(path) and keep the fitted pipeline[:-1] by other means, or let the command srosr fit "
            "impute and standardize, which its models remember."
        )


def _make_row(x: Any) -> Any:
    """Return one sample as a table of one row."""
    if hasattr(x, "to_frame") and np.ndim(x) == 1:
        return x.to_frame().T
    return np.reshape(x, (1, -1)) if np.ndim(x) == 1 else x


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
