"""Labels that differ are counted as the category distance defines them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gpuensemble._kernels.cpu.kmeans import differing as counting
from support import membership, random_codes


@pytest.mark.parametrize("holes", [0.0, 0.4])
@pytest.mark.parametrize("width", [3, 300])  # codes of one byte, and of two
def test_differing_labels_are_the_category_distance(holes, width):
    widths = [width, 4, 5]
    codes = random_codes(np.random.default_rng(0), 50, np.array(widths), holes)
    m = membership(np, codes, widths)
    chosen, seen = codes[[7, 3]], codes >= 0
    expected = ((codes != chosen[:, None]) * seen * np.where(chosen[:, None] >= 0, 2, 1)).sum(2)
    found, sums = counting.differing(m, counting.by_partition(m), m.codes[[7, 3]], None)
    assert_array_equal(found, expected)
    assert_array_equal(sums, expected.sum(1))
    nearest = np.full(50, 2, "int32")
    found, sums = counting.differing(m, counting.by_partition(m), m.codes[[7, 3]], nearest)
    assert_array_equal(found, np.minimum(expected, 2))
    assert_array_equal(sums, found.sum(1))
