"""Small dictionaries: fewer atoms than training samples, chosen among the samples or learned from them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
