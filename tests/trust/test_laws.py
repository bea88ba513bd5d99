"""Every estimator of the registry under every law that it should keep, on tables of all kinds."""

import numpy as np
import pandas as pd
import pytest
from every_method import K_MEANS, METHODS, OF_SIMILARITY, STREAMED, draws_of, fitted, holds_on_all, same_bits, tables


def numbers_are_used(name, labels, k):
    """Labels are 0 .. K - 1, each of them used; fewer than asked for only with a warning."""
    estimator, fewer = fitted(name, labels, k)
    found = estimator.labels_
    assert found.shape == (len(labels),)
    assert found.dtype == "int32"
    n_found = int(found.max()) + 1
    assert set(found.tolist()) == set(range(n_found))
    assert n_found == k or (n_found < k and fewer)


def equal_rows_share_a_label(name, labels, k):
    estimator, _ = fitted(name, labels, k)
    _, group = np.unique(labels, axis=0, return_inverse=True)
    for g in range(group.max() + 1):
        assert len(set(estimator.labels_[group.ravel() == g].tolist())) == 1


def objectives_are_numbers(name, labels, k):
    estimator, _ = fitted(name, labels, k)
    assert isinstance(estimator.objective_, float)
    assert np.isfinite(estimator.objective_path_).all()
    assert estimator.objective_path_[-1] == estimator.objective_
    if name in ("sec", "sec-entropy", "kcc"):
        assert all(a > b for a, b in zip(estimator.objective_path_, estimator.objective_path_[1:], strict=False))


def a_seed_means_one_answer(name, labels, k):
    one, two = fitted(name, labels, k)[0], fitted(name, labels, k)[0]
    same_bits(one, two)


def the_input_is_left_alone(name, labels, k):
    before = labels.copy()
    labels.flags.writeable = False
    fitted(name, labels, k)
    labels.flags.writeable = True
    np.testing.assert_array_equal(labels, before)


def the_kind_of_table_does_not_matter(name, labels, k):
    """Numbers in any layout and type. (Objects are coded in the order of their first occurrence: ties may differ.)"""
    expected = fitted(name, labels, k)[0].labels_
    backwards = np.ascontiguousarray(labels[::-1])[::-1]
    kinds = [np.asfortranarray(labels), backwards, labels.astype("float64"), pd.DataFrame(labels)]
    for given_labels in kinds:
        np.testing.assert_array_equal(fitted(name, given_labels, k)[0].labels_, expected)


def renaming_labels_changes_nothing(name, labels, k):
    """Label values in the same order are the same codes, so that the answer has the same bits."""
    renamed = np.where(labels < 0, -1, 10 + 3 * labels)
    one, two = fitted(name, labels, k)[0], fitted(name, renamed, k)[0]
    same_bits(one, two)


def the_order_of_partitions_changes_no_bit(name, labels, k):
    """What is made of the co-association matrix alone: counts over partitions have no order."""
    order = draws_of(labels).permutation(labels.shape[1])
    same_bits(fitted(name, labels, k)[0], fitted(name, labels[:, order], k)[0])


def every_partition_twice_changes_no_bit(name, labels, k):
    """Twice as many agreements of twice as many partitions are the same share."""
    same_bits(fitted(name, labels, k)[0], fitted(name, np.hstack([labels, labels]), k)[0])


def copies_are_weights(name, labels, k):
    """From k-means++ and from given labels, where all sums over rows are exact; 0 copies are no row.

    The sum of the parts that costs leave out is rounded once per row, so that objectives may differ in the last bits.
    """
    weight = draws_of(labels).integers(0, 4, len(labels))
    weight[:k] += weight[:k] == 0  # as many rows as clusters remain
    rows = np.repeat(np.arange(len(labels)), weight)
    rows = rows[(labels[rows] >= 0).any(1)]
    if not (labels[rows] >= 0).any(0).all():
        return  # a partition without a label is refused
    for start in ("k-means++", np.arange(len(labels)) % k):
        copied = start if isinstance(start, str) else start[rows]
        one, _ = fitted(name, labels, k, weight, init=start)
        two, _ = fitted(name, labels[rows], k, init=copied)
        np.testing.assert_array_equal(one.labels_[rows], two.labels_)
        assert one.objective_ == pytest.approx(two.objective_, rel=1e-12, abs=1e-12)


def the_unit_of_weights_changes_no_label(name, labels, k):
    """A power of two as a unit changes no bit of a ratio."""
    weight, start = draws_of(labels).integers(1, 9, len(labels)), np.arange(len(labels)) % k
    expected, _ = fitted(name, labels, k, weight, init=start)
    for unit in (0.25, 8, 2.0**-400):
        scaled, _ = fitted(name, labels, k, weight * unit, init=start)
        np.testing.assert_array_equal(scaled.labels_, expected.labels_)


def prediction_of_the_fitted_rows_is_their_label(name, labels, k):
    """A row of k-means may have filled an empty cluster, and cost as little in another: that law has clear tables."""
    estimator, _ = fitted(name, labels, k)
    np.testing.assert_array_equal(estimator.predict(labels), estimator.labels_)


def confidences_are_shares(name, labels, k):
    confidence = fitted(name, labels, k)[0].confidence_
    assert confidence.shape == (len(labels),)
    assert confidence.dtype == "float64"
    assert ((confidence >= 0) & (confidence <= 1)).all()


def the_kind_of_weights_does_not_matter(name, labels, k):
    """Weights in any layout and type, which cannot be written to."""
    weight = draws_of(labels).integers(1, 9, len(labels))
    expected, _ = fitted(name, labels, k, weight)
    for one in kinds_of(weight):
        same_bits(expected, fitted(name, labels, k, one)[0])


def the_kind_of_parameters_does_not_matter(name, labels, k):
    """A start and weights of partitions in any layout and type, which cannot be written to."""
    start, weight = np.arange(len(labels)) % k, draws_of(labels).integers(1, 9, labels.shape[1])
    expected, _ = fitted(name, labels, k, init=start, partition_weight=weight)
    for starts, weights in zip(kinds_of(start)[:-2], kinds_of(weight)[2:], strict=True):
        same_bits(expected, fitted(name, labels, k, init=starts, partition_weight=weights)[0])


def kinds_of(vector):
    """The same whole numbers in many ways; the last two are no integers."""
    spread = np.repeat(vector, 3)[::3]
    backwards = vector[::-1].copy()[::-1]
    fixed = vector.astype("int32")
    fixed.flags.writeable = False
    integers = [spread, backwards, fixed, vector.astype(">i8"), vector.tolist(), pd.Series(vector), vector.astype("u1")]
    return [*integers, vector.astype("float32"), vector.astype(">f8")]


LAWS = {
    numbers_are_used: METHODS,
    equal_rows_share_a_label: METHODS,
    objectives_are_numbers: METHODS,
    a_seed_means_one_answer: METHODS,
    the_input_is_left_alone: METHODS,
    the_kind_of_table_does_not_matter: METHODS,
    renaming_labels_changes_nothing: METHODS,
    the_order_of_partitions_changes_no_bit: OF_SIMILARITY,
    every_partition_twice_changes_no_bit: OF_SIMILARITY,
    copies_are_weights: K_MEANS,
    the_unit_of_weights_changes_no_label: K_MEANS,
    prediction_of_the_fitted_rows_is_their_label: ["hbgf"],
    confidences_are_shares: STREAMED,
    the_kind_of_weights_does_not_matter: STREAMED,
    the_kind_of_parameters_does_not_matter: K_MEANS,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "law"),
    [pytest.param(name, law, id=f"{name}-{law.__name__}") for law, names in LAWS.items() for name in names],
)
def test_laws(name, law, record_property):
    holds_on_all(name, law, tables, record_property)


# --- parameters: whatever is given, an error is one sentence of ours

STRANGE = [
    *(None, True, "", "no", "float16", -1, 0, 2.5, float("nan"), float("inf"), 10**400, -(10**400), 1e-320, b"x"),
    *(np.zeros(3), np.array("k"), [], {}, object, 3 + 1j, np.float32(2), np.int64(-7), "\n", np.array([["a"]])),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_any_value_of_a_parameter_is_taken_or_gets_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a path may be taken for one
    labels = np.random.default_rng(0).integers(0, 3, (9, 4))
    for parameter in METHODS[name].make(2, 0, "cpu").get_params():
        for value in STRANGE:
            estimator = METHODS[name].make(2, 0, "cpu").set_params(**{parameter: value})
            try:
                estimator.fit(labels)
            except (TypeError, ValueError) as error:
                message = str(error)
                assert message.startswith(f"`{parameter}` must "), (parameter, value, message)
                assert message.endswith("."), (parameter, value, message)
                assert "\n" not in message, (parameter, value, message)
                assert len(message) < 300, (parameter, message)
