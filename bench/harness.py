"""The harness of the package, for the benches of this folder."""

from gpuensemble._harness import Case, line, main, run

__all__ = ["Case", "line", "main", "run"]
