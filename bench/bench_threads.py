"""Threads: what one and all of them take, on an idle machine and beside a second process that never rests.

python bench/bench_threads.py pieces [--sizes 300 1000 2000] [--repeat 5]
python bench/bench_threads.py methods [--rows 500] [--repeat 11] [--only LTA RSEC]

`pieces` times NumPy and SciPy with one and with all threads of BLAS: why a fit gives BLAS one; the least time counts.
`methods` times whole fits in turns in two processes: with one thread in our pool and in BLAS, and with as many as there
are cores. A ratio is the median of those of the rounds. None should be below 1, but for noise.
"""

import argparse
import os
import subprocess
import sys

import harness
import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

import gpuensemble as ge

METHODS = {
    "LTA": lambda k: ge.LTA(k, random_state=0, device="cpu"),
    "LTA sample": lambda k: ge.LTA(k, transform="sample", random_state=0, device="cpu"),
    "RSEC": lambda k: ge.RSEC(k, random_state=0, device="cpu"),
    "NRSEC": lambda k: ge.RSEC(k, penalty="gamma", random_state=0, device="cpu"),
    "EAC": lambda k: ge.EAC(k, device="cpu"),
    "PTA": lambda k: ge.PTA(k, device="cpu"),
    "CSPA": lambda k: ge.CSPA(k, random_state=0, device="cpu"),
    "PCE": lambda k: ge.PCE(k, random_state=0, device="cpu"),
    "NMFC": lambda k: ge.NMFC(k, random_state=0, device="cpu"),
    "ECPCS": lambda k: ge.ECPCS(k, device="cpu"),
    "ClusterWalk": lambda k: ge.ClusterWalk(k, device="cpu"),
    "LWGP": lambda k: ge.LWGP(k, random_state=0, device="cpu"),
    "SEC": lambda k: ge.SEC(k, random_state=0, device="cpu"),
    "SEC random": lambda k: ge.SEC(k, init="random", random_state=0, device="cpu"),
    "HBGF": lambda k: ge.HBGF(k, random_state=0, device="cpu"),
    "KCC": lambda k: ge.KCC(k, random_state=0, device="cpu"),
}


def least(function, repeat):
    return min(harness.seconds(function) for _ in range(repeat))


def pieces(options):
    rng = np.random.default_rng(0)
    for n in options.sizes:
        square, thin = rng.standard_normal((n, n)), rng.standard_normal((n, 100))
        symmetric, definite = square + square.T, square @ square.T / n + np.eye(n)
        work = {
            "product n x n x n": lambda a=square, b=symmetric: a @ b,
            "product n x n x 100": lambda a=square, b=thin: a @ b,
            "QR n x 100": lambda a=thin: np.linalg.qr(a),
            "eigh": lambda a=symmetric: scipy.linalg.eigh(a, driver="evd"),
            "Cholesky": lambda a=definite: np.linalg.cholesky(a),
        }
        for name, function in work.items():
            found = []
            for busy in (False, True):
                with harness.busy(busy):
                    for limit in (1, os.cpu_count()):
                        with threadpool_limits(limit, "blas"):
                            found.append(1e3 * least(function, options.repeat))
            print(
                f"n = {n:5} {name:20} one / all threads: idle {found[0]:8.2f} / {found[1]:8.2f} ms, "
                f"busy {found[2]:8.2f} / {found[3]:8.2f} ms",
                flush=True,
            )


class Fits:
    """A process that has so many threads, and fits when it is told to."""

    def __init__(self, name, rows, threads):
        environment = os.environ | dict.fromkeys(harness.THREADS, str(threads))
        command = [sys.executable, __file__, "one", name, "--rows", str(rows)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)

    def seconds(self):
        """Let it fit once, and return how long that took; the first time waits until all is compiled."""
        self.process.stdin.write("fit\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.communicate()


def one(options):
    """For each line that comes in, print how long a fit takes."""
    import warnings

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    points = rng.normal(0, 1.5, (10, 8))[rng.integers(0, 10, options.rows)] + rng.standard_normal((options.rows, 8))
    labels = ge.generate.random_k(points, 20, (2, round(options.rows**0.5)), random_state=0, device="cpu")
    METHODS[options.name](10).fit(labels)  # compiles
    for _ in sys.stdin:
        print(harness.seconds(lambda: METHODS[options.name](10).fit(labels)), flush=True)


def in_turns(fits, repeat):
    """The median times of both processes, and the median ratio within a round."""
    times = np.array([[process.seconds() for process in fits] for _ in range(repeat)])
    return *np.median(times, 0), np.median(times[:, 0] / times[:, 1])


def methods(options):
    cores = os.cpu_count()
    for name in options.only or METHODS:
        fits = [Fits(name, options.rows, threads) for threads in (1, cores)]
        in_turns(fits, 1)
        found = []
        for busy in (False, True):
            with harness.busy(busy):
                found += in_turns(fits, options.repeat)
        for process in fits:
            process.end()
        print(
            f"{name:12} n = {options.rows}: idle {found[0]:7.3f} s with 1, {found[1]:7.3f} s with {cores} threads, "
            f"ratio {found[2]:.2f}; busy {found[3]:7.3f} s, {found[4]:7.3f} s, ratio {found[5]:.2f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("pieces")
    first.add_argument("--sizes", type=int, nargs="+", default=[300, 1000, 2000])
    second = commands.add_parser("methods")
    second.add_argument("--only", nargs="+", choices=METHODS)
    third = commands.add_parser("one")
    third.add_argument("name", choices=METHODS)
    for command, run in ((first, pieces), (second, methods), (third, one)):
        command.set_defaults(run=run)
    for command, rounds in ((first, 3), (second, 11)):
        command.add_argument("--repeat", type=int, default=rounds)
    for command in (second, third):
        command.add_argument("--rows", type=int, default=500)
    options = parser.parse_args()
    print(harness.machine()) if options.run is not one else None
    options.run(options)


if __name__ == "__main__":
    main()
