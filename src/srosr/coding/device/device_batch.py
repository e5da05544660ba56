"""A batch of samples on a device, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..._support.torch_loader import torch
from ...dictionary.device_dictionary import put_on_device
from ...dictionary.dictionary import Dictionary, Queries
from ..problems import Problem
from .chunks import map_chunks, name_failures
from .device_coder import DeviceCoder
from .device_codes import DeviceCodes

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


def encode_on_device(
    X: Any,
    dictionary: Dictionary,
    problem: Problem,
    device: torch.device,
    *,
    tol: float,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    done: Callable[[slice], Any] | None = None,
    collect: Callable[[DeviceCodes], T],
) -> list[T]:
    """Code samples (an array, a tensor or Queries) and return what ``collect`` makes of each chunk, in order.

    Raises
    ------
    DeviceError
        If the device fails, or has not enough memory for the dictionary.
    """
    samples = check_samples(X, dictionary, device)
    with name_failures(device, f"a dictionary of {dictionary.n_atoms} atoms"):
        here = put_on_device(dictionary, device)
        coder = DeviceCoder(here, problem, tol, max_iter=max_iter, n_jobs=n_jobs)

    def encode(rows: slice) -> T:
        return collect(coder.encode(here.query(here.send_samples(samples[rows]))))

    return map_chunks(encode, len(samples), coder.count_rows(), device, done)


def check_samples(X: Any, dictionary: Dictionary, device: torch.device) -> Any:
    """Return samples that can be compared with a dictionary on a device, or raise a ValueError."""
    if not isinstance(X, torch.Tensor):
        if isinstance(X, Queries) or dictionary.is_precomputed:
            return dictionary.query(X)
        # What is a matrix of the right size already is checked on the device, which takes no time there.
        is_matrix = type(X) is np.ndarray and X.ndim == 2 and len(X) > 0 and X.shape[1] == dictionary.n_features
        return X if is_matrix and X.dtype in (np.float64, np.float32) else dictionary.check_features(X)
    if X.ndim != 2 or len(X) == 0 or not X.is_floating_point() or X.layout != torch.strided:
        raise ValueError(f"X must be a dense tensor of floating-point numbers, one sample a row, got {_describe(X)}.")
    if X.shape[1] != dictionary.n_features:
        raise ValueError(f"X has {X.shape[1]} features, the dictionary's atoms have {dictionary.n_features}.")
    if dictionary.is_precomputed:
        raise ValueError('X must be a srosr.Queries with kernel="precomputed", not a tensor.')
    return X.detach().to(device)


def _describe(X: Tensor) -> str:
    return f"shape {tuple(X.shape)} of {X.dtype}"
