"""What all ways to make base partitions share: checks of features and ranges, and partitions made side by side."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gpuensemble._array import checks, csr, frames, threads
from gpuensemble._array.devices import Array, choose_device, device_of, namespace, on, to_device
from gpuensemble._array.progress import with_bar


def partitions(make: Callable, draws: list, device: str, home: str, verbose: int, n_jobs: Any = None) -> Array:
    """Collect the n x r labels of make(i, generator) in the caller's library; many run at a time on the CPU.

    Each partition has a generator and a single BLAS thread to itself, so threads change nothing but the time.
    """
    r = len(draws)
    return collected(in_turn(make, range(r), draws, device, n_jobs), r, device, home, verbose)


def collected(columns: Iterator, r: int, device: str, home: str, verbose: int) -> Array:
    """Collect r columns of labels in the caller's library; they are worked out here, one BLAS thread for each."""
    with on(device), threads.one_blas_thread():
        for i, column in enumerate(with_bar(columns, "base partitions", verbose, r, "partition")):
            if i == 0:
                labels = namespace(column).empty((len(column), r), "int32")
            labels[:, i] = column
    return to_device(labels, home)


def in_turn(make: Callable, first: Iterable, second: Iterable, device: str, n_jobs: Any) -> Iterator:
    """Give what `map` gives, worked out by at most `n_jobs` threads on the CPU; None stands for all."""
    if device != "cpu" or n_jobs == 1:
        return map(make, first, second)
    calls = ((make, one, two) for one, two in zip(first, second, strict=True))
    return threads.ahead(threads.pool().submit, calls, None if n_jobs is None else n_jobs - 1)


def jobs(n_jobs: Any) -> int | None:
    """Check a number of threads; None stands for all."""
    return None if n_jobs is None else checks.integer(n_jobs, "n_jobs", 1)


def matrix(X: Any, device: str, distance: str, distances: tuple, dtype: Any = None) -> tuple[Any, str, str]:
    """Check the matrix; return it on the device, the device, and the device of the caller."""
    checks.choice(distance, "distance", distances)
    given = None if dtype is None else checks.floating(dtype)
    X = frames.features(X)
    entries = csr.entries(X)
    device, home = choose_device(device, entries), device_of(entries)
    with on(device):
        X = csr.matrix(X, "X", device)
        csr.refuse_unfit(X, "X", distance, dtype=given)
        return X if given is None else csr.cast(X, given), device, home


def pair(k_range: Any, n: int) -> tuple[int, int]:
    """Check the least and the largest number of clusters."""
    if not isinstance(k_range, tuple | list) or len(k_range) != 2:
        raise TypeError(f"`k_range` must be a pair of integers, got {k_range!r}.")
    low, high = (checks.integer(k, "k_range", 1, n, "n_samples") for k in k_range)
    if low > high:
        raise ValueError(f"`k_range` must be in ascending order, got {tuple(k_range)}.")
    return low, high


def around(n_clusters: Any, k_range: Any, n: int, most: Callable[[int], int]) -> tuple[int, int]:
    """Return the least and the largest number of clusters: as given, else n_clusters and `most` of it, up to n."""
    n_clusters = checks.integer(n_clusters, "n_clusters", 1, n, "n_samples")
    return (n_clusters, min(n, most(n_clusters))) if k_range is None else pair(k_range, n)


def drawn(low: int, high: int, rng: Any) -> int:
    """Draw a number of clusters: its logarithm is uniform."""
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))
