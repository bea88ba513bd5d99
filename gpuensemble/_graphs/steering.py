"""The resolution of a community search is steered to a wanted number of communities by the runs so far."""

import math
from collections.abc import Callable
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


def steered(
    search: Callable, target: int, n_runs: int, steering: Steering | None = None, within: tuple[float, float] = (0, 0)
) -> Any:
    """Search for `target` communities; return the labels of the run that came nearest, the first of such runs.

    `search(resolution)` gives labels from 0 on. A run ends the search if it hits the target, or if its number of
    communities is between two bounds. `steering` remembers earlier runs. One community where more are wanted is never
    near.
    """
    steering, best, least = steering or Steering(), None, math.inf
    for _ in range(n_runs):
        resolution = steering.resolution(target)
        labels = search(resolution)
        k = int(labels.max()) + 1
        steering.saw(resolution, k)
        missed = math.inf if k == 1 < target else abs(math.log(k / target))
        if best is None or missed < least:
            best, least = labels, missed
        if k == target or within[0] <= k <= within[1]:
            break
    return best
