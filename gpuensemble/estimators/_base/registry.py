"""The registry finds the methods in the folder of estimators, for commands, checks, benches and law tests.

A module there that does not begin with an underscore has one estimator, whose name in lower case, without underscores,
is the module's. The class attributes of `Consensus` say what else there is to know.
"""

import functools
import importlib.util
import pkgutil
from importlib import import_module
from typing import Any, NamedTuple

from gpuensemble import estimators


class Method(NamedTuple):
    """A method has a name and a title for commands and tables, an estimator, and parameters other than the defaults."""

    name: str
    title: str
    estimator: Any  # the class
    parameters: dict[str, Any]

    @property
    def of_views(self) -> bool:
        """Tell whether its input is a list of feature matrices; else it is a table of labels."""
        return self.estimator._of_views

    @property
    def holes(self) -> bool:
        """Tell whether it takes a table with holes."""
        return self.estimator._takes_holes

    @property
    def square(self) -> bool:
        """Tell whether it works on n x n arrays, over and over."""
        return self.estimator._is_square

    @property
    def missing(self) -> str | None:
        """Return the package that it needs and that is not installed; None if there is none."""
        needs = self.estimator._needs
        return needs if needs is not None and importlib.util.find_spec(needs) is None else None

    def make(self, n_clusters: int, seed: int | None, device: str, verbose: int = 0, /, **parameters: Any) -> Any:
        """Make the estimator, not fitted; a parameter that it does not have is refused, whatever its name."""
        made = self.estimator(n_clusters, random_state=seed, device=device, verbose=verbose, **self.parameters)
        return made.set_params(**parameters)


def modules() -> dict[str, str]:
    """Return the modules of the estimators by the estimators' names in lower case; none is imported for this."""
    found = [info.name for info in pkgutil.iter_modules(estimators.__path__) if not info.name.startswith("_")]
    return {name.replace("_", ""): f"{estimators.__name__}.{name}" for name in found}


def estimator(name: str) -> Any:
    """Return the class of an estimator by its name, imported when first asked for; None if there is none."""
    module = modules().get(name.lower())
    return None if module is None else vars(import_module(module)).get(name)


@functools.cache
def methods() -> dict[str, Method]:
    """Return all methods by name.

    Those of tables of labels come first, and among these the ones that do not work on n x n arrays over and over.
    """
    found = [method for module in modules().values() for method in _of_module(import_module(module))]
    found.sort(key=lambda method: (method.of_views, method.square, method.name))
    return {method.name: method for method in found}


def of_labels() -> dict[str, Method]:
    """Return the methods whose input is a table of labels."""
    return {name: method for name, method in methods().items() if not method.of_views}


def of_views() -> dict[str, Method]:
    """Return the methods whose input is a list of feature matrices."""
    return {name: method for name, method in methods().items() if method.of_views}


def _of_module(module: Any) -> list[Method]:
    """Return the method of a module's estimator, and its variants."""
    name = module.__name__.rpartition(".")[2].replace("_", "")
    kind: Any = next(value for key, value in vars(module).items() if key.lower() == name and isinstance(value, type))
    plain = Method(module.__name__.rpartition(".")[2].replace("_", "-"), kind._title or kind.__name__, kind, {})
    return [plain, *(Method(key, title, kind, given) for key, (title, given) in kind._variants.items())]
