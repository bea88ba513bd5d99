"""scikit-learn's base classes, with types for type checkers, which scikit-learn has none of.

A class with a base of no type has any attribute, for a type checker; with these it finds a name that is misspelt.
"""

from typing import TYPE_CHECKING, Any

from gpuensemble._array.devices import Array

if TYPE_CHECKING:
    from typing import Self

    class ClusterMixin:
        """What scikit-learn gives to a clusterer."""

        labels_: Array

        def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> Array: ...

    class BaseEstimator:
        """What scikit-learn gives to an estimator."""

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def get_metadata_routing(self) -> Any: ...
        def set_fit_request(self, **requests: bool | str | None) -> Self: ...
        @classmethod
        def _get_param_names(cls) -> list[str]: ...
        def __getstate__(self) -> dict[str, Any]: ...
        def __sklearn_tags__(self) -> Any: ...
else:
    from sklearn.base import BaseEstimator, ClusterMixin

__all__ = ["BaseEstimator", "ClusterMixin"]
