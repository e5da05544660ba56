"""From samples to a dictionary: atoms, labels, a kernel and the Gram matrix that everything else is computed from."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
