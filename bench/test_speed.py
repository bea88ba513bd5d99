"""The cases of `gpuensemble bench` for pytest-benchmark, which keeps and compares runs.

python -m pytest bench/test_speed.py --benchmark-group-by=param:case --benchmark-autosave
"""

import pytest

from gpuensemble._array.devices import cuda_count
from gpuensemble._cli.bench import cases as bench_cases
from gpuensemble._cli.bench.harness import synchronize

SAMPLES = 5000
DEVICES = ["cpu", *(f"cuda:{i}" for i in range(cuda_count()))]
CASES = {case.name: case for case in bench_cases.cases(DEVICES, SAMPLES, bench_cases.SOLVED)}


@pytest.mark.parametrize(
    ("case", "candidate"), [(name, candidate) for name, case in CASES.items() for candidate in case.candidates]
)
def test_speed(benchmark, case, candidate):
    one = CASES[case]
    expected = one.candidates[one.peer]()
    assert one.agree(one.candidates[candidate](), expected)

    def finished():
        one.candidates[candidate]()
        synchronize()

    benchmark(finished)
