"""The shape of the package: imports go downwards, optional libraries stay optional, and every CuPy name exists."""

import ast
import inspect
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

PACKAGE = Path(__file__).parents[1] / "gpuensemble"
LAYERS = (
    *("_array", "_check", "_encode", "_random", "_csr", "_vector", "_cpu", "_cpu_features", "_cpu_slices", "_cpu_lta"),
    *("_cpu_partial", "_cuda", "_svt", "_distance", "_cpu_lloyd"),
    *("tsvd", "prox", "subspace", "membership", "metrics", "features", "generate"),
    *(
        "_files",
        "assignment",
        "blocks",
        "cluster",
        "kmeans",
        "seeding",
        "models",
        "embedding",
        "checkpoint",
        "sources",
        "outputs",
    ),
    *("spectral", "refine", "representation"),
    *("stiefel", "simplex", "partial", "alignment", "_fill", "views"),
    *("estimators/__init__", "estimators/_labels", "estimators/_consensus"),
    *("estimators/sec", "estimators/kcc", "estimators/eac"),
    *("estimators/lta", "estimators/rsec", "estimators/pce", "estimators/cmvc"),
    "segments",
    *("plot", "__init__", "_machine", "_text", "tables", "_harness", "methods", "benchmarks", "demo", "_checks"),
    *("doctor", "commands", "cli", "__main__"),
)
# The second line: they work with tables on the host, whatever the device.
NAMES_NUMPY = {
    *(
        "_array",
        "_check",
        "_encode",
        "_random",
        "_cuda",
        "_vector",
        *(name for name in LAYERS if name.startswith("_cpu")),
    ),
    *(
        "alignment",
        "assignment",
        "blocks",
        "checkpoint",
        "embedding",
        "models",
        "outputs",
        "partial",
        "refine",
        "seeding",
    ),
    *("segments", "simplex", "sources"),
    *("plot", "_machine", "_text", "tables", "_harness", "benchmarks", "_checks", "doctor"),
}
MODULES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in PACKAGE.rglob("*.py")}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def imported(tree):
    """Every module that is imported, anywhere in the file; `from a import b` gives both a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_module_has_its_layer():
    assert set(MODULES) == set(LAYERS)


@pytest.mark.parametrize("name", LAYERS)
def test_imports_go_downwards(name):
    own = {module.removeprefix("gpuensemble.") for module in imported(TREES[name]) if module.startswith("gpuensemble.")}
    above = {layer.replace("/", ".") for layer in LAYERS[LAYERS.index(name) :]}
    assert not own & above


@pytest.mark.parametrize("name", sorted(set(LAYERS) - NAMES_NUMPY))
def test_array_libraries_are_named_in_few_files(name):
    assert not {"numpy", "cupy"} & {module.split(".")[0] for module in imported(TREES[name])}


def test_importing_brings_no_optional_library():
    optional = ("cupy", "dask", "matplotlib", "pandas")
    code = f"import sys, gpuensemble; print([name for name in {optional} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def cupy_uses():
    """(file and line, path below cupy, keywords or None) of every xp.a.b, cupy.a.b and namespace(...).a."""
    for name, tree in TREES.items():
        called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and id(node) not in inner and (path := path_below_cupy(node)):
                call = called.get(id(node))
                keywords = [keyword.arg for keyword in call.keywords] if call else None
                yield f"{name}.py:{node.lineno}", path, keywords


def path_below_cupy(node):
    path = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    is_namespace = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "namespace"
    return path if is_namespace or (isinstance(node, ast.Name) and node.id in ("xp", "cupy")) else None


def test_every_cupy_name_and_keyword_exists():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    uses = list(cupy_uses())
    assert len(uses) > 20
    for place, path, keywords in uses:
        value = cupy
        for part in path:
            assert hasattr(value, part), f"{place}: cupy has no {'.'.join(path)}"
            value = getattr(value, part)
        if keywords and not isinstance(value, cupy.ufunc) and path != ["RawModule"]:
            unknown = set(keywords) - set(inspect.signature(value).parameters)
            assert not unknown, f"{place}: cupy.{'.'.join(path)} has no keyword {unknown}"


def test_the_check_of_names_sees_an_unknown_one():
    tree = ast.parse("xp.linalg.nothing(a)")
    assert path_below_cupy(tree.body[0].value.func) == ["linalg", "nothing"]
    assert not hasattr(np.linalg, "nothing")


def test_a_wheel_carries_the_kernels(tmp_path):
    root = PACKAGE.parent
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(tmp_path),
        str(root),
    ]
    subprocess.run(build, capture_output=True, text=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    kernels = {f"gpuensemble/kernels/{path.name}" for path in (root / "kernels").glob("*.cu")}
    assert kernels
    assert kernels < set(names)
    assert "gpuensemble/py.typed" in names
    code = "from gpuensemble import _cuda; print(_cuda.__file__); print(_cuda.source(), end='')"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    file, source = done.stdout.split("\n", 1)
    assert Path(file).is_relative_to(tmp_path)
    assert source == (root / "kernels" / "membership.cu").read_text()


def test_the_readme_example_runs(capsys):
    readme = (PACKAGE.parent / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert "Membership(4 samples x 3 partitions, 6 columns, with holes, uint8, " in capsys.readouterr().out
