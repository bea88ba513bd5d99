"""`gpuensemble bench`: its cases, its comparison with an earlier run, and its model of GPUs."""

import json
import os
import sys
from pathlib import Path
from subprocess import PIPE

import numpy as np
import psutil
import pytest

from cudasim import standin
from cudasim.shim import ShimModule, gxx
from gpuensemble import KCC, PCE, SEC
from gpuensemble._cli import main
from gpuensemble._cli.bench import against, harness, model, parts, pools, processes, workloads
from gpuensemble._cli.bench import cases as bench_cases
from gpuensemble._cli.bench.sheets import SHEETS
from gpuensemble.estimators._base import registry


def run(capsys, *words):
    """The exit code, stdout and stderr of a command."""
    code = main.main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def small(monkeypatch):
    """Cases of a few rows, none of them in another process."""
    monkeypatch.setattr(harness, "COPY_BYTES", 1 << 16)
    for name, rows in (("SQUARE", 50), ("SOLVED", 24), ("WINS", 24)):
        monkeypatch.setattr(bench_cases, name, rows)
    monkeypatch.setattr(parts, "ROUNDS", 1)
    monkeypatch.setattr(processes, "with_one_thread", lambda names, samples, repeat: [])


# ------------------------------------------------------------------------------------------------ cases


def test_bench_writes_its_results(capsys, tmp_path, small):
    path = tmp_path / "r.json"
    code, out, _ = run(capsys, "bench", "--device", "cpu", "--samples", 200, "--repeat", 2, "--out", path)
    assert code == 0
    report = json.loads(path.read_text())
    names = [result["case"].split(", n=")[0] for result in report["results"]]
    kernels = ["gather_sum", "scatter_add", "assign", "coassociation"]
    k_means = [f"{method}, {kind}" for kind in pools.KINDS for method in ("SEC", "KCC")]
    peerless = [method.title for method in registry.methods().values() if method.name not in bench_cases.WITH_A_PEER]
    prox = ["prox.nuclear, 24 x 24", "prox.tensor_nuclear, 24 x 24 x 2"]
    assert names == [*kernels, *k_means, "EAC", "k-means of features", *prox, *peerless, "nmi"]
    assert all(result["agree"] for result in report["results"])
    timed = report["results"][0]["timed"]
    assert timed["SciPy CSR product"]["ratio"] == 1
    assert timed["gpuensemble, cpu"]["bytes_moved"] > 200 * 50
    assert [len(one["seconds"]) for one in timed.values()] == [2, 2]
    assert report["machine"]["versions"]["numpy"] == np.__version__
    assert report["busy"] is False
    assert "of a copy" in out
    assert "a default fit: coding " in out
    assert out.splitlines()[-1].startswith("all answers agree; a copy moves cpu ")


def test_bench_fails_if_answers_differ(capsys, monkeypatch, small):
    def cases(devices, samples):
        yield harness.Case("sum", {"one": lambda: 1, "two": lambda: 2}, "two", lambda one, two: one == two)

    monkeypatch.setattr(bench_cases, "CASES", (cases,))
    code, out, _ = run(capsys, "bench", "--device", "cpu", "--repeat", 1)
    assert code == 1
    assert "FAIL: answers differ in sum" in out


@pytest.mark.skipif(gxx() is None, reason="g++ is not installed")
@pytest.mark.parametrize("only", ["assign", "SEC", "ClusterWalk", pytest.param("", marks=pytest.mark.exhaustive)])
def test_bench_runs_the_same_cases_on_a_device(capsys, monkeypatch, small, only):
    monkeypatch.setattr(bench_cases, "KINDS", {"overlapping": pools.ensemble})
    monkeypatch.setitem(PCE.__init__.__kwdefaults__, "max_iter", 3)  # an iteration takes a second on this device
    with standin.installed(ShimModule):
        code, out, _ = run(capsys, "bench", "--samples", 60, "--repeat", 1, "--only", only, "--json")
    assert code == 0
    report = json.loads(out)
    assert set(report["copy_bytes_per_second"]) == {"cpu", "cuda:0"}
    assert all(only in result["case"] for result in report["results"])
    for result in report["results"]:
        assert result["timed"]["gpuensemble, cuda:0"]["device"] == "cuda:0"
        if result["case"].startswith("ClusterWalk"):
            assert set(result["transfers"]) == {"in to cuda:0", "out of cuda:0"}
    assert report["results"]


@pytest.mark.parametrize("kind", pools.KINDS)
def test_a_table_of_every_kind_has_the_labels_of_its_matrix(kind):
    data = pools.KINDS[kind](300)
    assert data.table.dtype == np.int64
    assert (data.codes < data.widths).all()
    dense, ends = data.matrix.toarray(), np.cumsum(data.widths)
    assert (dense.sum(1) == pools.R).all()
    for i, begin in enumerate(ends - data.widths):
        np.testing.assert_array_equal(dense[:, begin : ends[i]].argmax(1), data.table[:, i])
    assert set(data.start.tolist()) == set(range(data.n_clusters))


def test_enlarged_rows_are_rows_of_the_digits_with_few_labels_changed():
    codes, _ = pools._digits()
    found = pools.enlarged(200).table
    changed = [(codes != row).mean(1).min() for row in found]
    assert 0 < np.mean(changed) < 2 * pools.CHANGED


def test_the_peer_of_a_round_is_its_fastest(monkeypatch):
    times = iter([3.0, 2.0, 4.0, 3.0, 6.0, 5.0])  # ours, one and another, in two rounds
    monkeypatch.setattr(harness, "seconds", lambda candidate: next(times))
    monkeypatch.setattr(harness, "peak_growth", lambda candidate, device: 0)
    names = ("gpuensemble, cpu", "one", "another")
    case = harness.Case("c", dict.fromkeys(names, lambda: 1), "one", lambda a, b: a == b, rivals=("one", "another"))
    case.devices = {"gpuensemble, cpu": "cpu"}
    found = harness.run(case, 2)
    assert found["timed"]["gpuensemble, cpu"]["ratios"] == [2 / 3, 5 / 3]
    assert found["peers"] == ["one", "another"]


@pytest.mark.parametrize("kind", [SEC, KCC])
def test_the_parts_of_a_fit_are_its_whole(kind):
    found = parts.parts(kind, pools.ensemble(300), "cpu")["a default fit"]
    assert list(found) == ["coding", "start", "iterations", "output"]
    assert min(found.values()) > 0


def test_a_run_is_timed_when_threads_of_the_one_before_have_ended(monkeypatch):
    running, left = iter([3, 2, 2, 1]), []
    monkeypatch.setattr(harness.cores, "running", lambda: next(running))
    harness.seconds(lambda: left.extend(running))
    assert left == []


def test_threads_that_never_end_are_waited_for_until_patience_ends(monkeypatch):
    looks, left = iter([2] * 1000), []
    monkeypatch.setattr(harness, "PATIENCE", 0.01)
    monkeypatch.setattr(harness.cores, "running", lambda: next(looks))
    harness.seconds(lambda: left.extend(looks))
    assert 0 < len(left) < 1000


def test_a_busy_process_is_there_and_goes():
    with processes.busy(True):
        (child,) = psutil.Process(os.getpid()).children()
        assert child.cmdline()[-1] == processes.COMPANY
    assert not child.is_running()
    with processes.busy(False):
        assert not psutil.Process(os.getpid()).children()


def test_a_busy_process_goes_if_the_bench_is_killed():
    bench = "from gpuensemble._cli.bench import processes\nwith processes.busy(True): print(flush=True), input()"
    with psutil.Popen([sys.executable, "-c", bench], stdin=PIPE, stdout=PIPE) as process:
        process.stdout.readline()
        children = process.children()
        process.kill()
    assert len(children) == 1
    assert psutil.wait_procs(children, timeout=60)[1] == []


def test_cases_of_one_thread_come_from_a_process_of_one_thread():
    (found,) = processes.with_one_thread(["KCC, separated, n=60 r=50 K=20"], 60, 1)
    assert found["case"] == "KCC, separated, n=60 r=50 K=20, one thread"
    assert found["agree"]
    with pytest.raises(ValueError, match=r"could not be run: gpuensemble: `--only` must be part .* got 'nothing'\."):
        processes.with_one_thread(["nothing"], 60, 1)


# ------------------------------------------------------------------------------------------------ an earlier run


def results(peers, **seconds):
    """A report of one case, with the rounds of each candidate."""
    least = [min(one) for one in zip(*(seconds[name] for name in peers or seconds), strict=True)]
    timed = {
        name: {"seconds": times, "ratios": [a / b for a, b in zip(least, times, strict=True)]}
        for name, times in seconds.items()
    }
    described = {"processor": "p", "cores": 2}
    return {"machine": described, "busy": False, "results": [{"case": "c", "peers": peers, "timed": timed}]}


@pytest.mark.parametrize(
    ("before", "now", "slower", "faster"),
    [
        ([1.0, 1.1, 1.2], [1.3, 1.4, 1.5], True, False),
        ([1.3, 1.4, 1.5], [1.0, 1.1, 1.2], False, True),
        ([1.0, 1.1, 1.6], [1.3, 1.4, 1.5], False, False),  # the older run has had such a round
        ([1.0, 1.1, 1.2], [1.0, 1.4, 1.5], False, False),  # the newer one has been as fast
        ([1.0, 1.001, 1.002], [1.03, 1.031, 1.032], False, False),  # less than is worth a word
    ],
)
def test_slower_means_by_more_than_both_runs_spread(before, now, slower, faster):
    (found,) = against.changes(results([], ours=before), results([], ours=now))
    assert (found.slower, found.faster, found.by) == (slower, faster, "seconds")


def test_a_slow_machine_is_no_change_where_there_is_a_peer():
    old = results(["peer"], ours=[1.0, 1.0, 1.0], peer=[4.0, 4.0, 4.0])
    slow_machine = results(["peer"], ours=[2.0, 2.1, 2.0], peer=[8.0, 8.4, 8.0])
    (found,) = against.changes(old, slow_machine)
    assert not found.slower
    (found,) = against.changes(old, results(["peer"], ours=[2.0, 2.1, 2.0], peer=[4.0, 4.0, 4.0]))
    assert found.slower
    assert found.factor == pytest.approx(2)
    assert "SLOWER: c, ours: 2.00x the time, 0.25 became 0.5 of the peer's time" in against.told(old, old, [found])


def test_bench_against_an_earlier_run(capsys, tmp_path, monkeypatch, small):
    pause = {"value": 1.0}
    monkeypatch.setattr(harness, "seconds", lambda candidate: pause["value"])

    def cases(devices, samples):
        yield harness.Case("sum", {"ours": lambda: 1}, "ours", lambda a, b: a == b, devices={"ours": "cpu"})

    monkeypatch.setattr(bench_cases, "CASES", (cases,))
    old = tmp_path / "old.json"
    assert run(capsys, "bench", "--device", "cpu", "--repeat", 3, "--out", old)[0] == 0
    code, out, _ = run(capsys, "bench", "--device", "cpu", "--repeat", 3, "--against", old)
    assert (code, out.splitlines()[-1]) == (0, "0 of 1 got slower by more than the rounds spread")
    pause["value"] = 2.0
    code, out, _ = run(capsys, "bench", "--device", "cpu", "--repeat", 3, "--against", old, "--busy")
    assert code == 1
    assert "one of the runs had a process beside it that kept a core busy" in out
    assert "SLOWER: sum, ours: 2.00x the time, 1 became 2 seconds" in out
    code, out, _ = run(capsys, "bench", "--device", "cpu", "--repeat", 3, "--against", old, "--json")
    assert (code, [one["case"] for one in json.loads(out)["slower"]]) == (1, ["sum"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nonsense", "`--against` must be a file that `gpuensemble bench --out` wrote, got 'old.json'."),
        ('{"results": 3}', "`--against` must be a file that `gpuensemble bench --out` wrote, got 'old.json'."),
        (
            '{"results": [{"timed": {"ours": {"seconds": []}}}]}',
            "`--against` must have the seconds of every round, got none in 'old.json'.",
        ),
        (None, "old.json: No such file or directory."),
    ],
)
def test_a_file_that_is_no_earlier_run_is_refused(capsys, tmp_path, monkeypatch, small, text, sentence):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("old.json").write_text(text)
    code, out, err = run(capsys, "bench", "--device", "cpu", "--against", "old.json")
    assert (code, out, err) == (2, "", f"gpuensemble: {sentence}\n")


def test_runs_of_other_cases_are_refused():
    other = results([], theirs=[1.0])
    with pytest.raises(ValueError, match="must have a case of this run, of the same size, got none"):
        against.changes(other, results([], ours=[1.0]))


# ------------------------------------------------------------------------------------------------ the model


def tiny(growth="linear", rows=1000, iterations=(1, 2)):
    return workloads.Workload("t", rows, "K=2", lambda n: n, lambda *_: None, iterations, growth)


def test_counts_are_extrapolated_as_they_grow():
    linear = [{"rows": n, "beside": 1, "iteration": {"launches": 7, "dram": 5 + 3 * n}} for n in (10, 20, 30)]
    assert model.at_size(tiny(), linear, "iteration") == (
        pytest.approx({"launches": 7, "dram": 3005}),
        pytest.approx(0),
    )
    square = [{"rows": n, "beside": 1, "iteration": {"flops64": n**3 + n**2, "dram": n**2}} for n in (10, 20, 30)]
    found, off = model.at_size(tiny("square", 100), square, "iteration")
    assert (found, off) == (pytest.approx({"flops64": 1_010_000, "dram": 10_000}), pytest.approx(0, abs=1e-9))
    bent = [*linear[:1], {**linear[1], "iteration": {"launches": 7, "dram": 130}}, linear[2]]
    assert model.at_size(tiny(), bent, "iteration")[1] == pytest.approx(0.5)


def test_blocks_of_a_file_have_costs_of_their_own():
    workload = tiny("blocks", 10**8)
    points = [
        {"rows": b * m, "beside": b, "iteration": {"up": 11 + 2 * b * m + 5 * b, "reads": 1 + 3 * b}}
        for b, m in workloads.BLOCKS
    ]
    found, off = model.at_size(workload, points, "iteration")
    assert workload.beside == -(-(10**8) // ((1 << 22) // 100))
    assert found["up"] == pytest.approx(11 + 2e8 + 5 * workload.beside)
    assert found["reads"] == pytest.approx(1 + 3 * workload.beside)
    assert off == pytest.approx(0, abs=1e-9)


def test_a_start_that_looks_at_a_sample_costs_no_more_than_that():
    workload = tiny("sampled", 10**6, None)
    points = [
        {"rows": n, "beside": sample, "setup": {"dram": 11 + 2 * n + 70 * sample, "reads": 9}}
        for sample, n in workloads.SAMPLED
    ]
    found, off = model.at_size(workload, points, "setup")
    assert found == pytest.approx({"dram": 11 + 2e6 + 70 * 100_000, "reads": 9})
    assert off == pytest.approx(0, abs=1e-9)


def test_the_slowest_binds_and_the_host_s_reads_are_added():
    counts = {
        "launches": 10,
        "reads": 2,
        "up": 32e6,
        "down": 0,
        "dram": 2.039e9,
        "cached": 0,
        "flops64": 0,
        "flops32": 0,
    }
    found = model.on_sheet(counts, SHEETS["A100"])
    assert found.seconds["memory"] == pytest.approx(1e-3)
    assert found.seconds["launches"] == pytest.approx(50e-6)
    assert found.seconds["bus"] == pytest.approx(1e-3)
    assert found.total == pytest.approx(1e-3 + 30e-6 + 1e-3)
    assert found.binds in ("memory", "bus")


@pytest.mark.parametrize(
    ("name", "part"), [("SEC", "iteration"), ("SEC", "setup"), ("SEC, its own start", "setup"), ("PCE", "iteration")]
)
def test_what_the_aims_stand_on_is_counted_in_as_many_steps_at_each_size(name, part):
    """Of other numbers of steps a line through two sizes would make anything."""
    (workload,) = (one for one in workloads.workloads() if one.name == name)
    points = model.recorded()["workloads"][workload.title]
    assert len({point[part]["kernels"] for point in points}) == 1
    assert model.at_size(workload, points, part)[1] < 0.02


def test_an_iteration_of_rsec_is_products_with_thin_blocks():
    """Its operations grow as n^2: a size with a full decomposition among its iterations would bend the line."""
    workload = next(one for one in workloads.workloads() if one.name == "RSEC")
    points = model.recorded()["workloads"][workload.title]
    found, off = model.at_size(workload, points, "iteration")
    square = points[-1]["iteration"]["flops64"] * (workload.rows / points[-1]["rows"]) ** 2
    assert 0.8 * square < found["flops64"] < 1.25 * square
    assert off < 0.1


@pytest.mark.parametrize("name", SHEETS)
def test_a_model_of_each_device_is_printed(capsys, name):
    code, out, _ = run(capsys, "bench", "--model", name)
    assert code == 0
    assert out.startswith("A model, not a measurement: ")
    for workload in workloads.workloads():
        assert workload.title in out
    assert out.count(" binds") >= len(list(workloads.workloads()))
    assert "measured on this machine's GPU" not in out
    aims = ("SEC at n = 10^6, r = 100, K = 50: ", "SEC of a file, n = 10^8: ", "PCE at n = 10^5: ", "SEC's fit of 20 ")
    for line, begin in zip(out.splitlines()[-4:], aims, strict=True):
        assert line.startswith(begin)
        assert "the aim is " in line


def test_the_model_as_json(capsys):
    code, out, _ = run(capsys, "bench", "--model", "H100", "--only", "KCC", "--json")
    assert code == 0
    (row,) = json.loads(out)["rows"]
    one = row["iteration"]
    assert set(one["seconds"]) == {"memory", "L2 cache", "float64", "float32", "launches", "host reads", "bus"}
    assert one["total"] >= one["seconds"][one["binds"]]
    assert one["counts"]["cached"] > one["counts"]["dram"] > 10**6 * 100  # at least the codes
    assert one["off_at_the_check"] < 0.05


def test_a_device_that_nobody_has_is_refused(capsys):
    with pytest.raises(SystemExit) as error:
        main.main(["bench", "--model", "abacus"])
    assert error.value.code == 2
    assert "invalid choice: 'abacus'" in capsys.readouterr().err


@pytest.mark.skipif(gxx() is None, reason="g++ is not installed")
def test_where_there_is_a_gpu_the_model_stands_beside_a_measurement(capsys, monkeypatch):
    real = next(one for one in workloads.workloads() if one.name == "KCC")
    small_one = real._replace(rows=300)
    known = {"workloads": {small_one.title: model.recorded()["workloads"][real.title]}}
    monkeypatch.setattr(workloads, "workloads", lambda: iter([small_one]))
    monkeypatch.setattr(model, "recorded", lambda: known)
    with standin.installed(ShimModule):
        code, out, _ = run(capsys, "bench", "--model", "L4", "--only", "KCC", "--repeat", 1)
    assert code == 0
    assert "measured on this machine's GPU: " in out


def test_the_harness_of_the_repository_is_that_of_the_package():
    sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
    try:
        import harness as of_repository

        assert of_repository.run is harness.run
    finally:
        sys.path.pop(0)
