"""Subspaces of classes fitted on a device, see :mod:`.class_subspaces`, and what held-out atoms share there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._support.torch_loader import torch
from ..coding.device import count_fitting, map_chunks
from ..dictionary.device_dictionary import DeviceDictionary
from ..dictionary.dictionary import split_range
from .class_scores import HoldOut
from .class_subspaces import CLASS_LANDMARKS, MANY_IN_CLASS
from .landmarks import RANK
from .subspaces import SUBSPACE_PENALTY
from .tensor_formulas import ClassBlock, ClassBlocks, send, sum_squares, whiten_tensor

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


# Samples whose features are computed at a time.
_ROWS = 16384


class SubspaceFit:
    """Subspaces of the classes with all atoms, and distances of atoms to those without some of them.

    ``maps`` says how each class is described: by the Gram matrix of its atoms (False), by features (True), or by
    landmarks and their transform. See :mod:`.class_subspaces`.
    """

    def __init__(self, dictionary: DeviceDictionary, blocks: ClassBlocks, maps: list[Any]) -> None:
        self.dictionary, self.blocks, self.maps = dictionary, blocks, maps
        self.penalty = SUBSPACE_PENALTY * (float(dictionary.squared_norms.mean()) or 1.0)
        self.by_atoms = np.array([how is False for how in maps])
        #: Sums over the atoms of each class that is not described by its Gram matrix.
        self.sums: dict[int, Tensor] = {}
        self.factors: list[Tensor] = [torch.empty(0)] * len(maps)
        for block in blocks.split(0, single=True):
            k, part = int(block.numbers[0]), block.part
            assert part is not None
            if self.by_atoms[k]:
                system = self._compare(part, part)
            else:
                system = self.sums[k] = self._sum_up(k, part)
            self.factors[k] = torch.linalg.cholesky(self._penalize(system))

    def _penalize(self, system: Tensor) -> Tensor:
        out = system.clone()
        out.diagonal(dim1=-2, dim2=-1).add_(self.penalty)
        return out

    def _compare(self, rows: Any, columns: Any) -> Tensor:
        dictionary = self.dictionary
        return dictionary.gram[rows][:, columns] if dictionary.uses_gram else dictionary.block(rows, columns)

    def _map_atoms(self, k: int, atoms: slice | Tensor) -> Tensor:
        how, rows = self.maps[k], self.dictionary.rows
        if isinstance(how, tuple):
            return self._compare(atoms, how[0]) @ how[1]
        assert rows is not None
        return rows[atoms]

    def _sum_up(self, k: int, part: slice) -> Tensor:
        total: Any = 0.0
        for rows in split_range(part.start, part.stop, _ROWS):
            features = self._map_atoms(k, rows)
            total = total + features.T @ features
        return total

    def measure_without(self, held: DeviceHoldOut) -> Tensor:
        """Return the distances of the tests to the classes that are present, without the removed atoms."""
        dictionary, n = self.dictionary, len(held.test)
        squares = dictionary.squared_norms[held.test]
        out = torch.zeros((n, len(self.maps)), dtype=torch.float64, device=dictionary.device)
        kept = torch.ones(dictionary.n_atoms, dtype=torch.bool, device=dictionary.device)
        kept[held.removed] = False
        is_present = np.isin(np.arange(len(self.maps)), held.source.present)
        cross = dictionary.gram[held.test] if dictionary.uses_gram else None
        for block in self.blocks.split(n, single=cross is None or not self.by_atoms.all()):
            if not is_present[block.numbers].any():
                continue
            if self.by_atoms[block.numbers].all():
                found = squares - self._explain(block, cross, kept, held.test)
            else:
                found = self._measure_by_map(int(block.numbers[0]), block, held, squares)[None]
            out[:, block.classes] = found.T
        return out[:, held.present].clamp_(min=0.0).sqrt_()

    def _explain(self, block: ClassBlock, cross: Tensor | None, kept: Tensor, test: Tensor) -> Tensor:
        """Return how much classes explain of atoms, (n_classes, n_tests); removed atoms become zeros."""
        stays = kept[block.index] if block.valid is None else kept[block.index] & block.valid
        if cross is None:
            assert block.part is not None
            squares = self.dictionary.block(block.part, block.part)[None]
            features = self.dictionary.block(test, block.part)[None]
        else:
            squares, features = block.take_squares(self.dictionary.gram), block.take(cross)
        system = torch.where(stays[:, :, None] & stays[:, None, :], squares, 0.0)
        features = torch.where(stays[:, None, :], features, 0.0)
        factor = torch.linalg.cholesky(self._penalize(system))
        image = torch.linalg.solve_triangular(factor, features.mT, upper=False)
        return image.square().sum(dim=1)

    def _measure_by_map(self, k: int, block: ClassBlock, held: DeviceHoldOut, squares: Tensor) -> Tensor:
        """Return the squared distances of the tests to a class that is described by sums."""
        assert block.part is not None
        first, last = np.searchsorted(held.source.removed, [block.part.start, block.part.stop])
        gone, system = self._map_atoms(k, held.removed[first:last]), self.sums[k]
        factor = torch.linalg.cholesky(self._penalize(system - gone.T @ gone))
        features = self._map_atoms(k, held.test)
        image = torch.linalg.solve_triangular(factor, features.T, upper=False)
        return squares - sum_squares(features) + self.penalty * image.square().sum(dim=0)


def find_maps(dictionary: DeviceDictionary, blocks: ClassBlocks) -> list[Any]:
    """Return how the classes are described, as :class:`ClassSubspaces` chooses."""
    rows = dictionary.rows
    out: list[Any] = []
    for start, size in zip(blocks.starts.tolist(), blocks.sizes.tolist(), strict=True):
        if dictionary.is_linear:
            assert rows is not None
            out.append(bool(size > rows.shape[1]))
        elif size <= MANY_IN_CLASS:
            out.append(False)
        else:
            landmarks = send(start + np.arange(CLASS_LANDMARKS) * size // CLASS_LANDMARKS, dictionary.device)
            out.append((landmarks, whiten_tensor(dictionary.block(landmarks, landmarks), RANK)))
    return out
