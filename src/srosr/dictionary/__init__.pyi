from .dictionary import Dictionary as Dictionary
from .dictionary import Queries as Queries
from .dictionary import normalize_rows as normalize_rows
from .dictionary import split_range as split_range
from .dictionary import widen as widen
from .dictionary import wrap_queries as wrap_queries
from .kernels import NONNEGATIVE_KERNELS as NONNEGATIVE_KERNELS
