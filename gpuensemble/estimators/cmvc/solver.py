"""Algorithm 3 of CMVC: base partitions of all sub-views, guided by their consensus, and the consensus in turns."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuensemble._array import checks, csr
from gpuensemble._array.coding import code_dtype
from gpuensemble._array.devices import Array, device_of, namespace, to_device
from gpuensemble._array.progress import with_bar
from gpuensemble._array.random import generators
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble._kmeans.features.distances import FeatureBlock, Features, prepare
from gpuensemble._kmeans.features.seeding import seed_rows
from gpuensemble._kmeans.labels import seeding
from gpuensemble._kmeans.labels.costs import KCCCosts
from gpuensemble._kmeans.labels.labellings import Given
from gpuensemble._kmeans.labels.lloyd import Problem, labels_of, lloyd
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables.blocks import InMemory, whole
from gpuensemble.membership import Membership

UTILITIES = {"sqeuclidean": "category", "kl": "entropy", "cosine": "cosine"}  # Table 4
CONSENSUS_STARTS, TRIAL_ITERATIONS = 5, 3  # by k-means++, for the first consensus
INNER_ITERATIONS = 300  # of each k-means inside, at most


class Plan(NamedTuple):
    """This is what a run needs to know: the parameters of the estimator, and how to map over sub-views."""

    n_clusters: int
    distance: str
    trade_off: float
    update: str
    n_init: int
    max_iter: int
    in_turn: Callable  # map, or that of a pool of threads


class Partition(NamedTuple):
    """A base partition has labels, -1 for an absent sample; a number of clusters; the cost of the features."""

    labels: Array
    width: int
    cost: float


class Run(NamedTuple):
    """A run returns this: the consensus, the base partitions, and the objective after each iteration."""

    labels: Array
    base: list[Partition]
    path: list[float]
    changed: int  # labels that the last iteration changed

    @property
    def objective(self) -> float:
        """Return the objective at the end."""
        return self.path[-1]


def start(parts: list[Features], plan: Plan, rng: Any) -> tuple[list[Partition], Array, Problem]:
    """Find base partitions by k-means alone (Algorithm 3, line 1), the best of some consensuses, and its problem."""
    *rngs, last = generators(rng, len(parts) + 1)

    def alone(part: Features, rng: Any) -> Partition:
        return _partition(part, plan, rng=rng, init="random", n_init=plan.n_init)

    base = list(plan.in_turn(alone, parts, rngs))
    m = membership(base)
    rows = seed_rows(len(m.codes), plan.n_clusters, last)
    table, sample = whole(m), whole(m if rows is None else m.take(to_device(rows, m.device)))
    by = _costs(table, "category")
    seeds = [seeding.plus_plus(sample, by, plan.n_clusters, last) for _ in range(CONSENSUS_STARTS)]
    starts = [seed.labels(table.block, by) for seed in seeds]
    problem = fusing(table, plan)
    runs = [fuse(problem, start, TRIAL_ITERATIONS) for start in starts]
    return base, min(runs, key=lambda run: run[1])[0], problem


def run(
    parts: list, base: list[Partition], labels: Array, plan: Plan, verbose: int = 0, problem: Problem | None = None
) -> Run:
    """Run Algorithm 3 of CMVC, from base partitions and a consensus of them; `problem` is that of the first fusion."""
    fused, _ = fuse(fusing(whole(membership(base)), plan) if problem is None else problem, labels)
    path = []
    for _ in with_bar(range(plan.max_iter), "iterations", verbose, plan.max_iter):
        labels = fused
        base = guide(parts, base, labels, plan)
        fused, disagreement = fuse(fusing(whole(membership(base)), plan), labels)
        path.append(sum(one.cost for one in base) + plan.trade_off * disagreement)
        changed = int((fused != labels).sum())
        if not changed:
            break
    return Run(fused, base, path, changed)


def fusing(table: InMemory, plan: Plan) -> Problem:
    """State what the consensus minimises: Eqs. 3 and 21; with holes Eqs. 23 and 25."""
    return Problem.of(table, _costs(table, UTILITIES[plan.distance]), plan.n_clusters)


def fuse(problem: Problem, labels: Array, max_iter: int = INNER_ITERATIONS) -> tuple[Array, float]:
    """Find H* by k-means on [H_1 .. H_r], from the current one, and its cost (line 4)."""
    run = lloyd(problem, Given(labels), max_iter)
    return *problem.table.columns(labels_of, (problem.costs, run.labelling), ("int32",)), run.objective


def guide(parts: list[Features], base: list[Partition], labels: Array, plan: Plan) -> list[Partition]:
    """Find each H_v by k-means guided by H*, from the current one (line 5)."""
    if not plan.trade_off:
        guided: Sequence[Features] = parts
    elif plan.update == "approximate":  # Eqs. 17 and 22; with holes Eqs. 24 and 26
        block = FeatureBlock(csr.onehot(labels, plan.n_clusters, parts[0].dtype), plan.trade_off)
        consensus = prepare([block], plan.distance)
        guided = [part.beside(consensus) for part in parts]
    else:  # Eqs. 8, 9 and 12, over the samples that are present
        onehot = csr.onehot(labels, plan.n_clusters, parts[0].dtype)
        blocks = (FeatureBlock(onehot, plan.trade_off, part.present[0], "agreement") for part in parts)
        guided = [part.beside(prepare([block], "agreement")) for part, block in zip(parts, blocks, strict=True)]

    def again(part: Features, before: Partition) -> Partition:
        return _partition(part, plan, init=before.labels)

    return list(plan.in_turn(again, guided, base))


def _partition(part: Features, plan: Plan, rng: Any = None, **options: Any) -> Partition:
    """Run k-means to convergence. The guide may have placed samples that are absent from the features: they get -1."""
    found = features.kmeans(part, plan.n_clusters, rng, max_iter=INNER_ITERATIONS, tol=0, **options)
    labels, present = found.labels, part.present[0]
    if present is not None:
        labels = namespace(labels).where(present, labels, -1).astype("int32")
    return Partition(labels, found.n_clusters, found.costs[0])


def membership(base: list[Partition]) -> Membership:
    """Make H = [H_1 .. H_r] (line 3); labels are codes already, and every sample has one."""
    labels = namespace(base[0].labels).stack([one.labels for one in base], axis=1)
    widths = checks.array([one.width for one in base], "widths", "cpu", 1)
    codes = labels.astype(code_dtype(int(widths.max())))  # -1 becomes all bits set
    return Membership.from_coded(codes, widths, bool((labels >= 0).all()), None, device_of(codes))


def _costs(table: InMemory, utility: str) -> KCCCosts:
    alike = namespace(table.widths).ones(len(table.widths))
    return KCCCosts.of(utility, False, table, Weighting(alike, None, "float64"))
