"""Base partitions of feature matrices, many ways: by neighbour graphs, by eigenvectors, by k-means, of random rows."""

from gpuensemble.generate.graphs import neighbor_graph, spectral
from gpuensemble.generate.kmeans import random_features, random_k, row_segments
from gpuensemble.generate.landmarks import landmark_spectral
from gpuensemble.generate.resolutions import leiden
from gpuensemble.generate.subsampling import subsample

__all__ = [
    "landmark_spectral",
    "leiden",
    "neighbor_graph",
    "random_features",
    "random_k",
    "row_segments",
    "spectral",
    "subsample",
]
