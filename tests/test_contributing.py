"""What CONTRIBUTING.md says is true: the drawing of the house is the tree, and the worked example is a method."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import gpuensemble as ge
from gpuensemble import estimators
from gpuensemble._cli.main import main
from gpuensemble.estimators._base import registry
from support import ensemble

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def drawn():
    """The folders of the drawing, below the package, and the names of what is in each; "." is the package."""
    block = re.search(r"```\ngpuensemble/\n(.*?)```", TEXT, re.DOTALL)[1]
    house, path = {".": set()}, []
    for line in block.splitlines():
        words = line.split("#")[0].split()
        depth = (len(line) - len(line.lstrip())) // 4 - 1
        if not words[0].endswith("/"):
            house["."] |= set(words)
            continue
        path = [*path[:depth], words[0][:-1]]
        house["/".join(path)] = set(words[1:])
        if not depth:
            house["."].add(path[0])
    return house


def there():
    """The same of the tree; `__init__` and `__main__` are in every house."""
    package = ROOT / "gpuensemble"
    folders = [path.parent for path in package.rglob("__init__.py")]
    return {
        folder.relative_to(package).as_posix(): {
            path.stem
            for path in folder.iterdir()
            if (path.suffix == ".py" or (path / "__init__.py").exists()) and not path.stem.startswith("__")
        }
        for folder in folders
    }


def test_the_drawing_is_the_tree():
    assert drawn() == there()


def test_the_order_of_the_drawing_is_the_order_of_imports():
    from test_architecture import HOUSE

    block = re.search(r"```\ngpuensemble/\n(.*?)```", TEXT, re.DOTALL)[1]
    lines = [line.split("#")[0].split() for line in block.splitlines() if not line.startswith(" " * 8)]
    entries = [name for words in lines for name in ([words[0][:-1]] if words[0].endswith("/") else words)]
    assert entries == [name for name in HOUSE if not name.startswith("__")]


@pytest.fixture
def sharpened(tmp_path, monkeypatch):
    """The worked example, as a file in the folder of estimators."""
    source = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1]
    (tmp_path / "sharpened.py").write_text(source)
    monkeypatch.setattr(estimators, "__path__", [*estimators.__path__, str(tmp_path)])
    registry.methods.cache_clear()
    yield ge.Sharpened
    registry.methods.cache_clear()


def test_the_worked_example_is_a_method(sharpened, tmp_path):
    truth, labels = ensemble(holes=0.2)
    found = sharpened(4, random_state=0).fit(labels)
    assert ge.metrics.ari(truth, found.labels_) > 0.9
    assert found.get_params()["power"] == 2
    np.testing.assert_allclose(found.coassociation_, ge.coassociation(labels) ** 2)
    np.testing.assert_array_equal(clone(found).fit_predict(labels), found.labels_)
    assert registry.methods()["sharpened"].title == "Sharpened"
    assert "Sharpened" in dir(ge)
    np.savetxt(tmp_path / "labels.csv", labels, fmt="%d", delimiter=",")
    out = tmp_path / "consensus.csv"
    assert main(["fit", str(tmp_path / "labels.csv"), "-k", "4", "--method", "sharpened", "--out", str(out)]) == 0
    assert out.exists()
    with pytest.raises(ValueError, match="`power` must be finite and greater than 0, got 0"):
        sharpened(4, power=0).fit(labels)
