"""The membership operator against the dense one-hot matrix, on every array library."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import gpuensemble as ge
from gpuensemble._array import rows
from gpuensemble._kernels import products
from support import check, membership, onehot, oracle_assign, problems, random_codes

on_every_library = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
slow = settings(on_every_library, max_examples=15)


@given(problem=problems())
@slow
def test_products_equal_the_dense_matrix(xp, problem):
    codes, widths, table, _, _ = problem
    table = np.where(np.isinf(table), 0, table)
    rows = np.linspace(-1, 1, len(codes) * table.shape[1]).reshape(len(codes), -1).astype(table.dtype)
    m, dense = membership(xp, codes, widths), onehot(codes, widths).astype(table.dtype)
    assert m.shape == dense.shape
    check(m.gather_sum(xp.asarray(table)), dense @ table, xp)
    check(m.scatter_add(xp.asarray(rows)), dense.T @ rows, xp)
    check(m.coassociation_dot(xp.asarray(rows)), (dense @ (dense.T @ rows) / dense.dtype.type(len(widths))), xp)


@given(problem=problems(dtypes=("float64",)))
@slow
def test_h_and_its_transpose_are_adjoint(xp, problem):
    codes, widths, table, _, _ = problem
    table = np.where(np.isinf(table), 0, table)
    rows = np.random.default_rng(0).standard_normal((len(codes), table.shape[1]))
    m = membership(xp, codes, widths)
    left = float((m.gather_sum(xp.asarray(table)) * xp.asarray(rows)).sum())
    right = float((m.scatter_add(xp.asarray(rows)) * xp.asarray(table)).sum())
    assert left == pytest.approx(right, rel=1e-10, abs=1e-10 * np.abs(table).sum())


@given(problem=problems())
@slow
def test_assign_is_the_oracle_to_the_last_bit(xp, problem):
    codes, widths, table, per_partition, weight = problem
    labels, costs = membership(xp, codes, widths).assign(*map(xp.asarray, (table, per_partition, weight)))
    expected_labels, expected_costs = oracle_assign(codes, widths, table, per_partition, weight)
    check(labels, expected_labels, xp)
    check(costs, expected_costs, xp, exact=True)


@pytest.mark.parametrize("holes", [0, 0.4])
def test_assign_without_a_weight_or_costs_of_partitions(xp, holes):
    rng, widths = np.random.default_rng(0), np.array([3, 4])
    codes = random_codes(rng, 30, widths, holes)
    table, parts, weight = rng.standard_normal((7, 5)), rng.standard_normal((2, 5)), rng.random(30)
    m = membership(xp, codes, widths)
    default = {"per_partition": np.zeros((2, 5)), "weight": np.ones(30)}
    for options in ({}, {"per_partition": parts}, {"weight": weight}):
        labels, costs = m.assign(xp.asarray(table), **{name: xp.asarray(value) for name, value in options.items()})
        expected_labels, expected_costs = oracle_assign(codes, widths, table, **default | options)
        check(labels, expected_labels, xp)
        check(costs, expected_costs, xp, exact=True)


@given(problem=problems())
@slow
def test_counts_sizes_and_degrees_equal_the_dense_matrix(xp, problem):
    codes, widths, *_ = problem
    rng = np.random.default_rng(len(codes))
    labels, weight = rng.integers(0, 6, len(codes)), rng.integers(0, 1000, len(codes)) << 32
    m, dense = membership(xp, codes, widths), onehot(codes, widths).astype("int64")
    check(m.count(xp.asarray(labels), 6), dense.T @ np.eye(6, dtype="int64")[labels], xp)
    check(m.count(xp.asarray(labels), 6, xp.asarray(weight)), (dense.T * weight) @ np.eye(6, dtype="int64")[labels], xp)
    check(m.sizes(), dense.sum(0), xp)
    check(m.degrees(), dense @ dense.sum(0), xp)
    check(m.degrees(xp.asarray(weight)), dense @ (weight @ dense), xp)


@given(problem=problems())
@slow
def test_coassociation_counts_agreements(xp, problem):
    codes, widths, *_ = problem
    seen = (codes >= 0).astype(float)
    dense, r = onehot(codes, widths), len(widths)
    agree, both = dense @ dense.T, seen @ seen.T
    m = membership(xp, codes, widths)
    check(m.coassociation(), agree / r, xp, exact=True)
    check(m.coassociation(missing="signed"), (agree - (both - agree)) / r, xp, exact=True)
    with np.errstate(invalid="ignore"):
        check(m.coassociation(missing="seen"), agree / both, xp, exact=True)
    half = len(codes) // 2
    check(
        m.coassociation(slice(half, None), dtype="float32"), (agree[half:].astype("f") / np.float32(r)), xp, exact=True
    )


def test_coassociation_of_labels_comes_back_in_the_callers_library(xp):
    labels = np.array([[0, 0, 1], [0, 0, -1], [1, 0, 1]])
    check(ge.coassociation(xp.asarray(labels), device="cpu"), np.array([[3, 2, 2], [2, 2, 1], [2, 1, 3]]) / 3, xp)
    signed = np.array([[3, 2, 1], [2, 2, 0], [1, 0, 3]]) / 3
    check(ge.coassociation(xp.asarray(labels), missing="signed"), signed, xp)


def test_coassociation_of_those_that_saw_both_is_not_a_number_where_none_did(xp):
    labels = np.array([[0, -1, 1], [0, 0, -1], [-1, 0, 1], [-1, -1, 0]])
    expected = np.array([[1, 1, 1, 0], [1, 1, 1, np.nan], [1, 1, 1, 0], [0, np.nan, 0, 1]])
    for dtype in ("float64", "float32"):
        check(ge.coassociation(xp.asarray(labels), "seen", dtype=dtype), expected.astype(dtype), xp, exact=True)


@given(problem=problems())
@slow
def test_merging_gives_the_distinct_rows(xp, problem):
    codes, widths, *_ = problem
    codes = np.concatenate([codes, codes[::-2], codes[:1]])
    merged = membership(xp, codes, widths).merge()
    whole = membership(xp, codes, widths)
    group, multiplicity = merged.group.get() if xp is not np else merged.group, merged.multiplicity
    distinct = membership(xp, codes[np.sort(np.unique(codes, axis=0, return_index=True)[1])], widths)
    check(merged.membership.codes, np.asarray(distinct.codes.get() if xp is not np else distinct.codes), xp)
    assert bool((merged.membership.codes[merged.group] == whole.codes).all())
    check(multiplicity, np.bincount(group), xp)
    assert merged.membership.complete == whole.complete


def same_membership(m, xp, codes, widths, categories):
    """The codes, with -1 for a hole, and all that a Membership knows of them."""
    hole = np.array(-1).astype(m.codes.dtype)
    found = m.codes.get() if xp is not np else m.codes
    np.testing.assert_array_equal(np.where(found == hole, -1, found.astype("int64")), codes)
    assert m.widths.tolist() == list(widths)
    check(m.offsets, np.cumsum([0, *widths]).astype("int32"), xp)
    assert m.shape == (len(codes), m.n_columns) == (len(codes), sum(widths))
    assert m.complete == bool((codes >= 0).all())
    assert m.categories is categories


def test_memberships_are_made_of_others(xp):
    codes = np.array([[0, 0], [2, -1], [1, 3], [2, 1]])
    m = membership(xp, codes, [3, 4])
    same_membership(m, xp, codes, [3, 4], None)
    m.categories = names = [np.array(list("abc")), np.array(list("wxyz"))]
    assert m.take(slice(1, 3)).complete == m.complete
    same_membership(m.take(xp.asarray([3, 1])), xp, codes[[3, 1]], [3, 4], names)
    same_membership(m.partitions(1, 2), xp, codes[:, 1:], [4], None)
    other = np.array([[2, 3], [0, 0]])
    same_membership(m.filled(xp.asarray(other).astype("uint8")), xp, other, [3, 4], names)
    again = ge.Membership.from_coded(m.codes, m.widths, False, names, m.device)
    assert again.codes is m.codes
    same_membership(again, xp, codes, [3, 4], names)


def test_known_labels_keep_their_columns(xp):
    categories = [np.array([3, 5, 9]), np.array([0, 1])]
    labels = np.array([[9, 1], [4, 0], [3, -1], [5, 1]])
    m, unknown = ge.Membership.from_known_labels(xp.asarray(labels), categories)
    assert unknown == 1
    same_membership(m, xp, np.array([[2, 1], [-1, 0], [0, -1], [1, 1]]), [3, 2], categories)


def test_merging_tries_another_hash_where_two_rows_collide(monkeypatch):
    hashes = []

    def weak(codes, seed):
        hashes.append(seed)
        return np.zeros(len(codes), "uint64") if seed == 0 else strong(codes, seed)

    strong = rows._folded
    monkeypatch.setattr(rows, "_folded", weak)
    merged = ge.Membership([[0], [1], [0]], [2], device="cpu").merge()
    assert hashes == [0, 1]
    assert merged.group.tolist() == [0, 1, 0]


def test_large_sums_over_rows_go_through_segments(xp):
    rng = np.random.default_rng(3)
    widths = [5, 3]
    codes = random_codes(rng, 3 * products.SEGMENT_ROWS + 17, widths)
    rows = rng.standard_normal((len(codes), 3))
    m = membership(xp, codes, widths)
    expected = membership(np, codes, widths).scatter_add(rows)
    np.testing.assert_allclose(expected, onehot(codes, widths).T @ rows, rtol=1e-10, atol=1e-10)
    check(m.scatter_add(xp.asarray(rows)), expected, xp, exact=True)


@pytest.mark.parametrize(("widest", "dtype"), [(255, "uint8"), (256, "uint16"), (65535, "uint16"), (65536, "int32")])
def test_codes_are_as_narrow_as_the_widest_partition_allows(xp, widest, dtype):
    codes = np.array([[0, widest - 1], [1, -1], [-1, 0]])
    m = membership(xp, codes, [2, widest])
    assert m.codes.dtype == dtype
    table = np.arange(m.n_columns, dtype="int64")[:, None] + 1
    check(m.gather_sum(xp.asarray(table))[:, 0], np.array([1 + 2 + widest, 2, 3]), xp)
    again = ge.Membership(m.codes, m.widths)
    assert bool((again.codes == m.codes).all())


def test_weights_that_would_overflow_are_refused():
    m = ge.Membership([[0, 0], [1, 0]], [2, 1], device="cpu")
    with pytest.raises(ValueError, match=r"`weight` must add up to less than 2\*\*62 / 2, got 6\.92e\+18\."):
        m.sizes([2**62, 2**61])


BAD_CALLS = {
    "columns of a table": (lambda m, xp: m.gather_sum(xp.zeros((3, 2))), "`table` must have n_columns=5 rows"),
    "axes of a table": (
        lambda m, xp: m.gather_sum(xp.zeros(5)),
        r"`table` must have 2 axes, got an array of shape \(5,\).",
    ),
    "nan in a table": (
        lambda m, xp: m.gather_sum(xp.full((5, 1), xp.nan)),
        r"`table` must be finite, got nan at \[0, 0\].",
    ),
    "nan in costs": (lambda m, xp: m.assign(xp.full((5, 1), xp.nan)), "`table` must not hold NaN or -inf, got nan"),
    "-inf in costs": (lambda m, xp: m.assign(xp.full((5, 1), -xp.inf)), "`table` must not hold NaN or -inf, got -inf"),
    "complex table": (
        lambda m, xp: m.gather_sum(xp.zeros((5, 1), complex)),
        "`table` must hold numbers, got dtype complex128",
    ),
    "rows of rows": (lambda m, xp: m.scatter_add(xp.zeros((4, 2))), "`rows` must have n_samples=3 rows"),
    "inf in rows": (
        lambda m, xp: m.scatter_add(xp.full((3, 2), xp.inf)),
        r"`rows` must be finite, got inf at \[0, 0\].",
    ),
    "no column": (lambda m, xp: m.scatter_add(xp.zeros((3, 0))), "at least one column"),
    "parts": (lambda m, xp: m.assign(xp.zeros((5, 2)), xp.zeros((2, 3))), r"as many columns as `table`, 2, got 3"),
    "rows of parts": (
        lambda m, xp: m.assign(xp.zeros((5, 2)), xp.zeros((1, 2))),
        "`per_partition` must have n_partitions=2",
    ),
    "weight": (
        lambda m, xp: m.assign(xp.zeros((5, 2)), None, xp.ones(2)),
        "`weight` must have n_samples=3 entries, got 2.",
    ),
    "nan weight": (
        lambda m, xp: m.assign(xp.zeros((5, 2)), None, xp.full(3, xp.nan)),
        "`weight` must be finite, got nan",
    ),
    "label too large": (
        lambda m, xp: m.count(xp.asarray([0, 1, 2]), 2),
        "`labels` must be between 0 and n_clusters - 1 = 1, got 2.",
    ),
    "negative label": (lambda m, xp: m.count(xp.asarray([0, -1, 0]), 2), "got -1."),
    "number of labels": (
        lambda m, xp: m.count(xp.asarray([0, 1]), 2),
        "`labels` must have n_samples=3 entries, got 2.",
    ),
    "float labels": (lambda m, xp: m.count(xp.zeros(3), 2), "`labels` must hold integers, got dtype float64."),
    "n_clusters": (lambda m, xp: m.count(xp.asarray([0, 0, 0]), 0), "`n_clusters` must be at least 1, got 0."),
    "n_clusters type": (
        lambda m, xp: m.count(xp.asarray([0, 0, 0]), 2.0),
        "`n_clusters` must be an integer, got 2.0 of type float.",
    ),
    "negative weight": (lambda m, xp: m.sizes(xp.asarray([1, -1, 1])), "`weight` must not be negative, got -1."),
    "missing": (
        lambda m, xp: m.coassociation(missing="zero"),
        "`missing` must be one of 'ignore', 'signed', 'seen', got 'zero'.",
    ),
    "step": (lambda m, xp: m.coassociation(slice(0, 3, 2)), "`rows` must be a slice with step 1"),
    "no rows": (lambda m, xp: m.coassociation(slice(3, 3)), "at least one of the n_samples=3 rows"),
}


@pytest.mark.parametrize(("call", "message"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_bad_arguments_get_one_sentence_and_no_kernel(xp, monkeypatch, call, message):
    m = membership(xp, np.array([[0, 0], [1, -1], [2, 1]]), [3, 2])
    for kernels in (products.cpu, products.cuda):
        for name in ("gather_sum", "assign", "count", "coassociation"):
            monkeypatch.delattr(kernels, name)
    for kernels in (products.cpu, products.cuda_scatter):
        monkeypatch.delattr(kernels, "scatter_add")
    with pytest.raises((TypeError, ValueError), match=message) as error:
        call(m, xp)
    assert "\n" not in str(error.value)


BAD_CODES = {
    "too large": ([[0, 0], [3, 1]], [3, 2], "`codes` must be between 0 and 2 in column 0, or -1, got 3 in row 1."),
    "negative": ([[0, 0], [0, -2]], [3, 2], "`codes` must be between 0 and 1 in column 1, or -1, got -2 in row 1."),
    "widths": ([[0, 0]], [3], r"`widths` must be 2 positive integers, one per column of `codes`, got \[3\]."),
    "zero width": ([[0, 0]], [3, 0], "positive integers"),
    "no row": (np.zeros((0, 2), int), [3, 2], "`codes` must have at least one row and one column"),
    "floats": ([[0.0, 1.0]], [3, 2], "`codes` must hold integers, got dtype float64."),
    "axes": ([0, 1], [2], "`codes` must have 2 axes"),
    "no label": ([[0, 0], [-1, -1]], [3, 2], "`codes` must have a label in every row, got only missing ones in row 1."),
}


@pytest.mark.parametrize(("codes", "widths", "message"), BAD_CODES.values(), ids=BAD_CODES)
def test_bad_codes_get_one_sentence(xp, codes, widths, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ge.Membership(xp.asarray(codes), widths)


def test_too_many_columns_are_refused():
    with pytest.raises(ValueError, match=r"fewer than 2\*\*31 clusters in all, got 3000000000\."):
        ge.Membership([[0, 0]], [1_500_000_000, 1_500_000_000], device="cpu")
    with pytest.raises(ValueError, match=r"fewer than 2\*\*31 clusters in all, got 18446744073709551616\."):
        ge.Membership([[0, 0]], np.array([2**64 - 1, 1], "uint64"), device="cpu")
