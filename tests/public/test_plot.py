"""Pictures: what they show is what a dense definition gives."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

import gpuensemble as ge
from gpuensemble import plot
from gpuensemble._array.devices import to_host
from support import ensemble

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    pyplot.close("all")


def dense_stability(labels, consensus):
    """By its definition, pair by pair."""
    out = []
    for x in range(len(labels)):
        shares = []
        for column in labels.T:
            others = (consensus == consensus[x]) & (column >= 0) & (np.arange(len(labels)) != x)
            if column[x] >= 0:
                shares.append((column[others] == column[x]).mean() if others.any() else 1.0)
        out.append(np.mean(shares))
    return np.array(out)


@pytest.mark.parametrize("holes", [0, 0.3])
def test_the_heat_map_is_the_matrix_in_the_order_of_the_consensus(xp, holes):
    truth, labels = ensemble(holes=holes)
    ax = plot.coassociation(xp.asarray(labels), xp.asarray(truth))
    (image,) = ax.get_images()
    sizes = np.bincount(truth)
    rank = np.argsort(np.argsort(-sizes, kind="stable"))
    order = np.lexsort((-np.round(dense_stability(labels, truth), 12), rank[truth]))
    expected = ge.coassociation(labels, device="cpu")[np.ix_(order, order)]
    np.testing.assert_allclose(image.get_array(), expected, atol=1e-12)
    assert image.get_cmap().name == "viridis"
    assert image.get_clim() == (0, 1)
    assert "one pair" in ax.get_xlabel()
    assert len(ax.get_lines()) == 2 * (len(sizes) - 1)


def test_a_large_heat_map_holds_means_of_blocks(monkeypatch):
    truth, labels = ensemble(n=90, holes=0.2)
    whole = plot.coassociation(labels, truth, device="cpu").get_images()[0].get_array()
    monkeypatch.setattr(plot, "PIXELS", 25)
    ax = plot.coassociation(labels, truth, device="cpu")
    means = ax.get_images()[0].get_array()
    assert means.shape == (23, 23)
    assert "the mean over 4 x 4 pairs" in ax.get_xlabel()
    edges = [*range(0, 90, 4), 90]
    for i in (0, 3, 22):
        for j in (1, 22):
            block = whole[edges[i] : edges[i + 1], edges[j] : edges[j + 1]]
            assert means[i, j] == pytest.approx(block.mean(), abs=1e-12)


@pytest.mark.parametrize("holes", [0, 0.3])
def test_stability_is_its_definition(xp, holes):
    truth, labels = ensemble(holes=holes)
    ax = plot.stability(xp.asarray(labels), xp.asarray(truth))
    expected = dense_stability(labels, truth)
    assert len(ax.get_lines()) == 4
    for cluster, line in enumerate(ax.get_lines()):
        np.testing.assert_allclose(line.get_ydata(), np.sort(expected[truth == cluster])[::-1], atol=1e-12)
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == [f"{k} ({(truth == k).sum()})" for k in range(4)]


def test_a_cluster_of_one_sample_is_stable():
    ax = plot.stability([[0, 0], [1, 1], [1, 1]], ["a", "b", "b"], device="cpu")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a (1)", "b (2)"]
    assert [line.get_ydata().tolist() for line in ax.get_lines()] == [[1.0], [1.0, 1.0]]


def test_agreement_is_the_score_of_each_partition():
    truth, labels = ensemble(holes=0.2)
    frame = pd.DataFrame(labels, columns=[f"run {i}" for i in range(8)])
    ax = plot.agreement(frame, truth)
    names = [text.get_text() for text in ax.get_yticklabels()]
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == sorted(widths, reverse=True)
    for name, width in zip(names, widths, strict=True):
        column = frame[name].to_numpy()
        assert width == pytest.approx(ge.metrics.nmi(column[column >= 0], truth[column >= 0]))
    many = plot.agreement(np.tile(labels, (1, 6)), truth)
    assert len(many.get_lines()[0].get_ydata()) == 48
    assert not many.patches


def test_convergence_draws_paths():
    _, labels = ensemble()
    start = np.arange(80) % 4
    sec, kcc = (kind(4, init=start, device="cpu").fit(labels) for kind in (ge.SEC, ge.KCC))
    ax = plot.convergence(sec)
    np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), sec.objective_path_)
    both = plot.convergence({"SEC": sec, "KCC": kcc, "EAC": ge.EAC(4, device="cpu").fit(labels)})
    assert [text.get_text() for text in both.get_legend().get_texts()] == ["SEC", "KCC"]
    for line in both.get_lines():
        assert line.get_ydata()[0] == 1
        assert line.get_ydata()[-1] == 0
    with pytest.raises(ValueError, match="`fitted` must have a path of more than one residual, got none"):
        plot.convergence(sec, what="residual")


def test_the_given_axes_are_drawn_on_and_returned():
    truth, labels = ensemble()
    _, ax = pyplot.subplots()
    for draw in (plot.coassociation, plot.agreement, plot.stability):
        assert draw(labels, truth, ax=ax) is ax


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


@pytest.mark.parametrize(
    ("consensus", "names"),
    [(["1", "1", "1", 1], ["1 (3)", "1 (1)"]), ([("a", 1)] * 3 + [("b", 2)], ["('a', 1) (3)", "('b', 2) (1)"])],
)
def test_clusters_may_have_any_names(consensus, names):
    legend = plot.stability([[0], [0], [1], [1]], consensus, device="cpu").get_legend()
    assert [text.get_text() for text in legend.get_texts()] == names
