"""The costs of SEC and KCC against their definitions, row by row, with weights of rows, partitions and clusters."""

import numpy as np
import pytest

from gpuensemble._kmeans.labels import lloyd
from gpuensemble._kmeans.labels.costs import KCCCosts, SECCosts
from gpuensemble._kmeans.labels.statistics import confidence, inverse, statistics_of
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables.blocks import whole
from support import membership, onehot, random_codes

UTILITIES = ("category", "entropy", "cosine")
METHODS = ("SEC", *UTILITIES, *(f"normalized {name}" for name in UTILITIES))
WIDTHS, N_CLUSTERS = np.array([3, 1, 4, 2]), 3
ENDS = np.cumsum(WIDTHS)
UNIT = 1 / 8  # of the weights of clusters


class Case:
    """A table with weights of all kinds, a partition of it, and the costs of a method."""

    def __init__(self, name, holes=0.3, dtype="float64", clusters=True, times=True):
        rng = np.random.default_rng(5)
        self.name = name
        self.codes = random_codes(rng, 50, WIDTHS, holes)
        self.labels = rng.integers(0, N_CLUSTERS, 50).astype("int32")
        self.times = rng.integers(1, 6, 50) if times else None
        self.mu = rng.random(4) + 0.5
        units = rng.integers(4, 30, WIDTHS.sum()) if clusters else None
        self.e = np.ones(WIDTHS.sum()) if units is None else units * UNIT
        self.m = membership(np, self.codes, WIDTHS)
        self.table = whole(self.m, self.times)
        weighting = Weighting(self.mu, units, dtype, UNIT)
        if name == "SEC":
            self.costs = SECCosts.of(self.table, weighting)
        else:
            self.costs = KCCCosts.of(name.split()[-1], name.startswith("normalized"), self.table, weighting)
        self.rows = self.costs.rows(self.m, self.times)
        self.statistics = statistics_of(self.m, self.rows, self.labels, N_CLUSTERS)
        self.multiplicity = np.ones(50) if self.times is None else self.times

    def parts(self):
        """Of each partition: its one-hot columns, the weights of its clusters, and the rows that it has seen."""
        dense = onehot(self.codes, WIDTHS)
        for i, (end, width) in enumerate(zip(ENDS, WIDTHS, strict=True)):
            b = dense[:, end - width : end]
            yield i, b, self.e[end - width : end], b.any(1)

    def degrees(self):
        dense = onehot(self.codes, WIDTHS)
        return dense @ (self.e * (self.multiplicity @ dense))

    def factor(self, i, b, e):
        """mu_i, times the normalisation of Table 3 of CMVC."""
        if not self.name.startswith("normalized"):
            return self.mu[i]
        if WIDTHS[i] == 1:
            return 0.0
        share = (self.multiplicity @ b) * e / ((self.multiplicity @ b) * e).sum()
        sizes = {
            "category": (share**2).sum(),
            "entropy": -(share * np.log(share)).sum(),
            "cosine": np.sqrt((share**2).sum()),
        }
        return self.mu[i] / sizes[self.name.split()[-1]]

    def distances(self, b, e, center, i):
        """What a partition adds to the cost of its rows in a cluster with that centre."""
        if self.name == "SEC":
            w = self.degrees()[:, None]
            return self.mu[i] * (w * e * (b / w - center) ** 2).sum(1)
        utility, inside, norm = self.name.split()[-1], b @ center, (center**2).sum()
        with np.errstate(divide="ignore", invalid="ignore"):  # of the entropy, where it is infinite or not seen
            plain = {
                "category": 1 - 2 * inside + norm,
                "entropy": -np.log(inside),
                "cosine": 1 - inside / np.sqrt(norm),
            }
            return self.factor(i, b, e) * (b @ e) * plain[utility]

    def centers(self):
        """The centres C x K by their definition."""
        found = np.zeros((WIDTHS.sum(), N_CLUSTERS))
        for i, b, e, seen in self.parts():
            for k in range(N_CLUSTERS):
                times = self.multiplicity * (self.labels == k)
                weight = (times * self.degrees())[seen].sum() if self.name == "SEC" else (times @ (b * e)).sum()
                found[ENDS[i] - WIDTHS[i] : ENDS[i], k] = times @ (b if self.name == "SEC" else b * e) / weight
        return found

    def defined(self):
        """The n x K costs by their definition."""
        centers, total = self.centers(), np.zeros((50, N_CLUSTERS))
        for i, b, e, seen in self.parts():
            for k in range(N_CLUSTERS):
                distances = self.distances(b, e, centers[ENDS[i] - WIDTHS[i] : ENDS[i], k], i)
                total[seen, k] += distances[seen]
        return total


def found_costs(case):
    """The n x K costs of the tables, whose constants and scale are put back."""
    tables = case.costs.priced(case.statistics, case.m.complete).tables
    weight = 1 if case.rows.weight is None else case.rows.weight[:, None]
    dense, seen = onehot(case.codes, WIDTHS), (case.codes >= 0).astype(float)
    parts = tables.per_partition
    if len(parts) == len(WIDTHS):
        parts = seen @ parts
    else:
        assert case.m.complete or not parts.any()
    tables.table[np.isinf(tables.table)] = 1e300
    found = (dense @ tables.table + weight * parts + case.rows.constant[:, None]) / case.costs.scale
    return np.where(found > 1e200, np.inf, found)


CASES = {
    "holes and weights": {},
    "complete": {"holes": 0},
    "no weights": {"clusters": False, "times": False},
    "complete without weights": {"holes": 0, "clusters": False, "times": False},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", METHODS)
def test_costs_centres_and_objective_are_their_definition(name, options):
    case = Case(name, **options)
    expected = case.defined()
    np.testing.assert_allclose(found_costs(case), expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(case.costs.centers(case.statistics), case.centers(), rtol=1e-12)
    problem = lloyd.Problem.of(case.table, case.costs, N_CLUSTERS)
    total = (case.multiplicity * expected[np.arange(50), case.labels]).sum()
    objective, empty = problem.priced(case.statistics).facts
    assert objective == pytest.approx(total, rel=1e-11)
    assert empty == 0


@pytest.mark.parametrize("name", METHODS)
def test_scaled_costs_are_near_one(name):
    """So that no sum of them is subnormal, or too large for a float32."""
    for size in (1e-150, 1, 1e150):
        case = Case(name)
        weighting = Weighting(case.mu * size, None, "float32")
        utility, normalized = name.split()[-1], name.startswith("normalized")
        costs = (
            SECCosts.of(case.table, weighting)
            if name == "SEC"
            else KCCCosts.of(utility, normalized, case.table, weighting)
        )
        constant = costs.rows(case.m).constant
        if name.split()[-1] != "entropy":
            assert 1 <= constant.max() < 16
        table = costs.priced(case.statistics, False).tables.table
        assert table.dtype == "float32"
        assert 0.02 < np.abs(table[np.isfinite(table)]).max() < 32
        assert np.log2(costs.scale) % 1 == 0


def test_the_weights_of_rows_in_sec_are_their_degrees():
    for dtype in ("float32", "float64"):
        case = Case("SEC", dtype=dtype)
        degrees = case.degrees() / UNIT
        np.testing.assert_array_equal(case.rows.mass, degrees * case.times)
        np.testing.assert_array_equal(case.rows.weight, degrees.astype(dtype))
        assert case.rows.weight.dtype == dtype
        assert case.costs.weights == (degrees.min(), degrees.max())
        assert case.costs.unit == UNIT
        alone = case.costs.rows(case.m, constant=False)
        assert alone.constant is None
        np.testing.assert_array_equal(alone.mass, degrees)


@pytest.mark.parametrize("bits", [27, 28, 29])
def test_masses_keep_as_many_bits_as_their_sum_has_room_for(bits):
    codes = np.array([[0, 0], [0, 1], [1, 1], [2, 0]])
    m, times = membership(np, codes, [3, 2]), np.array([1, 2, 3, 4]) << bits
    costs = SECCosts.of(whole(m, times), Weighting(np.ones(2), None, "float64"))
    dense = onehot(codes, [3, 2]).astype("int64").astype(object)
    degrees = dense @ (times.astype(object) @ dense)
    total = int((degrees * times.astype(object)).sum())
    shift = max(0, total.bit_length() - 61)
    assert costs.shift == shift
    assert costs.unit == 2.0**shift
    half = (1 << shift) // 2
    np.testing.assert_array_equal(costs.rows(m).mass, [(int(degree) + half) >> shift for degree in degrees])
    np.testing.assert_allclose(costs.rows(m).constant * degrees.astype(float) / costs.scale, 2, rtol=1e-6)


def test_rows_that_do_not_count_have_a_degree():
    codes = np.array([[0], [0], [1]])
    m, times = membership(np, codes, [2]), np.array([1, 1, 0])
    costs = SECCosts.of(whole(m, times), Weighting(np.ones(1), None, "float64"))
    np.testing.assert_array_equal(costs.rows(m).mass, [2, 2, 1])
    assert costs.weights == (1, 2)


def test_an_unseen_distribution_is_that_of_the_whole_partition():
    """A cluster whose rows all lack a partition: its costs with the entropy utility are those of all rows."""
    codes = np.array([[0, 0], [0, 1], [1, 1], [1, 1], [1, -1]])
    m = membership(np, codes, [2, 2])
    costs = KCCCosts.of("entropy", False, whole(m), Weighting(np.ones(2), None, "float64"))
    labels = np.array([0, 0, 0, 0, 1], "int32")
    tables = costs.priced(statistics_of(m, costs.rows(m), labels, 2), False).tables
    np.testing.assert_allclose(tables.table[2:, 1], -np.log([0.25, 0.75]))


def test_a_partition_that_does_not_count_costs_nothing_where_it_is_infinite():
    codes = np.array([[0, 0], [1, 1]])
    m = membership(np, codes, [2, 2])
    costs = KCCCosts.of("entropy", False, whole(m), Weighting(np.array([1.0, 0.0]), None, "float64"))
    tables = costs.priced(statistics_of(m, costs.rows(m), np.array([0, 1], "int32"), 2), True).tables
    np.testing.assert_array_equal(tables.table, [[0, np.inf], [np.inf, 0], [0, 0], [0, 0]])
    nothing = KCCCosts.of("category", False, whole(m), Weighting(np.zeros(2), None, "float64"))
    assert nothing.scale == 1


def test_a_partition_all_of_whose_rows_that_count_are_in_one_cluster_does_not_count():
    """It has no entropy to be normalised by."""
    codes, times = np.array([[0, 0], [0, 1], [1, 0]]), np.array([1, 1, 0])
    m = membership(np, codes, [2, 2])
    costs = KCCCosts.of("entropy", True, whole(m, times), Weighting(np.ones(2), None, "float64"))
    np.testing.assert_allclose(costs.of_partition[:, 0], [0, 1 / np.log(2)])
    np.testing.assert_array_equal(inverse(np.array([4, 0, 1])), [0.25, 0, 1])


CONFIDENCES = {
    "half": (1.0, 2.0, 0.5),
    "small costs": (2.0**-9, 2.0**-8, 0.5),
    "a tie": (2.0, 2.0, 0.0),
    "on the centre": (0.0, 3.0, 1.0),
    "both on the centre": (0.0, 0.0, 0.0),
    "rounded below zero": (-1e-17, 2.0, 1.0),
    "both rounded below zero": (-1e-17, -1e-18, 0.0),
    "no other cluster is possible": (1.0, np.inf, 1.0),
    "no cluster is possible": (np.inf, np.inf, 0.0),
}


@pytest.mark.parametrize(("best", "second", "expected"), CONFIDENCES.values(), ids=CONFIDENCES)
def test_the_confidence_is_one_minus_a_ratio(best, second, expected):
    assert confidence(np.array([best]), np.array([second])).tolist() == [expected]
