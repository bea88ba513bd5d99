"""Cells of an AnnData: partitions and their consensus as columns of obs, in files, in copies and in views."""

import doctest
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gpuensemble as ge
from gpuensemble import anndata as of_cells

anndata = pytest.importorskip("anndata", reason="anndata is not installed")
KEYS = ["first", "second", "third"]


def cells(n=300, seed=0):
    """Four kinds of cells of different numbers, and three partitions of them with some labels at random and holes."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(4, n, p=[0.1, 0.4, 0.2, 0.3])
    X = 8 * np.eye(4, 12)[truth] + rng.standard_normal((n, 12))
    obs = pd.DataFrame({"kind": pd.Categorical.from_codes(truth, list("abcd"))}, index=[f"cell{i}" for i in range(n)])
    for i, key in enumerate(KEYS):
        codes = np.where(rng.random(n) < 0.1, rng.integers(4, size=n), (truth + i) % 4)
        codes[(np.arange(n) % 9 == 0) & (i > 0)] = -1
        obs[key] = pd.Categorical.from_codes(codes, [f"{key}{code}" for code in range(4)])
    return anndata.AnnData(X.astype("float32"), obs=obs, obsm={"X_pca": X[:, :4]})


def graph_of(adata, q=15):
    near = ge.neighbors.nearest(adata.obsm["X_pca"], q, device="cpu").indices
    n = len(near)
    graph = sparse.csr_array((np.full(n * q, 0.3), near.ravel(), np.arange(0, n * q + 1, q)), shape=(n, n))
    return sparse.csr_matrix(graph + graph.T)


def test_the_consensus_goes_into_the_cells():
    adata = cells()
    assert of_cells.consensus(adata, KEYS, 4) is None
    found = adata.obs["consensus"]
    assert found.cat.categories.tolist() == ["0", "1", "2", "3"]
    sizes = found.value_counts(sort=False).tolist()
    assert sizes == sorted(sizes, reverse=True)
    assert ge.metrics.ari(adata.obs["kind"], found) > 0.8
    direct = ge.SEC(4, cluster_weight="entropy", random_state=0).fit(adata.obs[KEYS])
    assert ge.metrics.ari(direct.labels_, found) == 1
    np.testing.assert_array_equal(adata.obs["consensus_confidence"], direct.confidence_)
    items = adata.obsm["consensus_item_consensus"]
    expected = ge.stability(adata.obs[KEYS], found.astype(str)).item_consensus
    pd.testing.assert_frame_equal(items, expected, check_names=False, check_column_type=False)
    assert items.index.equals(adata.obs_names)
    params = {"keys": KEYS, "n_clusters": 4, "method": "sec-entropy", "random_state": 0}
    assert adata.uns["consensus"] == {"params": params}


def test_a_file_keeps_it(tmp_path):
    adata = cells()
    keys = of_cells.partitions(adata, (0.5, 1.0), 2)
    of_cells.consensus(adata, keys, 4, key_added="c", method="kcc", utility="entropy", random_state=None)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    for key in (*keys, "c", "c_confidence"):
        np.testing.assert_array_equal(again.obs[key], adata.obs[key])
    assert again.obs["c"].cat.categories.tolist() == ["0", "1", "2", "3"]
    np.testing.assert_array_equal(again.obsm["c_item_consensus"], adata.obsm["c_item_consensus"])
    params = again.uns["c"]["params"]
    assert params["keys"].tolist() == keys
    assert params["utility"] == "entropy"
    assert "random_state" not in params
    of_cells.consensus(again, keys, 4, key_added="d")
    assert ge.metrics.ari(again.obs["d"], adata.obs["kind"]) == 1


def test_a_copy_leaves_the_cells_alone():
    adata = cells()
    before = adata.obs.copy()
    made = of_cells.consensus(adata, KEYS, 4, copy=True)
    pd.testing.assert_frame_equal(adata.obs, before)
    assert not adata.uns
    assert list(adata.obsm) == ["X_pca"]
    assert {"consensus", "consensus_confidence"} < set(made.obs)
    of_cells.consensus(adata, KEYS, 4)
    pd.testing.assert_frame_equal(adata.obs, made.obs)


def test_a_view_gets_its_own_answer():
    adata = cells()
    some = adata[adata.obs["kind"] != "b"]
    of_cells.consensus(some, KEYS, 3)
    assert "consensus" not in adata.obs
    assert "consensus" not in adata.uns
    assert some.obs["consensus"].cat.categories.tolist() == ["0", "1", "2"]
    alone = of_cells.consensus(some.copy(), KEYS, 3, copy=True)
    np.testing.assert_array_equal(alone.obs["consensus"], some.obs["consensus"])
    view = adata[:50]
    keys = of_cells.partitions(view, 1.0, 1)
    assert keys[0] not in adata.obs
    assert keys[0] in view.obs


def test_holes_are_what_is_missing_in_any_kind_of_column():
    adata = cells()
    adata.obs["number"] = adata.obs["second"].cat.codes
    adata.obs["text"] = adata.obs["second"].astype(object)
    found = []
    for key in ("second", "number", "text"):
        of_cells.consensus(adata, ["first", key], 4)
        found.append(adata.obs["consensus"].to_numpy())
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()
    assert adata.obs["second"].isna().sum() == 34


def test_what_was_there_is_replaced():
    adata = cells()
    of_cells.consensus(adata, KEYS, 4)
    columns = list(adata.obs.columns)
    of_cells.consensus(adata, KEYS, 2)
    assert list(adata.obs.columns) == columns
    assert adata.obs["consensus"].cat.categories.tolist() == ["0", "1"]
    assert adata.obsm["consensus_item_consensus"].shape == (300, 2)


def test_a_method_without_confidence_leaves_none_behind():
    adata = cells(60)
    adata.obs[KEYS] = adata.obs[KEYS].apply(lambda column: column.cat.add_categories("no").fillna("no"))
    of_cells.consensus(adata, KEYS, 3)
    assert adata.obs["consensus_confidence"].notna().all()
    of_cells.consensus(adata, KEYS, 3, method="lta")
    assert adata.obs["consensus_confidence"].isna().all()


def test_names_of_cells_may_repeat():
    adata = cells()
    expected = of_cells.consensus(adata, KEYS, 4, copy=True).obs["consensus"].to_numpy()
    adata.obs_names = ["same"] * 300
    of_cells.consensus(adata, KEYS, 4)
    assert (adata.obs["consensus"].to_numpy() == expected).all()


def test_partitions_are_columns():
    adata = cells()
    keys = of_cells.partitions(adata, resolutions=(0.5, 2), n_seeds=2, key_added="p")
    assert keys == ["p_0.5_0", "p_0.5_1", "p_2.0_0", "p_2.0_1"]
    assert keys == list(adata.obs.columns[-4:])
    expected = ge.generate.leiden(adata.obsm["X_pca"], (0.5, 2), 2, random_state=0)
    for key, labels in zip(keys, expected.T, strict=True):
        column = adata.obs[key]
        assert ge.metrics.ari(labels, column) == 1
        sizes = column.value_counts(sort=False)
        assert sizes.index.tolist() == [str(i) for i in range(len(sizes))]
        assert sizes.is_monotonic_decreasing
    again = adata.obs[keys].copy()
    assert of_cells.partitions(adata, resolutions=(0.5, 2), n_seeds=2, key_added="p") == keys
    pd.testing.assert_frame_equal(adata.obs[keys], again)


def test_the_graph_that_is_there_is_used():
    adata = cells()
    graph = graph_of(adata)
    adata.obsp["connectivities"] = graph
    empty = sparse.csr_matrix(graph.shape)
    adata.obsp["mine_connectivities"] = empty
    adata.uns["mine"] = {"connectivities_key": "mine_connectivities"}
    (key,) = of_cells.partitions(adata, 1.0, 1)
    expected = ge.generate.leiden(graph=graph, resolutions=1.0, n_seeds=1, random_state=0)
    assert ge.metrics.ari(adata.obs[key], expected[:, 0]) == 1
    (key,) = of_cells.partitions(adata, 1.0, 1, neighbors_key="mine", key_added="mine")
    assert adata.obs[key].nunique() == 300
    (key,) = of_cells.partitions(adata, 1.0, 1, use_rep="X", key_added="x")
    expected = ge.generate.leiden(adata.X, 1.0, 1, random_state=0)
    assert ge.metrics.ari(adata.obs[key], expected[:, 0]) == 1


def test_as_many_cells_as_genes_are_no_graph():
    adata = cells(12)
    adata.X = sparse.csr_matrix(adata.X)
    (key,) = of_cells.partitions(adata, 1.0, 1, use_rep="X", n_neighbors=3)
    expected = ge.generate.leiden(adata.X.toarray(), 1.0, 1, n_neighbors=3, random_state=0)
    assert ge.metrics.ari(adata.obs[key], expected[:, 0]) == 1


def test_very_many_partitions_are_added_without_a_word():
    adata = cells(40)
    keys = of_cells.partitions(adata, 1.0, 150)  # warnings are errors here
    assert len(set(keys)) == 150


BAD_CONSENSUS = [
    ({"keys": ["frist"]}, ValueError, r"`keys` must be in `adata\.obs`, got 'frist'; much like it: 'first'\."),
    ({"keys": ["th"]}, ValueError, r"`keys` must be in `adata\.obs`, got 'th'; much like it: 'third'\."),
    ({"keys": ["?"]}, ValueError, r"got '\?'; there: 'kind', 'first', 'second', 'third'\."),
    ({"keys": "first"}, TypeError, r"`keys` must be a list of columns of `adata\.obs`, got 'first'\."),
    ({"keys": []}, TypeError, r"`keys` must be a list of columns of `adata\.obs`, got \[\]\."),
    ({"keys": ["first", "first"]}, ValueError, r"`keys` must name each column once, got 'first' twice\."),
    ({"key_added": "first"}, ValueError, r"`key_added` must not replace one of `keys`, got 'first', .* 'first'\."),
    ({"key_added": 3}, TypeError, r"`key_added` must be a name, got 3\."),
    ({"method": "leiden"}, ValueError, r"`method` must be one of 'cluster-walk', .*, got 'leiden'\."),
    ({"n_clusters": 301}, ValueError, r"`n_clusters` must be between 1 and n_samples=300, got 301\."),
    ({"copy": 1}, TypeError, r"`copy` must be True or False, got 1 of type int\."),
    ({"utility": "x"}, ValueError, r"Invalid parameter 'utility' for estimator SEC"),
]


@pytest.mark.parametrize(("given", "error", "sentence"), BAD_CONSENSUS)
def test_bad_input_leaves_the_cells_alone(given, error, sentence):
    adata = cells()
    with pytest.raises(error, match=sentence):
        of_cells.consensus(adata, **{"keys": KEYS, "n_clusters": 4} | given)
    assert list(adata.obs.columns) == ["kind", *KEYS]
    assert not adata.uns


def test_a_cell_without_any_label_is_named():
    adata = cells()
    adata.obs.loc["cell7", KEYS] = np.nan
    with pytest.raises(ValueError, match=r"must have a label in every row, got only missing ones in row 'cell7'\."):
        of_cells.consensus(adata, KEYS, 4)


BAD_PARTITIONS = [
    ({"use_rep": "pca"}, ValueError, r"`use_rep` must be in `adata\.obsm`, got 'pca'; much like it: 'X_pca'\."),
    ({"neighbors_key": "n"}, ValueError, r"`neighbors_key` must be in `adata\.uns`, got 'n'; there: none\."),
    ({"use_rep": "X", "neighbors_key": "n"}, ValueError, r"`use_rep` must be None if `neighbors_key` is given"),
    ({"resolutions": (1, 1.0)}, ValueError, r"`resolutions` must be different, got 1 twice"),
    ({"n_seeds": 0}, ValueError, r"`n_seeds` must be at least 1, got 0\."),
    ({"key_added": ""}, TypeError, r"`key_added` must be a name, got ''\."),
]


@pytest.mark.parametrize(("given", "error", "sentence"), BAD_PARTITIONS)
def test_bad_input_makes_no_partitions(given, error, sentence):
    adata = cells()
    with pytest.raises(error, match=sentence):
        of_cells.partitions(adata, **given)
    assert list(adata.obs.columns) == ["kind", *KEYS]


def test_nothing_to_make_partitions_of():
    adata = cells()
    del adata.obsm["X_pca"]
    with pytest.raises(ValueError, match=r"`use_rep` must be given, as there is neither .*, got None\."):
        of_cells.partitions(adata)


def test_the_examples_are_right():
    assert doctest.testmod(of_cells) == (0, 12)


def test_the_module_needs_no_package():
    code = "import sys; sys.modules['anndata'] = None; import gpuensemble as ge; print(ge.anndata.consensus.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "gpuensemble.anndata"


def test_of_several_numbers_of_clusters_one_is_chosen(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.arange(120) % 3
    noisy = {f"p{i}": np.where(rng.random(120) < 0.15, rng.integers(0, 3, 120), truth) for i in range(8)}
    obs = pd.DataFrame(noisy, index=[f"c{i}" for i in range(120)]).astype(str).astype("category")
    adata = anndata.AnnData(np.ones((120, 2)), obs=obs)
    ge.anndata.consensus(adata, list(noisy), range(2, 6), device="cpu")
    assert adata.uns["consensus"]["params"]["n_clusters"] == 3
    assert adata.uns["consensus"]["numbers"]["K"].tolist() == [2, 3, 4, 5]
    assert adata.uns["consensus"]["why"].startswith("K = 3 ")
    assert ge.metrics.ari(truth, adata.obs["consensus"].astype(str)) == 1
    adata.write_h5ad(tmp_path / "a.h5ad")
    assert anndata.read_h5ad(tmp_path / "a.h5ad").uns["consensus"]["why"] == adata.uns["consensus"]["why"]
