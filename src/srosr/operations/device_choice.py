"""Where a model codes, and in how many threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .input_errors import InputError

if TYPE_CHECKING:
    from ..classifiers.base import OpenSetClassifier


def check_device_option(device: str) -> Any:
    """Return the ``torch.device`` of the option --device, None for the CPU; raise if there is no such device."""
    from .._support.devices import find_device
    from ..exceptions import DeviceError

    try:
        return find_device(device)
    except DeviceError as error:
        raise InputError(str(error).replace(f"device={device!r}", f"--device {device}")) from None
    except ValueError as error:
        raise InputError(f"--{error}") from None


def set_device(clf: OpenSetClassifier, device: str) -> None:
    """Give a classifier its device; raise if it is not there, or if the method codes nothing."""
    found = check_device_option(device)
    if hasattr(clf, "device"):
        clf.device = device
    elif found is not None and device != "auto":
        from ..rivals.methods import method_name

        raise InputError(f"--device {device}: {method_name(clf)} codes no samples and runs on the CPU; leave it out.")


def set_threads(clf: OpenSetClassifier, jobs: int | None) -> None:
    """Give a classifier its number of threads: as many as there are cores if None."""
    if hasattr(clf, "n_jobs"):
        clf.n_jobs = jobs or -1
