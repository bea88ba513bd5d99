"""Views are feature matrices of the same samples, which a sample may be absent from; sub-views have random columns."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuensemble._array import checks, csr, frames, random
from gpuensemble._array.devices import Array, device_of, namespace, to_device
from gpuensemble._array.messages import shown
from gpuensemble._kernels.cpu.features import columns
from gpuensemble._kernels.cpu.vector.tiles import side_by_side
from gpuensemble._kmeans.features.distances import FeatureBlock, Features, centred, mean_of, prepare


class View(NamedTuple):
    """A view is a matrix, and which rows are present in it; the other rows are 0."""

    X: Any  # array or Csr
    present: Array | None  # n booleans; None: all


def checked(given: Any, present: Any, distance: str, device: str, dtype: str) -> list[View]:
    """Check the caller's views, and bring them to the device and the dtype.

    Parameters
    ----------
    given : list of n x d_v matrices
        Dense or sparse, of NumPy, SciPy or CuPy, or DataFrames, whose index names rows in messages.
    present : n x views booleans, or None
        Where a sample is present. A row of NaN in a dense view is absent as well.
    distance : str
        What it cannot measure is refused, in the rows that are present.
    device, dtype : str
        Where the views go, and the type of their numbers.
    """
    given = _listed(given)
    matrices = [csr.unchecked(X, f"views[{v}]", device) for v, X in enumerate(given)]
    n = _common_length(matrices)
    frame, first = next(((X, v) for v, X in enumerate(given) if hasattr(X, "iloc")), (None, 0))
    for v, X in enumerate(given):
        frames.refuse_another_order(X, f"views[{v}]", frame, f"views[{first}]")
    rows = range(n) if frame is None else frame.index
    seen = [None] * len(matrices) if present is None else _presence(present, n, len(matrices), device)
    views = [_without_absent(X, marked) for X, marked in zip(matrices, seen, strict=True)]
    for v, view in enumerate(views):
        _refuse_values(view, f"views[{v}]", distance, rows, dtype)
    refuse_unseen([view.present for view in views], rows, "be present in a view", "absent from all")
    return [view._replace(X=csr.cast(view.X, dtype)) for view in views]


def _listed(given: Any) -> list:
    if not isinstance(given, list | tuple):
        raise TypeError(f"`views` must be a list of matrices of the same samples, got {type(given).__name__}.")
    if not given:
        raise ValueError("`views` must be a list of at least one matrix, got an empty one.")
    return list(given)


def _common_length(matrices: list) -> int:
    n = matrices[0].shape[0]
    for v, X in enumerate(matrices):
        if X.shape[0] != n:
            raise ValueError(
                f"`views` must have the same number of rows, got {n} in views[0] and {X.shape[0]} in views[{v}]."
            )
    return n


def _presence(present: Any, n: int, n_views: int, device: str) -> list[Array]:
    """Check `present`, and return n booleans for each view."""
    present = checks.array(present, "present", device, 2)
    if present.shape != (n, n_views):
        raise ValueError(f"`present` must be n_samples x views = {n} x {n_views}, got shape {present.shape}.")
    other = (present != 0) & (present != 1)
    if bool(other.any()):
        row, column = csr.first_place(present, other)
        value = shown(present[row, column].item())
        raise ValueError(f"`present` must hold booleans, or 0 and 1, got {value} in row {row}, column {column}.")
    return [present[:, v] != 0 for v in range(n_views)]


def _without_absent(X: Any, marked: Array | None) -> View:
    """Put zeros into rows that are not marked as present, or hold nothing but NaN."""
    xp = namespace(csr.entries(X))
    present = marked
    if not isinstance(X, csr.Csr) and bool(xp.isnan(X.max())):  # else there is none, and this takes less time
        present = _both(present, ~xp.isnan(X).all(1))
    if present is None or bool(present.all()):
        return View(X, None)
    return View(X.blank(~present) if isinstance(X, csr.Csr) else xp.where(present[:, None], X, 0), present)


def _refuse_values(view: View, name: str, distance: str, rows: Sequence, dtype: str) -> None:
    """Raise if a row that is present has values that the distance cannot take."""
    X, values = view.X, csr.entries(view.X)
    if view.present is not None and not bool(view.present.any()):
        raise ValueError(f"`{name}` must have a sample that is present, got none.")
    if not csr.is_finite(values):
        bad = ~namespace(values).isfinite(values)
        row, column = csr.first_place(X, bad)
        place, value = f"row {shown(rows[row])}, column {column}", float(values[bad][0])
        raise ValueError(f"`{name}` must be finite where a sample is present, got {value} in {place}.")
    csr.refuse_unfit(X, name, distance, rows, view.present, dtype)


def refuse_unseen(present: list, rows: Sequence, rule: str, fault: str) -> None:
    """Raise if a row is present nowhere."""
    if any(one is None for one in present):
        return
    seen = present[0]
    for one in present[1:]:
        seen = seen | one
    if not bool(seen.all()):
        row = shown(rows[int((~seen).argmax())])
        raise ValueError(f"Every sample must {rule}, got row {row} {fault}.")


class Recipe(NamedTuple):
    """This says how sub-views are made: how many of a view, their share of its columns, and how rows are measured."""

    n_subviews: int
    feature_ratio: float
    distance: str
    scale_rows: bool = False
    smoothing: float = 0.0


def subviews(views: list[View], recipe: Recipe, rng: Any, in_turn: Callable = map) -> list[Features]:
    """Return random columns of each view, n_subviews times; a column is used as often as any other, or once more.

    For "cosine" and "kl" a row that is all zero in the columns of a sub-view is absent from it, and a sub-view in which
    no row is present is left out. `in_turn` is `map`, or that of a pool of threads.
    """
    hands = [random.deal(view.X.shape[1], _width(view.X, recipe), recipe.n_subviews, rng) for view in views]
    dealt = []
    for view, hand in zip(views, hands, strict=True):
        centre, mean = _centred(view, recipe)
        rooms = _rooms(centre.X, recipe)
        dealt += [(centre, mean, chosen, room, recipe) for chosen, room in zip(hand, rooms, strict=True)]
    found = in_turn(lambda one: _subview(*one), dealt)
    return [part for part in found if part is not None]


def _rooms(X: Any, recipe: Recipe) -> list[tuple]:
    """Make room for the columns of each sub-view, and for these in float32; None where it is not needed, or not known.

    All have one piece of memory, which a system finds in large pages: many small ones take far longer to come by.
    """
    shape, nothing = (X.shape[0], _width(X, recipe)), [None] * recipe.n_subviews
    if isinstance(X, csr.Csr) or shape == X.shape or device_of(X) != "cpu":
        return list(zip(nothing, nothing, strict=True))
    shapes = [shape] * recipe.n_subviews
    short = side_by_side("float32", *shapes, zero=False) if _is_shortened(X, recipe) else nothing
    return list(zip(side_by_side(X.dtype, *shapes, zero=False), short, strict=True))


def _centred(view: View, recipe: Recipe) -> tuple[View, Array | None]:
    """Return a view and its mean, if it is to be taken off: it is off if the sub-views are the view itself."""
    if not _is_centred(view.X, recipe):
        return view, None
    if _width(view.X, recipe) < view.X.shape[1]:
        return view, mean_of(*view)
    X, mean = centred(*view)
    return View(X, view.present), mean


def _is_centred(X: Any, recipe: Recipe) -> bool:
    """Tell whether the mean of the whole view is taken off its sub-views; else they do without, or have their own."""
    return recipe.distance == "sqeuclidean" and not recipe.scale_rows and not isinstance(X, csr.Csr)


def _subview(view: View, mean: Array | None, chosen: Any, room: tuple, recipe: Recipe) -> Features | None:
    """Return the chosen columns of a view as features, or None if no row is present in them."""
    (X, present), on_host = view, device_of(csr.entries(view.X)) == "cpu"
    part = X
    if len(chosen) < X.shape[1]:
        chosen = to_device(chosen, device_of(csr.entries(X)))
        part = columns.taken(X, chosen) if on_host and isinstance(X, csr.Csr) else csr.columns(X, chosen, room[0])
        if mean is not None:
            mean = mean[chosen]
            part -= mean
            if present is not None:
                part[~present] = 0
    seen = present
    if recipe.distance != "sqeuclidean":
        zero = columns.zero_rows(part) if on_host else csr.zero_rows(part)
        seen = _both(present, ~zero) if bool(zero.any()) else present
    if seen is not None and not bool(seen.any()):
        return None
    part = csr.scaled(part, squared=recipe.distance != "kl") if recipe.scale_rows else part
    found = prepare([FeatureBlock(part, present=seen, smoothing=recipe.smoothing, mean=mean)], recipe.distance)
    return found.shortened(room[1]) if on_host and part is not X else found


def refuse_too_large(views: list[View], recipe: Recipe, device: str) -> None:
    """Raise if the sub-views do not fit into memory: what is copied of each view, and two numbers a row."""
    needed = sum(_copied(view, recipe, device) + recipe.n_subviews * 16 * view.X.shape[0] for view in views)
    what = f"The {recipe.n_subviews * len(views)} sub-views of CMVC"
    checks.fits(needed, what, device, "lower `n_subviews` or `feature_ratio`, or set `dtype` to 'float32'")


def _copied(view: View, recipe: Recipe, device: str) -> int:
    """Return how many bytes of a view its sub-views have for themselves: none if they are the view as it came."""
    X, sparse = view.X, isinstance(view.X, csr.Csr)
    size = _width(X, recipe)
    once = _is_centred(X, recipe) and size == X.shape[1]  # its mean is taken off
    changed = recipe.scale_rows or (view.present is not None and not once) or size < X.shape[1]
    whole = X.data.nbytes + X.indices.nbytes if sparse else X.nbytes
    each = whole * size // X.shape[1] if changed else 0
    short = each // 2 if device == "cpu" and _is_shortened(X, recipe) else 0
    return once * whole + recipe.n_subviews * (each + short)


def _is_shortened(X: Any, recipe: Recipe) -> bool:
    """Tell whether sub-views on the CPU have their rows in float32, too."""
    return not isinstance(X, csr.Csr) and X.dtype == "float64" and recipe.distance != "kl"


def _width(X: Any, recipe: Recipe) -> int:
    return max(1, round(recipe.feature_ratio * X.shape[1]))


def _both(one: Array | None, two: Array) -> Array:
    return two if one is None else one & two
