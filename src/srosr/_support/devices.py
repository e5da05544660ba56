"""Devices: where sparse coding runs, and what is said if it cannot run there.

PyTorch is imported by none of our modules at import time; it is asked for when a device is.
"""

from __future__ import annotations

import sys
from typing import Any

from ..exceptions import DeviceError

#: Names that ``device`` takes; "cuda:1" and a ``torch.device`` are fine too.
DEVICES = ("cpu", "cuda", "auto")

_INSTALL = 'install PyTorch with CUDA, pip install "srosr[gpu]"'


def check_device(device: Any) -> None:
    """Raise a ValueError for what is not the name of a device; whether it is there is another question."""
    if _is_torch_device(device) and device.type in ("cpu", "cuda"):
        return
    if not isinstance(device, str) or (device not in DEVICES and not _is_card(device)):
        raise ValueError(f'device must be "cpu", "cuda" (or "cuda:1" for the second card) or "auto", got {device!r}.')


def find_device(device: Any) -> Any:
    """Return the ``torch.device`` of a name, None where NumPy and Numba do the work.

    "auto" is the first card if PyTorch sees one. A ``torch.device``, also of the CPU, is returned as it is.

    Raises
    ------
    DeviceError
        If the device is not there, in a sentence that says what to install.
    """
    check_device(device)
    if device == "cpu":
        return None
    if not isinstance(device, str) and device.type == "cpu":
        return device
    try:
        import torch
    except ImportError:
        if device == "auto":
            return None
        raise DeviceError(f"device={device!r} needs PyTorch, which is not installed: {_INSTALL}.") from None
    if device == "auto":
        return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else None
    device = str(device)
    if not torch.cuda.is_available():
        if torch.version.cuda is None:
            reason = f"was built without CUDA: uninstall it and {_INSTALL}"
        else:
            reason = "sees no NVIDIA GPU: check that nvidia-smi shows one and that its driver is new enough"
        raise DeviceError(f'device={device!r}: PyTorch {torch.__version__} {reason}, or leave device at "cpu".')
    index = torch.device(device).index
    if index is not None and index >= torch.cuda.device_count():
        raise DeviceError(f"device={device!r}: PyTorch sees {torch.cuda.device_count()} card(s), counted from 0.")
    return torch.device("cuda", torch.cuda.current_device() if index is None else index)


def is_tensor(X: Any) -> bool:
    """Return whether X is a Torch tensor, without importing Torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, torch.Tensor)


def to_numpy(values: Any) -> Any:
    """Return a tensor as an array (bfloat16, which NumPy does not have, as float32), anything else as it is."""
    if not is_tensor(values):
        return values
    values = values.detach().cpu()
    return (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()


def _is_torch_device(device: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(device, torch.device)


def _is_card(name: str) -> bool:
    head, _, number = name.partition(":")
    return head == "cuda" and number.isdecimal()
