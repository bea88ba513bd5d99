"""The harness of the package, for the benches of this folder."""

from gpuensemble._cli.bench.harness import Case, line, main, peak_growth, run, seconds
from gpuensemble._cli.bench.machine import describe as machine
from gpuensemble._cli.bench.processes import THREADS, busy

__all__ = ["THREADS", "Case", "busy", "line", "machine", "main", "peak_growth", "run", "seconds"]
