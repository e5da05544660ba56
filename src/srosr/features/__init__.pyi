from .gray_values import read_picture as read_picture
from .gray_values import resize_picture as resize_picture
from .picture_folder import is_picture as is_picture
from .picture_folder import list_pictures as list_pictures
from .sift_descriptors import dense_sift as dense_sift
from .spatial_pyramid import SpatialPyramid as SpatialPyramid
from .spatial_pyramid import pyramid_of_counts as pyramid_of_counts
