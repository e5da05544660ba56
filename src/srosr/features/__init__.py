"""From pictures to feature vectors: grey values, dense SIFT, spatial pyramids of visual words.

Each file imports only from those before it: ``image_folder`` → ``dense_sift`` → ``spatial_pyramid``. The pictures in a
folder are listed by :func:`srosr.datasets.list_pictures`.
"""

from .dense_sift import dense_sift
from .image_folder import read_picture
from .spatial_pyramid import SpatialPyramid, pyramid_of_counts

__all__ = ["SpatialPyramid", "dense_sift", "pyramid_of_counts", "read_picture"]
