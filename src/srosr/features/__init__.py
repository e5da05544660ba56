"""From pictures to feature vectors: gray values, dense SIFT, spatial pyramids of visual words.

Each module imports only from those before it: `picture_folder`, `gray_values` → `sift_descriptors` → `spatial_pyramid`.
"""
