"""Blocks on one device and on several of one process: the same bits, and what goes over the bus."""

import numpy as np
import pytest

import gpuensemble as ge
from cudasim import devices as simulated
from cudasim import standin
from cudasim.shim import ShimModule, gxx
from cudasim.tally import counted
from gpuensemble._array.devices import device_of, namespace, on, to_device, to_host
from gpuensemble._kernels import products
from gpuensemble._tables import blocks, sources
from support import random_codes

pytestmark = pytest.mark.skipif(gxx() is None, reason="g++ is not installed: no kernel runs on the stand-in device")
N, R = 300, 4
START = np.arange(N) % 3
METHODS = {
    "SEC": lambda **more: ge.SEC(3, init=START, **more),
    "SEC spectral": lambda **more: ge.SEC(3, random_state=0, **more),
    "SEC k-means++": lambda **more: ge.SEC(3, init="k-means++", n_init=2, random_state=0, **more),
    "KCC random": lambda **more: ge.KCC(3, init="random", n_init=2, random_state=0, **more),
    "HBGF": lambda **more: ge.HBGF(3, random_state=0, **more),
    "ClusterWalk": lambda **more: ge.ClusterWalk(3, random_state=0, **more),
    "MCLA": lambda **more: ge.MCLA(3, random_state=0, **more),
    "Voting": lambda **more: ge.Voting(3, random_state=0, **more),
    "LWEA": lambda **more: ge.LWEA(3, n_groups=20, random_state=0, **more),
}


@pytest.fixture
def cupy():
    with standin.installed(ShimModule) as module, simulated.several(3):
        yield module


def noisy(holes=0.2):
    """Noisy copies of a partition, some of them with holes."""
    rng = np.random.default_rng(0)
    labels = random_codes(rng, N, np.full(R, 6), holes)
    kept = (rng.random(labels.shape) < 0.6) & (labels >= 0)
    labels[kept] = np.repeat(rng.integers(0, 4, N)[:, None], R, axis=1)[kept]
    return labels.astype("int8")


@pytest.fixture(params=["in memory", "on disk"])
def given(request, tmp_path, monkeypatch):
    """A table in memory, or on disk in seven blocks."""
    monkeypatch.setattr(sources, "DEVICE_BYTES", N * R // 6)
    monkeypatch.setattr(sources.readers, "BLOCK_BYTES", N * R // 6)
    if request.param == "in memory":
        return noisy()
    np.save(tmp_path / "labels.npy", noisy())
    return str(tmp_path / "labels.npy")


@pytest.mark.parametrize("name", METHODS)
def test_all_devices_give_the_bits_of_the_cpu(cupy, given, name):
    weight = np.random.default_rng(1).integers(0, 4, N)
    expected = METHODS[name](device="cpu").fit(noisy(), sample_weight=weight)
    found = METHODS[name](device="cuda:all").fit(given, sample_weight=weight)
    assert found.device_ == "cuda:all"
    assert isinstance(found.labels_, np.ndarray)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.predict(noisy()), expected.predict(noisy()))
    if not name.startswith(("SEC spectral", "HBGF")):  # eigenvectors are the same up to rounding
        np.testing.assert_array_equal(found.confidence_, expected.confidence_)
    assert not simulated.HAZARDS


def test_a_single_device_is_all_of_them(cupy, given):
    with simulated.several(1):
        found = ge.SEC(3, init=START, device="cuda:all").fit(given)
    assert found.device_ == "cuda:0"
    np.testing.assert_array_equal(found.labels_, ge.SEC(3, init=START, device="cpu").fit(noisy()).labels_)


def test_labels_come_back_to_the_device_of_the_input(cupy):
    with on("cuda:2"):
        labels = cupy.asarray(noisy())
    found = ge.SEC(3, init=START, device="cuda:all").fit(labels)
    assert device_of(found.labels_) == device_of(found.confidence_) == "cuda:2"
    np.testing.assert_array_equal(to_host(found.labels_), ge.SEC(3, init=START, device="cpu").fit(noisy()).labels_)


def test_more_devices_than_rows_are_no_harm(cupy):
    found = ge.SEC(2, init=[0, 1], device="cuda:all").fit([[0, 0], [1, 1]])
    assert found.labels_.tolist() == [0, 1]


@pytest.mark.parametrize("make", [lambda: ge.RSEC(3, device="cuda:all"), lambda: ge.PCE(3, device="cuda:all")])
def test_methods_without_blocks_name_the_devices_that_they_take(cupy, make):
    rule = '^`device` must be "auto", "cpu", "cuda" or "cuda:N" where rows do not come in blocks, got \'cuda:all\'.$'
    with pytest.raises(ValueError, match=rule):
        make().fit(noisy(0))


def test_all_devices_of_none_are_refused():
    if sources.choose_devices("auto") != ["cpu"]:
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(ValueError, match=r"^`device` must be one that is there, got 'cuda:all': CuPy "):
        ge.SEC(3, device="cuda:all").fit(noisy())


# What goes over the bus.


def costs(block, table):
    """A step of the kind that Lloyd's iteration takes: labels by a table that all blocks share, and counts of them."""
    xp = namespace(block.m.codes)
    device = block.m.device
    cost = blocks.shared_on(device, table, lambda: to_device(table.costs, device))
    labels, _, _ = products.assign(block.m, cost, xp.zeros((1, cost.shape[1])), None)
    return (products.count(block.m, labels, None, cost.shape[1]),)


class Costs(blocks.Lasting):
    def __init__(self, n_columns):
        super().__init__()
        self.costs = np.random.default_rng(2).random((n_columns, 5))


def streamed(devices, rows=40):
    codes = random_codes(np.random.default_rng(0), N, np.full(R, 6), 0).astype("uint8")
    return blocks.Streamed(codes, [*range(0, N, rows), N], np.full(R, 6), True, None, None, devices)


@pytest.mark.parametrize("devices", [("cuda:1",), ("cuda:0", "cuda:1", "cuda:2")], ids=["one", "three"])
def test_codes_go_up_once_and_tables_once_for_each_device(cupy, devices):
    table, shared = streamed(devices), Costs(24)
    (expected,) = streamed(("cpu",)).total(costs, shared)
    table.total(costs, Costs(24))  # the columns of the partitions are there from now on
    with counted() as first:
        (found,) = table.total(costs, shared)
    np.testing.assert_array_equal(found, expected)
    n_blocks = len(table.caches)
    assert first.up == N * R + len(devices) * shared.costs.nbytes
    assert first.reads == n_blocks
    assert first.down == n_blocks * expected.nbytes
    assert first.kernels == 2 * n_blocks
    with counted() as second:
        table.total(costs, shared)
    assert second.up == N * R


def test_blocks_take_turns_on_the_devices_and_come_back_to_theirs(cupy):
    table = streamed(("cuda:0", "cuda:1", "cuda:2"))
    where = [table.each(lambda block: block.m.device) for _ in range(2)]
    assert where[0] == [f"cuda:{index % 3}" for index in range(8)]
    assert where[0] == where[1]


def test_a_table_on_several_devices_goes_up_once(cupy):
    with counted() as making:
        table, _ = sources.table(noisy(0).astype("int64"), "cuda:all", None, None)
    assert making.up == N * R + 3 * 4 * (R + 1)  # codes of one byte, and the columns of the partitions
    table.total(costs, Costs(24))
    with counted() as found:
        table.total(costs, Costs(24))
    assert found.up == 3 * 24 * 5 * 8
    assert table.each(lambda block: block.m.device) == ["cuda:0", "cuda:1", "cuda:2"]


def test_a_block_is_as_large_as_the_device_likes(cupy, monkeypatch):
    codes = np.lib.stride_tricks.as_strided(np.zeros(1, "uint8"), (100_000_000, 100), (0, 0))
    assert sources._rows_of_block(codes, ["cpu"]) == (1 << 22) // 100
    assert sources._rows_of_block(codes, ["cuda:0"]) == (1 << 28) // 100
    assert sources._rows_of_block(codes[:1000], ["cuda:0"]) == (1 << 22) // 100  # not worth a second launch
    assert sources._rows_of_block(codes[:1_000_000], ["cuda:0"]) == 500_000  # one works while the other goes up
    assert sources._rows_of_block(codes[:1_200_000], ["cuda:0", "cuda:1", "cuda:2"]) == 200_000
    monkeypatch.setattr(sources, "memory", lambda device: {"cuda:0": 1 << 33, "cuda:1": 1 << 28}[device])
    assert sources._rows_of_block(codes, ["cuda:0", "cuda:1"]) == (1 << 27) // 2 // 356
