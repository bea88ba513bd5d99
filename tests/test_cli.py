"""The command line: what it prints, and how it fails."""

import json

import pytest

from gpuensemble import cli


def test_demo_improves_on_its_base_partitions(capsys):
    assert cli.main(["demo", "--partitions", "12", "--device", "cpu", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["device"] == "cpu"
    base, *methods = report["scores"]
    assert len(methods) == 4
    assert all(row["nmi"] > base["nmi"] and row["ari"] > base["ari"] for row in methods)


def test_demo_prints_a_table(capsys):
    assert cli.main(["demo", "--partitions", "2", "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1797 samples, 2 base partitions, on cpu"
    assert len(lines) == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--partitions", "0"], "`n_partitions` must be at least 1, got 0."),
        (["--device", "gpu"], '`device` must be "auto", "cpu", "cuda" or "cuda:N", got \'gpu\'.'),
        (["--seed", "-1"], "`random_state` must be None, an integer of at least 0 or a generator, got -1."),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(capsys, arguments, message):
    assert cli.main(["demo", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"gpuensemble: {message}\n"
