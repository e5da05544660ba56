"""Atoms that are held out, on a device: what their class scores have in common, exact or with landmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .._support.torch_loader import torch
from ..coding.device import count_fitting, map_chunks
from .class_scores import HoldOut
from .tensor_formulas import send

if TYPE_CHECKING:
    from torch import Tensor


class DeviceHoldOut(NamedTuple):
    """A :class:`HoldOut` on a device; ``places`` are those of the tests among the removed atoms."""

    test: Tensor
    removed: Tensor
    present: Tensor
    places: Tensor
    source: HoldOut


def send_hold_outs(hold_outs: Sequence[HoldOut], device: torch.device) -> list[DeviceHoldOut]:
    """Return hold-outs on a device."""
    out = []
    for held in hold_outs:
        test, removed, present = (send(numbers, device) for numbers in held)
        out.append(DeviceHoldOut(test, removed, present, torch.searchsorted(removed, test), held))
    return out


def map_tests(work: Callable[[Tensor], Tensor], test: Tensor, bytes_a_test: int) -> Tensor:
    """Return ``work(tests)``, a row a test, of as many tests at a time as there is room for."""
    size = count_fitting(bytes_a_test, test.device)
    return torch.cat(map_chunks(lambda rows: work(test[rows]), len(test), size, test.device))


def make_membership(class_of: Tensor, n_classes: int) -> Tensor:
    """Return which class each atom belongs to, one column a class."""
    out = torch.zeros((len(class_of), n_classes), dtype=torch.float64, device=class_of.device)
    return out.scatter_(1, class_of[:, None], 1.0)
