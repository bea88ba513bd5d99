"""`gpuensemble bench --against old.json` tells what got slower than in an earlier run, by more than both runs spread.

Where a case has a peer, the peer's time over ours of the same round is compared, so that a machine that is slower today
tells nothing; without one, seconds are.
"""

import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

LEAST = 0.05  # a change by less is none, however little the rounds spread


class Change(NamedTuple):
    """How a candidate of ours does in two runs: more is slower."""

    case: str
    candidate: str
    by: str  # "of the peer's time" or "seconds"
    before: list[float]
    now: list[float]

    @property
    def factor(self) -> float:
        """Return how many times as slow it has become."""
        return statistics.median(self.now) / statistics.median(self.before)

    @property
    def slower(self) -> bool:
        """Tell whether the median of either run is outside of all rounds of the other, in this direction."""
        apart = statistics.median(self.now) > max(self.before) and statistics.median(self.before) < min(self.now)
        return apart and self.factor > 1 + LEAST

    @property
    def faster(self) -> bool:
        """Tell whether the same holds in the other direction."""
        return Change(self.case, self.candidate, self.by, self.now, self.before).slower


def read(path: str) -> dict[str, Any]:
    """Read the results of an earlier run, as `--out` writes them."""
    try:
        found = json.loads(Path(path).read_text("utf-8"))
        rounds = [one["seconds"] for result in found["results"] for one in result["timed"].values()]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"`--against` must be a file that `gpuensemble bench --out` wrote, got {path!r}.") from None
    if not all(isinstance(one, list) and one for one in rounds):
        raise ValueError(f"`--against` must have the seconds of every round, got none in {path!r}.")
    return found


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Compare what is in both runs under the same name."""
    before = {result["case"]: result for result in old["results"]}
    found = []
    for result in new["results"]:
        earlier = before.get(result["case"], {"timed": {}})
        for name, one in result["timed"].items():
            if name in earlier["timed"] and name not in result["peers"]:
                found.append(_change(result, name, earlier["timed"][name], one))
    if not found:
        raise ValueError("`--against` must have a case of this run, of the same size, got none.")
    return found


def _change(result: dict[str, Any], name: str, before: dict[str, Any], now: dict[str, Any]) -> Change:
    if result["peers"]:
        shares = [[1 / ratio for ratio in one["ratios"]] for one in (before, now)]
        return Change(result["case"], name, "of the peer's time", *shares)
    return Change(result["case"], name, "seconds", before["seconds"], now["seconds"])


def told(old: dict[str, Any], new: dict[str, Any], found: list[Change]) -> str:
    """Write what got slower and faster, and what else is different between the runs."""
    lines = []
    for key, what in (("processor", "processors"), ("cores", "numbers of cores")):
        if old["machine"][key] != new["machine"][key]:
            lines.append(f"the runs have different {what}: {old['machine'][key]} and {new['machine'][key]}")
    if old.get("busy", False) != new["busy"]:
        lines.append("one of the runs had a process beside it that kept a core busy")
    for change in found:
        if change.slower or change.faster:
            word = "SLOWER" if change.slower else "faster"
            one, two = statistics.median(change.before), statistics.median(change.now)
            times = f"{change.factor:.2f}x the time"
            lines.append(f"{word}: {change.case}, {change.candidate}: {times}, {one:.4g} became {two:.4g} {change.by}")
    n_slower = sum(change.slower for change in found)
    return "\n".join([*lines, f"{n_slower} of {len(found)} got slower by more than the rounds spread"])
