"""Pictures: what they show is what a dense definition gives."""

import io
import itertools
import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

import gpuensemble as ge
from gpuensemble import plot
from gpuensemble._array.devices import to_host
from gpuensemble.plot import _common, heatmap, numbers, samples, trees
from support import ensemble

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    pyplot.close("all")


def texts(ax):
    """All text that is drawn, none of which is a formula."""
    ax.figure.canvas.draw()
    found = [text for text in ax.figure.findobj(mpl.text.Text) if text.get_text()]
    assert not any(text.get_parse_math() and "$" in text.get_text() for text in found)
    return [text.get_text() for text in found]


def shares(labels):
    """S pair by pair: the share of partitions that put both together among those that saw both."""
    n = len(labels)
    found = np.full((n, n), np.nan)
    for x, y in itertools.product(range(n), repeat=2):
        both = (labels[x] >= 0) & (labels[y] >= 0)
        if both.any():
            found[x, y] = (labels[x] == labels[y])[both].mean()
    return found


def item_consensus(labels, consensus):
    """By its definition, pair by pair: agreements over chances to agree with the other samples of each cluster."""
    n, k = len(labels), consensus.max() + 1
    found = np.full((n, k), np.nan)
    for x, cluster in itertools.product(range(n), range(k)):
        others = np.flatnonzero((consensus == cluster) & (np.arange(n) != x))
        both = (labels[x] >= 0) & (labels[others] >= 0)
        if both.any():
            found[x, cluster] = (both & (labels[others] == labels[x])).sum() / both.sum()
    return found


def own(labels, consensus):
    return item_consensus(labels, consensus)[np.arange(len(labels)), consensus]


@pytest.mark.parametrize("holes", [0, 0.3, 0.8])
def test_the_heat_map_is_the_matrix_in_the_order_of_the_consensus(xp, holes):
    truth, labels = ensemble(holes=holes)
    ax, data = plot.coassociation(xp.asarray(labels), xp.asarray(truth))
    (image,) = ax.get_images()
    sizes = np.bincount(truth)
    rank = np.argsort(np.argsort(-sizes, kind="stable"))
    order = np.lexsort((-own(labels, truth), rank[truth]))
    assert data.index.tolist() == data.columns.tolist() == order.tolist()
    np.testing.assert_allclose(data, shares(labels)[np.ix_(order, order)], atol=1e-12)
    np.testing.assert_array_equal(image.get_array().filled(np.nan), data)
    assert image.get_clim() == (0, 1)
    assert "one pair" in ax.get_xlabel()
    assert ("grey: no partition saw both" in ax.get_xlabel()) == bool(np.isnan(data).any(axis=None))
    assert image.get_cmap()(np.nan) == mpl.colors.to_rgba(_common.UNKNOWN)
    assert len(ax.get_lines()) == 2 * (len(sizes) - 1)


def test_holes_do_not_lower_the_heat_map():
    truth = np.repeat([0, 1], 20)
    labels = np.tile(truth[:, None], (1, 10))
    labels[np.random.default_rng(0).random(labels.shape) < 0.3] = -1
    _, data = plot.coassociation(labels, truth, device="cpu")
    same = truth[data.index][:, None] == truth[data.columns]
    np.testing.assert_array_equal(data, same.astype(float))


def test_a_large_heat_map_holds_means_of_blocks(monkeypatch):
    truth, labels = ensemble(n=90, holes=0.2)
    _, whole = plot.coassociation(labels, truth, device="cpu")
    monkeypatch.setattr(heatmap, "PIXELS", 25)
    ax, means = plot.coassociation(labels, truth, device="cpu")
    assert means.shape == (23, 23)
    assert means.index.tolist() == whole.index[::4].tolist()
    assert "the mean over 4 x 4 pairs" in ax.get_xlabel()
    seen = (labels >= 0).astype(int)[whole.index]
    both, edges = seen @ seen.T, [*range(0, 90, 4), 90]
    for i, j in itertools.product((0, 3, 22), (1, 22)):
        block = np.s_[edges[i] : edges[i + 1], edges[j] : edges[j + 1]]
        expected = np.average(whole.to_numpy()[block], weights=both[block])
        assert means.iloc[i, j] == pytest.approx(expected, abs=1e-12)


def test_the_order_of_the_tree_keeps_clusters_together_and_like_samples_side_by_side():
    truth, labels = ensemble(holes=0.1)
    labels[:, 0] = np.arange(80) % 2  # every cluster has two halves, which nothing else tells
    labels[:, 1:4] = labels[:, :1]
    _, data = plot.coassociation(labels, truth, order="tree", device="cpu")
    order = data.index.to_numpy()
    assert sorted(order) == list(range(80))
    np.testing.assert_allclose(data, shares(labels)[np.ix_(order, order)], atol=1e-12)
    assert (np.diff(truth[order]) != 0).sum() == 3
    assert (np.diff(order % 2) != 0).sum() <= 8
    with pytest.raises(ValueError, match=r"`order` must be one of 'stability', 'tree', got 'size'\."):
        plot.coassociation(labels, truth, order="size")


def test_a_tree_of_many_samples_is_one_of_some_from_each_cluster(monkeypatch):
    truth, labels = ensemble(n=300)
    truth[truth == 3] = 2
    truth[7] = 3
    monkeypatch.setattr(heatmap, "PIXELS", 40)
    ax, data = plot.coassociation(labels, truth, order="tree", device="cpu")
    assert len(data) <= 40
    assert f"{len(data)} of 300 samples, evenly from each cluster" in ax.get_xlabel()
    np.testing.assert_allclose(data, shares(labels[data.index]), atol=1e-12)
    share = np.bincount(truth[data.index]) / len(data)
    np.testing.assert_allclose(share, np.bincount(truth) / 300, atol=0.05)
    assert 7 in data.index


@pytest.mark.parametrize(("sizes", "most"), [([3, 1, 900], 50), ([1] * 60, 50), ([1] * 45 + [1000], 50), ([2, 2], 4)])
def test_some_places_of_each_cluster(sizes, most):
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    places = _common.thinned(clusters, most)
    assert len(places) <= most
    assert (np.diff(places) > 0).all()
    if len(sizes) <= most:
        assert set(clusters[places]) == set(clusters)
        assert len(places) >= min(most, len(clusters)) - len(sizes)


@pytest.mark.parametrize("holes", [0, 0.3])
def test_stability_is_its_definition(xp, holes):
    truth, labels = ensemble(holes=holes)
    ax, data = plot.stability(xp.asarray(labels), xp.asarray(truth))
    expected = own(labels, truth)
    assert len(ax.get_lines()) == 4
    for cluster, (line, (name, values)) in enumerate(zip(ax.get_lines(), data, strict=True)):
        assert name == cluster
        np.testing.assert_allclose(values, np.sort(expected[truth == cluster])[::-1], atol=1e-12)
        np.testing.assert_array_equal(line.get_ydata(), values)
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == [f"{k} ({(truth == k).sum()})" for k in range(4)]


def test_a_cluster_of_one_sample_has_no_stability():
    ax, data = plot.stability([[0, 0], [1, 1], [1, 1]], ["a", "b", "b"], device="cpu")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a (1)", "b (2)"]
    assert [(name, values.tolist()) for name, values in data] == [("a", []), ("b", [1.0, 1.0])]


@pytest.mark.parametrize("holes", [0, 0.3])
def test_bars_of_samples_are_the_item_consensus(holes):
    truth, labels = ensemble(holes=holes)
    found = ge.stability(labels, truth, device="cpu")
    ax, data = plot.item_consensus(found)
    expected = item_consensus(labels, truth)
    order = np.lexsort((-own(labels, truth), truth))
    assert data.index.tolist() == order.tolist()
    np.testing.assert_allclose(data, expected[order], atol=1e-12)
    own_parts, others = ax.collections[:4], ax.collections[4:]
    for k, (part, other) in enumerate(zip(own_parts, others, strict=True)):
        for x in (0, 11, 40, 79):
            height = expected[order[x], k]
            mine = truth[order[x]] == k
            assert thickness(part, x) == pytest.approx(height if mine else 0, abs=1e-12)
            assert thickness(other, x) == pytest.approx(0 if mine else height, abs=1e-12)


def thickness(collection, x):
    """How high a filled polygon is at the middle of bar x: the difference of its heights there."""
    corners = collection.get_paths()[0].vertices
    at = np.unique(corners[np.isclose(corners[:, 0], x)][:, 1])
    right = np.unique(corners[np.isclose(corners[:, 0], x + 1)][:, 1])
    both = [y for y in at if np.isclose(right, y).any()]
    return max(both) - min(both)


def test_bars_of_margins_are_own_consensus_minus_the_best_other():
    truth, labels = ensemble(holes=0.2)
    ax, data = plot.silhouette(ge.stability(labels, truth, device="cpu"))
    expected = item_consensus(labels, truth)
    mine = expected[np.arange(80), truth].copy()
    expected[np.arange(80), truth] = -1
    margin = mine - expected.max(axis=1)
    order = np.lexsort((-margin, truth))
    assert data.index.tolist() == order.tolist()
    np.testing.assert_allclose(data, margin[order], atol=1e-12)
    assert f"dashed: the mean of all, {margin.mean():.2f}" in ax.get_xlabel()
    assert ax.get_ylim()[0] <= margin.min()


def test_many_bars_are_those_of_some_samples(monkeypatch):
    truth, labels = ensemble(n=200)
    monkeypatch.setattr(samples, "MOST", 50)
    found = ge.stability(labels, truth, device="cpu")
    for draw in (plot.item_consensus, plot.silhouette):
        ax, data = draw(found)
        assert 46 <= len(data) <= 50
        assert f"{len(data)} of 200 samples, evenly from each cluster" in ax.get_xlabel()
        assert ax.get_xlim() == (0, len(data))


def test_bars_of_clusters_are_means_over_pairs():
    truth, labels = ensemble()
    ax, data = plot.cluster_consensus(ge.stability(labels, truth, device="cpu"))
    whole = shares(labels)
    np.fill_diagonal(whole, np.nan)
    means = [[np.nanmean(whole[np.ix_(truth == a, truth == b)]) for b in range(4)] for a in range(4)]
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], np.diag(means), atol=1e-12)
    nearest = [max(row[:i] + row[i + 1 :]) for i, row in enumerate(means)]
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), nearest, atol=1e-12)
    np.testing.assert_allclose(data, np.stack([np.diag(means), nearest], axis=1), atol=1e-12)


def test_agreement_is_the_score_of_each_partition():
    truth, labels = ensemble(holes=0.2)
    frame = pd.DataFrame(labels, columns=[f"run {i}" for i in range(8)])
    ax, data = plot.agreement(frame, truth)
    names = [text.get_text() for text in ax.get_yticklabels()]
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == sorted(widths, reverse=True) == data.tolist()
    assert names == data.index.tolist()
    for name, width in zip(names, widths, strict=True):
        column = frame[name].to_numpy()
        assert width == pytest.approx(ge.metrics.nmi(column[column >= 0], truth[column >= 0]))
    many, data = plot.agreement(np.tile(labels, (1, 6)), truth)
    np.testing.assert_array_equal(many.get_lines()[0].get_ydata(), data)
    assert len(data) == 48
    assert not many.patches


def test_agreement_without_a_consensus_is_that_of_all_pairs(xp):
    _, labels = ensemble(holes=0.2)
    labels[:, 3] = -1
    labels[:40, 3] = labels[:40, 0]
    labels[:, 4] = -1
    labels[40:, 4] = labels[40:, 0]
    ax, data = plot.agreement(xp.asarray(labels), names=[f"run {i}" for i in range(8)])
    for (i, one), (j, two) in itertools.product(enumerate(data.index), repeat=2):
        a, b = (labels[:, int(name[4:])] for name in (one, two))
        both = (a >= 0) & (b >= 0)
        expected = ge.metrics.nmi(a[both], b[both]) if both.any() else np.nan
        np.testing.assert_allclose(data.iloc[i, j], expected, atol=1e-12)
    np.testing.assert_array_equal(ax.get_images()[0].get_array().filled(np.nan), data)
    assert sorted(data.index) == [f"run {i}" for i in range(8)]
    assert "grey: no sample in common" in ax.get_xlabel()


def test_convergence_draws_paths():
    _, labels = ensemble()
    start = np.arange(80) % 4
    sec, kcc = (kind(4, init=start, device="cpu").fit(labels) for kind in (ge.SEC, ge.KCC))
    ax, data = plot.convergence(sec)
    np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), sec.objective_path_)
    np.testing.assert_array_equal(data["SEC"], sec.objective_path_)
    both, data = plot.convergence({"SEC": sec, "KCC": kcc, "EAC": ge.EAC(4, device="cpu").fit(labels)})
    assert [text.get_text() for text in both.get_legend().get_texts()] == ["SEC", "KCC"] == list(data)
    for line, values in zip(both.get_lines(), data.values(), strict=True):
        assert line.get_ydata()[0] == 1
        assert line.get_ydata()[-1] == 0
        np.testing.assert_array_equal(line.get_ydata(), values)
    with pytest.raises(ValueError, match="`fitted` must have a path of more than one residual, got none"):
        plot.convergence(sec, what="residual")


def test_curves_are_shares_of_pairs(monkeypatch):
    monkeypatch.setattr(numbers, "STEPS", 4)
    values = {2: [0, 0.25, 1, np.nan], 3: [[0.5, 0.5], [0.74, 0.75]]}
    ax, data = plot.cdf(values)
    assert data.index.tolist() == [0, 0.25, 0.5, 0.75, 1]
    np.testing.assert_allclose(data[2], [1 / 3, 2 / 3, 2 / 3, 2 / 3, 1])
    np.testing.assert_allclose(data[3], [0, 0, 0.5, 1, 1])
    for line, k in zip(ax.get_lines(), data, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), data[k])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["2", "3"]
    frame = pd.DataFrame({2: [0, 0.25, 1, np.nan], 3: [0.5, 0.5, 0.74, 0.75]})
    pd.testing.assert_frame_equal(plot.cdf(frame)[1], data)


def test_areas_are_those_under_the_curves():
    rng = np.random.default_rng(0)
    values = {k: rng.random(500) ** k for k in (2, 3, 5)}
    ax, data = plot.delta_area(values)
    _, curves = plot.cdf(values)
    for k in values:
        assert data["area"][k] == pytest.approx(np.trapezoid(curves[k], curves.index), abs=0.005)
    area = data["area"].tolist()
    expected = [area[0], (area[1] - area[0]) / area[0], (area[2] - area[1]) / area[1]]
    np.testing.assert_allclose(data["delta"], expected)
    np.testing.assert_array_equal(ax.get_lines()[-1].get_ydata(), data["delta"])
    _, flat = plot.delta_area({2: [1, 1], 3: [0.5, 1]})
    assert flat["area"].tolist() == [0, 0.25]
    assert flat["delta"][2] == 0
    assert np.isnan(flat["delta"][3])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"`values` must have an entry for each K, got none\."),
        ({2: [np.nan]}, r"`values` must hold a number for each K, got none for 2\."),
        ({2: [0.5], 3: [0.2, 1.5]}, r"`values` must be between 0 and 1, got 1\.5 for 3\."),
        ({2: [-0.5, 2]}, r"`values` must be between 0 and 1, got -0\.5 for 2\."),
    ],
)
def test_values_that_are_no_shares_are_refused(values, message):
    for draw in (plot.cdf, plot.delta_area):
        with pytest.raises(ValueError, match=message):
            draw(values)


def nested():
    """Labels of 12 samples for K = 2, 3, 4, with a hole; one sample goes astray."""
    return pd.DataFrame(
        {
            2: [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1],
            3: [0, 0, 0, 2, 2, 2, 1, 1, 1, 1, 1, 2],
            4: [0, 0, 0, 2, 2, np.nan, 1, 1, 1, 3, 3, 2],
        },
        index=list("abcdefghijkl"),
    )


def test_tracking_shows_the_labels_column_by_column():
    frame = nested().iloc[::-1]
    ax, data = plot.tracking(frame)
    assert sorted(data.index) == list("abcdefghijkl")
    pd.testing.assert_frame_equal(data, frame.loc[data.index])
    pixels = ax.get_images()[0].get_array()
    assert pixels.shape == (3, 12)
    known = data.notna().to_numpy().T
    np.testing.assert_array_equal(~np.ma.getmaskarray(pixels), known)
    pairs = set(zip(pixels[known].tolist(), data.to_numpy().T[known].tolist(), strict=True))
    assert len(pairs) == 4  # a colour for each name, a name for each colour
    assert (np.diff(pixels[0]) != 0).sum() == 1
    assert "grey: no label" in ax.get_xlabel()
    assert {"0", "1", "2", "3", "4"} <= set(texts(ax))


def test_tracking_of_many_samples_shows_some(monkeypatch):
    monkeypatch.setattr(numbers, "MOST", 20)
    truth, _ = ensemble(n=300)
    ax, data = plot.tracking(np.stack([truth // 2, truth], axis=1))
    assert 16 <= len(data) <= 20
    assert f"{len(data)} of 300 samples" in ax.get_xlabel()


def test_a_tree_across_k_has_the_samples_that_clusters_share():
    frame = nested()
    ax, data = plot.clustree(frame)
    found = {tuple(row[:4]): tuple(row[4:]) for row in data.itertuples(index=False)}
    expected = {}
    for (k, upper), (following, lower) in itertools.pairwise(frame.items()):
        for a, b in itertools.product(upper.unique(), lower.dropna().unique()):
            both = ((upper == a) & (lower == b)).sum()
            if both:
                expected[k, a, following, b] = both, both / (lower == b).sum()
    assert found == expected
    lines = ax.collections[0]
    assert sorted(lines.get_array()) == sorted(data["share"])
    areas = sorted(float(node.get_sizes()[0]) for node in ax.collections[1:])
    sizes = sorted(size for _, column in frame.items() for size in column.value_counts())
    np.testing.assert_allclose(np.array(areas) / areas[0], np.array(sizes) / sizes[0])


def test_nodes_of_a_tree_do_not_overlap():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({k: rng.integers(0, k, 500) for k in (2, 10, 40)})
    ax, data = plot.clustree(frame)
    assert len(data) == 20 + len(pd.crosstab(frame[10], frame[40]).stack().loc[lambda x: x > 0])
    ax.figure.canvas.draw()
    width = ax.get_window_extent().width * 72 / ax.figure.dpi
    nodes = pd.DataFrame([(*node.get_offsets()[0], node.get_sizes()[0] ** 0.5) for node in ax.collections[1:]])
    for _, level in nodes.sort_values(0).groupby(1):
        gaps = np.diff(level[0]) * width - (level[2].to_numpy()[1:] + level[2].to_numpy()[:-1]) / 2
        assert (gaps > 0).all()


def every(labels, consensus, ax=None):
    """Every picture of a table: on the Axes given, or on new ones."""
    found = ge.stability(labels, consensus, device="cpu")
    frame = labels if hasattr(labels, "iloc") else pd.DataFrame(labels)
    beside = frame.assign(consensus=list(consensus))
    return [
        plot.coassociation(labels, consensus, ax=ax, device="cpu"),
        plot.coassociation(labels, consensus, order="tree", ax=ax, device="cpu"),
        plot.agreement(labels, consensus, ax=ax),
        plot.agreement(labels, ax=ax),
        plot.stability(labels, consensus, ax=ax, device="cpu"),
        plot.item_consensus(found, ax=ax),
        plot.silhouette(found, ax=ax),
        plot.cluster_consensus(found, ax=ax),
        plot.tracking(beside, ax=ax),
        plot.clustree(beside, ax=ax),
    ]


def test_the_given_axes_are_drawn_on_and_returned():
    truth, labels = ensemble()
    _, ax = pyplot.subplots()
    assert all(found is ax for found, _ in every(labels, truth, ax))
    assert plot.cdf({2: [0.5]}, ax=ax)[0] is ax
    assert plot.delta_area({2: [0.5]}, ax=ax)[0] is ax


TABLES = {
    "one cluster": ([[0, 0], [0, 1], [0, 0]], [0, 0, 0]),
    "two samples": ([[0, 0], [0, 1]], [0, 1]),
    "one sample": ([[0, 0]], [0]),
    "forty clusters": (np.arange(120)[:, None] % 40 + np.zeros((1, 3), int), np.arange(120) % 40),
    "never seen together": ([[0, None], [0, None], [None, 1], [None, 1]], ["a", "a", "b", "b"]),
    "text of any kind": (
        pd.DataFrame({"$x_1$": list("aabb"), "<b> & $": ["$\\frac$", "$\\frac$", "_", "_"], "_c": list("abab")}),
        ["$\\frac{1}$ <&>", "$\\frac{1}$ <&>", "_hidden", "_hidden"],
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_picture_can_be_drawn_and_written_as_text(name):
    labels, consensus = TABLES[name]
    for ax, _ in every(labels, consensus):
        ax.figure.savefig(io.BytesIO(), format="svg")


def test_names_of_the_caller_are_shown_as_they_are():
    labels, consensus = TABLES["text of any kind"]
    heat, _, bars, pairs, curves, *_, tracks, tree = every(labels, consensus)
    for ax, _ in (heat, curves, tracks, tree):
        shown = " ".join(texts(ax))
        assert "$\\frac{1}$ <&>" in shown
        assert "_hidden" in shown
    for ax, _ in (bars, pairs):
        assert set(labels.columns) <= set(texts(ax))
    fitted = ge.SEC(4, init=np.arange(80) % 4, device="cpu").fit(ensemble()[1])
    ax, _ = plot.convergence({"_a": fitted, "$b$": fitted})
    assert {"_a", "$b$"} <= set(texts(ax))


def test_a_consensus_of_another_length_is_refused():
    _, labels = ensemble()
    with pytest.raises(ValueError, match=r"`consensus` must have n_samples=80 entries, got 3\."):
        plot.stability(labels, [0, 1, 1])


def test_without_matplotlib_a_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    truth, labels = ensemble()
    message = r'`plot.agreement` needs matplotlib: pip install "gpuensemble\[plot\]"\.'
    with pytest.raises(ModuleNotFoundError, match=message):
        plot.agreement(labels, to_host(truth))
    with pytest.raises(ModuleNotFoundError, match=r"`plot.tracking` needs matplotlib"):
        plot.tracking(labels)


@pytest.mark.parametrize(
    ("consensus", "names"),
    [(["1", "1", "1", 1], ["1 (3)", "1 (1)"]), ([("a", 1)] * 3 + [("b", 2)], ["('a', 1) (3)", "('b', 2) (1)"])],
)
def test_clusters_may_have_any_names(consensus, names):
    labels = [[0], [0], [1], [1]]
    legend = plot.stability(labels, consensus, device="cpu")[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == names
    found = ge.stability(labels, consensus, device="cpu")
    for draw in (plot.item_consensus, plot.silhouette, plot.cluster_consensus):
        assert len(draw(found)[1])


@pytest.fixture(scope="module")
def chosen():
    """A choice among numbers of clusters, of a table with three clear ones."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((60, 8)) < 0.2, rng.integers(0, 3, (60, 8)), np.arange(60)[:, None] % 3)
    return labels, ge.choose_k(labels, range(2, 6), random_state=0, device="cpu")


def test_a_choice_is_drawn_with_its_errors_and_what_is_recommended(chosen):
    _, choice = chosen
    ax, data = plot.choice(choice)
    pd.testing.assert_series_equal(data["excess"], choice.table["excess"])
    assert "Stability against chance: recommended: K = 3" in texts(ax)
    lines = {tuple(np.round(np.asarray(line.get_ydata(), "float64"), 9)) for line in ax.get_lines()}
    assert {tuple(np.round(data[name], 9)) for name in ("stability", "stability_null", "excess")} <= lines
    marks = [line.get_xdata()[0] for line in ax.get_lines() if list(line.get_xdata()) == [1, 1]]
    assert marks == [1]
    noise = np.random.default_rng(0).integers(0, 3, (60, 5))
    ax, _ = plot.choice(ge.choose_k(noise, range(2, 5), random_state=0, device="cpu"))
    assert "Stability against chance: no clear K" in texts(ax)


def test_a_choice_has_its_distribution_of_values(chosen):
    _, choice = chosen
    _, data = plot.cdf(choice)
    expected = choice.pairs.cumsum()
    for x in (0.3, 0.75, 1.0):
        np.testing.assert_allclose(data.loc[x], expected[expected.index <= x].iloc[-1], rtol=0, atol=1e-12)
    _, areas = plot.delta_area(choice)
    np.testing.assert_allclose(areas["area"], choice.table["area"], rtol=0, atol=1e-12)


def test_a_tree_is_drawn_from_the_root_down(chosen, monkeypatch):
    labels, choice = chosen
    tree = ge.consensus_tree(labels, device="cpu")
    monkeypatch.setattr(trees, "TIPS", 5)
    ax, data = plot.dendrogram(tree)
    assert len(data) == 4
    np.testing.assert_array_equal(data["height"], tree.linkage[-4:, 2])
    assert data["samples"].iloc[-1] == 60
    tips = [re.search(r"\((\d+)\)$", tick.get_text()) for tick in ax.get_xticklabels()]
    assert len(tips) == 5
    assert sum(1 if tip is None else int(tip.group(1)) for tip in tips) == 60
    ax, data = plot.dendrogram(ge.consensus_tree(labels, choice.labels[3], device="cpu"))
    assert sorted(tick.get_text() for tick in ax.get_xticklabels()) == ["0 (20)", "1 (20)", "2 (20)"]
    with pytest.raises(ValueError, match=r"^`tree` must have at least two leaves, got one\.$"):
        plot.dendrogram(ge.consensus_tree([[0], [0]], device="cpu"))
