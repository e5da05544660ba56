"""Fit class scores where they are to be computed: with NumPy's arrays, or on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from joblib import effective_n_jobs

from ..dictionary.dictionary import Dictionary
from .class_scores import ClassScorer, HoldOut
from .landmark_scores import LandmarkScorer, is_exact
from .landmark_view import LandmarkView
from .landmarks import RegressionSamples


def fit_scorer(
    dictionary: Dictionary,
    kinds: Sequence[str],
    hold_outs: Sequence[HoldOut] = (),
    *,
    n_jobs: int | None = None,
    device: Any = None,
) -> ClassScorer | LandmarkScorer:
    """Return what computes class scores: exactly over few atoms or a precomputed kernel, else with landmarks.

    It is fitted on a ``torch.device`` unless that is None.
    """
    if device is None and is_exact(dictionary):
        return ClassScorer(dictionary, kinds, hold_outs)
    if device is None:
        return LandmarkScorer.fit(dictionary, kinds, hold_outs, n_threads=int(effective_n_jobs(n_jobs)))
    from .device_exact_fit import fit_class_scorer
    from .device_landmark_fit import fit_landmark_scorer

    if is_exact(dictionary):
        return fit_class_scorer(dictionary, kinds, hold_outs, device)
    return fit_landmark_scorer(dictionary, kinds, hold_outs, device=device)


def fit_sampled_scorer(
    dictionary: Dictionary,
    kinds: Sequence[str],
    samples: RegressionSamples,
    *,
    like: LandmarkView | None = None,
    n_jobs: int | None = None,
    device: Any = None,
) -> LandmarkScorer:
    """Return :meth:`LandmarkScorer.fit` to samples of which the atoms are a selection, fitted on a device if given."""
    if device is None:
        n_threads = int(effective_n_jobs(n_jobs))
        return LandmarkScorer.fit(dictionary, kinds, samples=samples, like=like, n_threads=n_threads)
    from .device_landmark_fit import fit_landmark_scorer

    return fit_landmark_scorer(dictionary, kinds, device=device, samples=samples, like=like)
