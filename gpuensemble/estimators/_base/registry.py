"""One table of the methods, for the commands that run all of them or one by name."""

from importlib import import_module
from typing import Any, NamedTuple


class Method(NamedTuple):
    """A method: what tables call it, its estimator, and settings that differ from the estimator's defaults."""

    title: str
    estimator: str
    settings: dict[str, Any] = {}  # noqa: RUF012
    holes: bool = True  # whether it takes them
    square: bool = False  # whether it works on n x n arrays, over and over


OF_LABELS = {
    "sec": Method("SEC", "SEC"),
    "sec-entropy": Method("SEC, cluster weights", "SEC", {"cluster_weight": "entropy"}),
    "kcc": Method("KCC", "KCC"),
    "eac": Method("EAC, average linkage", "EAC"),
    "pce": Method("PCE", "PCE"),
    "lta": Method("LTA", "LTA", holes=False, square=True),
    "rsec": Method("RSEC", "RSEC", square=True),
    "nrsec": Method("NRSEC", "RSEC", {"penalty": "gamma"}, square=True),
}
OF_VIEWS = {"cmvc": Method("CMVC, of views", "CMVC")}


def make(name: str, n_clusters: int, seed: int | None, device: str, verbose: int = 0, **settings: Any) -> Any:
    """The estimator of a method, not fitted."""
    method = (OF_LABELS | OF_VIEWS)[name]
    kind = getattr(import_module("gpuensemble"), method.estimator)
    estimator = kind(n_clusters, random_state=seed, device=device, verbose=verbose, **method.settings)
    return estimator.set_params(**settings)
