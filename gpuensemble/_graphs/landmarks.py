"""Landmark spectral clustering links rows to a few landmarks each, and cuts that graph: linear in n.

U-SPEC: Huang, Wang, Wu, Lai, Kwoh, IEEE Transactions on Knowledge and Data Engineering, 2020. What the labels of rows
follow from (landmarks, eigenvectors, centres) comes from a sample of the rows, all of them where there are few; so it
labels any rows, a block at a time.
"""

from typing import Any, NamedTuple

from gpuensemble._array.devices import Array, namespace, to_device
from gpuensemble._graphs.distances import of_matrix
from gpuensemble._graphs.search import nearest_centers
from gpuensemble._kmeans.features.lloyd import kmeans
from gpuensemble._linear.eigen import leading

SAMPLE = 100_000  # rows at most that eigenvectors and centres come from
PER_LANDMARK = 10  # rows that a landmark is made from
ITERATIONS = 10  # of the k-means that makes landmarks
SPAN = 1 << 16  # rows linked at a time
UNIT = 2.0**-40  # affinities are rounded to whole multiples of this: their sums are exact


class Landmarks(NamedTuple):
    """Rows are labelled by this: by the nearest of `means` in the embedding of their links to landmarks."""

    metric: str
    mean: Array | None  # taken off rows
    centers: Array  # landmarks x columns
    n_neighbors: int
    width: float  # 2 sigma^2 of the affinities exp(-distance / width)
    projection: Array  # landmarks x eigenvectors
    means: Array  # clusters x eigenvectors

    def moved(self, device: str) -> "Landmarks":
        """Return it on a device."""
        mean = None if self.mean is None else to_device(self.mean, device)
        parts = {name: to_device(getattr(self, name), device) for name in ("centers", "projection", "means")}
        return self._replace(mean=mean, **parts)

    def labels(self, X: Any) -> Array:
        """Find the labels of rows, an array or a `Csr`."""
        rows = of_matrix(X, self.metric, self.mean)
        return self.nearest(self.points(*nearest_centers(rows, self.centers, self.n_neighbors)))

    def nearest(self, points: Array) -> Array:
        """Find the labels of embedded rows."""
        found, _ = nearest_centers(of_matrix(points, "sqeuclidean", 0), self.means, 1)
        return found[:, 0].astype("int32")

    def points(self, near: Array, distances: Array) -> Array:
        """Embed rows, given their nearest landmarks and squared distances: directions of the links' mean projection."""
        xp = namespace(near)
        share = _affinities(distances, self.width)
        out = xp.zeros((len(near), self.projection.shape[1]))
        for link in range(near.shape[1]):
            out += share[:, link, None] * self.projection[near[:, link]]
        norm = (out**2).sum(1, keepdims=True) ** 0.5
        return out / xp.where(norm > 0, norm, 1)


def sampled(n: int, rng: Any) -> Any:
    """Draw the rows, ascending, on the host, that landmarks are made from; None stands for all n."""
    return None if n <= SAMPLE else namespace().sort(rng.choice(n, SAMPLE, replace=False))


def landmarks(
    X: Any, metric: str, n_clusters: int, n_landmarks: int, n_neighbors: int, rng: Any
) -> tuple[Landmarks, Array]:
    """Make landmarks of a sample of rows, and cut the graph that links rows to them; return the embedded rows, too."""
    xp = namespace(X.data if hasattr(X, "indptr") else X)
    rows = of_matrix(X, metric)
    n = len(rows.square)
    some = to_device(rng.choice(n, min(n, PER_LANDMARK * n_landmarks), replace=False), rows.device)
    centers = kmeans(rows.take(some), n_landmarks, rng, init="random", max_iter=ITERATIONS).centers
    near, distances = nearest_centers(rows, centers, min(n_neighbors, len(centers)))
    width = 2 * max(float((distances**0.5).mean()), 1e-150) ** 2
    projection = _projection(near, _affinities(distances, width), len(centers), min(n_clusters, len(centers)))
    found = Landmarks(metric, rows.mean, centers, near.shape[1], width, projection, xp.empty(0))
    points = found.points(near, distances)
    return found._replace(means=kmeans(points, n_clusters, rng).centers), points


def _affinities(distances: Array, width: float) -> Array:
    """Return the affinities of rows and landmarks, those of a row divided by their sum."""
    xp = namespace(distances)
    # the nearest one counts 1 before the division, so that a row far from all landmarks has a sum, too
    given = xp.exp((distances[:, :1] - distances) / width)
    return given / given.sum(1, keepdims=True)


def _projection(near: Array, share: Array, p: int, n_vectors: int) -> Array:
    """Cut the graph of rows and landmarks by p x p sums over the rows; return what embeds a row, p x n_vectors."""
    xp = namespace(near)
    q = near.shape[1]
    links = xp.zeros(p * p)
    for first in range(0, len(near), SPAN):
        some, part = near[first : first + SPAN], share[first : first + SPAN]
        keys = (some[:, :, None] * p + some[:, None, :]).ravel()
        terms = (part[:, :, None] * part[:, None, :]).reshape(len(some) * q * q)
        links += xp.bincount(keys, xp.rint(terms / UNIT) * UNIT, p * p)
    links = links.reshape(p, p)
    degrees = links.sum(1)
    scale = xp.where(degrees > 0, xp.where(degrees > 0, degrees, 1) ** -0.5, 0)
    _, vectors = leading(xp.ascontiguousarray(links * scale * scale[:, None]), n_vectors)
    return scale[:, None] * vectors
