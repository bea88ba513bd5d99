"""Digests of what every method answers on bundled data, to see that a change of the code changes no bit of an answer.

    python tests/digests.py write     # before a change that should change nothing: fills tests/digests.json
    python tests/digests.py compare   # after it

SEC and KCC from a given start have the same bits everywhere, so that the test suite compares those on any machine. The
rest uses BLAS and LAPACK, whose last bits depend on the machine: compare it where it was written.
"""

import hashlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_iris

import gpuensemble as ge

FILE = Path(__file__).with_suffix(".json")
SETTINGS = {
    "SEC": ("SEC", {}),
    "SEC, k-means++": ("SEC", {"init": "k-means++", "n_init": 3}),
    "SEC, random": ("SEC", {"init": "random", "n_init": 3}),
    "SEC, entropy": ("SEC", {"cluster_weight": "entropy"}),
    "SEC, float32": ("SEC", {"dtype": "float32"}),
    "KCC": ("KCC", {}),
    "KCC, entropy": ("KCC", {"utility": "entropy", "init": "k-means++", "n_init": 2}),
    "KCC, cosine": ("KCC", {"utility": "cosine", "normalized": True}),
    "HBGF": ("HBGF", {}),
    "LWGP, damped": ("LWGP", {"damping": 4.0}),
    "ClusterWalk": ("ClusterWalk", {}),
    "ClusterWalk, groups": ("ClusterWalk", {"n_groups": 30}),
    "MCLA": ("MCLA", {}),
    "ECPCS": ("ECPCS", {}),
    "Voting": ("Voting", {}),
    "LWEA": ("LWEA", {}),
    "PTGP": ("PTGP", {}),
    "NMFC": ("NMFC", {}),
    "EAC": ("EAC", {}),
    "EAC, single": ("EAC", {"linkage": "single"}),
    "EAC, spectral": ("EAC", {"linkage": "spectral"}),
    "RSEC": ("RSEC", {}),
    "RSEC, embedding": ("RSEC", {"assign": "embedding"}),
    "NRSEC": ("RSEC", {"penalty": "gamma"}),
    "LTA": ("LTA", {}),
    "LTA, average": ("LTA", {"assign": "average"}),
    "LTA, sample": ("LTA", {"transform": "sample"}),
    "PCE": ("PCE", {}),
    "PCE, float32": ("PCE", {"dtype": "float32", "self_paced": False}),
}
VIEWS = {
    "CMVC": {},
    "CMVC, exact": {"distance": "sqeuclidean", "update": "exact"},
    "CMVC, kl": {"distance": "kl"},
}
HOLES = (
    *("SEC", "SEC, k-means++", "SEC, entropy", "KCC", "KCC, entropy", "HBGF", "ClusterWalk", "MCLA", "LWEA", "EAC"),
    *("RSEC", "NRSEC", "PCE"),
)
FROM_A_START = {
    "SEC": {},
    "SEC, entropy": {"cluster_weight": "entropy"},
    "KCC": {},
    "KCC, cosine": {"utility": "cosine"},
}


def base_partitions(n, n_partitions=12, holes=0.0):
    """Labels that come from integer arithmetic on the digits alone, so that they are the same on every machine."""
    pixels, truth = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(truth))[:n]
    rng = np.random.default_rng(1)
    weights = rng.integers(-3, 4, (n_partitions, pixels.shape[1]))
    scores = pixels[order].astype(int) @ weights.T
    ranks = scores.argsort(0, kind="stable").argsort(0, kind="stable")
    labels = (ranks * rng.integers(5, 12, n_partitions)) // n
    noisy = np.where(rng.random(labels.shape) < 0.35, truth[order][:, None], labels)
    noisy[:, 1:][rng.random((n, n_partitions - 1)) < holes] = -1
    return noisy


def from_a_start():
    """What is promised to have the same bits everywhere."""
    labels = base_partitions(600, holes=0.2)
    start = np.arange(len(labels)) % 10
    for name, settings in FROM_A_START.items():
        kind = getattr(ge, name.split(",")[0])
        yield f"{name}, from a start", kind(10, init=start, device="cpu", **settings).fit(labels)


def everything():
    """(name, fitted estimator) of all methods, on the CPU and on the stand-in device."""
    yield from from_a_start()
    for n, device, k in ((400, "cpu", 10), (60, "cuda", 4)):
        for name, (kind, settings) in SETTINGS.items():
            for holes in (0, 0.3) if name in HOLES else (0,):
                estimator = getattr(ge, kind)(k, random_state=0, device=device, **settings)
                yield f"{name}, {device}, {holes:.0%} holes", estimator.fit(base_partitions(n, holes=holes))
        features = load_iris().data[np.random.default_rng(2).permutation(150)]
        for name, settings in VIEWS.items():
            views = [features[:n, :2], features[:n, 2:]]
            yield f"{name}, {device}", ge.CMVC(3, n_subviews=4, random_state=0, device=device, **settings).fit(views)
        for make in (ge.generate.random_k, ge.generate.random_features, ge.generate.row_segments):
            given = {} if make is ge.generate.random_k else {"n_clusters": 3}
            found = make(features[:n], n_partitions=8, random_state=0, device=device, **given)
            yield f"{make.__name__}, {device}", found


def digest(found):
    """Hash of the labels, the objective to the last bit, and how many iterations there were."""
    labels = np.asarray(getattr(found, "labels_", found)).astype("int64")
    answer = {"labels": hashlib.sha256(labels.tobytes()).hexdigest()[:16]}
    if hasattr(found, "objective_"):
        answer |= {"objective": float(found.objective_).hex(), "n_iter": found.n_iter_}
    return answer


def main(what):
    from cudasim.shim import ShimModule
    from cudasim.standin import installed

    with warnings.catch_warnings(), installed(ShimModule):
        warnings.simplefilter("ignore")
        found = {name: digest(one) for name, one in everything()}
    if what == "write":
        FILE.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    known = json.loads(FILE.read_text())
    differ = [name for name in known.keys() | found.keys() if known.get(name) != found.get(name)]
    for name in sorted(differ):
        print(f"{name}: {known.get(name)} became {found.get(name)}")
    print(f"{len(found)} digests, {len(differ)} differ")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
