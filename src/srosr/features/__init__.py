"""From pictures to feature vectors: grey values, dense SIFT, spatial pyramids of visual words.

Each file imports only from those before it: ``gray_values`` → ``sift_descriptors`` → ``spatial_pyramid``. The pictures
in a folder are listed by :func:`srosr.datasets.list_pictures`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
