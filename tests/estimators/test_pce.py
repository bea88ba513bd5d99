"""PCE: every block step against dense matrices, the laws of a run, and what users get."""

import copy
import tracemalloc

import literal_pce as literal
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import gpuensemble as ge
from cudasim.tally import counted
from gpuensemble._array.devices import namespace, to_host
from gpuensemble.estimators.pce import embedding, start, steps
from gpuensemble.estimators.pce.estimator import minimise
from gpuensemble.estimators.pce.state import mean
from support import ensemble, membership, random_codes

GAMMA = 0.7
BLOCKS = {
    "v": lambda s, lam: steps.update_reliability(s, squared(s), lam),
    "F": lambda s, lam: embedding.update_embedding(s, mean(s), GAMMA),
    "holes": lambda s, lam: steps.impute(s),
    "a": lambda s, lam: steps.update_weight(s, steps.Sums(s)),
    "R_i": lambda s, lam: steps.update_tables(s, steps.Sums(s)),
    "R": lambda s, lam: steps.update_rotation(s),
    "Y": lambda s, lam: steps.update_labels(s),
}


def squared(state):
    return steps.squared_residuals(state, mean(state))


def random_state(seed, xp=np, n=60, k=4, widths=(4, 2, 7, 1, 4), holes=0.5, balanced=True):
    """Any point that fulfils the constraints; 0 < v <= 1."""
    rng = np.random.default_rng(seed)
    codes = random_codes(rng, n, widths, holes)
    for i, width in enumerate(widths):  # every cluster is seen
        codes[rng.permutation(n)[:width], i] = np.arange(width)
    m = membership(xp, codes, widths)
    state = start.start(m, k, rng, True, balanced, True, "float64")
    filled = np.where(codes < 0, np.stack([rng.integers(0, width, n) for width in widths], axis=1), codes)
    state.m = m.filled(xp.asarray(filled.astype(to_host(m.codes).dtype)))
    state.points = xp.asarray(np.linalg.qr(rng.standard_normal((n, k)))[0])
    state.reliability = xp.asarray(rng.integers(1, 2**20 + 1, n) * 2.0**-20)
    state.weight = rng.dirichlet(np.ones(len(widths)))
    state.tables = xp.asarray(np.concatenate([literal.polar(rng.standard_normal((width, k))) for width in widths]))
    state.turned = xp.asarray(literal.polar(rng.standard_normal((k, k))).T.copy())
    state.labels = xp.asarray(rng.integers(0, k, n).astype("int32"))
    return state


def value(state, lam):
    return steps.objective(state, squared(state), lam, GAMMA)


@pytest.mark.parametrize("block", BLOCKS)
@given(seed=st.integers(0, 2**32 - 1), balanced=st.booleans(), holes=st.sampled_from([0.0, 0.5, 0.9]))
@settings(max_examples=15)
def test_no_block_raises_the_objective(block, seed, balanced, holes):
    state, lam = random_state(seed, balanced=balanced, holes=holes), 1.3
    before = value(state, lam)
    for _ in range(3):
        BLOCKS[block](state, lam)
        after = value(state, lam)
        assert after <= before + 1e-11 * abs(before)
        assert after == pytest.approx(literal.objective(literal.dense(state), lam, GAMMA), rel=1e-11)
        before = after
    assert ((state.m.codes == state.observed.codes) | (state.observed.codes == 255)).all()
    assert (state.m.codes < state.m.widths).all()


# At these points no step of F is too long: one that is would be halved by the paper, and interpolated by us.
@pytest.mark.parametrize("seed", [0, 2, 3, 5])
def test_each_block_is_the_one_of_the_paper(xp, seed):
    state, lam = random_state(seed, xp, balanced=seed % 2 == 0), 1.3
    host = random_state(seed, np, balanced=seed % 2 == 0)
    d = literal.dense(host)
    steps.update_reliability(state, squared(state), lam)
    literal.step_v(d, lam)
    np.testing.assert_allclose(to_host(state.reliability), d.v, atol=2**-20)
    d.v = to_host(state.reliability)
    embedding.update_embedding(state, mean(state), GAMMA)
    literal.step_F(d, GAMMA, embedding.CURVE_STEPS)
    np.testing.assert_allclose(to_host(state.points) * state.scale, d.F, atol=1e-9)
    steps.impute(state)
    literal.step_holes(d)
    np.testing.assert_array_equal(to_host(state.m.codes), np.stack([Y.argmax(1) for Y in d.Ys], axis=1))
    steps.update_weight(state, steps.Sums(state))
    literal.step_a(d)
    np.testing.assert_allclose(state.weight, d.a, atol=1e-7)
    steps.update_tables(state, steps.Sums(state))
    literal.step_rotations(d)
    np.testing.assert_allclose(to_host(state.tables), np.concatenate(d.Rs), atol=1e-6)
    steps.update_rotation(state)
    rotation = to_host(state.turned).T
    np.testing.assert_allclose(rotation, literal.polar(d.F.T @ d.Y), atol=1e-7)
    steps.update_labels(state)
    np.testing.assert_array_equal(to_host(state.labels), (d.F @ rotation).argmax(1))


@pytest.mark.parametrize("step", [0.0, 1e-3, 40.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_search_for_the_embedding_is_that_of_stiefel(xp, seed, step):
    """Inner products of a few columns give what a pass over the rows for each trial gives."""
    state = random_state(seed, xp, n=90)
    state.step[:] = step
    d = literal.dense(random_state(seed, np, n=90))
    diagonal = (d.v**2 + GAMMA)[:, None]
    target = (GAMMA * d.Y @ d.R.T + (d.v**2)[:, None] * literal.mean(d)) / d.s

    def value_and_grad(x):
        return (x * (diagonal * x - 2 * target)).sum() / 2, diagonal * x - target

    found = ge.stiefel.minimize(value_and_grad, d.F / d.s, max_iter=embedding.CURVE_STEPS, tol=0, step=step)
    embedding.update_embedding(state, mean(state), GAMMA)
    np.testing.assert_allclose(to_host(state.points), found.x, atol=1e-9)
    np.testing.assert_allclose(to_host(state.step), found.step, rtol=1e-7)


def test_blocks_of_rows_change_nothing_but_rounding(xp, monkeypatch):
    states = [random_state(1, xp, n=90) for _ in range(2)]
    average = [mean(state) for state in states]
    embedding.update_embedding(states[0], average[0], GAMMA)
    monkeypatch.setattr(embedding, "FRAME_BYTES", 4000)
    monkeypatch.setattr(embedding, "DEVICE_BYTES", 4000)
    assert len(embedding._Frames(states[1], average[1], GAMMA).blocks) > 2
    embedding.update_embedding(states[1], average[1], GAMMA)
    np.testing.assert_allclose(to_host(states[1].points), to_host(states[0].points), atol=1e-14)


def test_a_gradient_of_nothing_but_rounding_leaves_the_embedding():
    state = random_state(2, n=80)
    state.reliability[:] = 0  # T is Y R', whose columns span those of F at its nearest
    d = literal.dense(state)
    left, _, right = np.linalg.svd(d.Y @ d.R.T, full_matrices=False)
    state.points[:] = left @ right
    before = state.points.copy()
    for _ in range(5):
        embedding.update_embedding(state, mean(state), GAMMA)
        np.testing.assert_allclose(state.points, before, atol=1e-7)
        np.testing.assert_allclose(state.points.T @ state.points, np.eye(4), atol=1e-14)


def test_a_run_is_that_of_the_dense_algorithm():
    _, labels = ensemble(n=200, holes=0.4)
    m = ge.Membership.from_labels(labels, device="cpu")
    state = start.start(m, 4, np.random.default_rng(0), True, True, True, "float64")
    d = literal.dense(state)
    lam = steps.first_lambda(squared(state))
    expected = literal.run(d, lam, 1.0, 15, embedding.CURVE_STEPS)
    run = minimise(state, 1.0, True, 0.0, range(15))
    np.testing.assert_allclose(run.path, expected, rtol=1e-4, atol=1e-4 * 200)
    np.testing.assert_array_equal(run.state.labels, d.Y.argmax(1))


def test_counting_in_parts_changes_nothing(xp, monkeypatch):
    state = random_state(0, xp)
    other = copy.deepcopy(state)
    monkeypatch.setattr(steps, "COUNTS", 0)
    monkeypatch.setattr(steps, "_bounds", lambda widths, most: [0, 1, 3, 5])
    parts = steps.Sums(other)
    monkeypatch.undo()
    whole = steps.Sums(state)
    assert [last - first for first, last, _ in parts.parts()] == [1, 2, 2]
    for sums, one in ((whole, state), (parts, other)):
        steps.update_weight(one, sums)
        steps.update_tables(one, sums)
    np.testing.assert_array_equal(state.weight, other.weight)
    np.testing.assert_array_equal(to_host(state.tables), to_host(other.tables))


def test_parts_are_as_wide_as_is_allowed():
    assert steps._bounds([3, 3, 3, 9, 1], 6) == [0, 2, 3, 4, 5]
    assert steps._bounds([3, 3], 6) == [0, 2]


@pytest.mark.parametrize("xp", ["standin"], indirect=True)
@pytest.mark.parametrize("holes", [0, 0.4])
def test_an_iteration_has_few_launches_and_two_reads_whatever_the_number_of_partitions(xp, holes):
    found = []
    for r in (10, 30):
        widths = [3 + i % 4 for i in range(r)]
        state, work = random_state(0, xp, n=50, widths=widths, holes=holes), []
        for n_iter in (1, 3):
            with counted() as one:
                minimise(state, 1.0, True, 0.0, range(n_iter))
            work.append(one)
        each = work[1] - work[0]
        assert each.reads == 2 * 2
        assert each.down == 2 * 8 * (r * (r + 1) + 3)  # G and f of the weights, three sums of the objective
        assert each.up <= 2 * (3 * 8 * sum(widths) + 4 * r)  # a weight for each column; groups of partitions
        found.append((each.launches / 2, each.kernels / 2))
    assert found[0] == found[1]
    assert found[0][0] <= 55


CASES = {
    "no holes": {"holes": 0.0},
    "90% holes": {"holes": 0.9},
    "fewer clusters": {"widths": (2, 3, 2, 3)},
    "more clusters": {"widths": (9, 6, 12)},
    "one partition": {"widths": (5,), "holes": 0.0},
}


@pytest.mark.parametrize("init", ["aligned", "identity"])
@pytest.mark.parametrize("scale", ["balanced", "published"])
@pytest.mark.parametrize("self_paced", [True, False])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Partitions of one cluster")
def test_the_constraints_hold_and_the_objective_falls(case, init, scale, self_paced):
    codes = to_host(random_state(5, n=70, **case).observed.codes).astype(int)
    codes[codes == 255] = -1
    pce = ge.PCE(4, init=init, scale=scale, self_paced=self_paced, max_iter=25, random_state=0, device="cpu").fit(codes)
    F, square = pce.embedding_, 70 / 4 if scale == "balanced" else 1
    np.testing.assert_allclose(F.T @ F, square * np.eye(4), atol=100 * square * np.finfo(float).eps)
    assert pce.partition_weight_.min() >= 0
    assert pce.partition_weight_.sum() == pytest.approx(1, abs=1e-12)
    assert ((pce.reliability_ >= 0) & (pce.reliability_ <= 1)).all()
    assert self_paced or (pce.reliability_ == 1).all()
    path = np.array(pce.objective_path_[11 if self_paced else 0 :])
    assert (np.diff(path) <= 1e-11 * 70).all()
    np.testing.assert_array_equal(pce.imputed_[codes >= 0], codes[codes >= 0])
    for i in range(codes.shape[1]):
        assert set(pce.imputed_[:, i]) <= set(codes[:, i]) - {-1}
    assert pce.n_iter_ == len(pce.objective_path_)
    assert pce.objective_ == pce.objective_path_[-1]


@pytest.mark.parametrize("scale", ["balanced", "published"])
def test_the_final_objective_is_that_of_the_results(scale):
    _, labels = ensemble(holes=0.3)
    m = ge.Membership.from_labels(labels, device="cpu")
    state = start.start(m, 4, np.random.default_rng(0), True, scale == "balanced", False, "float64")
    run = minimise(state, GAMMA, False, 1e-6, range(20))
    assert run.path[-1] == pytest.approx(literal.objective(literal.dense(run.state), 0, GAMMA), rel=1e-11)


def test_the_order_of_samples_and_the_names_of_clusters_do_not_matter():
    _, labels = ensemble(n=120, holes=0.4)
    rng = np.random.default_rng(0)
    rows, names = rng.permutation(120), np.append(rng.permutation(6), -1)  # a hole stays one
    pce = ge.PCE(4, random_state=0, device="cpu").fit(labels)
    other = ge.PCE(4, random_state=0, device="cpu").fit(names[labels][rows])
    assert ge.metrics.ari(pce.labels_[rows], other.labels_) == 1
    assert (names[pce.imputed_][rows] == other.imputed_).mean() > 0.99  # the start is found up to 1e-5
    np.testing.assert_allclose(pce.partition_weight_, other.partition_weight_, atol=1e-2)


def test_the_order_of_partitions_does_not_change_the_consensus():
    _, labels = ensemble(n=120, holes=0.4)
    pce = ge.PCE(4, random_state=0, device="cpu").fit(labels)
    other = ge.PCE(4, random_state=0, device="cpu").fit(labels[:, np.random.default_rng(0).permutation(8)])
    assert ge.metrics.ari(pce.labels_, other.labels_) == 1


def test_from_one_state_a_permutation_of_the_samples_permutes_the_result():
    state = random_state(3)
    order = np.random.default_rng(0).permutation(60)
    other = copy.deepcopy(state)
    other.observed, other.m = state.observed.take(order), state.m.filled(state.m.codes[order])
    for name in ("points", "reliability", "labels"):
        setattr(other, name, getattr(state, name)[order])
    first, second = minimise(state, 1.0, True, 0.0, range(12)), minimise(other, 1.0, True, 0.0, range(12))
    np.testing.assert_allclose(first.path, second.path, rtol=1e-9)
    np.testing.assert_array_equal(first.state.labels[order], second.state.labels)
    np.testing.assert_array_equal(first.state.m.codes[order], second.state.m.codes)


@pytest.mark.parametrize("holes", [0, 0.4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_library_gives_the_same_results(xp, holes, dtype):
    _, labels = ensemble(holes=holes)
    host = ge.PCE(4, random_state=0, dtype=dtype, device="cpu").fit(labels)
    pce = ge.PCE(4, random_state=0, dtype=dtype).fit(xp.asarray(labels))
    tolerance = 1e-6 if dtype == "float64" else 1e-3
    for name in ("labels_", "imputed_", "embedding_", "reliability_", "partition_weight_"):
        assert namespace(getattr(pce, name)) is xp
    np.testing.assert_array_equal(to_host(pce.labels_), host.labels_)
    np.testing.assert_array_equal(to_host(pce.imputed_), host.imputed_)
    np.testing.assert_allclose(to_host(pce.embedding_), host.embedding_, atol=100 * tolerance)
    np.testing.assert_allclose(to_host(pce.partition_weight_), host.partition_weight_, atol=10 * tolerance)
    assert pce.objective_ == pytest.approx(host.objective_, abs=80 * tolerance)
    assert pce.embedding_.dtype == dtype


def test_holes_are_filled_with_what_was_hidden():
    right = []
    for seed in range(1, 5):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 4, 300)
        labels = np.stack([rng.permutation(4)[truth] for _ in range(10)], axis=1)
        hidden = np.where(rng.random(labels.shape) < 0.5, -1, labels)
        hidden[(hidden < 0).all(1), 0] = labels[(hidden < 0).all(1), 0]
        pce = ge.PCE(4, random_state=0, device="cpu").fit(hidden)
        assert ge.metrics.ari(truth, pce.labels_) == 1
        right.append((pce.imputed_ == labels)[hidden < 0].mean())
    assert min(right) > 0.7  # a hole of a partition without weight may hold anything
    assert np.mean(right) > 0.9


def test_perfect_rows_do_not_stop_the_pace():
    squares = np.array([0.0] * 5 + [1.0, 2.0, 3.0])
    assert steps.first_lambda(squares) == pytest.approx(2 * 1.2)
    assert 0 < steps.first_lambda(np.zeros(3)) < 1e-20


def test_a_partition_that_saw_a_single_row_works():
    truth, labels = ensemble()
    labels[1:, 0] = -1
    with pytest.warns(UserWarning, match=r"^Partitions of one cluster carry no information: columns 0\.$"):
        pce = ge.PCE(4, random_state=0, device="cpu").fit(labels)
    assert ge.metrics.ari(truth, pce.labels_) > 0.9
    assert (pce.imputed_[:, 0] == labels[0, 0]).all()


def test_partitions_of_one_cluster_warn_by_name():
    truth, labels = ensemble()
    frame = pd.DataFrame(labels, columns=list("abcdefgh"))
    frame["b"], frame["g"] = 1, 2
    with pytest.warns(UserWarning, match=r"^Partitions of one cluster carry no information: columns 'b', 'g'\.$"):
        assert ge.metrics.ari(truth, ge.PCE(4, random_state=0, device="cpu").fit_predict(frame)) > 0.9


def test_a_row_without_a_label_is_named():
    _, labels = ensemble()
    labels[7] = -1
    with pytest.raises(ValueError, match=r"`labels` must have a label in every row, got only missing ones in row 7\."):
        ge.PCE(4).fit(labels)


def table_of(kind, labels):
    """The same labels in a kind of table, and what its holes are."""
    names = np.array([f"c{label}" for label in range(6)], object)
    texts = np.where(labels < 0, None, names[labels])
    return {
        "int8": lambda: labels.astype("int8"),
        "floats": lambda: np.where(labels < 0, np.nan, labels),
        "objects": lambda: texts,
        "masked": lambda: np.ma.array(labels, mask=labels < 0),
        "rows": texts.tolist,
        "frame of integers": lambda: pd.DataFrame(labels, index=range(5, 5 + len(labels))),
        "frame of floats": lambda: pd.DataFrame(np.where(labels < 0, np.nan, labels)),
        "frame of nullable integers": lambda: pd.DataFrame(np.where(labels < 0, pd.NA, labels)).astype("Int64"),
        "frame of strings": lambda: pd.DataFrame(texts).astype("string"),
        "frame of categories": lambda: pd.DataFrame(texts, columns=["same"] * 8).astype("category"),
    }[kind]()


KINDS = ("int8", "floats", "objects", "masked", "rows", "frame of integers", "frame of floats")
FRAMES = ("frame of nullable integers", "frame of strings", "frame of categories")


@pytest.mark.parametrize("kind", KINDS + FRAMES)
def test_imputed_is_the_callers_kind_of_table(kind):
    _, labels = ensemble(holes=0.4)
    expected = ge.PCE(4, random_state=0, device="cpu").fit(labels).imputed_
    table = table_of(kind, labels)
    before = copy.deepcopy(table)
    found = ge.PCE(4, random_state=0, device="cpu").fit(table).imputed_
    assert type(found) is type(table)
    if isinstance(table, pd.DataFrame):
        pd.testing.assert_frame_equal(table, before)
        pd.testing.assert_frame_equal(found.isna(), found.isna() & False)
        assert (found.dtypes == table.dtypes).all()
        assert found.index.equals(table.index)
        found = found.to_numpy()
    elif kind != "rows":
        assert found.dtype == table.dtype
    found = np.array(found)
    plain = np.vectorize(lambda cell: int(str(cell).removeprefix("c").removesuffix(".0")))(found)
    np.testing.assert_array_equal(plain[labels >= 0], labels[labels >= 0])
    assert (plain == expected).mean() > 0.99  # objects are numbered in another order than integers


def test_empty_clusters_are_left_out():
    message = r"`n_clusters` = 4 clusters were asked for, but only 2 are not empty\."
    with pytest.warns(ConvergenceWarning, match=message):
        assert ge.PCE(4)._without_empty(np.array([3, 1, 1], "int32")).tolist() == [1, 0, 0]


def test_more_clusters_than_the_partitions_tell_apart_warn():
    apart = "`n_clusters` = 3 is more than the base partitions tell apart: 1 of the directions"
    empty = "`n_clusters` = 3 clusters were asked for, but only 2 are not empty"
    with pytest.warns(ConvergenceWarning, match=apart), pytest.warns(ConvergenceWarning, match=empty):
        pce = ge.PCE(3, random_state=0, device="cpu").fit([[0, 1]] * 30 + [[1, 0]] * 30)
    assert ge.metrics.ari(np.repeat([0, 1], 30), pce.labels_) == 1


def test_too_few_iterations_warn():
    _, labels = ensemble(holes=0.4)
    with pytest.warns(ConvergenceWarning, match="`max_iter` = 1 iterations did not lead to convergence"):
        ge.PCE(4, max_iter=1, random_state=0, device="cpu").fit(labels)


def test_verbose_shows_a_bar(capsys):
    _, labels = ensemble()
    ge.PCE(4, verbose=1, random_state=0, device="cpu").fit(labels)
    assert "PCE" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_memory_stays_below_four_embeddings():
    n, k = 100_000, 10
    truth, labels = ensemble(n, 10, k, holes=0.5)
    labels = labels.astype("int8")
    ge.PCE(k, max_iter=1, device="cpu").fit(labels[:30_000])  # kernels are compiled before the count starts
    tracemalloc.start()
    pce = ge.PCE(k, max_iter=2, random_state=0, device="cpu").fit(labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ge.metrics.nmi(truth, pce.labels_) > 0.8
    assert peak < 4 * 8 * n * k + labels.nbytes


def test_what_does_not_fit_into_memory_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr("gpuensemble._array.checks.memory", lambda device: 1000)
    message = r"^PCE's 5 arrays of 80 x 4 must fit into memory: .*; ClusterWalk and SEC need none\.$"
    with pytest.raises(ValueError, match=message):
        ge.PCE(4, device="cpu").fit(ensemble()[1])
