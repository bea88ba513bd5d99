"""The kernels of PCE: Numba or LAPACK, the CUDA source on the CPU, and the PTX that NVRTC makes of it."""

import numpy as np
import pytest
from test_kernels import USUAL, _installed

from cudasim import nvrtc
from gpuensemble._array.devices import to_host
from gpuensemble._kernels.cpu.pce import curve as cpu_curve
from gpuensemble._kernels.cpu.pce import holes as cpu_holes
from gpuensemble._kernels.cpu.pce import rotations as cpu_rotations
from gpuensemble._kernels.cuda import source
from gpuensemble._kernels.cuda.pce import curve as cuda_curve
from gpuensemble._kernels.cuda.pce import holes as cuda_holes
from gpuensemble._kernels.cuda.pce import rotations as cuda_rotations
from gpuensemble.estimators.pce.embedding import Search
from support import check, membership, random_codes

FLOATS = ("float32", "float64")


@pytest.fixture(params=USUAL)
def device(request, monkeypatch):
    with _installed(request.param, monkeypatch) as module:
        yield module


# ------------------------------------------------------------------------------------------------ holes

# name: n, widths, K, share of holes
HOLES = {
    "groups of 4, more rows than groups": (120, [3, 4, 2], 5, 0.5),
    "groups of 8, one row": (1, [5, 8], 3, 0.9),
    "groups of 32, more clusters than lanes": (6, [40, 2, 3], 2, 0.5),
    "no holes": (5, [2, 2], 2, 0),
    "K = 1": (9, [2, 17], 1, 0.4),
}


def holes(n, widths, k, share, dtype):
    """Codes with holes, F and tables in which many rows are equal, so that costs tie."""
    rng = np.random.default_rng(n)
    codes = random_codes(rng, n, widths, share)
    rotations = rng.standard_normal((4, k)).astype(dtype)[np.resize(rng.integers(0, 4, 32), sum(widths))]
    weighted = rotations * np.repeat(rng.random(len(widths)), widths)[:, None].astype(dtype)
    points = rng.standard_normal((n, k)).astype(dtype)
    return codes, (points, rotations, weighted, (rotations * weighted).sum(1))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", HOLES)
def test_holes_get_the_same_labels(device, name, dtype, monkeypatch):
    n, widths, k, share = HOLES[name]
    codes, tables = holes(n, widths, k, share, dtype)
    here, there = (membership(xp, codes, widths) for xp in (np, device))
    on_device = [device.asarray(table) for table in tables]
    for shared in (48 * 1024, 0):  # the rests in shared memory, and outside of it
        monkeypatch.setattr(cuda_holes, "SHARED_BYTES", shared)
        m, other = here.filled(here.codes.copy()), there.filled(there.codes.copy())
        for points in (tables[0], -tables[0]):  # the holes hold nothing, then labels that must change
            cpu_holes.impute(m, here, points, *tables[1:])
            cuda_holes.impute(other, there, device.asarray(points), *on_device[1:])
            check(other.codes, m.codes, device, exact=True)
        assert (m.codes < np.array(widths)).all()


# ------------------------------------------------------------------------------------------------ rotations

# name: n, widths, K, share of holes
TABLES = {
    "fewer and more clusters than K": (300, [4, 2, 7, 1, 4], 4, 0.2),
    "one partition": (9, [3], 3, 0),
    "an odd K": (20, [5, 3, 6], 5, 0.5),
    "pairs that do not fit into shared memory": (12, [90, 3, 100], 2, 0.1),
    "K = 1": (7, [2, 1], 1, 0),
}


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("name", TABLES)
def test_pairs_are_counted_in_the_same_integers(device, name, weighted):
    n, widths, _, share = TABLES[name]
    rng = np.random.default_rng(n)
    codes = random_codes(rng, n, widths, share)
    weight = rng.integers(0, 2**40, n) if weighted else None
    here, there = (membership(xp, codes, widths) for xp in (np, device))
    r = len(widths)
    onehot = np.concatenate([codes[:, [i]] == np.arange(width) for i, width in enumerate(widths)], axis=1)
    whole = onehot.T.astype("int64") @ (onehot * (np.ones(n, "int64") if weight is None else weight)[:, None])
    for first, last in {(0, r), (r - 1, r), (0, 1)}:
        rows = slice(here.offsets[first], here.offsets[last])
        np.testing.assert_array_equal(cpu_rotations.count_pairs(here, weight, first, last), whole[rows])
        found = cuda_rotations.count_pairs(there, None if weight is None else device.asarray(weight), first, last)
        check(found, whole[rows], device, exact=True)


def rotations(name):
    """What `programme` and `rotate` are given."""
    n, widths, k, _ = TABLES[name]
    rng = np.random.default_rng(n)
    m = membership(np, random_codes(rng, n, widths, 0), widths)
    counts = cpu_rotations.count_pairs(m, rng.integers(1, 100, n), 0, len(widths))
    tables = np.concatenate([cpu_rotations.polar(rng.standard_normal((width, k))) for width in widths])
    share = np.repeat(rng.dirichlet(np.ones(len(widths))), widths)
    return m, tables, rng.standard_normal((len(tables), k)) * 10, counts, share


@pytest.mark.parametrize("name", TABLES)
def test_the_programme_is_the_same(device, name):
    m, tables, rows, counts, _ = rotations(name)
    there = membership(device, m.codes, m.widths)
    r = len(m.widths)
    for first, last in {(0, r), (r - 1, r)}:
        part = counts[m.offsets[first] : m.offsets[last]]
        expected = cpu_rotations.programme(m, tables, rows, part, 0.25, first, last)
        given = [device.asarray(array) for array in (tables, rows, part)]
        found = to_host(cuda_rotations.programme(there, *given, 0.25, first, last))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("name", TABLES)
def test_rotations_are_those_of_lapack(device, name):
    m, tables, rows, counts, share = rotations(name)
    r = len(m.widths)
    here, there, ends = tables.copy(), device.asarray(tables), device.asarray(m.offsets)
    for first, last in ((0, r), (r - 1, r)):
        part = counts[m.offsets[first] : m.offsets[last]]
        cpu_rotations.rotate(m.offsets, here, rows, 1e-10, part, 0.25, share, first, last)
        given = (device.asarray(part), 0.25, device.asarray(share), first, last)
        cuda_rotations.rotate(ends, there, device.asarray(rows), 1e-10, *given)
        np.testing.assert_allclose(to_host(there), here, atol=1e-9)
    for width, part in zip(m.widths, np.split(to_host(there), m.offsets[1:-1]), strict=True):
        gram = part @ part.T if width <= part.shape[1] else part.T @ part
        np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-13)


def singular(kind, k):
    rng = np.random.default_rng(k)
    values = {"zero": np.zeros(k), "rank 1": np.eye(k)[0], "steep": np.logspace(0, -9, k), "equal": np.ones(k)}[kind]
    left, right = (np.linalg.qr(rng.standard_normal((k, k)))[0] for _ in range(2))
    return 1e3 * left * values @ right, np.linalg.qr(rng.standard_normal((k, k)))[0]


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("kind", ["zero", "rank 1", "steep", "equal"])
def test_a_rotation_is_exact_where_its_matrix_is_nearly_singular(device, kind, k):
    x, before = singular(kind, k)
    there, ends = device.asarray(before), device.asarray(np.array([0, k], "int32"))
    cuda_rotations.rotate(ends, there, device.asarray(x), 1e-10)
    found, here = to_host(there), before.copy()
    cpu_rotations.rotate(np.array([0, k]), here, x, 1e-10)
    np.testing.assert_allclose(found @ found.T, np.eye(k), atol=1e-14 * k)
    assert (found * x).sum() == pytest.approx(np.linalg.svd(x)[1].sum(), rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(found, here, atol=1e-4 if kind in ("rank 1", "steep") else 1e-11)


@pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing())
@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_the_block_of_rotate_has_enough_registers(arch):
    compiled = nvrtc.compile(source.source("rotations.cu"), ("rotate<double>",), arch)
    (usage,) = nvrtc.usage(compiled.log).values()
    assert usage.registers * 32 * cuda_rotations.TURN_WARPS <= 1 << 16


# ------------------------------------------------------------------------------------------------ curve


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (45, 3), (200, 5)])
def test_frames_have_the_same_bits(device, n, k, dtype):
    rng = np.random.default_rng(n)
    arrays = [rng.standard_normal((n, k)).astype(dtype) for _ in range(3)]
    arrays += [rng.random(n).astype(dtype), rng.integers(0, k, n).astype("int32")]
    arrays += [rng.standard_normal((k, k)).astype(dtype)]
    here, there = np.empty((n, 4 * k), dtype), device.empty((n, 4 * k), dtype)
    cpu_curve.frame(*arrays, 0.7, here)
    cuda_curve.frame(*map(device.asarray, arrays), 0.7, there)
    check(there, here, device, exact=True)
    points, product, mean, v, labels, table = arrays
    target, diagonal = mean * v[:, None] ** 2 + table[labels], v[:, None] ** 2 + dtype_of(dtype)(0.7)
    gradient = diagonal * points - target - product
    np.testing.assert_allclose(here, np.concatenate([points, gradient, target, diagonal * gradient], 1), rtol=1e-5)


def dtype_of(name):
    return np.dtype(name).type


def searches(k, seed):
    """The inner products of a search in the middle, with columns and an S that are not quite the right ones."""
    rng = np.random.default_rng(seed)
    x = np.linalg.qr(rng.standard_normal((40, k)))[0] * (1 + 1e-5)
    diagonal, target = 1 + rng.random((40, 1)), x + rng.standard_normal((40, k)) / 6
    centre = rng.standard_normal((k, k)) / 5
    centre += centre.T
    gradient = diagonal * x - target - x @ centre
    frame = np.concatenate([x, gradient, target, diagonal * gradient], axis=1)
    return frame.T @ frame, centre


# what to try first; 0: a tenth of a radian
STEPS = {"first": 0.0, "short": 1e-3, "long": 30.0, "too long": 1e6}


@pytest.mark.parametrize("is_long", [True, False])
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_the_search_is_that_of_the_cpu(device, name, k, is_long):
    gram, centre = searches(k, seed=k)
    step = np.array([STEPS[name]])
    expected = cpu_curve.curve(gram, centre, step, is_long, Search())
    found = cuda_curve.curve(*map(device.asarray, (gram, centre, step)), is_long, Search())
    for one, two in zip(expected, found, strict=True):
        np.testing.assert_allclose(to_host(two), one, rtol=1e-9, atol=1e-11)


def test_a_search_that_cannot_fall_stays_and_starts_again(device):
    gram, centre = searches(3, seed=1)
    for settings, following in ((Search(decrease=1e9, max_trials=3), 0.0), (Search(noise=1e30), 0.5)):
        expected = cpu_curve.curve(gram, centre, np.array([0.5]), True, settings)
        found = cuda_curve.curve(*map(device.asarray, (gram, centre, np.array([0.5]))), True, settings)
        np.testing.assert_array_equal(to_host(found[0]), np.eye(6, 3))
        for one, two in zip(expected, found, strict=True):
            np.testing.assert_allclose(to_host(two), one, rtol=1e-12, atol=1e-14)
        assert to_host(found[2]).tolist() == [following]
