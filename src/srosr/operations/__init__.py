"""What commands and the server do alike with a model and samples: read them, check them, decide; without printing."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
