"""Mutants of the modules that decide answers: `python tests/trust/mutants.py gpuensemble/membership.py --mutants 60`.

A mutant is the module with one small change. It goes into a copy of the package in a temporary folder, and the tests
that belong to the module run there; a change that no test notices has survived. `SURVIVORS.md` judges those. Numba,
SciPy and the like are imported once: each mutant is a fork of this process, made before anything of ours is imported.
"""

import argparse
import ast
import contextlib
import gc
import importlib
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PRELOADED = ("numba", "scipy.sparse.linalg", "sklearn.cluster", "pandas", "hypothesis", "pytest", "cupy")
ROOM, OWN, ARRAY = "gpuensemble/_kmeans/labels", "tests/kmeans/test_", "tests/array/test_"
MEMBERSHIP, METRICS = "tests/public/test_membership.py", "tests/public/test_metrics.py"
PAIRWISE = "tests/public/test_pairwise.py"
WHOLE = ["tests/tables/test_blocks.py", "tests/estimators/test_estimators.py", "-k"]  # whole fits
FITS = [*WHOLE, "a_mapped_file or weights or merged or little_is_kept or prediction_of_the or fewer_distinct"]
RESUMED = [*WHOLE, "hash_of_a_table or cut_off or resum or goes_on_with or same_fit or flipped"]
READ = [*WHOLE, "every_kind_of_file or text_in_parquet or bad_files or a_float_cannot or unknown_labels"]
# The tests of each module, in stages, the quick and telling ones first: of most mutants only the first stage runs.
TESTS = {
    "gpuensemble/membership.py": ([MEMBERSHIP], [f"{ARRAY}coding.py"]),
    "gpuensemble/_array/coding.py": ([f"{ARRAY}coding.py", f"{ARRAY}scanning.py"], [MEMBERSHIP, METRICS], READ),
    "gpuensemble/_array/csr.py": ([f"{ARRAY}sparse.py"], [f"{OWN}features.py"]),
    "gpuensemble/_array/rows.py": ([f"{ARRAY}rows.py"], [MEMBERSHIP]),
    f"{ROOM}/statistics.py": ([f"{OWN}costs.py"], [f"{OWN}labels.py"], FITS),
    f"{ROOM}/runs.py": ([f"{OWN}checkpoint.py"], RESUMED),
    f"{ROOM}/checkpoint.py": ([f"{OWN}checkpoint.py"], RESUMED),
}
for one in ("lloyd", "costs", "weights", "bounds", "seeding"):
    TESTS[f"{ROOM}/{one}.py"] = ([f"{OWN}{one}.py"], [f"{OWN}labels.py"], FITS)
for one in ("contingency", "matching", "pairs", "information", "elements"):
    TESTS[f"gpuensemble/metrics/{one}.py"] = ([METRICS], [PAIRWISE])
TESTS["gpuensemble/metrics/ensembles.py"] = ([PAIRWISE],)
for one in ("align", "bootstrap", "impute", "inputs", "stability"):
    TESTS[f"gpuensemble/_inspection/{one}.py"] = (["tests/inspection"],)
PAIRS = {"min": "max", "minimum": "maximum", "argmin": "argmax", "any": "all"}
SWAPPED = PAIRS | {other: name for name, other in PAIRS.items()}
OPERATORS = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult},
    **{ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd, ast.MatMult: ast.Mult},
}
# Messages, what is shown while a fit runs, and what only type checkers read decide no answer.
LEFT_OUT = (ast.Raise, ast.JoinedStr)
SHOWN = {"__repr__", "__all__", "TYPE_CHECKING", "show", "warn", "print"}
# Hypothesis stops at the first example that fails: a smaller one would tell nothing more.
FIRST_FAILURE = """
phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
hypothesis.settings.register_profile("mutants", hypothesis.settings(), phases=phases, report_multiple_bugs=False)
hypothesis.settings.load_profile("mutants")
"""


class Mutant(NamedTuple):
    """One change: the bytes from `begin` to `end` of the module become `text`."""

    line: int
    begin: int
    end: int
    text: str

    def of(self, source: bytes) -> bytes:
        """Return the module with the change."""
        return source[: self.begin] + self.text.encode() + source[self.end :]

    def shown(self, source: bytes) -> str:
        """Say on one line what changed."""
        before = " ".join(source[self.begin : self.end].decode().split())
        return f"line {self.line}: `{before}` -> `{self.text}`"


def mutants(source: bytes) -> list[Mutant]:
    """Return every mutant of a module that Python can read."""
    starts, found = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))], set()
    for node, text in _changes(ast.parse(source)):
        begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        found.add(Mutant(node.lineno, begin, end, text))
    return sorted(found)


def _changes(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Give each node that can change, and the text that takes its place."""
    if isinstance(node, LEFT_OUT) or _name(node) in SHOWN:
        return
    if isinstance(node, ast.stmt):
        yield from _of_statement(node)
    elif isinstance(node, ast.expr):
        yield from ((node, f"({text})") for text in _of_expression(node))
    for test, values in _conditions(node):
        yield from ((test, value) for value in values if ast.unparse(test) != value)
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list", "op", "ops"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _changes(child)


def _name(node: ast.AST) -> str:
    """Return the name that says whether a node is left out: of a function, a target, a condition or a call."""
    if isinstance(node, ast.FunctionDef):
        return node.name
    value = {ast.Assign: "targets", ast.If: "test", ast.Expr: "value"}.get(type(node))
    value = getattr(node, value) if value else None
    value = value[0] if isinstance(value, list) else value
    return ast.unparse(value.func if isinstance(value, ast.Call) else value) if value else ""


def _conditions(node: ast.AST) -> list[tuple[ast.expr, tuple[str, ...]]]:
    """Give the conditions of a node, and what they are forced to; a loop that never ends would only take time."""
    if isinstance(node, ast.If | ast.IfExp):
        return [(node.test, ("True", "False"))]
    if isinstance(node, ast.While):
        return [(node.test, ("False",))]
    return [(test, ("True",)) for test in node.ifs] if isinstance(node, ast.comprehension) else []


def _of_statement(node: ast.stmt) -> Iterator[tuple[ast.AST, str]]:
    """Drop calls and changes in place, and return nothing."""
    in_place = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript | ast.Attribute)
    if isinstance(node, ast.AugAssign) or in_place or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield node, "pass"
    if isinstance(node, ast.AugAssign):
        yield node, ast.unparse(ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value))
    if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield node, "return None"


def _of_expression(node: ast.expr) -> Iterator[str]:
    """Give other operators, constants and functions."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            ops = [*node.ops[:i], OPERATORS[type(op)](), *node.ops[i + 1 :]]
            yield ast.unparse(ast.Compare(node.left, ops, node.comparators))
    elif isinstance(node, ast.BinOp):
        yield ast.unparse(ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))
    elif isinstance(node, ast.BoolOp):
        yield ast.unparse(ast.BoolOp(OPERATORS[type(node.op)](), node.values))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield ast.unparse(node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield str(node.value + 1)
    elif isinstance(node, ast.Name) and node.id in SWAPPED and isinstance(node.ctx, ast.Load):
        yield SWAPPED[node.id]
    elif isinstance(node, ast.Attribute) and node.attr in SWAPPED:
        yield ast.unparse(ast.Attribute(node.value, SWAPPED[node.attr], ast.Load()))


def run_tests(copy: Path, tests: list[str], limit: float = 3600) -> int | None:
    """Run the tests of the copy in a fork of this process, and return the exit code of pytest; None: out of time."""
    child = os.fork()
    if not child:
        try:
            os._exit(_be_pytest(copy, tests))
        finally:  # whatever happens, the child does not go on with the work of its parent
            os._exit(3)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print("killed by its time limit", flush=True)
    return None


def _be_pytest(copy: Path, tests: list[str]) -> int:
    os.setsid()  # so that what it starts ends with it
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy)
    sys.path.insert(0, str(copy))
    log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # plugins of other libraries take a second to import
    plugins = ["-p", "xdist.plugin", "-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider"]
    options = ["-x", "-n", "0", "-q", "--tb=short", "-W", "ignore:Module already imported", *plugins]
    return int(importlib.import_module("pytest").main([*options, *tests]))


def copied(folder: str) -> Path:
    """Copy what the tests need; files keep their dates, so that what Numba has compiled is still good."""
    copy = Path(folder)
    for name in ("gpuensemble", "tests", "kernels"):
        shutil.copytree(ROOT / name, copy / name)
    shutil.copy2(ROOT / "pyproject.toml", copy)
    with (copy / "tests/conftest.py").open("a") as file:
        file.write(FIRST_FAILURE)
    return copy


def survivors(module: str, chosen: list[Mutant], stages: tuple[list[str], ...]) -> Iterator[Mutant]:
    """Give the mutants that no test notices."""
    source, limits = (ROOT / module).read_bytes(), []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = copied(folder)
        for tests in stages:
            begin = time.monotonic()
            if run_tests(copy, tests) != 0:
                sys.exit(f"The tests of {module} fail without a mutant:\n{(copy / 'log').read_text()}")
            limits.append(20 + 2 * (time.monotonic() - begin))
        print(f"{len(chosen)} mutants of {module}, at most {sum(limits):.0f} seconds each", flush=True)
        for mutant in chosen:
            for stale in (copy / module).parent.glob(f"__pycache__/{Path(module).stem}.*.pyc"):
                stale.unlink()
            (copy / module).write_bytes(mutant.of(source))
            if all(run_tests(copy, *stage) == 0 for stage in zip(stages, limits, strict=True)):
                yield mutant


def main() -> None:
    """Draw mutants, and print those that survive and the share that does not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", choices=TESTS)
    parser.add_argument("--mutants", type=int, default=60, help="how many are drawn")
    parser.add_argument("--lines", type=int, nargs="*", help="take those of these lines alone")
    options = parser.parse_args()
    source = (ROOT / options.module).read_bytes()
    every = mutants(source)
    some = random.Random(0).sample(every, min(options.mutants, len(every)))
    chosen = [mutant for mutant in every if mutant.line in options.lines] if options.lines else sorted(some)
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # a child does not look through what it shares with this process
    left = 0
    for mutant in survivors(options.module, chosen, TESTS[options.module]):
        left += 1
        print("survived", mutant.shown(source), flush=True)
    print(f"killed {len(chosen) - left} of {len(chosen)} drawn of {len(every)}: {1 - left / len(chosen):.1%}")


if __name__ == "__main__":
    main()
