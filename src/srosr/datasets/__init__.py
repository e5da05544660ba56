"""Data sets: public ones by name, found at hand or downloaded and checked, and the user's own.

A set is a :class:`Dataset`: samples, the class of each, names, and a fingerprint that is the same everywhere.
"""

from .cai import load_coil20, load_orl, load_yaleb
from .caltech import load_caltech101, load_caltech256
from .dataset import Dataset
from .digits import load_digits_bundled
from .errors import DatasetError
from .letter import load_letter
from .mnist import load_mnist
from .own_data import read_dataset
from .pictures import list_pictures
from .registry import DATASETS, load_dataset
from .uiuc import load_uiuc_attributes
from .usps import load_usps

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetError",
    "list_pictures",
    "load_caltech101",
    "load_caltech256",
    "load_coil20",
    "load_dataset",
    "load_digits_bundled",
    "load_letter",
    "load_mnist",
    "load_orl",
    "load_uiuc_attributes",
    "load_usps",
    "load_yaleb",
    "read_dataset",
]
