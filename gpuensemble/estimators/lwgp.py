"""LWGP, locally weighted graph partitioning, is HBGF whose clusters have weights by entropy.

Huang, Wang, Lai: Locally Weighted Ensemble Clustering, IEEE Transactions on Cybernetics, 2018.
"""

from typing import Any, ClassVar

from gpuensemble.estimators.hbgf import HBGF


class LWGP(HBGF):
    """Locally weighted graph partitioning cuts the graph of samples and clusters; it is linear in n.

    The graph links each sample to its clusters, with the weight e_c = exp(-h_c / (theta r)), h_c the entropy of the
    other partitions' labels inside c: a cluster that others tear apart counts less. It is cut as in `HBGF`, by
    eigenvectors and k-means; the paper offers the same.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    cluster_weight : "entropy" or None
        The weights of the paper; None makes it `HBGF`.
    theta : float
        How much the entropy of a cluster counts; the less, the more.
    damping, n_vectors, n_init, partition_weight, random_state, device, dtype, verbose, client, out, checkpoint, resume
        As in `HBGF`.

    Attributes
    ----------
    labels_, confidence_, objective_, objective_path_, n_iter_, device_
        As in `HBGF`; the objective has no weights.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> labels = ge.LWGP(2, random_state=0, device="cpu").fit_predict([[0, 0], [0, None], [1, 2], [1, 2]])
    >>> labels.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """

    _variants: ClassVar = {"damped-spectral": ("LWGP, damped", {"damping": 4.0})}

    def __init__(
        self,
        n_clusters: int,
        *,
        cluster_weight: str | None = "entropy",
        theta: float = 0.4,
        damping: float = 0.0,
        n_vectors: int | None = None,
        n_init: int = 10,
        partition_weight: Any = None,
        random_state: Any = None,
        device: str = "auto",
        dtype: str | None = None,
        verbose: int = 0,
        client: Any = None,
        out: Any = None,
        checkpoint: Any = None,
        resume: bool = False,
    ):
        super().__init__(
            n_clusters,
            cluster_weight=cluster_weight,
            theta=theta,
            damping=damping,
            n_vectors=n_vectors,
            n_init=n_init,
            partition_weight=partition_weight,
            random_state=random_state,
            device=device,
            dtype=dtype,
            verbose=verbose,
            client=client,
            out=out,
            checkpoint=checkpoint,
            resume=resume,
        )
