"""Data sets by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .._support.messages import choose_from
from .caltech import load_caltech101, load_caltech256
from .dataset import Dataset
from .digits import load_digits_bundled
from .letter import load_letter
from .mnist import load_mnist
from .uiuc import load_uiuc_attributes
from .usps import load_usps
from .yaleb_orl_coil20 import load_coil20, load_orl, load_yaleb

DATASETS: dict[str, Callable[..., Dataset]] = {
    "digits": load_digits_bundled,
    "yaleb": load_yaleb,
    "mnist": load_mnist,
    "uiuc": load_uiuc_attributes,
    "caltech101": load_caltech101,
    "caltech101-pictures": partial(load_caltech101, pictures=True),
    "caltech256": load_caltech256,
    "caltech256-clip": partial(load_caltech256, features="clip"),
    "letter": load_letter,
    "usps": load_usps,
    "usps-all": partial(load_usps, "all"),
    "coil20": load_coil20,
    "orl": load_orl,
}
"""Loaders by name."""


def load_dataset(name: str, **options: Any) -> Dataset:
    """Load a data set by its name.

    Parameters
    ----------
    name : str
        One of :data:`DATASETS`.
    **options
        Passed to the loader; with ``download=False`` nothing is downloaded.

    Examples
    --------
    >>> from srosr import load_dataset
    >>> load_dataset("digits").X.shape
    (1797, 64)
    """
    if name not in DATASETS:
        raise ValueError(f"there is no data set {name!r}{choose_from(name, DATASETS)}")
    return DATASETS[name](**options)
