"""Every estimator of the registry under every law, on tables of all kinds: one strategy for tables, one list of laws.

`GPUENSEMBLE_EXAMPLES=1000 pytest tests/estimators/test_laws.py` looks at more tables than the ordinary run does.
"""

import os
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from gpuensemble.estimators._base.registry import of_labels

EXAMPLES = int(os.environ.get("GPUENSEMBLE_EXAMPLES", "12"))
METHODS = of_labels()
FEWER = "is more than there are distinct rows|are not empty|more than the base partitions tell apart"


@st.composite
def tables(draw, holes=True):
    """Whole labels with ties, copies of rows, constant columns, gaps between labels, and holes, -1; a number of K."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, r = draw(st.integers(1, 14)), draw(st.integers(1, 5))
    widest = draw(st.sampled_from([1, 2, 3, 5, 300]))
    labels = rng.integers(0, widest, (n, r))
    if draw(st.booleans()):
        labels = labels[rng.integers(0, n, n)]
    if draw(st.booleans()):
        labels[:, 0] = 7
    if holes and draw(st.booleans()):
        labels[rng.random(labels.shape) < 0.35] = -1
        labels[(labels < 0).all(1), 0] = 0
        labels = labels[:, (labels >= 0).any(0)]
    return labels, draw(st.integers(1, n))


def fitted(name, labels, k, **parameters):
    """The estimator, and whether it said that there are fewer clusters than asked for."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        estimator = METHODS[name].make(k, 0, "cpu", **parameters).fit(labels)
    fewer = any(issubclass(one.category, ConvergenceWarning) and _fewer(str(one.message)) for one in said)
    return estimator, fewer


def _fewer(message):
    return any(part in message for part in FEWER.split("|"))


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
    np.testing.assert_array_equal(one.labels_, two.labels_)
    assert one.objective_ == two.objective_


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
    np.testing.assert_array_equal(one.labels_, two.labels_)
    assert one.objective_ == two.objective_


LAWS = [
    *(numbers_are_used, equal_rows_share_a_label, objectives_are_numbers, a_seed_means_one_answer),
    *(the_input_is_left_alone, the_kind_of_table_does_not_matter, renaming_labels_changes_nothing),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", METHODS)
def test_laws(name, law):
    slow = METHODS[name].square

    @settings(max_examples=max(4, EXAMPLES // 3) if slow else EXAMPLES)
    @given(table=tables(holes=METHODS[name].holes))
    def holds(table):
        labels, k = table
        law(name, labels.copy(), k)

    holds()


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
