"""Products with the Gram matrix on a device, for certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...dictionary.device_dictionary import DeviceDictionary

if TYPE_CHECKING:
    from torch import Tensor


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
