"""A mutation reaches the kernels that it can change, and no other."""

import pytest

from cudasim.mutants import mutated

CODE = """
inline int twice(int i) { return i + i; }
template <typename T>
__global__ void one(T* out) {
    if (out) { out[0] = 1; }
}
__global__ void two(int* out) { out[0] = twice(2); }
"""


@pytest.mark.parametrize(
    ("old", "changed"),
    [
        ("out[0] = 1;", ["one<int>"]),
        ("twice(2)", ["two"]),
        ("i + i", ["one<int>", "two"]),
        ("T* out", ["one<int>", "two"]),
        ("}\n}\n__global__", ["one<int>", "two"]),
        ("}\n}", ["one<int>", "two"]),
    ],
)
def test_what_a_mutation_reaches(old, changed):
    assert CODE.count(old) == 1
    texts = {expression: mutated(CODE, old, "new", expression) for expression in ("one<int>", "two")}
    assert texts == {kernel: CODE.replace(old, "new") if kernel in changed else CODE for kernel in texts}
