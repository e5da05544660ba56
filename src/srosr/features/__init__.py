"""From pictures to feature vectors: gray values, dense SIFT, spatial pyramids of visual words.

Each module imports only from those before it: `picture_folder`, `gray_values` → `sift_descriptors` → `spatial_pyramid`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
