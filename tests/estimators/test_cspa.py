"""CSPA, HGPA and MCLA with METIS: parts of about equal size, and a sentence where the partitioner is missing."""

import sys

import numpy as np
import pytest

import gpuensemble as ge
from gpuensemble._cli.main import main
from gpuensemble.estimators import cspa
from support import ensemble


def balanced(n=240, seed=0):
    """Four parts of equal size, of which ten partitions are noisy copies; few rows are equal."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(4), n // 4)
    copies = [np.where(rng.random(n) < 0.8, truth, rng.integers(0, 4, n)) for _ in range(10)]
    return truth, np.stack(copies, axis=1)


@pytest.mark.parametrize(
    ("estimator", "least"), [(ge.CSPA(4, random_state=0), 0.9), (ge.HGPA(4, random_state=0), 0.2)], ids=str
)
def test_parts_of_equal_size_are_found(estimator, least):
    """Stray samples in every cluster cut every hyperedge, so that HGPA sees little."""
    truth, labels = balanced()
    found = estimator.set_params(device="cpu").fit_predict(labels)
    assert np.bincount(found).max() <= 1.06 * 60 + 6  # a copy of a row weighs more than the slack
    assert ge.metrics.ari(truth, found) > least
    np.testing.assert_array_equal(estimator.fit_predict(labels), found)


def test_the_nearest_rows_alone_give_nearly_the_same(monkeypatch):
    truth, labels = balanced()
    monkeypatch.setattr(cspa, "EXACT", 20)
    monkeypatch.setattr(cspa, "NEIGHBOURS", 15)
    monkeypatch.setattr(cspa, "ROWS", 7)
    assert ge.metrics.ari(truth, ge.CSPA(4, random_state=0, device="cpu").fit_predict(labels)) > 0.85


def test_metis_cuts_the_graph_of_clusters():
    truth, labels = ensemble(n=300)
    found = ge.MCLA(4, cut="metis", random_state=0, device="cpu").fit_predict(labels)
    assert ge.metrics.ari(truth, found) > 0.95


@pytest.mark.parametrize(
    ("package", "estimator", "what"),
    [
        ("pymetis", ge.CSPA(2), "CSPA"),
        ("kahypar", ge.HGPA(2), "HGPA"),
        ("pymetis", ge.MCLA(2, cut="metis"), "MCLA with METIS"),
    ],
)
def test_without_the_partitioner_a_sentence_says_how_to_get_it(package, estimator, what, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    message = f"{what} needs the package {package}, which is not installed: install it with `pip install "
    with pytest.raises(ImportError, match=rf"^{message}gpuensemble\[graph\]`\.$"):
        estimator.set_params(device="cpu").fit([[0, 0], [1, 1], [0, 1]])


def test_the_command_line_says_it_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    (tmp_path / "labels.csv").write_text("a,b\n0,0\n1,1\n0,1\n")
    assert main(["fit", str(tmp_path / "labels.csv"), "-k", "2", "--method", "cspa", "--device", "cpu"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("gpuensemble: CSPA needs the package pymetis, which is not installed: ")
