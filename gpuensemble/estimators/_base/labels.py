"""Our estimators share this with scikit-learn's: pickling, and for those of label tables tags and names of columns."""

import warnings
from typing import Any, ClassVar

from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning

from gpuensemble._array.devices import device_of, to_host


class HiddenParameter:
    """A hidden parameter has a name that scikit-learn keeps for a method: it can be set and got, but is no attribute.

    What has an attribute `transform` counts as a transformer in pipelines and in scikit-learn's checks.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, estimator: Any, value: Any) -> None:
        estimator.__dict__[self.name] = value

    def __get__(self, estimator: Any, owner: type) -> Any:
        raise AttributeError(f"`{self.name}` of {owner.__name__} is a parameter, no method: `get_params()` tells it.")


class Consensus(ClusterMixin, BaseEstimator):
    """The pickle of such an estimator holds NumPy arrays only, so that it loads on a machine without CuPy.

    What the registry wants to know of a method is said by class attributes.
    """

    _title: ClassVar[str] = ""  # what tables call it; the name of the class by default
    _variants: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {}  # further methods: name, title, parameters
    _of_views: ClassVar[bool] = False  # whether its input is a list of feature matrices
    _is_square: ClassVar[bool] = False  # whether it works on n x n arrays, over and over
    _takes_holes: ClassVar[bool] = True
    _needs: ClassVar[str | None] = None  # a package that an extra brings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, hidden ones too.

        Parameters
        ----------
        deep : bool
            Not used: no parameter is an estimator.
        """
        hidden = [name for name in self._get_param_names() if isinstance(_declared(type(self), name), HiddenParameter)]
        shown = {name: getattr(self, name) for name in self._get_param_names() if name not in hidden}
        return shown | {name: self.__dict__[name] for name in hidden}

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value if device_of(value) == "cpu" else to_host(value) for name, value in state.items()}


class NamedColumns:
    """`fit` of such an estimator sets `n_features_in_`, and `feature_names_in_` if a frame names columns by text."""

    def _remember_columns(self, table: Any, n_columns: int) -> None:
        """Remember how many columns `fit` saw, and their names."""
        self.n_features_in_ = n_columns
        names = _names(table)
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_columns(self, table: Any, name: str) -> None:
        """Raise if the columns of another table are called otherwise, or in another order, than those of `fit`."""
        names, known = _names(table), getattr(self, "feature_names_in_", None)
        if names is None or known is None or list(names) == list(known):
            return
        pairs = zip([*names, *[None] * len(known)], [*known, *[None] * len(names)], strict=True)
        found, expected = next((one, two) for one, two in pairs if one != two)
        raise ValueError(
            f"`{name}` must have the columns that `fit` saw, in that order, got {found!r} instead of {expected!r}."
        )


class LabelConsensus(NamedColumns, Consensus):
    """The input of such an estimator is a table of labels, samples x partitions: `n_features_in_` counts these."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = self._takes_holes
        tags.input_tags.positive_only = True
        return tags

    def _warn_of_empty_clusters(self, n_found: int) -> None:
        """Warn that some of the clusters that were asked for have no row."""
        warnings.warn(
            f"`n_clusters` = {self.n_clusters} clusters were asked for, but only {n_found} are not empty.",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _warn_of_distinct_rows(self, n_found: int) -> None:
        """Warn that there are fewer clusters than were asked for."""
        warnings.warn(
            f"`n_clusters` = {self.n_clusters} is more than there are distinct rows: {n_found} clusters.",
            ConvergenceWarning,
            stacklevel=5,
        )


def _names(labels: Any) -> Any:
    """Return the names of a DataFrame's columns, as objects, if all are text."""
    columns = getattr(labels, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return columns.to_numpy(dtype=object)


def _declared(kind: type, name: str) -> Any:
    """Return what a class, or one that it inherits from, has under that name; None if there is nothing."""
    return next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), None)
