"""The resolution of a community search is steered to a wanted number of communities by the runs so far."""

import math
from typing import Any

import numpy as np

STEEPEST = (0.7, 3.0)  # log resolution may grow so fast with the logarithm of the number of communities
FIRST_GUESS = 1.5  # the slope that one run stands for


class Steering:
    """This remembers resolutions and what came of them: log resolution = a + b log k is fitted to the runs."""

    def __init__(self) -> None:
        self.runs: list[tuple[float, float]] = []

    def resolution(self, k: float) -> float:
        """Return the resolution to try for k communities; it is 1 before the first run."""
        if not self.runs:
            return 1.0
        found, tried = np.array(self.runs).T
        slope = FIRST_GUESS
        if np.ptp(found) > 0:
            slope = float(np.clip(np.polyfit(found, tried, 1)[0], *STEEPEST))
        return math.exp(float(tried.mean()) + slope * (math.log(k) - float(found.mean())))

    def saw(self, resolution: float, k: int) -> None:
        """Remember that a resolution gave k communities."""
        self.runs.append((math.log(k), math.log(resolution)))


def steered(search: Any, target: int, n_runs: int) -> Any:
    """Search for `target` communities; return the labels of the run that came nearest, the first of such runs.

    `search(resolution)` gives labels from 0 on.
    """
    steering, best, missed = Steering(), None, math.inf
    for _ in range(n_runs):
        resolution = steering.resolution(target)
        labels = search(resolution)
        k = int(labels.max()) + 1
        if abs(math.log(k / target)) < missed:
            best, missed = labels, abs(math.log(k / target))
        if k == target:
            break
        steering.saw(resolution, k)
    return best
