"""Work on chunks of samples that fit into the memory of a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from ...exceptions import DeviceError, DeviceWarning, warn

T = TypeVar("T")


def for_chunks(
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
            out.append(work(rows))
        except torch.OutOfMemoryError as error:
            if size == 1:
                raise DeviceError(
                    f'{device}: too little memory for a single sample over these atoms; use device="cpu".'
                ) from error
            size = max(1, (rows.stop - rows.start) // 2)
            if not is_warned:
                warn(f"{device}: out of memory; going on with {size} samples at a time.", DeviceWarning)
            is_warned = True
        except RuntimeError as error:
            if isinstance(error, DeviceError) or not _is_failure(error):
                raise
            raise DeviceError(f"{device} failed: {str(error).splitlines()[0]}") from error
        else:
            if done is not None:
                done(rows)
            start = rows.stop
            continue
        _free(device)  # outside of the handler, whose traceback keeps the tensors of the failed chunk
    return out


def _is_failure(error: RuntimeError) -> bool:
    text = str(error).lower()
    return any(name in text for name in ("cuda", "cublas", "cusolver", "triton"))


def _free(device: Any) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()
