"""LTA: speed and memory against the literal transcription, and quality on real pools of base partitions.

python bench/bench_lta.py [--sizes 500 1000 2000] [--transform sample] [--whole 1000] [--repeat 3]
python bench/bench_lta.py --decompositions [--sizes 500 1000 2000]
python bench/bench_lta.py DATA [--draws 20] [--rows 1000] [--only NAME]

The second is about `transform="partition"`: whole runs beside those with two full decompositions an iteration.

The first times whole runs. The transcription's iterations all take the same time; beyond n = `--whole` it is timed over
SOME iterations, and its time for as many as ours needed follows from that.

DATA holds pools named pool_*.npz (`E`, n x 100 labels, and `y`), which are not part of this repository. A draw takes 10
partitions and some rows, in the stored order (sorted by class) or shuffled.
"""

import argparse
import statistics
import sys
import time
import warnings
from itertools import islice
from pathlib import Path

import harness
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "estimators"))
import literal_lta

import gpuensemble as ge
from gpuensemble._array.threads import one_blas_thread
from gpuensemble.estimators.lta import solver

SOME = 30
PAPER = {  # accuracy in the paper's Tables I, II, IV and V: spectral, average
    "pool_BinAlpha": (0.858, 0.712),
    "pool_MF": (0.990, 0.718),
    "pool_Semeion": (0.983, 0.846),
    "pool_Caltech20": (0.418, 0.726),
}


def base_partitions(n):
    """Ten k-means partitions of ten blobs, k from 2 to sqrt(n)."""
    rng = np.random.default_rng(0)
    points = rng.normal(0, 1.5, (10, 8))[rng.integers(0, 10, n)] + rng.standard_normal((n, 8))
    return ge.generate.random_k(points, 10, (2, round(n**0.5)), random_state=0, device="cpu")


def speed(options):
    """Seconds, ratio and growth of memory of both."""
    print(harness.machine())
    for n in options.sizes:
        labels = base_partitions(n)
        m = ge.Membership.from_labels(labels, device="cpu")
        runs, times = [], []

        def ours(m=m, runs=runs):
            with one_blas_thread():  # as in a fit
                runs[:] = [solver.coassociation(m, options.transform, 0.002, 1e-8, 500, "float64")]

        peak = harness.peak_growth(ours)
        begun = time.process_time()
        times = [harness.seconds(ours) for _ in range(options.repeat)]
        cpu = (time.process_time() - begun) / options.repeat
        n_iter = len(runs[0].residual_path)
        whole = n <= options.whole
        last = []

        def literal(labels=labels, last=last, count=n_iter if whole else SOME):
            for iterate in islice(literal_lta.iterations(labels, options.transform), count):
                last[:] = [iterate]

        scale = 1 if whole else n_iter / SOME
        start, begun = time.perf_counter(), time.process_time()
        literal_peak = harness.peak_growth(literal)
        literal_time, literal_cpu = scale * (time.perf_counter() - start), scale * (time.process_time() - begun)
        seconds = statistics.median(times)
        size = 8 * n * n
        print(
            f"n = {n}, {n_iter} iterations, {len(m.merge().multiplicity)} distinct rows: {seconds:.2f} s "
            f"(spread {(max(times) - min(times)) / seconds:.0%}), +{peak / size:.1f} arrays; transcription "
            f"{literal_time:.1f} s{'' if whole else f' (from {SOME} iterations)'}, +{literal_peak / size:.1f} arrays; "
            f"ratio {literal_time / seconds:.1f}; CPU {cpu:.1f} s and {literal_cpu:.1f} s",
            flush=True,
        )
        if whole:
            difference = abs(runs[0].coassociation - literal_lta.symmetric(last[0].P2)).max()
            print(f"  largest difference of the refined matrices {difference:.1e}", flush=True)


class Decompositions:
    """This makes P by two full decompositions, as `solver.Partitions` does by the few that are needed."""

    def __init__(self, tensor, copies):
        self.copies, self.report, self.last = copies, np.zeros(0), None

    def begin(self, tensor, tau):
        self.tau = tau

    def finish(self, tensor, report):
        norm = ge.prox.tensor_nuclear_symmetric(tensor, self.tau, self.copies)
        self.last = tensor[1].copy()
        return norm

    def second(self):
        return self.last


def refined(m, shrinkage):
    """A whole run with this P step, its seconds and its processor time."""
    usual = solver.Partitions
    solver.Partitions = shrinkage
    try:
        with one_blas_thread():  # as in a fit
            start, begun = time.perf_counter(), time.process_time()
            run = solver.coassociation(m, "partition", 0.002, 1e-8, 500, "float64")
            return run, time.perf_counter() - start, time.process_time() - begun
    finally:
        solver.Partitions = usual


def decompositions(options):
    """Seconds and processor time of whole runs, and of those with full decompositions alone; ours run on both sides."""
    print(harness.machine())
    solver.coassociation(ge.Membership.from_labels(base_partitions(60)), "partition", 0.002, 1e-8, 500, "float64")
    for n in options.sizes:
        m = ge.Membership.from_labels(base_partitions(n), device="cpu")
        kinds = (solver.Partitions, Decompositions, solver.Partitions)
        (run, *ours), (full, *theirs), (_, *again) = (refined(m, kind) for kind in kinds)
        seconds, processor = (sum(both) / 2 for both in zip(ours, again, strict=True))
        difference = abs(run.coassociation - full.coassociation).max()
        print(
            f"n = {n}, {len(run.residual_path)} iterations, {len(m.merge().multiplicity)} distinct rows: "
            f"{seconds:.2f} s, CPU {processor:.2f} s ({ours[1]:.2f} and {again[1]:.2f}); "
            f"full decompositions {theirs[0]:.2f} s, CPU {theirs[1]:.2f} s; ratios "
            f"{theirs[0] / seconds:.2f} and {theirs[1] / processor:.2f}; largest difference {difference:.1e}",
            flush=True,
        )


def fitted(transform, n_clusters, labels, seed, dtype=None):
    """Labels of both final assignments from one refined matrix."""
    model = ge.LTA(n_clusters, transform=transform, random_state=seed, device="cpu", dtype=dtype).fit(labels)
    return {
        "spectral": model.labels_,
        "average": model.set_params(assign="average")._assigned(model.coassociation_, None),
    }


def draw(data, rows, rng, seed):
    """Accuracy and NMI of every method on one draw, and how far float32 gives the labels of float64."""
    n, n_clusters = len(data["y"]), len(np.unique(data["y"]))
    some = rng.permutation(n)[:rows]
    columns = rng.permutation(data["E"].shape[1])[:10]
    found, agreement = {}, {}
    orders = {"stored": np.sort(some), "shuffled": some}
    for name, order in orders.items():
        labels, truth = data["E"][np.ix_(order, columns)], data["y"][order]
        predicted = {f"LTA sample, {name}": fitted("sample", n_clusters, labels, seed)}
        if name == "shuffled":
            predicted["LTA partition"] = fitted("partition", n_clusters, labels, seed)
            spectral, average = (
                ge.EAC(n_clusters, linkage=linkage, random_state=seed, device="cpu").fit_predict(labels)
                for linkage in ("spectral", "average")
            )
            predicted["EAC"] = {"spectral": spectral, "average": average}
            for transform in ("partition", "sample") if seed < 3 else ():
                narrow = fitted(transform, n_clusters, labels, seed, "float32")
                double = predicted["LTA partition" if transform == "partition" else "LTA sample, shuffled"]
                for assign, one in narrow.items():
                    agreement[transform, assign] = ge.metrics.accuracy(double[assign], one)
        for method, both in predicted.items():
            for assign, one in both.items():
                found[method, assign] = (ge.metrics.accuracy(truth, one), ge.metrics.nmi(truth, one))
    return found, agreement


def quality(options):
    """A table per pool."""
    warnings.simplefilter("ignore", UserWarning)
    for path in sorted(options.data.glob(f"*{options.only}*.npz")):
        data = dict(np.load(path))
        rng = np.random.default_rng(0)
        draws = [draw(data, options.rows, rng, seed) for seed in range(options.draws)]
        n = min(options.rows, len(data["y"]))
        print(f"{path.stem}: {n} rows, K = {len(np.unique(data['y']))}, {options.draws} draws of 10 partitions")
        for key in draws[0][0]:
            scores = np.array([found[key] for found, _ in draws])
            print(
                f"  {', '.join(key):32} accuracy {scores[:, 0].mean():.3f} +- {scores[:, 0].std():.3f}  "
                f"NMI {scores[:, 1].mean():.3f}"
            )
        if path.stem in PAPER:
            print(
                "  the paper, all rows, order not told  accuracy {:.3f} (spectral), {:.3f} (average)".format(
                    *PAPER[path.stem]
                )
            )
        for key in draws[0][1]:
            shares = [agreement[key] for _, agreement in draws if agreement]
            print(f"  float32 as float64, {', '.join(key):20} rows {min(shares):.4f} at least", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--transform", default="sample")
    parser.add_argument("--decompositions", action="store_true", help="beside two full decompositions an iteration")
    parser.add_argument("--whole", type=int, default=1000, help="the transcription runs to its end up to this n")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--only", default="pool_")
    options = parser.parse_args()
    timed = decompositions if options.decompositions else speed
    quality(options) if options.data else timed(options)


if __name__ == "__main__":
    main()
