"""What the laws of all methods share: the registry, tables of any kind, tables with a clear answer, and one runner.

`GPUENSEMBLE_EXAMPLES=1000 pytest tests/trust --junitxml=laws.xml` looks at more tables than the ordinary run does; the
report then says how many, for each method and law.
"""

import os
import warnings
import zlib

import numpy as np
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from gpuensemble.estimators._base.kmeans import KMeansConsensus
from gpuensemble.estimators._base.registry import of_labels
from gpuensemble.estimators._base.similarity import SimilarityConsensus
from gpuensemble.estimators._base.streamed import StreamedConsensus

EXAMPLES = int(os.environ.get("GPUENSEMBLE_EXAMPLES", "12"))
METHODS = of_labels()
FEWER = "is more than there are distinct rows|are not empty|more than the base partitions tell apart"


def _methods_of(kind):
    return [name for name, method in METHODS.items() if issubclass(method.estimator, kind)]


OF_SIMILARITY = _methods_of(SimilarityConsensus)  # they see nothing but the co-association matrix
STREAMED = _methods_of(StreamedConsensus)  # they take sample weights, and predict
OF_ROWS = ("cspa", "ecpcs-hc", "hgpa", "pta", "ptgp")  # they are square in the number of distinct rows
# Methods that miss clear answers: parts have to be balanced, or a graph of a few nearest rows falls apart.
UNCLEAR = ("cspa", "hgpa", "pta", "ptgp")
CLEAR = [name for name in METHODS if name not in UNCLEAR]
K_MEANS = _methods_of(KMeansConsensus)  # they take a start, and weights of partitions and clusters


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
    if draw(st.booleans()):
        labels[:, -1] = rng.permutation(n)
    if holes and draw(st.booleans()):
        labels[rng.random(labels.shape) < 0.35] = -1
        labels[(labels < 0).all(1), 0] = 0
        labels = labels[:, (labels >= 0).any(0)]
    return labels, draw(st.integers(1, n))


@st.composite
def clear_tables(draw, holes=True):
    """A partition into clusters of different sizes, and a table in which a row has one wrong or missing label at most.

    Of r >= 5 partitions two rows of a cluster share r - 2 at least, and two of different clusters 2 at most: whatever
    the order, a tree over the co-association matrix has these clusters. No tie decides between them and others.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k, r = draw(st.integers(2, 4)), draw(st.integers(5, 8))
    truth = rng.permutation(np.repeat(np.arange(k), rng.choice(np.arange(4, 12), k, replace=False)))
    labels = np.stack([rng.permutation(k + 1)[truth] for _ in range(r)], axis=1)
    spoiled = rng.random(len(truth)) < draw(st.sampled_from([0, 0.2, 0.5]))
    wrong = rng.integers(-1 if holes else 0, k + 1, len(truth))
    labels[spoiled, rng.integers(0, r, len(truth))[spoiled]] = wrong[spoiled]
    return labels, truth


def draws_of(labels):
    """A generator that belongs to a table."""
    return np.random.default_rng(zlib.crc32(np.ascontiguousarray(labels).tobytes()))


def fitted(name, labels, k, sample_weight=None, **parameters):
    """The estimator, and whether it said that there are fewer clusters than asked for."""
    weight = {} if sample_weight is None else {"sample_weight": sample_weight}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        estimator = METHODS[name].make(k, 0, "cpu", **parameters).fit(labels, **weight)
    fewer = any(issubclass(one.category, ConvergenceWarning) and _fewer(str(one.message)) for one in said)
    return estimator, fewer


def _fewer(message):
    return any(part in message for part in FEWER.split("|"))


def same_bits(one, two, rows=slice(None)):
    """The labels of those rows are equal, and the objectives."""
    np.testing.assert_array_equal(one.labels_[rows], two.labels_)
    assert one.objective_ == two.objective_


def same_partition(one, two):
    """Two vectors of labels put the same rows together."""
    pairs = set(zip(one.tolist(), two.tolist(), strict=True))
    assert len(pairs) == len(set(one.tolist())) == len(set(two.tolist())), (one.tolist(), two.tolist())


def holds_on_all(name, law, strategy, record, share=1):
    """Hold a law against so many tables of a strategy, and record the number of tables.

    Methods on n x n arrays see a third of them, and a law that takes long a share. Each method and law has draws of its
    own, the same in every run.
    """
    n_examples = max(2, EXAMPLES // (3 * share if METHODS[name].square else share))
    seen = 0

    @settings(max_examples=n_examples)
    @seed(zlib.crc32(f"{name} {law.__name__}".encode()))
    @given(table=strategy(holes=METHODS[name].holes))
    def holds(table):
        nonlocal seen
        seen += 1
        law(name, *table)

    holds()
    record("tables", seen)
