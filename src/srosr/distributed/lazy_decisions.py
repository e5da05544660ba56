"""Decisions on Dask arrays and data frames: computed when they are asked for, chunk by chunk, wherever the chunks are.

Nothing is collected here. The model is one key of the graph, on which the decisions of all chunks depend, so that Dask
sends it to each worker once. What a chunk gets is what ``model.decide`` returns for its rows, but for rounding.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._support.array_types import AnyArray
from .._support.messages import join_names, quote_names
from .._support.unknown_label import append_unknown


@dataclass(frozen=True, eq=False)
class DaskDecisions:
    """The decisions on the rows of a Dask array, see :func:`srosr.distributed.lazy_decisions.decide`.

    Attributes
    ----------
    label : dask array (n_samples,)
        The known class, or the label for unknown samples.
    candidate : dask array (n_samples,)
        The best known class, whether the sample is rejected or not.
    unknown_score : dask array (n_samples,)
        Large for unknown samples.
    rejected : dask array of bool (n_samples,)
    """

    label: Any
    candidate: Any
    unknown_score: Any
    rejected: Any

    def compute(self, **options: Any) -> DaskDecisions:
        """Return the decisions as NumPy arrays; every chunk is decided once for all four.

        Parameters
        ----------
        **options
            Passed to ``dask.compute``.
        """
        from dask.base import compute

        return DaskDecisions(*compute(*(getattr(self, field.name) for field in fields(self)), **options))


def decide(model: Any, X: Any) -> Any:
    """Return the decisions of a fitted open set classifier on a Dask collection, lazily.

    Parameters
    ----------
    model : OpenSetClassifier
        Any fitted classifier of srosr. The decisions are those of the model as it is now: a threshold that is set later
        does not count. Each chunk is decided on one thread, whatever its ``n_jobs``; Dask decides chunks in parallel.
    X : dask array (n_samples, n_features) or dask data frame
        The rows in any number of chunks, each with all columns. A data frame has the columns of the training data, in
        the same order.

    Returns
    -------
    DaskDecisions or dask data frame
        For an array, Dask arrays with the chunks of its rows. For a data frame, one with its index and divisions and
        the columns label, candidate, unknown_score and rejected.

    Raises
    ------
    TypeError
        If X is not a Dask collection, or the model has no method ``decide``.
    ValueError
        If the columns are split over chunks, are not those of the training data, or are not numbers.
    ImportError
        If Dask is not installed.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_digits
    >>> from srosr import OSNN
    >>> from srosr.distributed.lazy_decisions import decide
    >>> X, y = load_digits(return_X_y=True)
    >>> model = OSNN().fit(X[:200][y[:200] < 5], y[:200][y[:200] < 5])
    >>> lazy = decide(model, da.from_array(X[200:800], chunks=(100, 64)))
    >>> lazy.label
    dask.array<_take_field, shape=(600,), dtype=int64, chunksize=(100,), chunktype=numpy.ndarray>
    >>> bool((lazy.label.compute() == model.predict(X[200:800])).all())
    True
    """
    try:
        import dask.array as da
        from dask.base import is_dask_collection, tokenize
        from dask.delayed import delayed
    except ImportError:
        raise ImportError(
            'srosr.distributed.lazy_decisions.decide needs Dask, which is not installed: pip install "srosr[cluster]".'
        ) from None
    _check_model(model)
    is_array = isinstance(X, da.Array)
    if not is_array and not (is_dask_collection(X) and hasattr(X, "map_partitions") and getattr(X, "ndim", 0) == 2):
        raise TypeError(
            f"X must be a Dask array or a Dask data frame, got {type(X).__name__}; model.decide(X) takes samples that "
            "are in memory."
        )
    chosen = _prepare_model(model)
    if is_array:
        _check_array(model, X)
    else:
        recipe = getattr(model, "feature_recipe_", None)
        if recipe is not None:
            X = recipe.select_features(X, model.n_features_in_)
        _check_frame(model, X)
    once = delayed(chosen, name=f"srosr-model-{tokenize(chosen)}", traverse=False)
    return _decide_array(chosen, once, X) if is_array else _decide_frame(chosen, once, X)


# -- checks ----------------------------------------------------------------------------------------------------


def _check_model(model: Any) -> None:
    from sklearn.utils.validation import check_is_fitted

    if not callable(getattr(model, "decide", None)) or isinstance(model, type):
        raise TypeError(f"model must be a fitted open set classifier of srosr, got {model!r}.")
    check_is_fitted(model, "classes_")


def _check_array(model: Any, X: Any) -> None:
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, samples and features, but has {X.ndim}.")
    if X.shape[1] != model.n_features_in_:
        raise ValueError(f"X has {X.shape[1]} features, but the model was fitted to {model.n_features_in_}.")
    if X.numblocks[1] != 1:
        raise ValueError(
            f"X has its columns in {X.numblocks[1]} chunks: put all columns of a row into one chunk with "
            "X.rechunk({1: -1})."
        )
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X has values of the type {X.dtype}: give numbers.")


def _check_frame(model: Any, X: Any) -> None:
    from pandas.api.types import is_numeric_dtype

    columns = list(X.columns)
    names = getattr(model, "feature_names_in_", None)
    if names is not None and columns != list(names):
        raise ValueError(_describe_columns(columns, list(names)))
    if len(columns) != model.n_features_in_:
        raise ValueError(f"X has {len(columns)} columns, but the model was fitted to {model.n_features_in_} features.")
    other = [name for name, dtype in zip(columns, X.dtypes, strict=True) if not is_numeric_dtype(dtype)]
    if other:
        raise ValueError(f"X has columns that are not numbers: {quote_names(other, 5)}.")


def _describe_columns(columns: list[Any], names: list[Any]) -> str:
    """Return what differs between the columns of a data frame and the features of the model."""
    missing = [name for name in names if name not in columns]
    more = [name for name in columns if name not in names]
    wrong = [f"lacks {quote_names(missing, 5)}"] if missing else []
    wrong += [f"has also {quote_names(more, 5)}"] if more else []
    if not wrong:
        return "X has the columns that the model was fitted to, but in another order: X[list(model.feature_names_in_)]."
    return f"X {join_names(wrong)}: the columns must be those that the model was fitted to, in the same order."


# -- the graph -------------------------------------------------------------------------------------------------


def _prepare_model(model: Any) -> Any:
    """Return a copy of the model, for one thread and for samples whose names of columns have been checked.

    A classifier replaces its attributes and does not change them, so that the copy need not be deep.
    """
    chosen = copy.copy(model)
    if hasattr(chosen, "n_jobs"):
        chosen.n_jobs = 1
    chosen.__dict__.pop("feature_names_in_", None)
    return chosen


def _make_dtype(model: Any) -> np.dtype[Any]:
    """Return the type of a decision as one record."""
    label = append_unknown(model.classes_, model.unknown_label_).dtype
    kinds = [
        ("label", label),
        ("candidate", model.classes_.dtype),
        ("unknown_score", np.float64),
        ("rejected", np.bool_),
    ]
    return np.dtype(kinds)


def _decide_array(model: Any, once: Any, X: Any) -> DaskDecisions:
    import dask.array as da

    dtype = _make_dtype(model)
    records = da.map_blocks(_decide_block, X, once, drop_axis=1, dtype=dtype, meta=np.empty(0, dtype))
    parts = {
        name: da.map_blocks(_take_field, records, name, dtype=dtype[name], meta=np.empty(0, dtype[name]))
        for name in dtype.names or ()
    }
    return DaskDecisions(**parts)


def _decide_block(block: AnyArray, model: Any) -> AnyArray:
    """Return the decisions on the rows of a chunk as records, so that one task makes all four."""
    out = np.empty(len(block), _make_dtype(model))
    if len(block):  # a classifier takes at least one sample
        decisions = model.decide(block)
        for name in out.dtype.names or ():
            out[name] = getattr(decisions, name)
    return out


def _take_field(records: AnyArray, name: str) -> AnyArray:
    return np.ascontiguousarray(records[name])


def _decide_frame(model: Any, once: Any, X: Any) -> Any:
    return X.map_partitions(_decide_partition, once, meta=_make_frame(np.empty(0, _make_dtype(model)), X._meta.index))


def _decide_partition(frame: Any, model: Any) -> Any:
    # The names have been checked, and a model without names warns of them.
    return _make_frame(_decide_block(frame.set_axis(range(frame.shape[1]), axis=1), model), frame.index)


def _make_frame(records: AnyArray, index: Any) -> Any:
    from pandas import DataFrame

    return DataFrame({name: _take_field(records, name) for name in records.dtype.names or ()}, index=index)
