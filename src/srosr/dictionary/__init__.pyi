from .dictionary import Dictionary as Dictionary
from .dictionary import Queries as Queries
from .dictionary import scaled_queries as scaled_queries
from .dictionary import slices as slices
from .dictionary import unit_rows as unit_rows
