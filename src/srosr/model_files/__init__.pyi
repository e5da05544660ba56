from .save_load import load as load
from .save_load import save as save
