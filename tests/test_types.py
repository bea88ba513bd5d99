"""What a type checker tells a user: `mypy --strict` on a file of theirs, which finds the package by its `py.typed`."""

import re
from pathlib import Path

import pytest
from mypy import api

import gpuensemble as ge
from gpuensemble.estimators._base import registry

CACHE = Path(__file__).parents[1] / ".mypy_cache" / "users"  # their options differ from ours
HEAD = """\
from typing import assert_type

import numpy as np

import gpuensemble as ge
from gpuensemble._inspection.choose import Choice
from gpuensemble._inspection.stability import Stability
from gpuensemble._inspection.tree import Tree
from gpuensemble._report.findings import Findings
from gpuensemble.neighbors import Neighbors

x = np.zeros((20, 3), dtype=np.int64)
"""
GOOD = (
    "assert_type(ge.SEC(5).fit(x, sample_weight=x[:, 0]), ge.SEC)",
    "assert_type(ge.SEC(5).set_params(init='random'), ge.SEC)",
    "assert_type(ge.SEC(5).set_fit_request(sample_weight=True), ge.SEC)",
    "assert_type(ge.SEC(5).get_params()['init'] is None, bool)",
    "assert_type(ge.SEC(5).fit(x).objective_, float)",
    "assert_type(ge.HGPA(5).fit(x).n_iter_, int)",
    "ge.HBGF(5).fit(x).predict_proba(x).sum(axis=1)",
    "ge.EAC(5).fit_predict(x).tolist()",
    "assert_type(ge.LTA(5).fit(x), ge.LTA)",
    "assert_type(ge.PCE(5).fit(x), ge.PCE)",
    "assert_type(ge.CMVC(5).fit([x, x], present=x), ge.CMVC)",
    "assert_type(ge.EdgeConsensus().fit(x, graph=x).n_clusters_, int)",
    "ge.EdgeConsensus().fit_predict(x, graph=x)",
    "assert_type(ge.ConsensusClustering(range(2, 6)).fit(x), ge.ConsensusClustering)",
    "assert_type(ge.ConsensusClustering(3).fit(x).choice_, Choice | None)",
    "assert_type(ge.segments.consensus('x.npy', 5, 'labels.npy'), ge.SEC)",
    "assert_type(ge.choose_k(x, range(2, 6)), Choice)",
    "assert_type(ge.choose_k(x, range(2, 6)).recommended, int | None)",
    "assert_type(ge.stability(x, x[:, 0]), Stability)",
    "assert_type(ge.consensus_tree(x), Tree)",
    "assert_type(ge.report(x, 5, out='report.html'), Findings)",
    "assert_type(ge.neighbors.nearest(x, 3), Neighbors)",
    "assert_type(ge.Membership.from_labels(x), ge.Membership)",
    "assert_type(ge.Membership.from_labels(x).take(slice(3)), ge.Membership)",
    "assert_type(ge.metrics.nmi(x[:, 0], x[:, 1]), float)",
)
BAD = {
    "ge.SECC(5)": "attr-defined",
    "ge.SEC(5).fitt(x)": "attr-defined",
    "ge.SEC(5).fit(x).label_": "attr-defined",
    "ge.SEC(n_cluster=5)": "call-arg",
    "ge.SEC('5')": "arg-type",
    "ge.SEC(5).fit()": "call-arg",
    "ge.SEC(5).fit(x, weight=x[:, 0])": "call-arg",
    "ge.SEC(5).fit(x).fit_predicts(x)": "attr-defined",
    "ge.LTA(5).fit(x).predict(x)": "attr-defined",
    "ge.LTA(5).fit(x).confidence_": "attr-defined",
    "ge.EdgeConsensus().fit(x)": "call-arg",
    "ge.EdgeConsensus().n_clusters": "attr-defined",
    "ge.ConsensusClustering(3).fit(x).base_label_": "attr-defined",
    "ge.ConsensusClustering(3).fit(x).choice_.chosen": "union-attr",
    "ge.choose_k(x, range(2, 6)).recommendd": "attr-defined",
    "ge.stability(x, x[:, 0]).sample": "attr-defined",
    "ge.consensus_tree(x).cuts(3)": "attr-defined",
    "ge.report(x, 5, out='report.html').label": "attr-defined",
    "ge.neighbors.nearest(x, 3).neighbours": "attr-defined",
    "ge.Membership.from_labels(x).counts": "attr-defined",
    "ge.Membership.from_labels(x).count(x)": "call-arg",
    "ge.metrics.nnmi(x, x)": "attr-defined",
}


def documented():
    """A line for each attribute in the docstring of each estimator."""
    kinds = {method.estimator for method in registry.methods().values()} | {ge.ConsensusClustering, ge.EdgeConsensus}
    for kind in sorted(kinds, key=lambda kind: kind.__name__):
        section = re.search(r"\n    Attributes\n    -+\n(.*?)\n\n", kind.__doc__, re.DOTALL)[1]
        first = "1.0" if kind is ge.EdgeConsensus else "5"
        for names in re.findall(r"^    (\w.*) : ", section, re.MULTILINE):
            yield from (f"ge.{kind.__name__}({first}).{name}" for name in names.split(", "))


def verdicts(lines, folder):
    """The code of mypy's error in each line; "" where there is none."""
    (folder / "user.py").write_text(HEAD + "\n".join(lines) + "\n")
    options = ["--strict", "--config-file=", f"--cache-dir={CACHE}", "--no-pretty", "--hide-error-context"]
    out, err, _ = api.run([*options, "user.py"])
    assert not err
    codes = {int(line): code for line, code in re.findall(r"^user\.py:(\d+): error: .*\[([\w-]+)\]$", out, re.M)}
    first = HEAD.count("\n") + 1
    assert min(codes) >= first
    return {line: codes.get(number, "") for number, line in enumerate(lines, first)}


def test_a_type_checker_finds_what_is_misspelt_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # not the repository, whose package would count as the user's own files
    expected = dict.fromkeys([*GOOD, *documented()], "") | BAD
    assert len(expected) > 100
    assert verdicts(list(expected), tmp_path) == expected


@pytest.mark.parametrize("name", ["fit_predict", "get_params", "set_params", "get_metadata_routing", "set_fit_request"])
def test_the_typed_base_classes_promise_what_scikit_learn_keeps(name):
    assert callable(getattr(ge.SEC(5), name))
