"""Data sets by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._support.messages import choose_from
from .caltech import load_caltech101, load_caltech256
from .dataset import Dataset
from .letter import load_letter
from .mnist import load_mnist
from .uiuc import load_uiuc_attributes
from .usps import load_usps
from .yaleb_orl_coil20 import load_coil20, load_orl, load_yaleb


def load_digits_bundled(*, download: bool = True) -> Dataset:
    """Load handwritten digits: 1797 pictures of 8×8 pixels with values 0..16; they come with scikit-learn.

    Parameters
    ----------
    download : bool
        As for all loaders; it makes no difference here, since nothing is downloaded.

    Returns
    -------
    Dataset
        ``X`` (1797, 64) uint8, ten classes of 174 to 183 samples.

    References
    ----------
    E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998.

    Examples
    --------
    >>> from srosr import load_digits_bundled
    >>> load_digits_bundled()
    <Dataset digits: 1797 × 64 uint8, 10 classes>
    """
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    source = "Optical Recognition of Handwritten Digits (UCI), the test part, as it comes with scikit-learn"
    return Dataset("digits", X.astype(np.uint8), y, tuple("0123456789"), source)


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
