"""Open set recognition by sparse representation.

The public names are listed in ``__init__.pyi`` and loaded at first use, so that ``import srosr`` stays light.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
