"""RSEC and NRSEC: whole runs against the literal transcription, time and memory; quality on real data, rows shuffled.

python bench/bench_rsec.py speed [--n 1600] [--rounds 1] [--penalty nuclear]
python bench/bench_rsec.py quality DATA [--draws 20] [--rows 600] [--only NAME]
python bench/bench_rsec.py stability DATA [--draws 20] [--rows 600] [--only NAME]

The transcription is the one of the tests, which has a full SVD and a full eigendecomposition per iteration. Base
partitions for speed: 100 k-means partitions, k from 10 to 40, of scikit-learn's digits, some of them twice with noise
for n above 1797. DATA holds `.npz` files as in bench_quality.py.
"""

import argparse
import sys
import warnings
from pathlib import Path

import harness
import numpy as np
from sklearn.datasets import load_digits

import gpuensemble as ge
from gpuensemble._array.threads import one_blas_thread
from gpuensemble.estimators.rsec import solver

TESTS = Path(__file__).parents[1] / "tests"
sys.path += [str(TESTS), str(TESTS / "estimators")]
PENALTIES = ("nuclear", "gamma")


def partitions(n):
    """100 k-means partitions of n digits."""
    rng = np.random.default_rng(0)
    digits = load_digits().data
    rows = np.concatenate([rng.permutation(len(digits)), rng.permutation(len(digits))])[:n]
    features = digits[rows] + (np.arange(n) >= len(digits))[:, None] * rng.standard_normal((n, digits.shape[1]))
    return ge.generate.random_k(features, 100, (10, 40), random_state=0, device="cpu")


def transcribed(s, penalty):
    """Z of the transcription, and its iterations, until both residuals are below 1e-6 |S|."""
    from test_rsec import transcription

    n_outer = 1 if penalty == "nuclear" else 2
    n_iter = 0
    for z, _, _ in transcription(s, 10, penalty, 200, n_outer, until=1e-6 * np.linalg.norm(s)):
        n_iter, last = n_iter + 1, z
    return last, n_iter


def ours(s, penalty, dtype):
    """Z and the iterations of ours."""
    with one_blas_thread():  # as in a fit
        found = solver.solve(s.astype(dtype), 10, _settings(penalty), np.random.default_rng(0))
    return found.representation, len(found.residuals)


def once(candidate):
    """Its answer, seconds, and the growth of resident memory, in one run."""
    answers, times = [], []
    peak = harness.peak_growth(lambda: times.append(harness.seconds(lambda: answers.append(candidate()))))
    return answers[0], times[0], peak


def speed(options):
    s = ge.coassociation(partitions(options.n), device="cpu")
    for penalty in PENALTIES if options.penalty is None else [options.penalty]:
        candidates = {
            "transcription": lambda p=penalty: transcribed(s, p),
            "float64": lambda p=penalty: ours(s, p, "float64"),
            "float32": lambda p=penalty: ours(s, p, "float32"),
        }
        for _ in range(options.rounds):
            answers = {name: once(candidate) for name, candidate in candidates.items()}
            (reference, _), whole, _ = answers["transcription"]
            for name, ((z, n_iter), seconds, peak) in answers.items():
                print(
                    f"{penalty} n={options.n} {name:14} {seconds:7.2f} s  {whole / seconds:6.2f}x  {n_iter} steps  "
                    f"peak +{peak / (8 * options.n**2):.1f} n x n x 8 bytes  Z off by {abs(z - reference).max():.1e}",
                    flush=True,
                )


def _settings(penalty):
    nuclear = penalty == "nuclear"
    return solver.Settings(
        lambda_rank=0.1 if nuclear else 1.0,
        lambda_error=0.01,
        gamma=None if nuclear else 2.0,
        n_outer=2,
        mu=None,
        rho=1.3,
        tol=1e-6,
        max_iter=200,
    )


METHODS = {
    "EAC average": lambda k, seed: ge.EAC(k, device="cpu"),
    "EAC spectral": lambda k, seed: ge.EAC(k, linkage="spectral", random_state=seed, device="cpu"),
    "RSEC": lambda k, seed: ge.RSEC(k, random_state=seed, device="cpu"),
    "RSEC float32": lambda k, seed: ge.RSEC(k, dtype="float32", random_state=seed, device="cpu"),
    "RSEC embedding": lambda k, seed: ge.RSEC(k, assign="embedding", random_state=seed, device="cpu"),
    "NRSEC": lambda k, seed: ge.RSEC(k, penalty="gamma", random_state=seed, device="cpu"),
    "NRSEC float32": lambda k, seed: ge.RSEC(k, penalty="gamma", dtype="float32", random_state=seed, device="cpu"),
    "RSEC rank 1": lambda k, seed: ge.RSEC(k, lambda_rank=1.0, random_state=seed, device="cpu"),
    "NRSEC one step": lambda k, seed: ge.RSEC(k, penalty="gamma", n_outer=1, random_state=seed, device="cpu"),
}


def draws(path, options):
    """Labels of shuffled rows, and the truth: 100 partitions of a pool, or by k-means with k from K to sqrt(n)."""
    data = np.load(path)
    for seed in range(options.draws):
        rows = np.random.default_rng(seed).permutation(len(data["y"]))[: options.rows]
        truth = data["y"][rows]
        if "E" in data:
            yield data["E"][rows], truth
        else:
            low = len(np.unique(truth))
            high = max(low, round(len(truth) ** 0.5))
            yield ge.generate.random_k(data["X"][rows].astype(float), 100, (low, high), random_state=seed), truth


def quality(options):
    for path in sorted(options.data.glob(f"*{options.only}*.npz")):
        scores = {method: [] for method in METHODS}
        same = {penalty: [] for penalty in ("RSEC", "NRSEC")}
        for seed, (labels, truth) in enumerate(draws(path, options)):
            k = len(np.unique(truth))
            found = {method: make(k, seed).fit_predict(labels) for method, make in METHODS.items()}
            for method, one in found.items():
                scores[method].append([getattr(ge.metrics, name)(truth, one) for name in ("accuracy", "nmi")])
            for penalty, shares in same.items():
                shares.append(ge.metrics.accuracy(found[penalty], found[f"{penalty} float32"]))
        print(f"{path.stem}: n = {len(truth)}, K = {k}, {seed + 1} draws")
        for method, values in scores.items():
            accuracy, nmi = np.mean(values, axis=0)
            print(f"  {method:15} accuracy {accuracy:.3f}  NMI {nmi:.3f} +- {np.std(values, axis=0)[1]:.3f}")
        for penalty, shares in same.items():
            print(f"  {penalty}: same label in float32: {np.mean(shares):.4f} of the rows, least {min(shares):.4f}")
        sys.stdout.flush()


def stability(options):
    """How far Z moves, relative to its largest entry, if S changes by 1e-15 of itself, and in float32."""
    for path in sorted(options.data.glob(f"*{options.only}*.npz")):
        for seed, (labels, truth) in enumerate(draws(path, options)):
            s, k = ge.coassociation(labels, device="cpu"), len(np.unique(truth))
            noise = np.random.default_rng(seed).standard_normal(s.shape)
            changed = s * (1 + 1e-15 * (noise + noise.T))
            for penalty in PENALTIES:
                runs = (
                    solver.solve(given.copy(), k, _settings(penalty), np.random.default_rng(0)).representation
                    for given in (s, changed, s.astype("float32"))
                )
                z, *others = runs
                moved = [abs(other - z).max() / abs(z).max() for other in others]
                print(
                    f"{path.stem} draw {seed} {penalty}: largest entry {abs(z).max():.1f}; Z moves by {moved[0]:.1e} "
                    f"for another S, by {moved[1]:.1e} in float32",
                    flush=True,
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("speed")
    one.add_argument("--n", type=int, default=1600)
    one.add_argument("--rounds", type=int, default=1)
    one.add_argument("--penalty", choices=PENALTIES)
    one.set_defaults(run=speed)
    for name, run in (("quality", quality), ("stability", stability)):
        two = commands.add_parser(name)
        two.add_argument("data", type=Path)
        two.add_argument("--draws", type=int, default=20)
        two.add_argument("--rows", type=int, default=600)
        two.add_argument("--only", default="pool_", help="files whose name contains this (default pool_)")
        two.set_defaults(run=run)
    options = parser.parse_args()
    warnings.simplefilter("error")
    options.run(options)


if __name__ == "__main__":
    main()
