"""Draws digits.png, the picture of the README: python docs/images/digits.py."""

import io
from pathlib import Path

import numpy as np
from matplotlib import pyplot
from PIL import Image
from sklearn.datasets import load_digits

import gpuensemble as ge

SHOWN = 6  # samples of a cluster at either end


def main() -> None:
    X = load_digits().data
    found = ge.ConsensusClustering(10, random_state=0).fit(X)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.6, 4.4), layout="constrained")
    ge.plot.coassociation(found.base_labels_, found, ax=left)
    left.set_xlabel("samples, by cluster", fontsize=9)
    right.imshow(np.vstack([strip(X, found, k) for k in range(10)]), cmap="gray_r", aspect="equal")
    right.set_yticks(np.arange(10) * 9 + 4, range(10))
    right.set_xticks([SHOWN * 4.5, SHOWN * 14], ["most sure", "least sure"])
    right.set_title("Samples of each cluster, by confidence", fontsize=10)
    right.set_ylabel("cluster", fontsize=9)
    right.tick_params(length=0)
    content = io.BytesIO()
    figure.savefig(content, dpi=100, bbox_inches="tight")
    image = Image.open(content).convert("RGB")
    image.quantize(160).save(Path(__file__).with_suffix(".png"), optimize=True)  # few colours: a small file


def strip(X: np.ndarray, found: ge.ConsensusClustering, k: int) -> np.ndarray:
    """Return the images of the samples of cluster k with the greatest and the least confidence, side by side."""
    rows = np.flatnonzero(found.labels_ == k)
    rows = rows[np.argsort(-found.confidence_[rows], kind="stable")]
    images = [np.pad(X[row].reshape(8, 8), ((0, 1), (0, 1))) for row in (*rows[:SHOWN], *rows[-SHOWN:])]
    gap = np.zeros((9, 9))
    return np.hstack([*images[:SHOWN], gap, *images[SHOWN:]])


if __name__ == "__main__":
    main()
