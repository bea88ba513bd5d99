"""The shape of the package: imports go downwards, optional libraries stay optional, and every CuPy name exists."""

import ast
import inspect
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "gpuensemble"
# The rooms and the public modules, in the order of imports: each may import what comes before it.
HOUSE = (
    *("_array", "_kernels", "membership", "_linear", "tsvd", "prox", "stiefel", "simplex"),
    *("_tables", "_kmeans", "_graphs", "_partition", "neighbors", "communities", "metrics", "generate", "estimators"),
    *("_inspection", "clustering", "edges", "anndata", "segments", "plot", "_report", "__init__"),
    *("_cli", "__main__"),
)
# These may name NumPy: they work with what is on the host, whatever the device. CuPy is named in few places.
NAMES_NUMPY = {
    *("_array", "_kernels", "_tables", "_cli", "segments", "simplex", "plot", "metrics", "_inspection", "_report"),
    "anndata",
    *("_kmeans.labels.bounds", "_kmeans.labels.costs", "_kmeans.labels.checkpoint", "_kmeans.labels.seeding"),
    *("_graphs.bridges", "_graphs.edges", "_graphs.steering"),
    *("_kmeans.labels.statistics", "_kmeans.labels.weights", "_partition.bipartite", "_partition.clusters"),
    *(
        "_partition.distinct",
        "_partition.keeping",
        "_partition.linkage",
        "_partition.partitioners",
        "_partition.trajectories",
    ),
    *("_partition.votes", "estimators.lta.solver", "estimators.pce.start", "estimators.pce.state"),
    *(
        "estimators._base.graphs",
        *(f"estimators.{name}" for name in ("cluster_walk", "cspa", "eac", "ecpcs", "lwea", "mcla", "nmfc", "voting")),
    ),
}
NAMES_CUPY = {"_array.devices", "_array.lanes", "_kernels.cuda", "_cli.bench"}
MODULES = {
    path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", "."): path for path in PACKAGE.rglob("*.py")
}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}
ENTRIES, LINES = 13, 350  # of a folder and of a file, at most


def test_no_two_test_files_have_one_name():
    """pytest would leave one of them out, in a run of all."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def imported(tree):
    """Every module that is imported, anywhere in the file; `from a import b` gives both a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(name):
    """The modules of ours that a module imports."""
    of_us = {
        module.removeprefix("gpuensemble.") for module in imported(TREES[name]) if module.startswith("gpuensemble.")
    }
    return {module for module in of_us if module in MODULES or f"{module}.__init__" in MODULES}


def within(name, places):
    """Whether a module is one of the places, or inside of one."""
    return any(name == place or name.startswith(f"{place}.") for place in places)


def test_every_entry_of_the_package_has_its_place():
    entries = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert entries == set(HOUSE)


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_one_way_between_rooms(name):
    room = name.split(".")[0]
    later = HOUSE[HOUSE.index(room) + 1 :]
    assert not {module for module in own_imports(name) if within(module, later)}


def test_the_check_of_imports_sees_a_wrong_one():
    assert "_kmeans.labels.lloyd" in own_imports("estimators.cmvc.solver")
    assert within("_cli.bench.cases", ("_cli",))
    assert not within("_client", ("_cli",))


def test_modules_of_a_room_import_each_other_in_one_direction():
    needs = {name: {module for module in own_imports(name) if module in MODULES} for name in MODULES}
    done = set()
    while ready := {name for name in MODULES if name not in done and needs[name] <= done}:
        done |= ready
    assert set(MODULES) == done


@pytest.mark.parametrize("name", [name for name in MODULES if not within(name, NAMES_NUMPY)])
def test_numpy_is_named_only_where_tables_are_on_the_host(name):
    assert "numpy" not in {module.split(".")[0] for module in imported(TREES[name])}


@pytest.mark.parametrize("name", [name for name in MODULES if not within(name, NAMES_CUPY)])
def test_cupy_is_named_in_few_places(name):
    assert "cupy" not in {module.split(".")[0] for module in imported(TREES[name])}


@pytest.mark.parametrize("name", [name for name in MODULES if not within(name, ("_kernels", "membership"))])
def test_kernels_are_reached_through_their_home(name):
    """The products of the membership operator have one home, `_kernels.products`, and `Membership` as its front."""
    assert not own_imports(name) & {"_kernels.cpu.membership", "_kernels.cuda.membership"}


@pytest.mark.parametrize("folder", [path.parent for path in PACKAGE.rglob("__init__.py")], ids=lambda path: path.name)
def test_a_folder_says_what_it_is_and_holds_few_entries(folder):
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    if folder not in (PACKAGE, PACKAGE / "estimators"):  # of methods there are as many as there are
        entries = [path for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
        assert len(entries) <= ENTRIES


@pytest.mark.parametrize("name", MODULES)
def test_a_file_is_not_long(name):
    assert len(MODULES[name].read_text().splitlines()) <= LINES


def test_type_checkers_are_told_of_every_estimator():
    from gpuensemble.estimators._base.registry import methods

    told = re.findall(
        r"^    from (gpuensemble\.estimators\.\w+) import (\w+) as \2$", (PACKAGE / "__init__.py").read_text(), re.M
    )
    assert sorted(told) == sorted({(_module_of(method), method.estimator.__name__) for method in methods().values()})


def _module_of(method):
    return ".".join(method.estimator.__module__.split(".")[:3])


def test_a_star_import_brings_modules_and_estimators():
    names = {}
    exec("from gpuensemble import *", names)
    assert {"SEC", "LTA", "HBGF", "Membership", "coassociation", "align", "prox", "generate"} <= set(names)


def test_importing_brings_no_optional_library():
    optional = ("anndata", "cupy", "dask", "leidenalg", "matplotlib", "pandas", "sklearn")
    code = f"import sys, gpuensemble; print([name for name in {optional} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def uses_in(name, tree):
    """(file and line, path below cupy, keywords or None) of every xp.a.b, cupy.a.b and namespace(...).a."""
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner and (path := path_below_cupy(node)):
            call = called.get(id(node))
            keywords = [keyword.arg for keyword in call.keywords] if call else None
            yield f"{name}:{node.lineno}", path, keywords


def path_below_cupy(node):
    path = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    is_namespace = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "namespace"
    return path if is_namespace or (isinstance(node, ast.Name) and node.id in ("xp", "cupy")) else None


def assert_known(cupy, place, path, keywords):
    """That CuPy has the name, and the function those keywords."""
    value = cupy
    for part in path:
        assert hasattr(value, part), f"{place}: cupy has no {'.'.join(path)}"
        value = getattr(value, part)
    if keywords and not isinstance(value, cupy.ufunc) and path != ["RawModule"]:
        unknown = set(keywords) - set(inspect.signature(value).parameters)
        assert not unknown, f"{place}: cupy.{'.'.join(path)} has no keyword {unknown}"


def test_every_cupy_name_and_keyword_exists():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    uses = [use for name, tree in TREES.items() for use in uses_in(name, tree)]
    assert len(uses) > 20
    for use in uses:
        assert_known(cupy, *use)


def test_the_check_of_names_sees_an_unknown_one():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    with pytest.raises(AssertionError, match=r"a:1: cupy has no linalg\.nothing"):
        assert_known(cupy, *next(uses_in("a", ast.parse("xp.linalg.nothing(a)"))))
    with pytest.raises(AssertionError, match=r"a:1: cupy\.linalg\.svd has no keyword \{'hermitian'\}"):
        assert_known(cupy, *next(uses_in("a", ast.parse("namespace(a).linalg.svd(a, hermitian=True)"))))


def test_a_wheel_carries_the_kernels(tmp_path):
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
        str(ROOT),
    ]
    subprocess.run(build, capture_output=True, text=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    kernels = {f"gpuensemble/kernels/{path.name}" for path in (ROOT / "kernels").glob("*.cu")}
    assert kernels
    assert kernels < set(names)
    assert "gpuensemble/py.typed" in names
    code = (
        "from gpuensemble._kernels.cuda import source as s; print(s.__file__); print(s.source('membership.cu'), end='')"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    file, text = done.stdout.split("\n", 1)
    assert Path(file).is_relative_to(tmp_path)
    membership, rows = ((ROOT / "kernels" / name).read_text() for name in ("membership.cu", "rows.cu"))
    assert text == membership.replace('#include "rows.cu"\n', rows)


def test_the_readme_example_runs(capsys):
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert 0.9 < float(capsys.readouterr().out.split()[0]) <= 1  # the NMI with the digits


INNER = {"inner", "inner_reordered", "inlined"}
COMPILED = {"kernel", "reordered"} | INNER


def functions(name, decorated):
    """The functions of a module that have, or have not, one of the decorators of compiled ones."""
    made = [node for node in ast.walk(TREES[name]) if isinstance(node, ast.FunctionDef)]
    by = {one: {mark.id for mark in one.decorator_list if isinstance(mark, ast.Name)} for one in made}
    return [one for one in made if by[one] & decorated]


def test_python_calls_no_function_that_is_compiled_for_kernels_only():
    """Such a call would end the process: there is no code for it."""
    inner = {(name, one.name) for name in MODULES for one in functions(name, INNER)}
    assert len(inner) > 10
    for name, tree in TREES.items():
        here = {function for module, function in inner if module == name}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpuensemble."):
                home = node.module.removeprefix("gpuensemble.")
                here |= {alias.name for alias in node.names if (home, alias.name) in inner}
        compiled = {id(node) for one in functions(name, COMPILED) for node in ast.walk(one)}
        used = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in compiled]
        assert not {node.id for node in used if node.id in here}, name


def origins(tree, module):
    """Where each name that a file imports comes from, as module.name; of another one it is the file itself."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return lambda name: found.get(name, f"{module}.{name}")


def constants_of_kernels():
    """All constants that are compiled into kernels."""
    for name, tree in TREES.items():
        origin = origins(tree, f"gpuensemble.{name}")
        for node in (node for one in functions(name, COMPILED) for node in ast.walk(one)):
            if isinstance(node, ast.Name) and node.id.isupper():
                yield origin(node.id)
            elif isinstance(node, ast.Attribute) and node.attr.isupper() and isinstance(node.value, ast.Name):
                yield f"{origin(node.value.id)}.{node.attr}"


def test_no_test_changes_what_is_compiled_into_a_kernel():
    """The kernel would go on with the old number, and write beyond arrays that are made with the new one."""
    compiled = set(constants_of_kernels())
    assert {"gpuensemble._kernels.cpu.features.spans.SPAN", "gpuensemble._kernels.distances.KL"} <= compiled
    changed = set()
    for path in (ROOT / "tests").rglob("*.py"):
        tree = ast.parse(path.read_text())
        origin = origins(tree, path.stem)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "monkeypatch.setattr" and len(node.args) == 3:
                where, what = map(ast.unparse, node.args[:2])
                changed.add(f"{origin(where)}.{what.strip(chr(39))}")
    assert "gpuensemble._kernels.cpu.features.steps.BLOCK" in changed
    assert not compiled & changed
