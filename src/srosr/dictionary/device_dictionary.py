"""A dictionary on a device: its atoms, Gram matrix and kernel as Torch tensors, and the similarities of samples.

All of it is in double precision. A dictionary that has been on a device stays there until it is forgotten itself.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from .._support.array_types import AnyArray, IntArray
from .._support.torch_loader import torch
from .dictionary import Dictionary, Queries, split_range
from .kernels import NONNEGATIVE_KERNELS, NamedKernel

if TYPE_CHECKING:
    from torch import Tensor

# Columns of Gram matrices are padded to a multiple of this, so that a kernel reads whole vectors.
_PAD = 64
# Numbers in a block of differences of features, for kernels that are no products.
_BLOCK = 2**26
# Share of a device's memory that a Gram matrix may take.
_GRAM_SHARE = 0.25

_ON_DEVICE: WeakKeyDictionary[Dictionary, dict[str, DeviceDictionary]] = WeakKeyDictionary()


@dataclass(frozen=True)
class DeviceQueries:
    """Similarities of samples on a device, scaled like the atoms: :class:`Queries` as tensors.

    Attributes
    ----------
    cross : Tensor (n_samples, n_atoms)
    squared_norms : Tensor (n_samples,)
    rows : Tensor (n_samples, n_features) or None
        The samples as the kernel sees them.
    """

    cross: Tensor
    squared_norms: Tensor
    rows: Tensor | None = None

    def __len__(self) -> int:
        return len(self.cross)

    def __getitem__(self, rows: Any) -> DeviceQueries:
        return DeviceQueries(self.cross[rows], self.squared_norms[rows], None if self.rows is None else self.rows[rows])


class DeviceDictionary:
    """A dictionary on a device; :func:`put_on_device` makes one.

    Attributes
    ----------
    device : torch.device
    n_atoms : int
    squared_norms, lengths : Tensor (n_atoms,)
        Lengths are 1 for zero atoms.
    class_of : Tensor of int64 (n_atoms,)
    starts : ndarray of int (n_classes,)
        Number of the first atom of each class.
    """

    def __init__(self, dictionary: Dictionary, device: torch.device) -> None:
        # A copy, which shares all arrays: what is kept on the device must not keep the dictionary itself alive.
        self._host: Dictionary | None = copy(dictionary)
        self._parent: tuple[DeviceDictionary, IntArray] | None = None
        self.device = device
        self.squared_norms = self.send(dictionary.squared_norms)
        self.class_of = self.send(dictionary.class_of)
        self._scale = self.send(dictionary._scale)
        self._kernel, self._normalize = dictionary._kernel, dictionary.normalize
        self._describe(np.array([part.start for part in dictionary.class_slices], np.int64))

    def _describe(self, starts: IntArray) -> None:
        self.n_atoms, self.starts = len(self.squared_norms), starts
        self.lengths = torch.where(self.squared_norms > 0, self.squared_norms, 1.0).sqrt()

    @property
    def host(self) -> Dictionary:
        """The same dictionary in NumPy arrays."""
        if self._host is None:
            assert self._parent is not None
            parent, index = self._parent
            self._host = parent.host.subset(index)
        return self._host

    def subset(self, index: IntArray) -> DeviceDictionary:
        """Return the dictionary of some of the atoms, sorted; its Gram matrix is cut out of this one's."""
        out = object.__new__(DeviceDictionary)
        out._host, out._parent, out.device = None, (self, index), self.device
        at = self.send(index)
        out.squared_norms, out._scale, out.class_of = self.squared_norms[at], self._scale[at], self.class_of
        out._kernel, out._normalize = self._kernel, self._normalize
        starts = self.starts
        if len(starts):  # there are labels
            present, starts = np.unique(np.searchsorted(starts, index, side="right") - 1, return_index=True)
            out.class_of = torch.searchsorted(self.send(present), self.class_of[at])
        out._describe(starts)
        return out

    def send(self, values: AnyArray) -> Tensor:
        """Return an array as a tensor on the device."""
        if not values.flags.writeable:
            values = values.copy()
        return torch.as_tensor(values, device=self.device)

    @cached_property
    def rows(self) -> Tensor | None:
        """The atoms as the kernel sees them, one a row, in double precision; None if it is precomputed."""
        if self._parent is not None:
            parent, index = self._parent
            return None if parent.rows is None else parent.rows[self.send(index)]
        rows = self.host.rows
        return None if rows is None else self.send(rows).to(torch.float64)

    @property
    def is_linear(self) -> bool:
        """Whether the kernel is linear: the rows are then the atoms themselves."""
        return isinstance(self._kernel, NamedKernel) and self._kernel.name == "linear"

    # -- the Gram matrix ---------------------------------------------------------------------------------

    @property
    def has_gram(self) -> bool:
        """Whether the Gram matrix of all atoms is here, or fits."""
        return "padded_gram" in vars(self) or 8 * self.n_atoms**2 <= _GRAM_SHARE * count_memory(self.device)

    @property
    def uses_gram(self) -> bool:
        """Whether to take products of atoms from the Gram matrix: it is here, or too expensive to do without."""
        return "padded_gram" in vars(self) or (self.has_gram and not self.is_linear)

    @cached_property
    def padded_gram(self) -> Tensor:
        """The Gram matrix, (n_atoms, n_atoms rounded up), with zeros behind the last column."""
        n = self.n_atoms
        out = torch.zeros((n, -(-n // _PAD) * _PAD), dtype=torch.float64, device=self.device)
        if self._parent is not None and self._parent[0].has_gram:
            parent, index = self._parent
            at = self.send(index)
            for part in split_range(0, n, max(1, _BLOCK // parent.n_atoms)):
                out[part, :n] = parent.gram[at[part]][:, at]
        elif self._needs_host or self.host.has_gram:
            out[:, :n] = self.send(self.host.gram)
        else:
            for part in split_range(0, n, max(1, _BLOCK // max(n, 1))):
                out[part, :n] = self.block(part, slice(None))
            square = out[:, :n]
            for part in split_range(0, n, max(1, _BLOCK // max(n, 1))):  # the upper half decides
                square[part, part] = 0.5 * (square[part, part] + square[part, part].T)
                square[part.start :, part] = square[part, part.start :].T.clone()
            if not bool(square.isfinite().all()):
                raise ValueError("kernel returned NaN or infinity; check its parameters and the scale of the features.")
        return out

    @property
    def gram(self) -> Tensor:
        """The Gram matrix, (n_atoms, n_atoms): a view of :attr:`padded_gram`."""
        return self.padded_gram[:, : self.n_atoms]

    def block(self, rows: Any, columns: Any) -> Tensor:
        """Return ``gram[rows][:, columns]`` of a dictionary with features, without computing the rest."""
        if self._needs_host:
            here = (part.cpu().numpy() if isinstance(part, torch.Tensor) else part for part in (rows, columns))
            return self.send(np.ascontiguousarray(self.host.block(*here)))
        assert self.rows is not None
        out = self._compare(self.rows[rows], self.rows[columns])
        return out if self.is_linear else out * self._scale[rows][:, None] * self._scale[columns]

    # -- samples -----------------------------------------------------------------------------------------

    def send_samples(self, X: Any) -> Any:
        """Return samples on the device, or raise a ValueError for those that are not finite; Queries as they are."""
        if isinstance(X, (Queries, DeviceQueries)):
            return X
        values = X if isinstance(X, torch.Tensor) else self.send(np.ascontiguousarray(X))
        if not bool(torch.isfinite(values).all()):
            if not isinstance(X, torch.Tensor):
                self.host.check_features(X)  # says what it is, in the words of the CPU
            raise ValueError("X contains NaN or infinity.")
        return values

    def query(self, X: Any) -> DeviceQueries:
        """Compute the similarities of samples to the atoms; see :meth:`Dictionary.query`.

        X is a NumPy array that has been checked, a tensor on the device, or a :class:`Queries`.
        """
        if isinstance(X, DeviceQueries):
            return X
        if isinstance(X, Queries):
            scaled = self.host.query(X)
            rows = None if scaled.rows is None else self.send(scaled.rows)
            return DeviceQueries(self.send(scaled.cross), self.send(scaled.squared_norms), rows)
        if self._needs_host:
            host = X.detach().to("cpu", torch.float64).numpy() if isinstance(X, torch.Tensor) else X
            return self.query(self.host.query_features(np.ascontiguousarray(host, dtype=np.float64)))
        values = X if isinstance(X, torch.Tensor) else self.send(np.ascontiguousarray(X))
        values = values.to(torch.float64)
        assert isinstance(self._kernel, NamedKernel) and self.rows is not None
        if self._kernel.name in NONNEGATIVE_KERNELS and values.numel():
            self._kernel.check_least(float(values.min()), "X")
        rows, factor, squares = self._scale_rows(values)
        if not bool((squares.isfinite() & (squares >= 0)).all()):
            raise ValueError("X: a squared length is negative or not finite; scale the features or check the kernel.")
        cross = self._compare(rows, self.rows)
        return DeviceQueries(cross if self.is_linear else cross * (factor[:, None] * self._scale), squares, rows)

    def _scale_rows(self, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows as the kernel sees them, the factors that give unit length in its space, and squared lengths."""
        ones = torch.ones(len(values), dtype=torch.float64, device=self.device)
        if self._normalize == "feature" or (self._normalize and self.is_linear):
            largest = values.abs().amax(dim=1, keepdim=True)
            values = values / torch.where(largest > 0, largest, 1.0)
            values = values * _unit_factors((values * values).sum(dim=1))[:, None]
            return values, ones, self._compare_to_self(values)
        squares = self._compare_to_self(values)
        if self._normalize:
            factor = _unit_factors(squares)
            return values, factor, squares * factor**2
        return values, ones, squares

    @property
    def _needs_host(self) -> bool:
        """Whether similarities come from a function that only takes NumPy arrays."""
        return not isinstance(self._kernel, NamedKernel) or self._kernel.name == "precomputed"

    def _compare(self, left: Tensor, right: Tensor) -> Tensor:
        kernel = self._kernel
        assert isinstance(kernel, NamedKernel)
        if kernel.name == "linear":
            return left @ right.T
        if kernel.name == "poly":
            return (kernel.gamma * (left @ right.T) + kernel.coef0) ** kernel.degree
        if kernel.name == "rbf":
            squares = (left * left).sum(dim=1)[:, None] + (right * right).sum(dim=1) - 2.0 * (left @ right.T)
            return torch.exp(-kernel.gamma * squares.clamp(min=0.0))
        out = torch.empty((len(left), len(right)), dtype=torch.float64, device=self.device)
        size = max(1, _BLOCK // max(len(right) * left.shape[1], 1))
        for part in split_range(0, len(left), size):
            a, b = left[part][:, None, :], right[None]
            if kernel.name == "histogram_intersection":
                out[part] = torch.minimum(a, b).sum(dim=2)
            else:
                both = a + b
                apart = (a - b) ** 2 / torch.where(both > 0, both, 1.0)
                out[part] = torch.exp(-kernel.gamma * apart.sum(dim=2))
        return out

    def _compare_to_self(self, rows: Tensor) -> Tensor:
        kernel = self._kernel
        assert isinstance(kernel, NamedKernel)
        if kernel.name in ("linear", "poly"):
            squares = (rows * rows).sum(dim=1)
            return squares if kernel.name == "linear" else (kernel.gamma * squares + kernel.coef0) ** kernel.degree
        if kernel.name == "histogram_intersection":
            return rows.sum(dim=1)
        return torch.ones(len(rows), dtype=torch.float64, device=self.device)


def put_on_device(dictionary: Dictionary, device: torch.device) -> DeviceDictionary:
    """Return a dictionary on a device, the same one as before if it is there already."""
    here = _ON_DEVICE.setdefault(dictionary, {})
    if str(device) not in here:
        here[str(device)] = DeviceDictionary(dictionary, device)
    return here[str(device)]


def count_memory(device: torch.device) -> int:
    """Return the bytes of memory of a device that are free, for the CPU a fixed number."""
    if device.type != "cuda":
        return 4 * 2**30
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached


def _unit_factors(squared: Tensor) -> Tensor:
    return torch.where(squared > 0, squared, 1.0).rsqrt()


def pad_columns(gram: Tensor) -> Tensor:
    """Return a Gram matrix with zeros behind its last column, up to a multiple that a kernel reads at once."""
    return torch.nn.functional.pad(gram, (0, -gram.shape[1] % _PAD))
