"""Work on chunks of samples that fit into the memory of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ..._support.torch_loader import torch
from ...dictionary.device_dictionary import count_memory
from ...dictionary.dictionary import split_range
from ...exceptions import DeviceError, DeviceWarning, warn

T = TypeVar("T")

# What the messages of CUDA, its libraries and Triton's compiler begin with, or contain.
_FAILURES = ("cuda error", "cuda driver error", "cublas", "cusolver error", "cuda initialization", "passmanager")
# Share of the free memory for one step of the work on a chunk.
_SHARE = 0.2


def map_chunks(
    work: Callable[[slice], T],
    n_rows: int,
    rows_at_a_time: int,
    device: Any,
    done: Callable[[slice], Any] | None = None,
) -> list[T]:
    """Return ``work(rows)`` of consecutive slices of rows, in order.

    A chunk for which the device has not enough memory is tried again in halves, with one warning. ``done`` is called
    with each slice when it is finished.

    Raises
    ------
    DeviceError
        If the device fails, or has not enough memory for a single sample.
    """
    out, start, size, is_warned = [], 0, max(1, min(rows_at_a_time, n_rows)), False
    while start < n_rows:
        rows = slice(start, min(start + size, n_rows))
        try:
            with name_failures(device):
                out.append(work(rows))
        except torch.OutOfMemoryError as error:
            if size == 1:
                raise DeviceError(
                    f'{device}: too little memory for a single sample over these atoms; use device="cpu".'
                ) from error
            size = max(1, (rows.stop - rows.start) // 2)
            if not is_warned:
                # Without a number: a fit has many chunks, and Python shows the same words once.
                warn(f"{device}: out of memory; going on with fewer samples at a time.", DeviceWarning)
            is_warned = True
        else:
            if done is not None:
                done(rows)
            start = rows.stop
            continue
        _free(device)  # outside of the handler, whose traceback keeps the tensors of the failed chunk
    return out


@contextmanager
def name_failures(device: Any, what: str | None = None) -> Iterator[None]:
    """Turn the errors of a device that fails into a :class:`DeviceError`; errors of ours pass.

    So does an error of too little memory, unless ``what`` says what the memory is for.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        if what is None:
            raise
        raise DeviceError(f'{device}: too little memory for {what}; use device="cpu".') from error
    except Exception as error:
        if isinstance(error, DeviceError) or not _is_failure(error):
            raise
        raise DeviceError(f"{device} failed: {str(error).splitlines()[0]}") from error


def split_by_memory(n_rows: int, bytes_a_row: int, device: Any) -> list[slice]:
    """Split rows into slices, for which a part of the free memory is enough; one slice for no rows."""
    return split_range(0, n_rows, count_fitting(bytes_a_row, device)) or [slice(0, 0)]


def count_fitting(bytes_a_row: int, device: Any) -> int:
    """Return for how many rows a part of the free memory is enough, at least one."""
    return max(1, int(_SHARE * count_memory(device)) // bytes_a_row)


def _is_failure(error: Exception) -> bool:
    """Return whether an error is one of CUDA, its libraries or Triton."""
    text = str(error).lower()
    from_triton = type(error).__module__.partition(".")[0] == "triton"
    return from_triton or (isinstance(error, RuntimeError) and any(name in text for name in _FAILURES))


def _free(device: Any) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()
