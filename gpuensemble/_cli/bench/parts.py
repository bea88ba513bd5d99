"""The parts of a fit's time: coding, start, iterations and output of k-means, and the copies to and from a device."""

import statistics
import time
from typing import Any

from gpuensemble._array.devices import to_device, to_host
from gpuensemble._cli.bench import harness
from gpuensemble._cli.bench.pools import Ensemble

ROUNDS = 3


def parts(kind: Any, data: Ensemble, device: str) -> dict[str, Any]:
    """Return the seconds of the parts of a default fit of the caller's table: the medians of a few rounds."""
    watched, table = _watched(kind), data.table
    rounds = []
    for _ in range(ROUNDS):
        fitted = watched(data.n_clusters, random_state=0, device=device)
        whole = harness.seconds(lambda fitted=fitted: fitted.fit(table))  # type: ignore[misc]
        spent = fitted.spent
        inside = spent["start"] + spent["output"]
        rounds.append(
            {
                "coding": whole - spent["all but coding"],
                "start": spent["start"],
                "iterations": spent["all but coding"] - inside,
                "output": spent["output"],
            }
        )
    return {"a default fit": {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}}


def _watched(kind: Any) -> Any:
    """Make an estimator that notes the seconds of its own steps: KMeansConsensus names them."""

    class Watched(kind):
        spent: dict[str, float]

        def _fit(self, source: Any) -> None:
            self.spent = {}
            _noted(self.spent, "all but coding", super()._fit, source)

        def _labelling(self, *given: Any) -> Any:
            return _noted(self.spent, "start", super()._labelling, *given)

        def _store(self, *given: Any) -> None:
            _noted(self.spent, "output", super()._store, *given)

    return Watched


def _noted(spent: dict[str, float], name: str, step: Any, *given: Any) -> Any:
    harness.synchronize()
    begin = time.perf_counter()
    found = step(*given)
    harness.synchronize()
    spent[name] = spent.get(name, 0.0) + time.perf_counter() - begin
    return found


def transfers(given: Any, devices: list[str]) -> dict[str, Any]:
    """Return the seconds that the input alone needs to get to each device, and as many labels to get back."""
    matrices = given if isinstance(given, list) else [given]
    found = {}
    for device in devices:
        if device != "cpu":
            there = to_device(matrices[0][:, 0].astype("int32"), device)
            found[f"in to {device}"] = harness.seconds(lambda: [to_device(x, device) for x in matrices])  # noqa: B023
            found[f"out of {device}"] = harness.seconds(lambda: to_host(there))  # noqa: B023
    return {"transfers": found} if found else {}
