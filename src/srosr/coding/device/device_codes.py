"""Codes on a device, and what certificates need of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ..._support.torch_loader import torch
from ...dictionary.device_dictionary import DeviceDictionary
from ..certificate import Sums
from ..spectrum import ROUNDING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class DeviceRows:
    """Dense codes or dual points of a chunk, with the sums of :class:`srosr.coding.certificate.Sums`."""

    values: Tensor  # (n, N)

    @property
    def shape(self) -> torch.Size:
        """Samples and atoms."""
        return self.values.shape

    def sum_up(self, cross: Tensor, image: Tensor, length: Tensor, lengths: Tensor) -> Sums:
        """Return sums and maxima over the entries of each code, its sample's correlations and its image."""
        x, size = self.values, self.values.abs()
        terms = x * cross
        aligned, sizes = terms.sum(dim=1), terms.abs().sum(dim=1)
        reach = size @ lengths
        apart = (cross - image).abs()
        # An atom that neither sample nor code sees, such as a zero atom, counts for nothing.
        seen = (apart != 0.0) | (image != 0.0)
        margin = ROUNDING * lengths
        peak = torch.where(seen, apart + margin * (length + reach)[:, None], 0.0).amax(dim=1)
        height = torch.where(seen, image.abs() + margin * reach[:, None], 0.0).amax(dim=1)
        slant, power = (apart / lengths).amax(dim=1), (apart * apart).sum(dim=1)
        return Sums(
            size.sum(dim=1), (x * x).sum(dim=1), aligned, sizes, (x * image).sum(dim=1), reach, peak, slant, power,
            height,
        )  # fmt: skip


@dataclass(frozen=True)
class DeviceCodes:
    """Codes of a chunk of samples with their certificates, as tensors.

    Attributes
    ----------
    codes : Tensor (n, n_atoms)
    residual_norm, objective, gap, violation : Tensor (n,)
    infeasible, certified : Tensor of bool (n,)
    steps : Tensor of int64 (n,)
    on_device : Tensor of bool (n,)
        Whether the code was solved and certified on the device.
    """

    codes: Tensor
    residual_norm: Tensor
    objective: Tensor
    gap: Tensor
    violation: Tensor
    infeasible: Tensor
    certified: Tensor
    steps: Tensor
    on_device: Tensor

    def __len__(self) -> int:
        return len(self.codes)

    def to_csr(self) -> sparse.csr_array:
        """Return the codes as a SciPy array."""
        rows, columns = torch.nonzero(self.codes, as_tuple=True)
        counts = torch.bincount(rows, minlength=len(self.codes)).cpu().numpy()
        indptr = np.concatenate([[0], np.cumsum(counts)])
        data, indices = self.codes[rows, columns].cpu().numpy(), columns.cpu().numpy()
        return sparse.csr_array((data, indices, indptr), shape=tuple(self.codes.shape))

    def to_sparse_tensor(self) -> Tensor:
        """Return the codes as a sparse CSR tensor."""
        with _without_beta_warning():
            return self.codes.to_sparse_csr()


def stack_parts(parts: list[Any]) -> Any:
    """Return arrays, tensors or sparse ones of consecutive chunks as one."""
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return torch.cat(parts) if parts[0].layout == torch.strided else _stack_csr(parts)


def _stack_csr(parts: list[Tensor]) -> Tensor:
    """Return sparse CSR tensors one below the other."""
    starts, n_entries = [parts[0].crow_indices()[:1]], 0
    for part in parts:
        starts.append(part.crow_indices()[1:] + n_entries)
        n_entries += part.values().shape[0]
    columns, values = (torch.cat([getattr(part, name)() for part in parts]) for name in ("col_indices", "values"))
    shape = (sum(part.shape[0] for part in parts), parts[0].shape[1])
    with _without_beta_warning():
        return torch.sparse_csr_tensor(torch.cat(starts), columns, values, size=shape, check_invariants=False)


@contextmanager
def _without_beta_warning() -> Iterator[None]:
    """Suppress PyTorch's warning that sparse CSR tensors are new; all that we use of them works."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        yield


class DeviceProducts:
    """The Gram matrix of a dictionary on a device, as certificates see it (:class:`srosr.coding.products.Products`)."""

    def __init__(self, dictionary: DeviceDictionary, *, by_features: bool) -> None:
        self.dictionary, self.by_features = dictionary, by_features
        self.lengths: Any = dictionary.lengths
        self.largest_square = float(dictionary.squared_norms.max())

    def times(self, codes: Any) -> Tensor:
        """Return ``codes @ G``."""
        if not self.by_features:
            return codes.values @ self.dictionary.gram
        atoms = self.dictionary.rows
        assert atoms is not None
        return (codes.values @ atoms) @ atoms.T
