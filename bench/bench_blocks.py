"""Tables that do not fit into memory: from disk against memory, one worker against two, bytes sent, peak memory.

python bench/bench_blocks.py streaming [--rows 2000000] [--device cuda]
python bench/bench_blocks.py workers [--share 1]
python bench/bench_blocks.py memory [--rows 20000000] [--k 10] [--loaded] [--folder .]

`streaming` and `workers` run Lloyd's iteration of SEC from one start, every row evaluated in every iteration, and time
an iteration. `memory` writes a file of 20 partitions to the folder and runs a whole fit of it in a process of its own,
from disk or, with `--loaded`, in memory.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ITERATIONS = 4  # timed, after one to warm up


def write(path, n, r, k, clusters, holes=0.0):
    """Noisy copies of a hidden partition, n x r int8, a block of rows at a time."""
    import numpy as np

    rng = np.random.default_rng(0)
    names = rng.integers(0, clusters, (r, k))
    out = np.lib.format.open_memmap(path, "w+", "int8", (n, r))
    for first in range(0, n, 1 << 18):
        rows = min(n, first + (1 << 18)) - first
        truth = rng.integers(0, k, rows)
        labels = names[:, truth].T.astype("int8")
        noise = rng.random((rows, r)) < 0.4
        labels[noise] = rng.integers(0, clusters, int(noise.sum()))
        if holes:
            labels[rng.random((rows, r)) < holes] = -1
            labels[:, 0] = np.maximum(labels[:, 0], 0)
        out[first : first + rows] = labels
    out.flush()


def iterations(table, k):
    """Seconds of each iteration."""
    import numpy as np

    from gpuensemble._kmeans.labels import labellings, lloyd
    from gpuensemble._kmeans.labels.costs import SECCosts
    from gpuensemble._kmeans.labels.weights import Weighting

    costs = SECCosts.of(table, Weighting(np.ones(len(table.widths)), None, "float64"))
    start = labellings.Given(np.random.default_rng(0).integers(0, k, table.n_rows).astype("int32"))
    problem = lloyd.Problem.of(table, costs, k)
    times = [time.perf_counter()]
    lloyd.lloyd(problem, start, ITERATIONS + 1, skip=False, after_each=lambda *_: times.append(time.perf_counter()))
    return [after - before for before, after in itertools.pairwise(times[1:])]


def streaming(options):
    import numpy as np

    from gpuensemble._tables import sources

    for r, k, clusters in ((20, 10, 20), (50, 20, 40)):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            path = Path(folder) / "labels.npy"
            write(path, options.rows, r, k, clusters)
            loaded = np.load(path)
            ratios = []
            for _ in range(options.repeat):
                inside = statistics.median(iterations(sources.table(loaded, options.device, None, None)[0], k))
                streamed = statistics.median(iterations(sources.table(path, options.device, None, None)[0], k))
                ratios.append(streamed / inside)
            print(
                f"n={options.rows:,} r={r} K={k}: in memory {options.rows / inside / 1e6:.2f} million rows/s, streamed "
                f"{options.rows / streamed / 1e6:.2f}; streamed takes {statistics.median(ratios):.2f}x "
                f"({min(ratios):.2f} to {max(ratios):.2f})",
                flush=True,
            )


def workers(options):
    import psutil
    from distributed import Client, LocalCluster

    from gpuensemble._tables import sources

    for rows, r, k, clusters, holes in (
        (8_000_000, 50, 20, 40, 0.0),
        (600_000, 100, 100, 100, 0.0),
        (600_000, 100, 100, 100, 0.8),
    ):
        n = max(1, round(rows * options.share))
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            path = Path(folder) / "labels.npy"
            write(path, n, r, k, clusters, holes)
            seconds = {1: [], 2: []}
            sent = {}
            for _ in range(options.repeat):
                for n_workers, of_workers in seconds.items():
                    with (
                        LocalCluster(
                            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
                        ) as cluster,
                        Client(cluster) as client,
                    ):
                        table, _ = sources.table(path, "cpu", client, None)
                        before = psutil.net_io_counters(pernic=True)["lo"].bytes_sent
                        times = iterations(table, k)
                        after = psutil.net_io_counters(pernic=True)["lo"].bytes_sent
                        of_workers.append(statistics.median(times))
                        sent[n_workers] = (after - before) / (ITERATIONS + 1)
                        del table
        ratio = statistics.median(one / two for one, two in zip(seconds[1], seconds[2], strict=True))
        print(
            f"n={n:,} r={r} K={k}, {holes:.0%} holes: an iteration takes {statistics.median(seconds[1]):.2f} s on one "
            f"worker, {statistics.median(seconds[2]):.2f} s on two: {ratio:.2f}x; {sent[2] / 1e6:.1f} MB sent per "
            f"iteration on two workers, all told, and a table of C x K numbers has {r * clusters * k * 8 / 1e6:.1f} MB",
            flush=True,
        )


def memory(options):
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "labels.npy"
        write(path, options.rows, 20, options.k, 20)
        command = [sys.executable, __file__, "fit", str(path), str(Path(folder) / "out.npy"), "--k", str(options.k)]
        command += ["--loaded"] * options.loaded
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
    per_row = (found["peak"] - found["before"]) / options.rows
    print(
        f"n={options.rows:,} r=20 K={options.k}: fit in {found['seconds']:.0f} s, {found['iterations']} iterations; "
        f"anonymous memory {found['before'] / 1e6:.0f} MB before, {found['peak'] / 1e6:.0f} MB at its peak: "
        f"{per_row:.1f} bytes a row"
    )


def fit(options):
    """In a process of its own: a fit, and its peak of anonymous memory."""
    import numpy as np

    import gpuensemble as ge

    ge.SEC(2, device="cpu").fit([[0, 0], [0, 0], [1, 1], [1, 1]])  # compiles
    peaks, done = [anonymous()], threading.Event()
    before = peaks[0]

    def watch():
        while not done.wait(0.02):
            peaks.append(anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    labels = np.load(options.path) if options.loaded else options.path
    fitted = ge.SEC(options.k, random_state=0, device="cpu", out=options.out).fit(labels)
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    print(json.dumps({"before": before, "peak": max(peaks), "seconds": seconds, "iterations": fitted.n_iter_}))


def anonymous():
    """Bytes of memory that no file backs."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    for name, run, rows in (
        ("streaming", streaming, 2_000_000),
        ("workers", workers, 0),
        ("memory", memory, 20_000_000),
    ):
        part = parts.add_parser(name)
        part.set_defaults(run=run)
        part.add_argument("--rows", type=int, default=rows)
        part.add_argument("--share", type=float, default=1.0, help="of the rows of `workers`")
        part.add_argument("--repeat", type=int, default=3)
        part.add_argument("--device", default="cpu", help="of `streaming`: cpu, cuda, cuda:N or cuda:all")
        part.add_argument("--folder", default=None, help="where the table goes for the time of the run")
    inner = parts.add_parser("fit")
    inner.set_defaults(run=fit)
    inner.add_argument("path")
    inner.add_argument("out")
    for one in (part, inner):  # of `memory`, and the process that it starts
        one.add_argument("--k", type=int, default=10, help="clusters")
        one.add_argument("--loaded", action="store_true", help="in memory, not from disk")
    options = parser.parse_args()
    if options.run is workers and os.environ.get("NUMBA_NUM_THREADS") != "1":
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"NUMBA_NUM_THREADS": "1"})
    options.run(options)


if __name__ == "__main__":
    main()
